"""The central loop (`loop.decode_steps`), its end (`stopping`), and the loop along known text (`replay`)."""
