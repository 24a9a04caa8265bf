"""Draws from a factor: normals times a matrix, for half the price if it is triangular."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import blas, cython_blas  # pyright: ignore[reportAttributeAccessIssue]

from ellipslice.noise import aligned_empty


def draw_by_rows(rows: np.ndarray, triangular: bool, rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws from N(0, rows.T @ rows), shape (count, size). Triangular rows are square, with zeros below."""
    z = rng.standard_normal(out=aligned_empty((count, len(rows))))
    if not triangular:
        return np.matmul(z, rows, out=aligned_empty((count, rows.shape[1])))
    _times_triangular(z, np.ascontiguousarray(rows))
    return z


def _times_triangular(z: np.ndarray, rows: np.ndarray) -> None:
    """Put z @ rows in the place of z. Both are in C's order: for BLAS, which has Fortran's, they are transposes."""
    if (product := _dtrmm()) is None:
        blas.dtrmm(1.0, rows.T, z.T, side=0, lower=1, overwrite_b=1)  # pyright: ignore[reportAttributeAccessIssue]
        return
    count, size = (ctypes.byref(ctypes.c_int(length)) for length in z.shape)
    one = ctypes.byref(ctypes.c_double(1.0))
    product(b"L", b"L", b"N", b"N", size, count, one, rows.ctypes.data, size, z.ctypes.data, size)


@cache
def _dtrmm() -> Any:
    """BLAS's product as SciPy offers it to compiled code; None if it takes other numbers than those we know.

    SciPy's function for Python does the same, but holds Python's lock meanwhile, and no other thread can work.
    """
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer_in = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))
    capsule = cython_blas.__pyx_capi__["dtrmm"]
    signature = name_of(capsule)
    takes = [argument.split(b"_")[-1].strip() for argument in signature.partition(b"(")[2].rstrip(b")").split(b",")]
    if takes != [b"char *"] * 4 + [b"int *"] * 2 + [b"d *"] * 2 + [b"int *", b"d *", b"int *"]:
        return None
    return ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 4, *[ctypes.c_void_p] * 7)(pointer_in(capsule, signature))
