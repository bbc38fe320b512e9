"""Preconditioned conjugate gradient for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiercel.linalg._checks import as_float, columns, epsilon, same_kind
from tiercel.linalg._iteration import Iteration
from tiercel.linalg.solution import Outcome, Solution


def conjugate_gradient(
    operator: Callable[[Any], Any],
    B: Any,
    *,
    X0: Any = None,
    preconditioner: Callable[[Any], Any] | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    callback: Callable[[int, np.ndarray, Any], Any] | None = None,
) -> Solution:
    """Solve A X = B for a symmetric positive (semi)definite A known by its products.

    Each column has its own step lengths and stops on its own: when its relative
    residual ||b - A x|| / ||b|| is at most `tol` it is frozen. The best iterate of each
    column is kept, so that more iterations never give a worse answer. What is returned
    has been measured as b - A x, not by the recurrence, which drifts from it in
    floating point; where it has drifted the iteration is restarted from the truth.

    The directions are conjugated by the flexible formula (Golub and Ye, 1999), which
    forgives a preconditioner that is only accurate to single precision.

    Parameters
    ----------
    operator : callable
        Maps an array of the shape of `B` to A times that array, of the same shape. It
        must not change its argument, nor an array that it returned before.
    B : array or tensor, (n,) or (n, T)
        Right-hand sides, float32 or float64. Vectors are kept in this dtype, scalars
        in float64. The answer to a zero column is zero.
    X0 : array or tensor, optional
        Where to start, of the shape of `B`; zero by default.
    preconditioner : callable, optional
        Maps an array to about A^-1 times that array; symmetric positive definite. The
        same rules hold for it.
    tol : float, optional
        Relative residual at which a column is done; 1e-7 in float64 and 1e-5 in
        float32 by default.
    max_iter : int, optional
        Upper limit of the iterations; min(10 n, 1000) by default.
    callback : callable, optional
        ``callback(iteration, residuals, X)`` after each iteration, with the relative
        residual of each column and the current iterate; returning True stops.

    Returns
    -------
    Solution
        `outcome` is CONVERGED, or says what went wrong and names the remedy. Ctrl-C
        and a callback that returns True leave the best iterate (INTERRUPTED); after
        Ctrl-C its residual is that of the recurrence, so as to waste no more time.

    Examples
    --------
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> solution = conjugate_gradient(lambda X: A @ X, np.ones(3))
    >>> solution.converged, solution.iterations
    (True, 3)
    >>> solution.x.round(6)
    array([1.  , 0.5 , 0.25])
    """
    _check_callable(operator, "operator")
    if preconditioner is not None:
        _check_callable(preconditioner, "preconditioner")
    B = as_float(B, "B")
    if B.ndim not in (1, 2) or 0 in B.shape:
        raise ValueError(
            f"B must have shape (n,) or (n, T), not empty, not {tuple(B.shape)}"
        )
    B = columns(B, B.shape[0], "B")
    if X0 is not None:
        X0 = columns(X0, B.shape[0], "X0")
        same_kind("conjugate_gradient", B, X0)
        if X0.shape != B.shape:
            raise ValueError(
                f"X0 must have the shape of B, {tuple(B.shape)}, not {tuple(X0.shape)}"
            )
    if tol is None:
        tol = 1e-7 if epsilon(B) < 1e-12 else 1e-5
    if not tol > 0:
        raise ValueError(f"tol must be positive, not {tol}")
    if max_iter is None:
        max_iter = min(10 * B.shape[0], 1000)
    if max_iter < 0:
        raise ValueError(f"max_iter must not be negative, but it is {max_iter}")
    iteration = Iteration(operator, preconditioner, B, X0, tol)
    try:
        iteration.run(max_iter, callback)
    except KeyboardInterrupt:
        iteration.end(iteration.running, Outcome.INTERRUPTED)
    return iteration.solution()


def _check_callable(function: Any, name: str) -> None:
    if not callable(function):
        raise TypeError(
            f"the {name} must be a function that multiplies, not a "
            f"{type(function).__name__}; pass lambda X: A @ X for a matrix A"
        )
