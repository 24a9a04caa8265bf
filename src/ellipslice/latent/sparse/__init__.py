"""Sparse Cholesky factorisations: the pattern is analysed once, and matrices with it are factorised many times.

Only `analysis` is imported by other folders. It imports numba when it is called first.

- `analysis`: the interface, and `analyse`, which returns the symbolic factorisation of a pattern
- `cholmod`: the factorisation of CHOLMOD, by cvxopt
- `compiled`: the decorators of functions that numba compiles
- `kernels`: compiled loops of the numeric factorisation
- `ordering`: an order of elimination that keeps the factor sparse
- `products`: compiled products and solves with the factor, and the selected inverse
- `supernodal`: the factorisation of this library
- `symbolic`: the symbolic factorisation: supernodes, and where each entry of the matrix goes
- `symbolic_kernels`: compiled loops of the symbolic factorisation
"""
