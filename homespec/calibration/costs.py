"""What calibration finds out about a model, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from homespec.calibration.curve import CostCurve

# llama.cpp's attention reads the KV cache in blocks of 256 cells, and from the second block on it takes
# another path for a decode of one token than for several (ggml's split-KV flash attention, F16 caches only).
# Rows that were equal in the first block need not be equal behind it.
FIRST_BLOCK_TOKENS = 256
# For how many drafted tokens a draft model has to read a second one: drafts of three, most accepted whole.
_SECOND_PER_TOKEN = 0.25


@dataclass(frozen=True, slots=True)
class WidthEquality:
    """Whether the rows of a decode of several tokens are those of decodes of one token each.

    Attributes:
        width: tokens in the decode.
        depth_tokens: cached tokens before it.
        bitwise: every logit of every row is the same.
        max_total_variation: otherwise the largest total variation between the two distributions of a row.
    """

    width: int
    depth_tokens: int
    bitwise: bool
    max_total_variation: float


@dataclass(frozen=True, slots=True)
class TargetCosts:
    """Costs of a model as a target.

    Attributes:
        curve: seconds of a decode by width and depth.
        prefill_tokens_per_second: of a batch without logits.
        width_equality: for every width and depth that was compared.
    """

    curve: CostCurve
    prefill_tokens_per_second: float
    width_equality: tuple[WidthEquality, ...]

    def equal_widths(self, end_tokens: int) -> frozenset[int]:
        """Widths proven to give the rows of plain decoding, 1 included.

        Args:
            end_tokens: cached tokens after the decode. Behind the cache's first block, only what was compared
                there as well counts as proven.
        """
        beyond = end_tokens > FIRST_BLOCK_TOKENS
        results = [result for result in self.width_equality if beyond or not _is_beyond(result)]
        seen = {result.width for result in results if _is_beyond(result) == beyond}
        return frozenset({1} | (seen - {result.width for result in results if not result.bitwise}))

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `from_json`."""
        return {
            "curve": self.curve.to_json(),
            "prefill_tokens_per_second": self.prefill_tokens_per_second,
            "width_equality": [asdict(result) for result in self.width_equality],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TargetCosts:
        """The inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        return cls(
            curve=CostCurve.from_json(data["curve"]),
            prefill_tokens_per_second=float(data["prefill_tokens_per_second"]),
            width_equality=tuple(
                WidthEquality(
                    width=int(result["width"]),
                    depth_tokens=int(result["depth_tokens"]),
                    bitwise=result["bitwise"] is True,
                    max_total_variation=float(result["max_total_variation"]),
                )
                for result in data["width_equality"]
            ),
        )


@dataclass(frozen=True, slots=True)
class DrafterCosts:
    """Costs of a model as a draft model.

    Attributes:
        seconds_per_token: of a decode of one token.
        catch_up_seconds: of a decode of two tokens: after a draft that was accepted whole, its last token
            and the bonus token are both new to the draft model.
        prefill_tokens_per_second: of a batch without logits.
    """

    seconds_per_token: float
    catch_up_seconds: float
    prefill_tokens_per_second: float

    @property
    def drafting_seconds(self) -> float:
        """Of a drafted token as drafts go, until the clock tells: some begin by reading two tokens."""
        more = max(0.0, self.catch_up_seconds - self.seconds_per_token)
        return self.seconds_per_token + _SECOND_PER_TOKEN * more

    def in_plain_steps(self, plain_seconds: float) -> tuple[float, float]:
        """Time of drafting a token, and of reading one, where a plain step of the target takes so long."""
        return self.drafting_seconds / plain_seconds, 1 / self.prefill_tokens_per_second / plain_seconds

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DrafterCosts:
        """The inverse of `to_json`.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        return cls(
            seconds_per_token=float(data["seconds_per_token"]),
            catch_up_seconds=float(data["catch_up_seconds"]),
            prefill_tokens_per_second=float(data["prefill_tokens_per_second"]),
        )


def _is_beyond(result: WidthEquality) -> bool:
    return result.depth_tokens + result.width > FIRST_BLOCK_TOKENS
