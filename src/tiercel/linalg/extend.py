"""Cholesky factors that grow: new rows and columns border a matrix already factorised.

The factor of [[A11, A12], [A12', A22]] is [[R11, R12], [0, R22]] with R11' R12 = A12
and R22' R22 = A22 - R12' R12, whatever the width of the border.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from tiercel._arrays import FLOATS, all_finite, is_torch, namespace
from tiercel.linalg._checks import (
    as_float,
    columns,
    epsilon,
    same_kind,
    square,
    symmetric,
)
from tiercel.linalg.errors import FactorisationError
from tiercel.linalg.triangular import solve_triangular


def cholesky_extend(R: Any, A12: Any, A22: Any, *, tol: float | None = None) -> Any:
    """Return the factor of [[A11, A12], [A12', A22]] from the factor R of A11.

    Parameters
    ----------
    R : array or tensor (k, k)
        Upper factor, R' R = A11.
    A12 : array or tensor (k, p)
        Products of the old columns with the new ones.
    A22 : array or tensor (p, p)
        Products of the new columns.
    tol : float, optional
        A new column whose pivot (what is left of its diagonal entry after projection
        on the columns before it) is at most `tol` times that entry is dependent; the
        default is the machine epsilon times k + p.

    Returns
    -------
    array or tensor (k + p, k + p)
        Upper triangular, of the dtype of `R`.

    Raises
    ------
    FactorisationError
        A new column depends on those before it. `GrowingCholesky` leaves such columns
        out instead.

    Examples
    --------
    >>> cholesky_extend([[2.0]], [[2.0]], [[5.0]])
    array([[2., 1.],
           [0., 2.]])
    """
    R, A22 = square(R, "R"), symmetric(A22, "A22")
    A12 = columns(A12, R.shape[0], "A12")
    k, p = R.shape[0], A22.shape[0]
    if A12.ndim != 2 or A12.shape[1] != p:
        raise ValueError(f"A12 must have shape ({k}, {p}), not {tuple(A12.shape)}")
    same_kind("cholesky_extend", R, A12)
    same_kind("cholesky_extend", R, A22)
    xp = namespace(R)
    tol = _tolerance(tol, (k + p) * epsilon(R))
    A22 = xp.astype(A22, R.dtype, copy=False)
    R12 = solve_triangular(R, A12, transpose=True)
    if not all_finite(R12):
        raise ValueError("R holds NaN or infinite values; factorise A11 again")
    R22 = _whole(A22 - R12.T @ R12, tol * xp.linalg.diagonal(A22))
    if R22 is None:
        raise FactorisationError(
            f"some of the {p} new columns depend on the columns before them to "
            f"tol={tol:.3g}; leave duplicate centres out, raise the penalty, or let "
            "GrowingCholesky refuse them"
        )
    extended = xp.zeros((k + p, k + p), dtype=R.dtype, device=R.device)
    extended[:k, :k] = xp.triu(R)
    extended[:k, k:] = R12
    extended[k:, k:] = R22
    return extended


class GrowingCholesky:
    """A Cholesky factor in one buffer that takes in new columns block by block.

    Columns that depend on those already in, to working precision, are refused and
    counted: they would add nothing but rounding errors. However the columns are cut
    into blocks, the factor is the same; wide blocks are faster.

    Parameters
    ----------
    capacity : int
        Most columns the factor can hold; its buffer is capacity x capacity.
    dtype : dtype
        float32 or float64.
    tol : float, optional
        A column is refused when its pivot is at most `tol` times its diagonal entry;
        the default is the machine epsilon times the capacity.

    Attributes
    ----------
    size : int
        Columns held.
    refused : int
        Columns refused so far.

    Examples
    --------
    >>> growing = GrowingCholesky(capacity=3)
    >>> growing.append([], [[4.0]])
    array([ True])
    >>> growing.append([[2.0, 4.0]], [[5.0, 2.0], [2.0, 4.0]])
    array([ True, False])
    >>> growing.factor
    array([[2., 1.],
           [0., 2.]])
    >>> growing.solve([8.0, 12.0])
    array([1., 2.])
    """

    def __init__(
        self, capacity: int, dtype: Any = np.float64, *, tol: float | None = None
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        if np.dtype(dtype) not in FLOATS:
            raise TypeError(f"dtype must be float32 or float64, not {np.dtype(dtype)}")
        self._buffer = np.zeros((capacity, capacity), dtype=dtype)
        self.tol = _tolerance(tol, capacity * epsilon(self._buffer))
        self.size = 0
        self.refused = 0

    @property
    def factor(self) -> np.ndarray:
        """The upper factor: a view of the buffer, (size, size)."""
        return self._buffer[: self.size, : self.size]

    def append(self, A12: Any, A22: Any) -> np.ndarray:
        """Take in new columns; return which of them were accepted.

        Parameters
        ----------
        A12 : array (size, p)
            Products of the columns held with the new ones; empty at first.
        A22 : array (p, p)
            Products of the new columns.

        Returns
        -------
        accepted : ndarray of bool (p,)
        """
        A12, A22 = self._check(A12, A22)
        R12 = A12
        if self.size:
            R12 = solve_triangular(self.factor, A12, transpose=True, check=False)
        schur, limits = A22 - R12.T @ R12, self.tol * np.diagonal(A22)
        accepted = np.ones(A22.shape[0], dtype=bool)
        R22 = _whole(schur, limits)
        if R22 is None:
            R22, accepted = _piecewise(schur, limits)
        old, new = self.size, self.size + int(accepted.sum())
        if new > len(self._buffer):
            raise ValueError(
                f"{new - old} more columns do not fit: {old} of "
                f"{len(self._buffer)} places are taken; make capacity larger"
            )
        self._buffer[:old, old:new] = R12[:, accepted]
        self._buffer[old:new, old:new] = R22
        self.size = new
        self.refused += int((~accepted).sum())
        return accepted

    def solve(self, B: Any) -> np.ndarray:
        """Return (R' R)^-1 B for right-hand sides (size,) or (size, T)."""
        if not self.size:
            raise ValueError("the factor is empty; append columns first")
        half = solve_triangular(self.factor, B, transpose=True)
        return solve_triangular(self.factor, half, overwrite=True, check=False)

    def _check(self, A12: Any, A22: Any) -> tuple[np.ndarray, np.ndarray]:
        if is_torch(A12) or is_torch(A22):
            raise TypeError("GrowingCholesky holds numpy arrays; pass A12.numpy()")
        A12, A22 = as_float(A12, "A12"), symmetric(A22, "A22")
        if A12.size == 0 and self.size == 0:
            A12 = A12.reshape(0, A22.shape[0])
        if A12.shape != (self.size, A22.shape[0]):
            raise ValueError(
                f"A12 must have shape ({self.size}, {A22.shape[0]}), not {A12.shape}"
            )
        if not all_finite(A12):
            raise ValueError("A12 holds NaN or infinite values; drop these columns")
        dtype = self._buffer.dtype
        return A12.astype(dtype, copy=False), A22.astype(dtype, copy=False)


def _tolerance(tol: float | None, default: float) -> float:
    if tol is None:
        return default
    if not 0 <= tol < 1:
        raise ValueError(f"tol must lie in [0, 1), but it is {tol}")
    return tol


def _whole(schur: Any, limits: Any) -> Any:
    """Factorise a border in one go, or return None where a pivot is too small."""
    if is_torch(schur):
        import torch

        factor, info = torch.linalg.cholesky_ex(schur, upper=True)
        sound = (info == 0) & (factor.diagonal() ** 2 > limits).all()
        return factor if bool(sound) else None
    potrf = lapack.spotrf if schur.dtype == np.float32 else lapack.dpotrf
    factor, info = potrf(schur)
    sound = info == 0 and (np.diagonal(factor) ** 2 > limits).all()
    return factor if sound else None


def _piecewise(schur: np.ndarray, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factorise a border column by column, leaving dependent columns out."""
    rest = schur.copy()
    accepted = np.zeros(len(limits), dtype=bool)
    rows = np.zeros_like(schur)
    for j in range(len(limits)):
        if rest[j, j] > limits[j]:
            accepted[j] = True
            rows[j, j:] = rest[j, j:] / np.sqrt(rest[j, j])
            rest[j:, j:] -= np.outer(rows[j, j:], rows[j, j:])
    return rows[np.ix_(accepted, accepted)], accepted
