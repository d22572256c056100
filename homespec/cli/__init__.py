"""The command line: one module per command, imported when it is called.

`main` is the one place where an error becomes a sentence and an exit code.
"""
