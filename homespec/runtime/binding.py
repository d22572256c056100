"""llama.cpp's C interface behind typed functions. The only module with ctypes and `Any`.

Every function states the llama.cpp call it wraps. Failures become errors of `homespec.errors` here and
nowhere else. Handles are opaque integers-like objects; passing one after its `free_*` is a bug of ours.
"""

from __future__ import annotations

import collections
import ctypes
import logging
import os
from pathlib import Path
from typing import Any

# ggml's threads meet at a barrier after every node of the graph, some hundred times per token. By default
# GNU OpenMP spins there for milliseconds; once another process wants one of the cores, the spinning thread
# holds the very core that the late one needs. Measured on two cores, one of them busy, with a 135M model:
# 4.5 s per token by default, 0.03 s with this count; on an idle machine 7.1 ms either way (21 ms without any
# spinning). The OpenMP library reads it when it is loaded, so it must be set before llama_cpp is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import llama_cpp
import numpy as np
import numpy.typing as npt

from homespec.errors import DecodeAbortedError, DecodeError, MemoryBudgetError, ModelFormatError

Handle = Any

_logger = logging.getLogger("homespec.llama_cpp")

# enum ggml_log_level: none, debug, info, warn, error, continuation.
_LOG_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_LOG_CONTINUES = 5
LOAD_MODE_READ, LOAD_MODE_MMAP = 0, 1

KV_TYPES: dict[str, int] = {
    "f16": llama_cpp.GGML_TYPE_F16,
    "q8_0": llama_cpp.GGML_TYPE_Q8_0,
    "q4_0": llama_cpp.GGML_TYPE_Q4_0,
}


class _Log:
    """llama.cpp's log lines, put together from their pieces and passed to logging.

    llama.cpp explains a failed call only in its log, so the last complaints are kept for error messages.
    """

    def __init__(self) -> None:
        self.complaints: collections.deque[str] = collections.deque(maxlen=8)
        self._line = ""
        self._level = logging.DEBUG

    def write(self, level: int, text: bytes, _data: object) -> None:
        if level != _LOG_CONTINUES:
            self._level = _LOG_LEVELS.get(level, logging.DEBUG)
        self._line += text.decode("utf-8", "replace")
        while "\n" in self._line:
            line, self._line = self._line.split("\n", 1)
            if self._level >= logging.ERROR and line.strip():
                self.complaints.append(line.strip())
            _logger.log(self._level, "%s", line)


