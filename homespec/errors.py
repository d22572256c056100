"""Every error that homespec raises on purpose.

    HomespecError
      ConfigError                an option or a setting is not usable
      ModelError
        ModelNotFoundError       no such model in the catalogue, none such on disk
        ModelFormatError         the file is not a GGUF model that can be opened
        VocabMismatchError       a draft model does not speak the target's tokens
      ResourceError
        ContextOverflowError     more tokens than the context holds
        DiskSpaceError           not enough room for a download
        MemoryBudgetError        not enough memory for what was asked
      RuntimeCallError
        DecodeError              llama.cpp could not decode
          NoTokenError           no token is left to choose from
        DecodeAbortedError       a decode was stopped on request
        CacheRollbackError       the KV cache could not be truncated
        CacheFileError           a KV cache on disk is damaged, or could not be written
          ForeignCacheError      it belongs to another model, build or kind of cache
      SessionError               a conversation on disk cannot be used
        SessionNotFoundError     there is none of that name
        SessionBusyError         it is open in another process
        SessionFormatError       the file is something else, or of a newer homespec
      CatalogError
        CatalogEntryError        an entry of the catalogue is wrong
        ChecksumError            a file differs from what the catalogue promises
        DownloadError            a source did not deliver

The message is one sentence that says what was needed and what was found, with numbers, units and the file.
The hint is an instruction. Only `homespec.cli` turns an error into an exit code.
"""

from __future__ import annotations

import re

INTERRUPTED_EXIT_CODE = 130
"""What shells give a command that SIGINT ended: 128 + 2."""


class HomespecError(Exception):
    """A failure that the user can act on: shown as one sentence and a hint, never as a traceback."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def code(self) -> str:
        """The class name in snake case without `Error`: what `--json` prints."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__.removesuffix("Error")).lower()


class ConfigError(HomespecError):
    """An option or setting has a value that cannot be used."""

    exit_code = 2


class ModelError(HomespecError):
    """A model cannot be used."""


class ModelNotFoundError(ModelError):
    """The named model is neither in the catalogue nor on disk."""


class ModelFormatError(ModelError):
    """The file is not a GGUF model that this build can open."""


class VocabMismatchError(ModelError):
    """The draft model's tokens are not the target's."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        first_difference: int | None = None,
        target_text: str = "",
        draft_text: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.first_difference = first_difference
        self.target_text = target_text
        self.draft_text = draft_text


class ResourceError(HomespecError):
    """The machine does not have what was asked for."""


class ContextOverflowError(ResourceError):
    """More tokens than the context holds."""

    def __init__(self, num_tokens: int, context_tokens: int) -> None:
        super().__init__(
            f"The prompt has {num_tokens:,} tokens; the context holds {context_tokens:,}, "
            "and the answer needs room as well.",
            hint=f"Shorten the prompt, or pass --context-tokens {-(-(num_tokens + 512) // 1024) * 1024}.",
        )
        self.num_tokens = num_tokens
        self.context_tokens = context_tokens


class DiskSpaceError(ResourceError):
    """A download needs more room than the disk has."""


class MemoryBudgetError(ResourceError):
    """A model needs more memory than the machine can give."""

    def __init__(
        self, message: str, *, hint: str = "", needed_bytes: int = 0, available_bytes: int = 0
    ) -> None:
        super().__init__(message, hint=hint)
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes


class RuntimeCallError(HomespecError):
    """A call into llama.cpp failed."""


class DecodeError(RuntimeCallError):
    """llama.cpp could not decode a batch."""


class NoTokenError(DecodeError):
    """Nothing that the model can write next is permitted: every logit is -inf."""


class DecodeAbortedError(RuntimeCallError):
    """A decode was stopped on request (Ctrl-C); the KV cache is as it was before the call."""

    exit_code = INTERRUPTED_EXIT_CODE


class CacheRollbackError(RuntimeCallError):
    """The KV cache could not be truncated; it has been cleared and must be filled anew."""


class CacheFileError(RuntimeCallError):
    """A KV cache on disk is damaged, or could not be written."""


class ForeignCacheError(CacheFileError):
    """A KV cache on disk is whole, but belongs to another model, build or kind of cache."""


class SessionError(HomespecError):
    """A conversation on disk cannot be used."""


class SessionNotFoundError(SessionError):
    """There is no conversation of that name."""


class SessionBusyError(SessionError):
    """The conversation is open in another process."""


class SessionFormatError(SessionError):
    """The file is not a conversation, or was written by a newer homespec."""


class CatalogError(HomespecError):
    """A catalogue entry or a download failed."""


class CatalogEntryError(CatalogError):
    """An entry of the catalogue is malformed."""


class ChecksumError(CatalogError):
    """A file is not the one that the catalogue promises."""


class DownloadError(CatalogError):
    """A source did not deliver the file."""
