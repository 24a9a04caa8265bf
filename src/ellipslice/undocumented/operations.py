"""Lists of JAX operations that are known to be safe on CPUs. Nothing is assumed about other operations.

XLA runs the parts of a program in a pool of threads. An operation that gives work to that pool and waits for it in one
of its threads can deadlock: if every thread waits, none works. LAPACK operations on a batch of matrices do this, even
in a program that runs alone. On one matrix at a time they do not.
"""

from __future__ import annotations

SINGLE_CALL_OPERATIONS = frozenset(
    [
        *("abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh", "broadcast_in_dim", "cbrt"),
        *("ceil", "clamp", "concatenate", "cond", "convert_element_type", "copy", "cos", "cosh", "custom_jvp_call"),
        *("custom_vjp_call", "div", "dynamic_slice", "dynamic_update_slice", "eq", "erf", "erf_inv", "erfc", "exp"),
        *("exp2", "expand_dims", "expm1", "floor", "ge", "gt", "integer_pow", "iota", "is_finite", "jit", "le"),
        *("lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "optimization_barrier"),
        *("or", "pjit", "pow", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum"),
        *("rem", "reshape", "rev", "round", "rsqrt", "scan", "select_n", "sign", "sin", "sinh", "slice", "split"),
        *("sqrt", "square", "squeeze", "stop_gradient", "sub", "tan", "tanh", "transpose", "while", "xor"),
    ]
)
"""Operations that XLA's CPU backend can compile into one function with the loop around them, if arrays are small."""

MAX_SMALL_ARRAY = 4096
"""Largest number of elements of a small array. One function would gain little for larger ones."""

COMPILED = SINGLE_CALL_OPERATIONS.union(
    ("add_any", "argmax", "argmin", "bessel_i0e", "bessel_i1e", "bitcast_convert_type", "broadcast_to", "call"),
    ("checkpoint", "closed_call", "clz", "complex", "conj", "conv_general_dilated", "core_call", "cumlogsumexp"),
    ("cummax", "cummin", "cumprod", "cumsum", "custom_linear_solve", "device_put", "digamma", "dot_general", "fft"),
    ("gather", "igamma", "igamma_grad_a", "igammac", "imag", "layout_constraint", "linear_call", "log2"),
    ("lu_pivots_to_permutation", "name", "nextafter", "one_minus_square", "pad", "platform_index", "polygamma"),
    ("polynomial", "population_count", "pvary", "random_bits", "random_clone", "random_fold_in", "random_gamma"),
    ("random_seed", "random_split", "random_unwrap", "random_wrap", "real", "reduce", "reduce_precision"),
    ("reduce_window", "reduce_window_max", "reduce_window_min", "reduce_window_sum", "reduce_xor"),
    ("regularized_incomplete_beta", "remat", "remat2", "reshard", "rng_bit_generator", "rng_uniform", "scatter"),
    ("scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub", "scatter_add", "scatter_max"),
    ("scatter_min", "scatter_mul", "scatter_sub", "select_and_gather_add", "select_and_scatter"),
    ("select_and_scatter_add", "sharding_constraint", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
    ("sort", "stack", "threefry2x32", "tile", "top_k", "unstack", "zeta"),
)
"""Operations that XLA's CPU backend compiles itself. None waits in a thread of the pool, so `vmap` is safe."""

MATRICES = {
    **dict.fromkeys(("cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu"), 2),
    **dict.fromkeys(("ormqr", "qr", "schur", "svd", "symmetric_product", "triangular_solve", "tridiagonal"), 2),
    **dict.fromkeys(("cholesky_update",), 2),
    **dict.fromkeys(("tridiagonal_solve",), 1),
}
"""LAPACK operations, with the number of axes of their first argument for one matrix. On one matrix none waits."""
