"""The central loop (`loop.decode_steps`) and when it ends (`stopping`)."""
