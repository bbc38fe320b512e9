"""Solve with a triangular matrix, never copying it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import blas, lapack

from tiercel._arrays import is_torch, namespace
from tiercel.linalg._checks import columns, same_kind, square
from tiercel.linalg.errors import FactorisationError


def solve_triangular(
    R: Any,
    B: Any,
    *,
    transpose: bool = False,
    lower: bool = False,
    overwrite: bool = False,
    check: bool = True,
) -> Any:
    """Solve R X = B, or R' X = B, for a triangular R.

    Only the named triangle of `R` is read, whatever the other one holds. Row-major,
    column-major and sub-blocks of a larger buffer are all used where they lie.

    Parameters
    ----------
    R : array or tensor (m, m)
        Triangular matrix, float32 or float64.
    B : array or tensor, (m,) or (m, T)
        Right-hand sides; they are brought to the dtype of `R`.
    transpose : bool
        Solve with R' instead of R.
    lower : bool
        `R` is lower triangular (the default is upper).
    overwrite : bool
        The answer may be written over `B`; use what is returned.
    check : bool
        Look for zeros on the diagonal and for NaN in `B` first. Turn it off inside
        loops whose factor has been checked (on a GPU each check waits for the device).

    Returns
    -------
    X : array or tensor, of the shape of `B` and the dtype of `R`

    Examples
    --------
    >>> solve_triangular([[2.0, 1.0], [0.0, 4.0]], [4.0, 8.0])
    array([1., 2.])
    """
    R = square(R, "R")
    B = columns(B, R.shape[0], "B", finite=check)
    same_kind("solve_triangular", R, B)
    if check:
        check_diagonal(R)
    if is_torch(R):
        return _solve_torch(R, B, transpose, lower, overwrite)
    if B.dtype != R.dtype:
        B = B.astype(R.dtype)
    elif not (overwrite and B.flags.writeable):
        B = B.copy(order="K")
    return _solve_numpy(R, B, transpose, lower)


def check_diagonal(R: Any) -> None:
    """Refuse a triangular matrix that has no inverse."""
    xp = namespace(R)
    diagonal = xp.linalg.diagonal(R)
    bad = ~(xp.isfinite(diagonal) & (diagonal != 0))
    if bool(xp.any(bad)):
        first = int(xp.argmax(xp.astype(bad, xp.int64)))
        raise FactorisationError(
            f"diagonal entry {first} of the triangular matrix is "
            f"{float(diagonal[first]):.3g}, so it has no inverse; factorise again with "
            "a larger penalty or without duplicate centres"
        )


def _solve_numpy(R: np.ndarray, B: np.ndarray, transpose: bool, lower: bool) -> Any:
    """Overwrite ``B``, which is ours, with the solution where LAPACK can."""
    kind = "s" if R.dtype == np.float32 else "d"
    a, flipped = fortran_view(R)
    if flipped:
        transpose, lower = not transpose, not lower
    by_rows = B.ndim == 2 and B.flags.c_contiguous and not B.flags.f_contiguous
    if by_rows and a.shape[0] == a.shape[1]:
        # op(R) X = B is X' op(R)' = B', and B' is what Fortran calls contiguous.
        trsm = getattr(blas, kind + "trsm")
        return trsm(
            1.0, a, B.T, side=1, lower=lower, trans_a=not transpose, overwrite_b=1
        ).T
    trtrs = getattr(lapack, kind + "trtrs")
    X, info = trtrs(a, B, lower=lower, trans=transpose, overwrite_b=1)
    if info:
        raise FactorisationError(
            f"diagonal entry {info - 1} of the triangular matrix is 0, so it has no "
            "inverse; factorise again with a larger penalty"
        )
    return X


def fortran_view(R: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return ``R`` (False) or its transpose (True) as LAPACK wants it: column-major.

    A block of a larger buffer has gaps between its rows. LAPACK bridges them with a
    leading dimension, but the wrapper takes that from the array's shape: so the gaps
    are shown to it as more rows, which LAPACK never touches. A copy is made only for
    layouts where neither index is contiguous.
    """
    if R.flags.f_contiguous:
        return R, False
    if R.flags.c_contiguous:
        return R.T, True
    by_rows = R.strides[1] == R.itemsize
    V = R if by_rows else R.T
    lead, rest = divmod(V.strides[0], V.itemsize)
    if V.strides[1] != V.itemsize or rest or lead < V.shape[1]:
        return np.asfortranarray(R), False
    return as_strided(V, (V.shape[0], lead), V.strides, writeable=False).T, by_rows


def _solve_torch(R: Any, B: Any, transpose: bool, lower: bool, overwrite: bool) -> Any:
    import torch

    B = B.to(R.dtype)
    X = torch.linalg.solve_triangular(
        R.T if transpose else R,
        B[:, None] if B.ndim == 1 else B,
        upper=lower == transpose,
        **({"out": B} if overwrite and B.ndim == 2 else {}),
    )
    return X[:, 0] if B.ndim == 1 else X
