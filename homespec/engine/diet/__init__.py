"""Finds out whether a reduced draft model pays for a target on this machine, and searches for the best one.

`passages` are the target's own greedy replies, `recording` what a draft model would have proposed along them,
`replay` what the controller would have made of that, `trial` all of it for one file, `auto` the search.
"""
