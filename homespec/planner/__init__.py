"""Plans memory before anything is loaded: pure functions from facts, headroom and policy to a `Plan`.

Imports neither llama.cpp nor NumPy, so that planning is instant. Start at `plan.make_plan`.
"""
