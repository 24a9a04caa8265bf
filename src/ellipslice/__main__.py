"""Run the command line as `python -m ellipslice`, for example if the script is not on the path."""

from ellipslice.apps.cli import main

if __name__ == "__main__":
    main()
