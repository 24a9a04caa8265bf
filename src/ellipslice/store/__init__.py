"""A run on disk: a Zarr group that xarray reads, and what is needed to resume it.

- `store`: the store of a run: create, write, commit
- `layout`: how the arrays are laid out
- `columns`: arrays that grow with the draws
- `journal`: what a commit records, files that are written as a whole, and the lock
- `verify`: open a store to resume it, after checks
- `read`: open a store to read it, without trusting it
- `serial`: priors and moves as JSON and arrays
- `approximately_equal`: compare two priors or moves up to rounding error
- `fingerprint`: numbers that tell priors, moves and likelihoods apart
- `stored_run`: the specification of a run, as a store holds it
"""
