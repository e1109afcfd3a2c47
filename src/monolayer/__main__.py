"""`python -m monolayer`: the command line."""

from monolayer.cli import main

main()
