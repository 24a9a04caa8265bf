"""A run on disk: a Zarr group that xarray reads, and the data that `resume` needs.

- `store`: the store of a run: write, commit, close
- `create`: create the store of a run
- `layout`: create the Zarr arrays and their metadata
- `arrays`: arrays that grow with the draws
- `journal`: the record of a commit, atomic replacement of files, and the lock
- `rewrite`: remove draws of a store
- `verify`: check a store before it is resumed
- `read`: open a store that is not trusted, for reading
- `serial`: priors and moves as JSON and arrays
- `approximately_equal`: compare two priors or moves up to rounding error
- `fingerprint`: compare priors, moves and likelihoods of different runs
- `stored_run`: the specification of a run in its store
"""