_log = _Log()
# The callback objects must outlive every call into the library.
_log_callback = llama_cpp.llama_log_callback(_log.write)
llama_cpp.llama_log_set(_log_callback, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


class AbortFlag:
    """Stops a running decode from another thread or a signal handler.

    llama.cpp asks an abort callback before every node of the graph. A Python callback would take the
    interpreter lock some hundred times per decode, so the callback is libc's `strlen`, and the flag is the
    string it measures: "" answers 0, go on; any other answers 1, stop.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)

    def set(self) -> None:
        """Asks the running decode, and every later one, to stop."""
        self._text[0] = b"1"

    def clear(self) -> None:
        """Lets decodes run again."""
        self._text[0] = b"\0"

    @property
    def is_set(self) -> bool:
        """Whether decodes are being stopped."""
        return self._text[0] != b"\0"

    @property
    def address(self) -> int:
        """Where the native side reads the flag."""
        return ctypes.addressof(self._text)


_strlen = llama_cpp.ggml_abort_callback(ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value or 0)


def load_model(path: Path, *, mmap: bool, repack: bool) -> Handle:
    """llama_model_load_from_file.

    Args:
        path: a GGUF file whose header was checked before.
        mmap: map the file instead of reading it into anonymous memory.
        repack: let the CPU backend keep a copy of the weights in its own layout (faster, more memory).

    Raises:
        ModelFormatError: llama.cpp refuses the file.
    """
    params = llama_cpp.llama_model_default_params()
    params.load_mode = LOAD_MODE_MMAP if mmap else LOAD_MODE_READ
    params.use_extra_bufts = repack
    params.n_gpu_layers = 0
    _log.complaints.clear()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise ModelFormatError(
            f"llama.cpp cannot load {path.name}: {_why('no reason given')}.",
            hint="Its architecture may be newer than this llama.cpp; try another model, "
            "or `homespec models check` if the file may be damaged.",
        )
    return model


def free_model(model: Handle) -> None:
    """llama_model_free; every context of it must be freed before."""
    llama_cpp.llama_model_free(model)


def _why(otherwise: str) -> str:
    """llama.cpp's own words on what went wrong: the first complaint names the cause."""
    if not _log.complaints:
        return otherwise
    text = _log.complaints[0]
    # Complaints look like `llama_model_load: error loading model: unknown model architecture: 'x'`.
    return text.split(": ", 1)[-1].removeprefix("error loading model: ").rstrip(".")


def new_context(
    model: Handle,
    *,
    context_tokens: int,
    batch_tokens: int,
    max_rows: int,
    num_threads: int,
    num_batch_threads: int,
    kv_type: str,
    abort: AbortFlag,
) -> Handle:
    """llama_init_from_model, with the abort callback set.

    Args:
        model: of `load_model`.
        context_tokens: size of the KV cache.
        batch_tokens: the most tokens of one decode; also the size of a compute batch.
        max_rows: the most logits rows of one decode. llama.cpp reserves its compute buffer for that many,
            and aborts the process when more are asked for.
        num_threads: for decodes of one token.
        num_batch_threads: for decodes of several.
        kv_type: a key of KV_TYPES.
        abort: must outlive the context.

    Raises:
        MemoryBudgetError: the context could not be allocated.
    """
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = context_tokens
    params.n_batch = params.n_ubatch = batch_tokens
    params.n_outputs_max = max_rows
    params.n_threads = num_threads
    params.n_threads_batch = num_batch_threads
    params.type_k = params.type_v = KV_TYPES[kv_type]
    # A sliding-window cache keeps the window and one batch: a draft is shorter than a batch, so what a
    # rollback needs is still there, at a fraction of the full cache's memory. `truncate` checks it.
    params.swa_full = False
    params.offload_kqv = False
    params.op_offload = False
    _log.complaints.clear()
    context = llama_cpp.llama_init_from_model(model, params)
    if not context:
        raise MemoryBudgetError(
            f"llama.cpp could not make a context of {context_tokens:,} tokens: {_why('out of memory')}.",
            hint="Pass a smaller --context-tokens.",
        )
    llama_cpp.llama_set_abort_callback(context, _strlen, abort.address)
    return context


def set_threads(context: Handle, num_threads: int, num_batch_threads: int) -> None:
    """llama_set_n_threads, for decodes of one token and of several."""
    llama_cpp.llama_set_n_threads(context, num_threads, num_batch_threads)


def free_context(context: Handle) -> None:
    """llama_free."""
    llama_cpp.llama_free(context)


class Batch:
    """A reusable llama_batch for one sequence, filled through NumPy views."""

    def __init__(self, max_tokens: int, embedding_length: int = 0) -> None:
        """Allocates it: for tokens, or where a length is given for embeddings in their place."""
        self._batch = llama_cpp.llama_batch_init(max_tokens, embedding_length, 1)
        if embedding_length:
            self._inputs = np.ctypeslib.as_array(self._batch.embd, (max_tokens, embedding_length))
        else:
            self._inputs = np.ctypeslib.as_array(self._batch.token, (max_tokens,))
        self._positions = np.ctypeslib.as_array(self._batch.pos, (max_tokens,))
        self._wanted = np.ctypeslib.as_array(self._batch.logits, (max_tokens,))
        for i in range(max_tokens):
            self._batch.n_seq_id[i] = 1
            self._batch.seq_id[i][0] = 0

    def fill(
        self, inputs: npt.NDArray[np.int32] | npt.NDArray[np.float32], first_position: int, num_rows: int
    ) -> None:
        """Puts consecutive tokens, or their embeddings, in; the logits of the last `num_rows` are wanted."""
        n = len(inputs)
        self._batch.n_tokens = n
        self._inputs[:n] = inputs
        self._positions[:n] = np.arange(first_position, first_position + n, dtype=np.int32)
        self._wanted[: n - num_rows] = 0
        self._wanted[n - num_rows : n] = 1

    def decode(self, context: Handle) -> None:
        """llama_decode.

        Raises:
            DecodeAbortedError, DecodeError: by return code; finished compute batches stay in the KV cache.
        """
        _log.complaints.clear()
        code = llama_cpp.llama_decode(context, self._batch)
        if code == 0:
            return
        if code == 2:
            raise DecodeAbortedError("The decode was stopped.")
        what = "no room in the KV cache" if code == 1 else _why("no reason given")
        raise DecodeError(
            f"llama.cpp could not decode {self._batch.n_tokens} tokens (code {code}): {what}.",
            hint="Pass a smaller --context-tokens if memory is short; otherwise please report this.",
        )

    def free(self) -> None:
        """llama_batch_free."""
        llama_cpp.llama_batch_free(self._batch)


class LogitsViews:
    """llama_get_logits of one context, as arrays that the next decode overwrites."""

    def __init__(self, context: Handle, vocab_size: int) -> None:
        self._context = context
        self._vocab_size = vocab_size
        # llama.cpp's buffer seldom moves, and making an array of an address takes longer than finding one.
        self._known: dict[tuple[int, int], npt.NDArray[np.float32]] = {}

    def rows(self, num_rows: int) -> npt.NDArray[np.float32]:
        """Shape (num_rows, vocab_size): the rows that were asked for, in the order of the batch."""
        pointer: Any = llama_cpp.llama_get_logits(self._context)
        key = ctypes.addressof(pointer.contents), num_rows
        found = self._known.get(key)
        if found is None:
            buffer: Any = (ctypes.c_float * (num_rows * self._vocab_size)).from_address(key[0])
            found = np.frombuffer(buffer, dtype=np.float32).reshape(num_rows, self._vocab_size)
            self._known[key] = found
        return found


def remove_from(context: Handle, position: int) -> bool:
    """llama_memory_seq_rm of [position, end): whether llama.cpp could do it."""
    return bool(llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(context), 0, position, -1))


