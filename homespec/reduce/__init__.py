"""Smaller draft models from an existing GGUF file.

    drop layers (`layers`)  ->  requantize (`runtime.quantize`)  ->  trim the vocabulary (`trim`)

in this order, each of them optional: rows of a quantized file are gathered as they are, and a trimmed file
ends with rows that llama.cpp's quantizer would not copy. `gguf_file` reads and writes, `provenance` says what
was done to whom, `agreement` measures what a change costs, `layer_search` finds the layers to drop, and
`trial` measures them in real files.

May import runtime, contracts, records, errors and units. Start at `trim.trim` and `layers.drop_layers`.
"""
