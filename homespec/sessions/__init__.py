"""Conversations on disk.

A conversation is a log of events, one JSON line each (`events`); replaying them gives its state
(`conversation`). `log` writes it, `store` finds it, `export` turns it into a document, and `kv_files` looks
after the KV caches that were kept to go on without a new prefill. Nothing here knows llama.cpp or NumPy.
"""
