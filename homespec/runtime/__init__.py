"""The only room that talks to llama.cpp.

Start at `model.LlamaModel` (a GGUF file opened) and `context.LlamaContext` (its KV cache, a
`contracts.TokenModel`). `binding` is the one module that knows ctypes; everything above it is typed.
Importing this package loads nothing heavy: `homespec plan` and `--help` never import llama_cpp.
"""
