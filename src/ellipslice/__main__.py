"""`python -m ellipslice`: the command line, where the script is not on the path."""

from ellipslice.apps.cli import main

if __name__ == "__main__":
    main()
