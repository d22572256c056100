"""Models as files: entries of the catalogue, GGUF headers and the facts in them, downloads and checks.

May import runtime, records, errors and units. Start at `gguf_header.read_header`.
"""
