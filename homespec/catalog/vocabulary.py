"""The vocabulary gate: whether a draft model speaks the target's tokens, from two GGUF headers alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from homespec.catalog.gguf_header import GgufArray, GgufHeader
from homespec.catalog.trimmed import read_trim
from homespec.errors import ModelFormatError, VocabMismatchError
from homespec.runtime.trim_layout import TrimLayout

_HINT = "Choose a draft model of the target's family: the same tokenizer, fewer parameters."
_UNUSED = 5  # LLAMA_TOKEN_TYPE_UNUSED


def check_vocabularies(target: GgufHeader, draft: GgufHeader) -> int:
    """Checks that a token id means the same text to both models.

    The tokenizer's model and, where both name one, its pre-tokenizer must be equal, and so must the text of
    every id that both have. Different counts are fine: families pad their vocabularies to different sizes,
    and ids that only one model has are never exchanged. Nor does the text matter of an id that one model
    marks as unused: converters name the padding as they like, and fine-tunes claim places in it.

    Special ids (beginning, end, padding) may differ, unlike in llama.cpp's own check. Only the target's
    tokenizer is ever used and only the target's end tokens stop a reply, so the draft model's opinion of
    them matters to how often its drafts are accepted, never to the text; base and instruct models of one
    family, which differ just there, make good pairs. Token types and merges may differ for the same reason.

    Of a trimmed draft model the texts of those of its source's ids count that it kept.

    Returns:
        The number of shared ids: ids from 0 up to it mean the same to both. A trimmed draft model reads all
        of them, and drafts those that it kept.

    Raises:
        VocabMismatchError: they differ; `first_difference` is the first id with two texts, or None when
            the tokenizers are of different kinds.
        ModelFormatError: one of the files holds no vocabulary.
    """
    for key, what in (("tokenizer.ggml.model", "tokenizer"), ("tokenizer.ggml.pre", "pre-tokenizer")):
        target_kind, draft_kind = target.text(key), draft.text(key)
        if target_kind and draft_kind and target_kind != draft_kind:
            raise VocabMismatchError(
                f"A draft model must have the target's {what}, {target_kind!r}, but {draft.path.name} has "
                f"{draft_kind!r}.",
                hint=_HINT,
            )
    target_tokens, draft_tokens = _token_texts(target), _token_texts(draft)
    if (trim := read_trim(draft)) is not None:
        return _check_trimmed(target, draft, trim)
    num_shared = min(target_tokens.num_elements, draft_tokens.num_elements)
    target_bytes, draft_bytes = target_tokens.read_bytes(), draft_tokens.read_bytes()
    # Each text stands behind its length, so equal bytes are equal texts, and a shorter vocabulary that
    # begins a longer one is a prefix of its bytes.
    shared_bytes = min(len(target_bytes), len(draft_bytes))
    shorter_bytes = len(target_bytes if target_tokens.num_elements == num_shared else draft_bytes)
    if shared_bytes == shorter_bytes and target_bytes[:shared_bytes] == draft_bytes[:shared_bytes]:
        return num_shared
    texts = zip(count(), target_tokens.strings(), draft_tokens.strings(), strict=False)
    _compare_texts(texts, _unused_ids(target) | _unused_ids(draft), draft)
    return num_shared


def _check_trimmed(target: GgufHeader, draft: GgufHeader, trim: TrimLayout) -> int:
    target_tokens = _token_texts(target)
    num_shared = min(target_tokens.num_elements, trim.num_source_tokens)
    if target_tokens.sha256() == trim.source_tokens_sha256:
        return num_shared
    target_texts = list(target_tokens.strings())
    pairs = zip(trim.token_ids, _token_texts(draft).strings(), strict=True)
    texts = ((token_id, target_texts[token_id], text) for token_id, text in pairs if token_id < num_shared)
    unused = frozenset(trim.token_ids[own_id] for own_id in _unused_ids(draft))
    _compare_texts(texts, _unused_ids(target) | unused, draft)
    return num_shared


def _token_texts(header: GgufHeader) -> GgufArray:
    tokens = header.array("tokenizer.ggml.tokens")
    if tokens is None or not tokens.holds_strings or tokens.num_elements == 0:
        raise ModelFormatError(
            f"{header.path.name} holds no vocabulary (tokenizer.ggml.tokens).",
            hint="Get a conversion of the model that carries its tokenizer.",
        )
    return tokens


def _compare_texts(
    texts: Iterable[tuple[int, bytes, bytes]], unused: frozenset[int], draft: GgufHeader
) -> None:
    """Compares the target's text of an id with the draft model's.

    Raises:
        VocabMismatchError: they differ.
    """
    for token_id, target_text, draft_text in texts:
        if target_text != draft_text and token_id not in unused:
            shown_target = target_text.decode("utf-8", errors="replace")
            shown_draft = draft_text.decode("utf-8", errors="replace")
            raise VocabMismatchError(
                f"A draft model must speak the target's tokens, but token {token_id:,} is {shown_target!r} "
                f"to the target and {shown_draft!r} to {draft.path.name}.",
                hint=_HINT,
                first_difference=token_id,
                target_text=shown_target,
                draft_text=shown_draft,
            )


def _unused_ids(header: GgufHeader) -> frozenset[int]:
    types = header.array("tokenizer.ggml.token_type")
    if types is None:
        return frozenset()
    return frozenset(token_id for token_id, kind in enumerate(types.integers()) if kind == _UNUSED)
