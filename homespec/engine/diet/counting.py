"""Which tokens a drafter should be able to write, counted on what there is to see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from homespec.engine.diet.passages import Passage, usual_texts
from homespec.engine.diet.trial import Bench
from homespec.reduce.trim import count_tokens

# A token that was said, or that the user's texts hold, counts like this many in the texts that every machine
# has: the latter only decide between tokens that were not seen.
_SEEN_WEIGHT = 1000


def count_useful(
    bench: Bench,
    draft: Path,
    texts: Iterable[str],
    encode: Callable[[str], Sequence[int]],
) -> Counter[int]:
    """Counts tokens in the user's texts, in the target's replies, and in what they might have held.

    Args:
        bench: its counted passages are used, and only those.
        draft: the draft model that is going to be trimmed: the tokens that it found probable along the
            replies are those that such replies could hold, of which the replies themselves show few.
        texts: of the user.
        encode: the target's tokenizer.

    Raises:
        DecodeAbortedError: stopped on request.
    """
    counted: list[Passage] = [passage for passage in bench.passages if passage.counted]
    seen = count_tokens(texts, encode, (passage.tokens for passage in counted))
    expected: Counter[int] = Counter()
    bench.record(draft, counted, expected)
    useful = count_tokens(usual_texts(), encode)
    for token, number in seen.items():
        useful[token] += _SEEN_WEIGHT * number
    # `expected` comes in thousandths of a token.
    useful.update(expected)
    return useful
