"""Add samples to a Cholesky factor and take them away again, at quadratic cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import lapack

from tiercel._arrays import FLOATS, all_finite, is_torch
from tiercel.linalg import _rotations
from tiercel.linalg._checks import BLOCK, as_float
from tiercel.linalg.errors import FactorisationError

FEW = 32  # rows that rotations add faster than Householder blocks


def cholesky_update(R: np.ndarray, x: Any, *, overwrite: bool = False) -> np.ndarray:
    """Turn R into the factor of R' R + x x', in place.

    Givens rotations zero x against the rows of R (Gill, Golub, Murray and Saunders,
    1974), so that no square is formed and no digit lost.

    Parameters
    ----------
    R : ndarray (m, m)
        Upper factor, float32 or float64; only its upper triangle is touched. Row-major
        (also a block of a larger row-major buffer) is fast; other layouts are copied
        and written back.
    x : array (m,)
        The sample.
    overwrite : bool
        `x`, of the dtype of `R`, may serve as workspace: nothing is allocated.

    Returns
    -------
    R : the array that was passed

    Examples
    --------
    >>> cholesky_update(np.array([[3.0, 0.0], [0.0, 1.0]]), [4.0, 0.0])
    array([[5., 0.],
           [0., 1.]])
    """
    x = _sample(R, x)
    work = x if overwrite and x.flags.writeable else x.copy()
    _by_rows(R, _rotations.rotate_in, work)
    return R


def cholesky_downdate(R: np.ndarray, x: Any) -> np.ndarray:
    """Turn R into the factor of R' R - x x', in place, if there is one.

    The LINPACK method (Stewart, 1979): solve R' a = x; where 1 - ||a||^2 is positive,
    rotations built from a take x out of R. It loses as many digits as 1 - ||a||^2
    is small; no method that works from R alone can do better.

    Parameters
    ----------
    R : ndarray (m, m)
        Upper factor, float32 or float64; only its upper triangle is touched.
    x : array (m,)
        The sample to take away.

    Returns
    -------
    R : the array that was passed

    Raises
    ------
    FactorisationError
        R' R - x x' is not positive definite to working precision; R is untouched.

    Examples
    --------
    >>> cholesky_downdate(np.array([[5.0, 0.0], [0.0, 1.0]]), [4.0, 0.0])
    array([[3., 0.],
           [0., 1.]])
    """
    x = _sample(R, x)
    left = _by_rows(R, _rotations.rotate_out, x, float(np.finfo(R.dtype).eps))
    if left is not None:
        raise FactorisationError(
            f"R'R - xx' is not positive definite (1 - x'(R'R)^-1 x = {left:.3g}): this "
            "sample was never added, or was added with another weight; R is unchanged. "
            "Factorise the remaining data again"
        )
    return R


def cholesky_update_rows(R: np.ndarray, X: Any) -> np.ndarray:
    """Turn R into the factor of R' R + X' X, in place, for several rows at once.

    The answer is that of `cholesky_update` row by row, to rounding. Up to 32 rows are
    added just so; more are faster in LAPACK's ``tpqrt``, which factorises [R; X] by
    blocks and knows that R is triangular.

    Parameters
    ----------
    R : ndarray (m, m)
        Upper factor, float32 or float64; only its upper triangle is touched. LAPACK
        works on column-major factors where they lie and on a copy of others.
    X : array (b, m)
        The samples, one per row.

    Returns
    -------
    R : the array that was passed

    Examples
    --------
    >>> X = [[4.0, 0.0], [0.0, 0.0]]
    >>> cholesky_update_rows(np.array([[3.0, 0.0], [0.0, 1.0]]), X).round(12)
    array([[5., 0.],
           [0., 1.]])
    """
    _check_factor(R)
    X = as_float(X, "X")
    if is_torch(X) or X.ndim != 2 or X.shape[1] != len(R):
        raise ValueError(
            f"X must be a numpy array of shape (b, {len(R)}), not {tuple(X.shape)}"
        )
    X = X.astype(R.dtype, order="F")  # a copy, which LAPACK may overwrite
    if not all_finite(X):
        raise ValueError("X holds NaN or infinite values; R is unchanged")
    if len(X) <= FEW and R.strides[1] == R.itemsize:
        for x in X:
            cholesky_update(R, x, overwrite=True)
        return R
    tpqrt = lapack.stpqrt if R.dtype == np.float32 else lapack.dtpqrt
    block = min(32, len(R))
    R_new, *_ = tpqrt(0, block, np.asfortranarray(R), X, overwrite_a=1, overwrite_b=1)
    _write_positive(R_new, R)
    return R


def _check_factor(R: Any) -> None:
    if is_torch(R):
        raise TypeError(
            "factors are updated on the CPU; pass R.numpy(), which shares its memory"
        )
    if not isinstance(R, np.ndarray) or R.dtype not in FLOATS:
        raise TypeError(
            "R must be a numpy array of float32 or float64, as it changes in place"
        )
    if R.ndim != 2 or R.shape[0] != R.shape[1] or R.shape[0] == 0:
        raise ValueError(f"R must be a square matrix, but its shape is {R.shape}")
    if not R.flags.writeable:
        raise ValueError("R is read-only, but it changes in place; pass R.copy()")


def _sample(R: np.ndarray, x: Any) -> np.ndarray:
    """Return ``x`` as a contiguous vector of the dtype of ``R``."""
    _check_factor(R)
    x = as_float(x, "x")
    if is_torch(x) or x.shape != (len(R),):
        raise ValueError(
            f"x must be a numpy array of shape ({len(R)},), not {tuple(x.shape)}"
        )
    return np.ascontiguousarray(x, dtype=R.dtype)


def _by_rows(R: np.ndarray, loop: Any, x: np.ndarray, *settings: float) -> Any:
    """Run a loop over the rows of ``R``, which it sees as one contiguous buffer.

    Rows of a block in a larger buffer are shown with the gap that follows them; the
    loops stop at the length of x and never look into the gap.
    """
    lead, rest = divmod(R.strides[0], R.itemsize)
    in_place = R.strides[1] == R.itemsize and not rest and lead >= len(R)
    if R.flags.c_contiguous:
        rows = R
    elif in_place:
        rows = as_strided(R, (len(R), lead), R.strides)
    else:
        rows = np.ascontiguousarray(R)
    status, value = loop(rows, x, *settings)
    if status == _rotations.NOT_FINITE:
        raise ValueError("x holds NaN or infinite values; R is unchanged")
    if status == _rotations.REFUSED:
        return value
    if rows is not R and not in_place:
        R[...] = rows
    return None


def _write_positive(source: np.ndarray, target: np.ndarray) -> None:
    """Copy an upper factor, turning rows so that its diagonal is positive.

    Only the upper triangle is written; the lower one may hold something else.
    """
    signs = np.where(np.diagonal(source) < 0, -1, 1).astype(source.dtype)[:, None]
    for start in range(0, len(source), BLOCK):
        rows = slice(start, start + BLOCK)
        block = np.triu(source[rows, rows] * signs[rows])
        target[rows, rows] = block + np.tril(target[rows, rows], -1)
        target[rows, rows.stop :] = source[rows, rows.stop :] * signs[rows]
