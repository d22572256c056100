"""Plain against speculative decoding under equal conditions: what `homespec bench` runs.

`scenarios` has the prompts. This room may import the engine and everything below it, and rich; matplotlib is
imported on demand.
"""