def clear_memory(context: Handle) -> None:
    """llama_memory_clear."""
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)


def first_position(context: Handle) -> int:
    """llama_memory_seq_pos_min: the oldest position still held, -1 when empty."""
    return int(llama_cpp.llama_memory_seq_pos_min(llama_cpp.llama_get_memory(context), 0))


def last_position(context: Handle) -> int:
    """llama_memory_seq_pos_max: the newest position held, -1 when empty."""
    return int(llama_cpp.llama_memory_seq_pos_max(llama_cpp.llama_get_memory(context), 0))


def sliding_window(model: Handle) -> int:
    """llama_model_n_swa: tokens in the sliding window, 0 when the model has none."""
    return int(llama_cpp.llama_model_n_swa(model))


def has_encoder(model: Handle) -> bool:
    """llama_model_has_encoder."""
    return bool(llama_cpp.llama_model_has_encoder(model))


def chat_template(model: Handle) -> str | None:
    """llama_model_chat_template: the model's default template."""
    text = llama_cpp.llama_model_chat_template(model, None)
    return text.decode("utf-8", "replace") if text else None


def vocabulary(model: Handle) -> Handle:
    """llama_model_get_vocab."""
    return llama_cpp.llama_model_get_vocab(model)


def vocab_size(vocab: Handle) -> int:
    """llama_vocab_n_tokens."""
    return int(llama_cpp.llama_vocab_n_tokens(vocab))


def bos_token(vocab: Handle) -> int | None:
    """llama_vocab_bos; None when the vocabulary has none."""
    token = int(llama_cpp.llama_vocab_bos(vocab))
    return token if token >= 0 else None


def eos_token(vocab: Handle) -> int | None:
    """llama_vocab_eos; None when the vocabulary has none."""
    token = int(llama_cpp.llama_vocab_eos(vocab))
    return token if token >= 0 else None


def adds_bos(vocab: Handle) -> bool:
    """llama_vocab_get_add_bos: whether a text starts with BOS."""
    return bool(llama_cpp.llama_vocab_get_add_bos(vocab))


def is_end_token(vocab: Handle, token: int) -> bool:
    """llama_vocab_is_eog: the token ends a reply."""
    return bool(llama_cpp.llama_vocab_is_eog(vocab, token))


def is_control_token(vocab: Handle, token: int) -> bool:
    """llama_vocab_is_control."""
    return bool(llama_cpp.llama_vocab_is_control(vocab, token))


def token_text(vocab: Handle, token: int) -> str:
    """llama_vocab_get_text: the token as the vocabulary writes it."""
    text = llama_cpp.llama_vocab_get_text(vocab, token)
    return text.decode("utf-8", "replace") if text else ""


def token_bytes(vocab: Handle, token: int) -> bytes:
    """llama_token_to_piece without control tokens: the bytes that the token adds to the text."""
    size = 64
    while True:
        buffer = ctypes.create_string_buffer(size)
        n = int(llama_cpp.llama_token_to_piece(vocab, token, buffer, size, 0, False))
        if n >= 0:
            return buffer.raw[:n]
        size = -n


def tokenize(vocab: Handle, text: bytes, *, add_special: bool, parse_special: bool) -> list[int]:
    """llama_tokenize.

    Args:
        vocab: of `vocabulary`.
        text: UTF-8.
        add_special: put BOS and EOS where the model wants them.
        parse_special: read the texts of control tokens as those tokens.
    """
    capacity = len(text) + 8
    while True:
        tokens = (llama_cpp.llama_token * capacity)()
        n = int(
            llama_cpp.llama_tokenize(vocab, text, len(text), tokens, capacity, add_special, parse_special)
        )
        if n >= 0:
            return tokens[:n]
        capacity = -n


def system_info() -> str:
    """llama_print_system_info: what the build uses of this CPU."""
    return str(llama_cpp.llama_print_system_info().decode())
