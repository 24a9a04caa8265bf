"""`python -m ellipslice`: the command line, where the script is not on the path."""

from ellipslice.cli import main

if __name__ == "__main__":
    main()
