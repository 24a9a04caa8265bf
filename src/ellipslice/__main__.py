"""`python -m ellipslice`: the command line."""

from ellipslice.cli import main

main()
