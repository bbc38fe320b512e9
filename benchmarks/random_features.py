"""Random features in place of the kernel: how near, and how fast to predict."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.reproduction import Reproduction, mean_std
from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import RecursiveRidge

ROWS, TEST_ROWS, INPUTS, OUTPUTS = 1_500, 500, 21, 7
COUNTS = (125, 250, 500, 1_000, 2_000)
KERNEL = Gaussian(6.0)


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, seven outputs with noise, and inputs to predict."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS + TEST_ROWS, INPUTS))
    Y = np.sin(X[:ROWS] @ rng.standard_normal((INPUTS, OUTPUTS)) / 3.0)
    return X[:ROWS], Y + 0.1 * rng.standard_normal(Y.shape), X[ROWS:]


def measure(ridge: float) -> list[dict[str, Any]]:
    X, Y, X_test = problem()
    dual = np.linalg.solve(KERNEL(X) + ridge * np.eye(ROWS), Y)
    exact = KERNEL(X_test, X) @ dual
    rows: list[dict[str, Any]] = []
    distances = []
    for count in COUNTS:
        errors, models = [], []
        for seed in range(10):
            features = FourierFeatures(KERNEL, count, map="phase", random_state=seed)
            model = RecursiveRidge(features, ridge=ridge, fit_intercept=False)
            found = model.fit(X, Y).predict(X_test)
            errors.append(np.sqrt(((found - exact) ** 2).mean()))
            models.append(model)
        distances.append(np.mean(errors))
        rows.append(
            {
                "features": count,
                "distance from the kernel": mean_std(errors),
                "µs to predict 7 outputs": _microseconds(models[0], X_test),
                "printed": {500: "about 80 µs", 2_000: "about 200 µs"}.get(count),
            }
        )
    slope = np.polyfit(np.log(COUNTS), np.log(distances), 1)[0]
    rows[-1]["slope, log-log"] = float(slope)
    return rows


def _microseconds(model: RecursiveRidge, X: np.ndarray) -> float:
    """Return the median time of one frozen prediction, one row at a time."""
    frozen, seconds = model.freeze(), []
    with threadpool_limits(1):
        for x in np.tile(X, (4, 1)):
            start = time.perf_counter()
            frozen.predict_one(x)
            seconds.append(time.perf_counter() - start)
    return 1e6 * float(np.median(seconds))


BENCHMARK = Reproduction(
    title="Random features instead of the kernel",
    sentence=(
        "Ridge regression on phase features against kernel ridge regression with the "
        f"same Gaussian and the same ridge, {ROWS:,} rows, {INPUTS} inputs, {OUTPUTS} "
        "outputs: root mean square distance of the predictions on new points, over 10 "
        "draws. It falls as one over the root of the number of features: slope -1/2 "
        "(Gijsberts 2011, section 4.4), once they outnumber the directions that the "
        "ridge leaves to the kernel; a ridge of 0.1 leaves many. The times printed "
        "there (section 5.2, Fig. 5.6) are for one prediction of the seven torques of "
        "an arm."
    ),
    cases=[{"ridge": 3.0}, {"ridge": 0.1}],
    measure=measure,
)
