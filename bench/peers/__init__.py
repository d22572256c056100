"""homespec against other programs on the same prompts: `run.py`.

Every arm (a program with its settings, `arms.py`) answers in a process of its own, a worker; a worker runs
one module of `programs/` and speaks the lines of `protocol.py`. Where a peer is a package from PyPI, its
workers run in a virtual environment of their own (`environments.py`). `workers.py` is the bench's end of the
line, `pool.py` keeps as many workers open as memory allows, `schedule.py` asks them in turns, `results.py`
keeps what they answered, `table.py` makes a table of it.
"""
