"""Search for hyperparameters: where it begins, how far it may go, and the descent.

Parameters are one vector: the logarithms of noise and signal, those of the length
scales, one per input, and then, where they are searched too, the directions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiercel.stream._evidence import Evidence

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Objective = Callable[[np.ndarray], Evidence]

# Lower bound, start and upper bound of a search, in standard deviations of the outputs
# (noise, signal) and in ranges of the input (length scale).
NOISE = (1e-4, 0.25, 1e1)
SIGNAL = (1e-2, 1.0, 1e3)
LENGTH_SCALE = (1e-3, 2.0, 1e4)

# Length scales far above the true ones leave all variation to the noise, and that is
# an optimum which a descent does not leave: so shorter ones are looked at first.
SHORTER = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)

FIRST_STEP = 0.3  # how far the logarithms may move before anything is known


def search_box(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return lower bound, start and upper bound of the logarithms, (3, 2 + n).

    Inputs that do not vary have the length scale 1 and keep it.
    """
    spread = np.sqrt(np.mean(np.var(Y, axis=0)))
    fixed = is_constant(X)
    extent = np.where(fixed, 1.0, np.ptp(X, axis=0))
    box = np.transpose([NOISE, SIGNAL, *[LENGTH_SCALE] * X.shape[1]])
    box *= np.concatenate([[spread, spread], extent])
    box[:, 2:][:, fixed] = 1.0
    return np.log(box)


def search(
    evidence: Objective,
    first: np.ndarray,
    box: np.ndarray,
    restarts: int,
    max_iter: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Descend from ``first`` and from moved starts; return the best and a report.

    Starts outside the box are brought to its border; directions have no bounds.
    """
    n_scales = box.shape[1]
    free = np.full(len(first) - n_scales, np.inf)
    low, high = np.append(box[0], -free), np.append(box[2], free)
    results = [
        _descend(evidence, np.clip(start, low, high), low, high, max_iter)
        for start in moved(first, n_scales, restarts, rng)
    ]
    best = min(results, key=lambda result: result.fun)
    return best.x, {
        "evidence": float(best.fun),
        "evaluations": sum(result.nfev for result in results),
        "converged": bool(best.success),
        "message": str(best.message),
    }


def _descend(
    evidence: Objective,
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    max_iter: int,
) -> OptimizeResult:
    """Run L-BFGS-B on the evidence times a factor that keeps the first step short.

    Where every parameter has bounds, its first step is the gradient itself: far enough
    to end in a corner of the box, with noise alone.
    """
    from scipy.optimize import minimize

    _, gradient = evidence(start)
    factor = FIRST_STEP / max(FIRST_STEP, float(np.linalg.norm(gradient)))

    def scaled(theta: np.ndarray) -> Evidence:
        value, gradient = evidence(theta)
        return factor * value, factor * gradient

    result = minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=np.transpose([low, high]),
        options={"maxiter": max_iter, "gtol": 1e-6},
    )
    result.fun /= factor
    result.nfev += 1
    return result


def shortened(evidence: Objective, first: np.ndarray, n_inputs: int) -> np.ndarray:
    """Return ``first`` with all length scales shortened by what lowers the evidence."""
    candidates = np.repeat(first[None], len(SHORTER), axis=0)
    candidates[:, 2 : 2 + n_inputs] += np.log(SHORTER)[:, None]
    return min(candidates, key=lambda theta: evidence(theta)[0])


def moved(
    first: np.ndarray, n_scales: int, restarts: int, rng: np.random.Generator
) -> np.ndarray:
    """Return one start per row: the first as it is, the others moved at random.

    Logarithms are moved by standard normal numbers; directions are drawn anew.
    """
    starts = rng.standard_normal((restarts, len(first)))
    starts[:, :n_scales] += first[:n_scales]
    starts[0] = first
    return starts


def warn_of_noise(evidence: float, Y: np.ndarray, n_inputs: int) -> None:
    """Warn where the fit is hardly better than the one without a function.

    Each parameter must lower the evidence by 1 to be worth it (Akaike 1974).
    """
    variance = np.mean(np.var(Y, axis=0))
    without = 0.5 * Y.size * (np.log(2.0 * np.pi * variance) + 1.0)
    if evidence > without - (2 + n_inputs):
        warnings.warn(
            "the search took all variation of Y for noise: either X says nothing about "
            "Y, or it was caught in a local optimum; try restarts=5, or another start",
            UserWarning,
            stacklevel=3,
        )


def centre(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means, and the columns that vary without theirs.

    The other columns have nothing to say about scales.
    """
    constant = is_constant(Y)
    if constant.all():
        raise ValueError("Y does not vary in the samples used: there is nothing to fit")
    offset = Y.mean(axis=0)
    return offset, (Y - offset)[:, ~constant]


def is_constant(A: np.ndarray) -> np.ndarray:
    """Tell which columns vary by no more than rounding."""
    rounding = 16.0 * np.finfo(np.float64).eps * np.max(np.abs(A), axis=0)
    return np.ptp(A, axis=0) <= rounding
