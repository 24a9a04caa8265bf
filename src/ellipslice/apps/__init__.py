"""The applications: the command line and what its commands do. Nothing else in ellipslice imports them.

- `cli/`: the command line
- `fits/`: a fit in a folder
- `paper/`: the experiments of the paper
- `bench/`: benchmarks
- `explore/`: the interactive page
- `demo`: the coal-mining demo
"""
