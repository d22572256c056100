"""The only room that talks to llama.cpp.

Start at `model.LlamaModel` (a GGUF file opened) and `context.LlamaContext` (its KV cache, a
`contracts.TokenModel`). `binding` and `kv_binding` are the modules that know ctypes; everything above them is
typed.
Importing this package loads nothing heavy: `homespec plan` and `--help` never import llama_cpp.
"""
