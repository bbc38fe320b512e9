"""Who learns the table: one function each, timed in a process of its own.

The table is made here: 200,000 postures of a robot arm with six joints and the measured
distance of its hand from a tool, with sensor noise. Every contestant has a process of
its own, so that its peak memory can be read.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import numpy as np

ROWS, TEST_ROWS, JOINTS, NOISE = 200_000, 20_000, 6, 0.02
CENTERS, LENGTH_SCALE, PENALTY = 1_500, 2.0, 1e-8
Answer = tuple[np.ndarray, float]


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return joint angles, measured distances, and distances without noise."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-np.pi / 2, np.pi / 2, (rows, JOINTS)).astype(np.float32)
    heading = np.cumsum(angles, axis=1)
    lengths = 0.8 ** np.arange(JOINTS)
    x, y = np.cos(heading) @ lengths, np.sin(heading) @ lengths
    distance = np.hypot(x - 1.5, y - 1.0)
    noisy = distance + NOISE * rng.standard_normal(rows)
    return angles, noisy.astype(np.float32), distance


def tiercel() -> Answer:
    """Fit a Nyström model in one pass over the rows; the features are never stored."""
    from tiercel import linalg, products
    from tiercel._progress import ProgressBar
    from tiercel.kernels import Gaussian

    X, y, _ = table(ROWS, seed=0)
    X_test, _, _ = table(TEST_ROWS, seed=1)
    start = time.perf_counter()
    kernel = Gaussian(LENGTH_SCALE)
    centers = X[np.random.default_rng(0).choice(ROWS, CENTERS, replace=False)]
    offset = float(y.mean())
    G, right = products.gram(
        kernel, X, centers, targets=y - offset, callback=ProgressBar("tiercel")
    )
    G += ROWS * PENALTY * kernel(centers.astype(np.float64))
    coefficients = linalg.solve_positive(G, right).x
    prediction = products.product(kernel, X_test, centers, coefficients) + offset
    return prediction, time.perf_counter() - start


def nystroem_and_ridge() -> Answer:
    """Fit the same model with scikit-learn: the features of all rows are stored."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    X, y, _ = table(ROWS, seed=0)
    X_test, _, _ = table(TEST_ROWS, seed=1)
    start = time.perf_counter()
    model = make_pipeline(
        Nystroem(gamma=0.5 / LENGTH_SCALE**2, n_components=CENTERS, random_state=0),
        Ridge(alpha=ROWS * PENALTY),
    )
    prediction = model.fit(X, y).predict(X_test)
    return prediction, time.perf_counter() - start


def boosted_trees() -> Answer:
    """Fit scikit-learn's gradient boosting with its defaults."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y, _ = table(ROWS, seed=0)
    X_test, _, _ = table(TEST_ROWS, seed=1)
    start = time.perf_counter()
    prediction = HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(X_test)
    return prediction, time.perf_counter() - start


CONTESTANTS: dict[str, Callable[[], Answer]] = {
    "Tiercel, Nyström": tiercel,
    "scikit-learn, Nystroem + Ridge": nystroem_and_ridge,
    "scikit-learn, HistGradientBoosting": boosted_trees,
}


def measure(name: str) -> dict[str, float]:
    """Run one contestant; return its error, its seconds and its peak memory."""
    prediction, seconds = CONTESTANTS[name]()
    _, _, exact = table(TEST_ROWS, seed=1)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    error = float(np.sqrt(np.mean((prediction - exact) ** 2)))
    return {"error": error, "seconds": seconds, "gigabytes": peak / 1e9}
