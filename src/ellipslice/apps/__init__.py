"""The command line and the applications behind its commands. Nothing else in ellipslice imports them.

- `cli/`: the command line
- `fits/`: a fit of a table, stored in a folder
- `paper/`: the experiments of the paper
- `bench/`: benchmarks
- `explore/`: the interactive page
- `demo`: the coal-mining demo
"""
