"""Solve a positive definite system so that no jitter is left in the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tiercel._arrays import namespace, to_numpy
from tiercel.linalg._checks import BLOCK, columns, same_kind, symmetric
from tiercel.linalg._columns import nonzero, safe_norms, wide
from tiercel.linalg.cholesky import CholeskyFactor, cholesky
from tiercel.linalg.conjugate_gradient import conjugate_gradient
from tiercel.linalg.solution import Outcome, Solution

EPS = float(np.finfo(np.float64).eps)
FIT = 1e-3  # a larger relative residual is no answer, at rounding level or not


def solve_positive(
    A: Any,
    B: Any,
    *,
    tol: float | None = None,
    factor: CholeskyFactor | None = None,
    max_iter: int = 200,
) -> Solution:
    """Solve A X = B for the A that was given, not for A + jitter I.

    The factor, jitter and rounding included, serves as the preconditioner of a
    conjugate gradient in float64 against `A` itself, whatever the dtype of `A`. It
    takes a few steps, and some more where jitter was needed.

    Parameters
    ----------
    A : array or tensor (m, m)
        Symmetric positive (semi)definite, both triangles filled.
    B : array or tensor, (m,) or (m, T)
        Right-hand sides. The answer comes back in their dtype: pass float64 to keep
        all digits even when `A` is float32.
    tol : float, optional
        Relative residual that suffices. By default the iteration goes on to rounding
        level: ||b - A x|| within 10 eps (||A||_F ||x|| + ||b||), with eps of float64,
        as long as that is below 0.001 ||b||.
    factor : CholeskyFactor, optional
        Factor of `A` made before (with any jitter, in any precision); otherwise
        ``cholesky(A)`` is made, one m x m buffer.
    max_iter : int
        Upper limit of the iterations.

    Returns
    -------
    Solution
        Its residuals are those of the float64 solution; its message names the jitter.

    Examples
    --------
    >>> A = np.diag([1.0, 1e-9]) + 1.0
    >>> x = np.array([3.0, -2.0])
    >>> solution = solve_positive(A, A @ x)
    >>> bool(np.allclose(solution.x, x, rtol=1e-5)), solution.converged
    (True, True)
    """
    A = symmetric(A, "A")
    B = columns(B, A.shape[0], "B")
    same_kind("solve_positive", A, B)
    if tol is not None and not tol > 0:
        raise ValueError(f"tol must be positive, not {tol}")
    if factor is None:
        factor = cholesky(A)
    same_kind("solve_positive", A, factor.R)
    if factor.R.shape != A.shape:
        raise ValueError(
            f"factor is {tuple(factor.R.shape)} and A is {tuple(A.shape)}; "
            "pass the factor of this A, or none"
        )
    inverse = _inverse(factor)
    solution = conjugate_gradient(
        lambda X: _product(A, X),
        wide(B),
        X0=inverse(wide(B)),
        preconditioner=inverse,
        tol=4 * EPS if tol is None else tol,
        max_iter=max_iter,
    )
    outcome, message = _verdict(A, B, solution, tol)
    return replace(
        solution,
        x=namespace(B).astype(solution.x, B.dtype, copy=False),
        outcome=outcome,
        message=f"{message} (preconditioner: factor with jitter {factor.jitter:.3g})",
    )


def _inverse(factor: CholeskyFactor) -> Callable[[Any], Any]:
    """Return the map of float64 columns to (R'R)^-1 times them.

    The columns are scaled to the size of R on their way through its dtype: those of
    late residuals, or of a matrix of size 1e30, would underflow in float32.
    """
    xp = namespace(factor.R)
    size = wide(xp.max(xp.linalg.diagonal(factor.R)))

    def apply(V: Any) -> Any:
        shrink = size / nonzero(safe_norms(V))
        return wide(factor.solve(V * shrink, check=False)) / shrink

    return apply


def _product(A: Any, X: Any) -> Any:
    """Return A X in float64; rows of a float32 ``A`` are widened block by block."""
    return namespace(A).concat([wide(rows) @ X for rows in _row_blocks(A)])


def _row_blocks(A: Any) -> list[Any]:
    step = A.shape[0] if A.dtype == namespace(A).float64 else BLOCK
    return [A[start : start + step] for start in range(0, A.shape[0], step)]


def _verdict(A: Any, B: Any, solution: Solution, tol: float | None) -> Any:
    """Return the outcome and message, knowing that ``A`` is positive but for jitter."""
    if solution.converged:
        return solution.outcome, solution.message
    worst = solution.residuals.max()
    figures = (
        f"iterations: {solution.iterations}; largest relative residual: {worst:.3g}"
    )
    if tol is None and worst <= FIT and _at_rounding_level(A, B, solution):
        return Outcome.CONVERGED, f"every column is at rounding level ({figures})"
    if solution.outcome in (Outcome.INDEFINITE, Outcome.STAGNATED):
        return Outcome.STAGNATED, (
            "A is singular to working precision and B is not in its range: raise the "
            f"penalty, drop duplicate centres, or make A in float64 ({figures})"
        )
    return solution.outcome, solution.message


def _at_rounding_level(A: Any, B: Any, solution: Solution) -> bool:
    """Tell whether float64 products with ``A`` cannot resolve what is left.

    A residual cannot be computed to better than about eps ||A|| ||x||, however small
    ||b|| is; the Frobenius norm bounds ||A|| at the price of one pass.
    """
    xp = namespace(A)
    rows = xp.concat([safe_norms(block.T) for block in _row_blocks(A)])
    x, b = (safe_norms(xp.reshape(V, (V.shape[0], -1))) for V in (solution.x, B))
    level = 10 * EPS * (float(safe_norms(rows)) * (x / nonzero(b)) + 1)
    return bool(np.all(solution.residuals <= to_numpy(level)))
