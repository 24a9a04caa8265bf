"""The applications: the command line and what its commands do. Nothing else in ellipslice imports them."""
