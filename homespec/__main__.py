"""`python -m homespec`."""

from homespec.cli.main import main

main()
