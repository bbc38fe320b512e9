"""Solve a positive definite system so that no jitter is left in the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tiercel._arrays import namespace, to_numpy
from tiercel.linalg._checks import BLOCK, columns, same_kind, symmetric
from tiercel.linalg.cholesky import CholeskyFactor, cholesky
from tiercel.linalg.conjugate_gradient import conjugate_gradient
from tiercel.linalg.solution import Outcome, Solution

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
    takes a step or two where no jitter was needed and a few more where it was.

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
    xp = namespace(A, B)
    solution = conjugate_gradient(
        lambda X: _product(A, X),
        xp.astype(B, xp.float64),
        X0=xp.astype(factor.solve(B), xp.float64),
        preconditioner=lambda X: factor.solve(X, check=False),
        tol=4 * np.finfo(np.float64).eps if tol is None else tol,
        max_iter=max_iter,
    )
    outcome, message = _verdict(A, B, solution, tol)
    return replace(
        solution,
        x=xp.astype(solution.x, B.dtype, copy=False),
        outcome=outcome,
        message=f"{message} (preconditioner: factor with jitter {factor.jitter:.3g})",
    )


def _verdict(A: Any, B: Any, solution: Solution, tol: float | None) -> Any:
    """Return the outcome and message, knowing that ``A`` is positive but for jitter."""
    if solution.converged:
        return solution.outcome, solution.message
    worst = solution.residuals.max()
    if tol is None and worst <= FIT and _at_rounding_level(A, B, solution):
        figures = f"{solution.iterations} iterations, largest relative residual"
        return (
            Outcome.CONVERGED,
            f"every column is at rounding level after {figures} {worst:.3g}",
        )
    if solution.outcome is Outcome.INDEFINITE:
        return Outcome.STAGNATED, (
            "A is singular to working precision and B is not in its range, largest "
            f"relative residual {worst:.3g}: raise the penalty, drop duplicate "
            "centres, or make A in float64"
        )
    return solution.outcome, solution.message


def _product(A: Any, X: Any) -> Any:
    """Return A X in float64; rows of a float32 ``A`` are widened block by block."""
    xp = namespace(A, X)
    if A.dtype == xp.float64:
        return A @ X
    return xp.concat([xp.astype(rows, xp.float64) @ X for rows in _row_blocks(A)])


def _row_blocks(A: Any) -> list[Any]:
    return [A[start : start + BLOCK] for start in range(0, A.shape[0], BLOCK)]


def _at_rounding_level(A: Any, B: Any, solution: Solution) -> bool:
    """Tell whether float64 products with ``A`` cannot resolve what is left.

    A residual cannot be computed to better than about eps ||A|| ||x||, however small
    ||b|| is; the Frobenius norm bounds ||A|| at the price of one pass.
    """
    xp = namespace(A, B)
    blocks = [xp.linalg.vector_norm(rows) for rows in _row_blocks(A)]
    size = float(xp.linalg.vector_norm(xp.stack(blocks)))
    x, b = (
        to_numpy(xp.linalg.vector_norm(xp.astype(V, xp.float64), axis=0)).reshape(-1)
        for V in (solution.x, B)
    )
    level = 10 * np.finfo(np.float64).eps * (size * x + b)
    return bool(np.all(solution.residuals * b <= level))
