"""The product with a triangular matrix, by the BLAS that SciPy exposes to compiled code.

SciPy's Python function computes the same product, but holds the global interpreter lock, so that no other thread can
work. It is the fallback. If it does not exist either, a full matrix product is used. All three are equal up to rounding
error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ellipslice.undocumented.registry import first_line, note

ITEM = "triangular products"


def times_triangular(z: np.ndarray, rows: np.ndarray) -> None:
    """Replace z by z @ rows, with `rows` upper triangular. Both are in C order, so BLAS sees their transposes."""
    product = _dtrmm()
    if isinstance(product, str):
        note(ITEM, product)
        _without_capsule(z, rows)
        return
    import ctypes

    count, size = (ctypes.byref(ctypes.c_int(length)) for length in z.shape)
    one = ctypes.byref(ctypes.c_double(1.0))
    product(b"L", b"L", b"N", b"N", size, count, one, rows.ctypes.data, size, z.ctypes.data, size)


def _without_capsule(z: np.ndarray, rows: np.ndarray) -> None:
    """Replace z by z @ rows without `scipy.linalg.cython_blas`."""
    try:
        from scipy.linalg.blas import dtrmm  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        z[:] = z @ rows
        return
    dtrmm(1.0, rows.T, z.T, side=0, lower=1, overwrite_b=1)


def probe() -> str | None:
    """Return why `scipy.linalg.cython_blas` is not used; None if it is."""
    product = _dtrmm()
    return product if isinstance(product, str) else None


@cache
def _dtrmm() -> Any:
    """Return BLAS's `dtrmm` as a function. If it is missing or has another signature, return the reason as text."""
    try:
        import ctypes

        from scipy.linalg import cython_blas  # pyright: ignore[reportAttributeAccessIssue]

        name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
        pointer_in = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))
        capsule = cython_blas.__pyx_capi__["dtrmm"]
        signature = name_of(capsule)
        takes = [argument.split(b"_")[-1].strip() for argument in signature.partition(b"(")[2].rstrip(b")").split(b",")]
        if takes != [b"char *"] * 4 + [b"int *"] * 2 + [b"d *"] * 2 + [b"int *", b"d *", b"int *"]:
            return f"dtrmm of scipy.linalg.cython_blas takes {signature.decode(errors='replace')}"
        return ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 4, *[ctypes.c_void_p] * 7)(pointer_in(capsule, signature))
    except Exception as error:  # noqa: BLE001  a future release may raise anything
        return f"scipy.linalg.cython_blas has changed ({first_line(error)})"
