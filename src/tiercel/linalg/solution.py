"""What an iterative solver hands back: the answer, how good it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np


class Outcome(Enum):
    """How an iterative solver ended; the value says what happened and the remedy.

    Examples
    --------
    >>> Outcome.MAX_ITERATIONS.value.split(":")[0]
    'the iterations ran out'
    """

    CONVERGED = "every column reached the tolerance"
    MAX_ITERATIONS = (
        "the iterations ran out: raise max_iter, improve the preconditioner "
        "(more centres, a larger penalty), or accept a larger tol"
    )
    STAGNATED = (
        "the residual stopped falling, at rounding level or because the system is "
        "singular: work in float64, raise the penalty, improve the preconditioner, "
        "or accept a larger tol"
    )
    INDEFINITE = (
        "the operator or the preconditioner is not positive definite: raise the "
        "penalty, work in float64, and check that both are symmetric"
    )
    DIVERGED = (
        "a value was no longer finite: work in float64, and check that the operator "
        "and the preconditioner return finite values"
    )
    INTERRUPTED = (
        "the iteration was stopped from outside; x is the best iterate so far: "
        "pass it as X0 to go on"
    )


# When columns end differently, the solution bears the gravest of their outcomes.
GRAVITY = (
    Outcome.CONVERGED,
    Outcome.MAX_ITERATIONS,
    Outcome.STAGNATED,
    Outcome.INDEFINITE,
    Outcome.DIVERGED,
    Outcome.INTERRUPTED,
)


@dataclass(frozen=True)
class Solution:
    """The answer of an iterative solver.

    Attributes
    ----------
    x : array or tensor, (n,) or (n, T)
        The best iterate of each column.
    outcome : Outcome
        How the iteration ended; with several columns, the gravest outcome of any.
    iterations : int
        Steps taken.
    residuals : ndarray (T,)
        Relative residual ||b - A x|| / ||b|| of each column of `x` (0 where b = 0).
    history : ndarray (iterations + 1, T)
        Relative residual of each column at the start and after each step.
    message : str
        What happened, in figures, and the remedy.

    Examples
    --------
    >>> one = np.ones(1)
    >>> Solution(one, Outcome.CONVERGED, 0, 0 * one, one[None], "done").converged
    True
    """

    x: Any
    outcome: Outcome
    iterations: int
    residuals: np.ndarray
    history: np.ndarray
    message: str

    @property
    def converged(self) -> bool:
        """Whether every column reached the tolerance."""
        return self.outcome is Outcome.CONVERGED
