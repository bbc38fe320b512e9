"""Cholesky factors with the smallest jitter that works, and that jitter reported."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from tiercel._arrays import is_torch, namespace
from tiercel.linalg._checks import BLOCK, epsilon, symmetric
from tiercel.linalg.errors import FactorisationError
from tiercel.linalg.triangular import fortran_view, solve_triangular


@dataclass(frozen=True)
class CholeskyFactor:
    """The upper factor R of a positive definite matrix: R' R = A + jitter I.

    Attributes
    ----------
    R : array or tensor (m, m)
        Upper triangular, zero below the diagonal.
    jitter : float
        What had to be added to the diagonal; 0 for a well-conditioned matrix.
    attempts : int
        Factorisations tried; the first one is without jitter.

    Examples
    --------
    >>> factor = cholesky([[4.0, 2.0], [2.0, 5.0]])
    >>> factor.R
    array([[2., 1.],
           [0., 2.]])
    >>> factor.solve([8.0, 12.0])
    array([1., 2.])
    >>> bool(np.isclose(factor.logdet(), np.log(16.0)))
    True
    """

    R: Any
    jitter: float
    attempts: int

    def solve(self, B: Any, *, overwrite: bool = False, check: bool = True) -> Any:
        """Return (R' R)^-1 B, jitter included; see `solve_positive` to keep it out.

        Parameters
        ----------
        B : array or tensor, (m,) or (m, T)
        overwrite : bool
            The answer may be written over `B`.
        check : bool
            Look for NaN in `B` first.
        """
        half = solve_triangular(
            self.R, B, transpose=True, overwrite=overwrite, check=check
        )
        return solve_triangular(self.R, half, overwrite=True, check=False)

    def logdet(self) -> float:
        """Return log det(A + jitter I), summed in float64."""
        xp = namespace(self.R)
        diagonal = xp.astype(xp.linalg.diagonal(self.R), xp.float64)
        return 2.0 * float(xp.sum(xp.log(diagonal)))


def cholesky(
    A: Any, *, max_attempts: int | None = None, overwrite: bool = False
) -> CholeskyFactor:
    """Factorise A + jitter I = R' R with the smallest jitter of a short ladder.

    The ladder is 0, then eps, 10 eps, 100 eps, ... and at last sqrt(eps), each times
    trace(A)/m, where eps is the machine epsilon of the dtype of `A`: ten attempts in
    float64 (up to 1.5e-8), six in float32 (up to 3.5e-4). A failed attempt costs at
    most one factorisation and no memory.

    Parameters
    ----------
    A : array or tensor (m, m)
        Symmetric, both triangles filled, float32 or float64 (kept). Row- and
        column-major arrays are both factorised where they lie.
    max_attempts : int, optional
        Climb at most this many steps of the ladder; 1 means no jitter at all.
    overwrite : bool
        Work inside `A`, whose memory becomes the factor; otherwise one m x m buffer is
        made. If the factorisation fails, `A` is given back, filled from its lower
        triangle.

    Returns
    -------
    CholeskyFactor

    Raises
    ------
    FactorisationError
        Even the last jitter was not enough.

    Examples
    --------
    >>> cholesky([[1.0, 1.0], [1.0, 1.0]]).jitter < 1e-14
    True
    """
    A = symmetric(A, "A")
    if max_attempts is not None and max_attempts < 1:
        raise ValueError(f"max_attempts must be at least 1, not {max_attempts}")
    buffer = A if overwrite and _is_plain(A) else _copy(A)
    xp = namespace(buffer)
    diagonal = _copy(xp.linalg.diagonal(buffer))
    scale = float(xp.sum(diagonal, dtype=xp.float64)) / A.shape[0]
    attempt = _attempt_torch if is_torch(buffer) else _attempt_numpy
    for attempts, jitter in enumerate(
        _ladder(scale, epsilon(A), max_attempts), start=1
    ):
        if attempts > 1:
            _restore(buffer)
        _set_diagonal(buffer, diagonal + jitter)
        failed, pivot = attempt(buffer)
        if not failed:
            _clear_lower(buffer)
            return CholeskyFactor(buffer, jitter, attempts)
    _restore(buffer)
    _set_diagonal(buffer, diagonal)
    raise FactorisationError(
        f"the matrix is not positive definite: pivot {failed} of {A.shape[0]} is "
        f"{pivot:.3g} with a jitter of {jitter:.3g} (attempts: {attempts}; mean of the "
        f"diagonal: {scale:.3g}); raise the penalty, drop duplicate centres, or work "
        "in float64"
    )


def _ladder(scale: float, eps: float, max_attempts: int | None) -> Iterator[float]:
    """Yield the jitters to try; a matrix without positive trace is beyond any."""
    yield 0.0
    step, tried = eps, 1
    while scale > 0 and (max_attempts is None or tried < max_attempts):
        yield scale * min(step, math.sqrt(eps))
        if step >= math.sqrt(eps):
            return
        step, tried = 10 * step, tried + 1


def _is_plain(A: Any) -> bool:
    """Tell whether ``A`` can be worked on where it lies."""
    if is_torch(A):
        return A.is_contiguous() or A.T.is_contiguous()
    return A.flags.writeable and (A.flags.c_contiguous or A.flags.f_contiguous)


def _copy(A: Any) -> Any:
    if is_torch(A):
        return A.clone()  # row- and column-major tensors stay what they are
    return A.copy(order="F" if A.flags.f_contiguous else "C")


# An attempt reads and writes the upper triangle only. The strictly lower triangle
# keeps the matrix, so that the next attempt needs no second buffer.


def _attempt_numpy(buffer: np.ndarray) -> tuple[int, float]:
    """Factorise in place; return (0, 0) or the failing pivot, from 1, and its value."""
    a, flipped = fortran_view(buffer)
    potrf = lapack.spotrf if buffer.dtype == np.float32 else lapack.dpotrf
    _, info = potrf(a, lower=flipped, clean=0, overwrite_a=1)
    return (info, float(buffer[info - 1, info - 1])) if info else (0, 0.0)


def _attempt_torch(buffer: Any, block: int = 2048) -> tuple[int, float]:
    """Factorise in place, one block of rows after the other.

    Torch's own routine writes the whole of its output, hence needs a second matrix;
    here it sees diagonal blocks only, and its info is read for each.
    """
    import torch

    for start in range(0, buffer.shape[0], block):
        stop = start + block
        above = buffer[:start, start:stop]
        own, right = buffer[start:stop, start:stop], buffer[start:stop, stop:]
        schur = torch.addmm(own, above.T, above, alpha=-1)
        factor, info = torch.linalg.cholesky_ex(schur, upper=True)
        if failed := int(info):
            return start + failed, _failing_pivot(schur, failed)
        own.copy_(factor.triu() + own.tril(-1))
        if right.shape[1]:
            right.addmm_(above.T, buffer[:start, stop:], alpha=-1)
            right.copy_(torch.linalg.solve_triangular(factor.T, right, upper=False))
    return 0, 0.0


def _failing_pivot(schur: Any, failed: int) -> float:
    """Recompute a pivot: what a GPU leaves behind after a failure is undefined."""
    import torch

    k = failed - 1
    factor, _ = torch.linalg.cholesky_ex(schur[:k, :k])
    row = torch.linalg.solve_triangular(factor, schur[:k, k : k + 1], upper=False)
    return float(schur[k, k] - (row * row).sum())


def _restore(buffer: Any) -> None:
    """Fill the strictly upper triangle again from the lower one."""
    xp = namespace(buffer)
    for start in range(0, buffer.shape[0], BLOCK):
        stop = start + BLOCK
        own = xp.tril(buffer[start:stop, start:stop], k=-1)
        buffer[start:stop, start:stop] = own + own.T
        buffer[start:stop, stop:] = buffer[stop:, start:stop].T


def _clear_lower(buffer: Any) -> None:
    xp = namespace(buffer)
    for start in range(0, buffer.shape[0], BLOCK):
        stop = start + BLOCK
        buffer[start:stop, start:stop] = xp.triu(buffer[start:stop, start:stop])
        buffer[stop:, start:stop] = 0


def _set_diagonal(buffer: Any, values: Any) -> None:
    if is_torch(buffer):
        buffer.diagonal().copy_(values)
    else:
        np.fill_diagonal(buffer, values)
