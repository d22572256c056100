"""The child process of `quantize`: one call of llama_model_quantize, told on stdout in JSON lines.

`{"share": 0.25}` is progress, `{"complaint": "..."}` why it failed. It ends with 0 when the file is written.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import TypedDict

import gguf
import llama_cpp

import homespec.runtime.binding  # noqa: F401 - sends llama.cpp's log to logging
from homespec.runtime.quantize import FILE_TYPES

# A line of llama.cpp's log for each tensor: `[  12/ 339] blk.0.attn_k.weight - [ 896, ...`
_TENSOR_LINE = re.compile(r"\[\s*(\d+)/\s*(\d+)\]")
_TEXT_TAG = 3  # LLAMA_KV_OVERRIDE_TYPE_STR


class Order(TypedDict):
    """What is to be done; see `quantize.quantize`."""

    source: str
    destination: str
    file_type: str
    pure: bool
    num_threads: int
    notes: dict[str, str]


class _Reporter(logging.Handler):
    """Passes on how far llama.cpp is, and what it complained of first."""

    def __init__(self, unfinished: Path) -> None:
        super().__init__()
        self._unfinished = unfinished
        self.complaint = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.ERROR and text.strip() and not self.complaint:
            self.complaint = text.split("failed to quantize: ")[-1].strip().rstrip(".")
        found = _TENSOR_LINE.match(text)
        if found is not None:
            self.tell({"share": int(found[1]) / int(found[2])})

    def tell(self, message: dict[str, object]) -> None:
        try:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever wanted the file is gone, killed perhaps: nobody else would tidy up.
            self._unfinished.unlink(missing_ok=True)
            os._exit(1)


def main(order: Order) -> int:
    """Does it; the exit code."""
    reporter = _Reporter(Path(order["destination"]))
    logger = logging.getLogger("homespec.llama_cpp")
    logger.addHandler(reporter)
    logger.setLevel(logging.INFO)
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, main_type = FILE_TYPES[order["file_type"]]
    params.pure = order["pure"]
    if order["pure"]:
        number = int(gguf.GGMLQuantizationType[main_type])
        params.output_tensor_type = params.token_embedding_type = number
    params.allow_requantize = True
    params.nthread = order["num_threads"]
    # An array that ends with an empty key.
    notes = order["notes"]
    overrides = (llama_cpp.llama_model_kv_override * (len(notes) + 1))()
    for slot, (key, text) in zip(overrides, notes.items(), strict=False):
        slot.tag, slot.key, slot.value.val_str = _TEXT_TAG, key.encode(), text.encode()
    params.kv_overrides = overrides
    source, destination = os.fsencode(order["source"]), os.fsencode(order["destination"])
    code = llama_cpp.llama_model_quantize(source, destination, params)
    if code:
        reporter.tell({"complaint": reporter.complaint or f"code {code}"})
    return int(code)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
