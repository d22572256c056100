"""What `/set` changes: the sampling of replies, their length, and what becomes of thinking."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import get_args

from homespec.errors import ConfigError
from homespec.records import RequestParams, SamplingParams, VerifierName
from homespec.sampling.validation import check_params

_NUMBERS = {
    field.name: field.type
    for field in dataclasses.fields(SamplingParams)
    if field.name not in ("logit_bias", "seed")
}
_ALIASES = {"temp": "temperature", "tokens": "max_tokens"}
NAMES = (*_NUMBERS, "max_tokens", "seed", "stop", "verifier")


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """Of the replies to come.

    Attributes:
        request: its seed is not used.
        seed: None for a new one each time.
    """

    request: RequestParams = RequestParams()
    seed: int | None = None

    def changed(self, name: str, value: str) -> Parameters:
        """With one parameter changed.

        Args:
            name: one of `NAMES`, with dashes or underscores.
            value: as text; `off` where a parameter has a value for that; ` | ` separates several stop texts.

        Raises:
            ConfigError: there is no such parameter, or the value is out of its range.
        """
        name = self.known(name)
        match name:
            case "seed":
                seed = None if value in ("off", "random", "new") else _number(name, value, "int")
                check_params(SamplingParams(seed=int(seed or 0)))
                return dataclasses.replace(self, seed=None if seed is None else int(seed))
            case "max_tokens":
                tokens = None if value == "off" else int(_number(name, value, "int"))
                if tokens is not None and tokens < 1:
                    raise ConfigError("max_tokens is below 1.", hint="/set max_tokens 200, or off.")
                return self._with(max_tokens=tokens)
            case "stop":
                texts = () if value == "off" else tuple(value.replace("\\n", "\n").split(" | "))
                return self._with(stop=texts)
            case "verifier":
                if value not in (*get_args(VerifierName), "off"):
                    raise ConfigError(
                        f"{value!r} is no verifier.", hint=f"Name one of {', '.join(get_args(VerifierName))}."
                    )
                return self._with(verifier=None if value == "off" else value)
            case _ if name in _NUMBERS:
                number = _number(name, value, str(_NUMBERS[name]))
                sampling = dataclasses.replace(self.request.sampling, **{name: number})  # type: ignore[arg-type]
                check_params(sampling)
                return self._with(sampling=sampling)
        raise ConfigError(f"There is no parameter {name!r}.", hint=f"Name one of {', '.join(NAMES)}.")

    @staticmethod
    def known(name: str) -> str:
        """The name of a parameter that may be written with dashes, or shortened."""
        name = name.lower().replace("-", "_")
        return _ALIASES.get(name, name)

    def _with(self, **changes: object) -> Parameters:
        return dataclasses.replace(self, request=dataclasses.replace(self.request, **changes))  # type: ignore[arg-type]

    def table(self) -> list[tuple[str, str]]:
        """Names and values."""
        values: dict[str, object] = {name: getattr(self.request.sampling, name) for name in _NUMBERS}
        values |= {"max_tokens": self.request.max_tokens or "what the context holds"}
        values |= {"seed": "a new one each time" if self.seed is None else self.seed}
        values |= {"stop": " | ".join(self.request.stop).replace("\n", "\\n") or "-"}
        values |= {"verifier": self.request.verifier or "greedy at temperature 0, else rejection"}
        return [(name, str(value)) for name, value in values.items()]

    def settings(self) -> Mapping[str, str | int | float]:
        """What a conversation remembers of them: what differs from the default."""
        default = Parameters()
        kept: dict[str, str | int | float] = {
            name: getattr(self.request.sampling, name)
            for name in _NUMBERS
            if getattr(self.request.sampling, name) != getattr(default.request.sampling, name)
        }
        if self.request.max_tokens is not None:
            kept["max_tokens"] = self.request.max_tokens
        return kept


def _number(name: str, value: str, kind: str) -> int | float:
    if value == "off":
        value = str(getattr(_OFF, name, value))
    try:
        return int(value) if kind == "int" else float(value)
    except ValueError:
        wanted = "a whole number" if kind == "int" else "a number"
        raise ConfigError(f"{name} needs {wanted}, not {value!r}.", hint=f"/set {name} 1") from None


_OFF = SamplingParams(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0)
