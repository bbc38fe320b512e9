"""Sample number 1,000 and sample number 100,000: the same time, the same memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.reproduction import Reproduction
from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import (
    LocallyWeightedProjection,
    RecursiveRidge,
    SparseSpectrumGP,
)

SAMPLES, TIMED, INPUTS = 100_000, 5_000, 8


def models() -> dict[str, Any]:
    def ridge(features: int, **options: Any) -> RecursiveRidge:
        waves = FourierFeatures(Gaussian(2.0), features // 2, random_state=0)
        return RecursiveRidge(waves, ridge=0.1, fit_intercept=False, **options)

    return {
        "RecursiveRidge, 100 features": ridge(100),
        "RecursiveRidge, 400 features": ridge(400),
        "RecursiveRidge, 100 features, forgetting 0.999": ridge(100, forgetting=0.999),
        "RecursiveRidge, 100 features, window 1,000": ridge(100, window=1_000),
        "SparseSpectrumGP, 100 frequencies": SparseSpectrumGP(
            100, noise=0.1, signal=1.0, length_scale=2.0, random_state=0
        ),
        "LocallyWeightedProjection": LocallyWeightedProjection(),
    }


def stream() -> tuple[np.ndarray, list[float]]:
    """Return a random walk in a box, and what it sees, with noise."""
    rng = np.random.default_rng(0)
    steps = 0.1 * rng.standard_normal((SAMPLES, INPUTS))
    X = 3.0 * np.sin(np.cumsum(steps, axis=0))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(SAMPLES)
    return X, y.tolist()


def held(state: Any) -> int:
    """Return the bytes of all arrays in a state."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    parts = state.values() if isinstance(state, dict) else state
    if isinstance(state, (dict, list, tuple)):
        return sum(map(held, parts))
    return held(vars(state)) if type(state).__module__.startswith("tiercel") else 0


def measure(model: str) -> dict[str, Any]:
    X, y = stream()
    learner = models()[model].warm_up()
    windows: dict[str, list[float]] = {"early": [], "late": []}
    sizes = {}
    with threadpool_limits(1):
        for t in range(SAMPLES):
            start = time.perf_counter()
            learner.predict_update(X[t], y[t])
            seconds = time.perf_counter() - start
            if 1_000 <= t < 1_000 + TIMED:
                windows["early"].append(1e6 * seconds)
            elif t >= SAMPLES - TIMED:
                windows["late"].append(1e6 * seconds)
            if t in (2_000, SAMPLES - 1):
                sizes[t] = held(learner._saved_state())
    early, late = (np.array(windows[name]) for name in ("early", "late"))
    return {
        "median µs from sample 1,000": np.median(early),
        "from 95,000": np.median(late),
        "99th percentile from 1,000": np.percentile(early, 99),
        "99th from 95,000": np.percentile(late, 99),
        "bytes at 2,000": sizes[2_000],
        "bytes at 100,000": sizes[SAMPLES - 1],
    }


BENCHMARK = Reproduction(
    title="Time and memory along a stream",
    sentence=(
        f"`predict_update` on {SAMPLES:,} samples of {INPUTS} inputs, single-threaded: "
        f"microseconds per sample over {TIMED:,} samples near the start and at the "
        "end, and the bytes of all arrays of its state."
    ),
    cases=[{"model": name} for name in models()],
    measure=measure,
)
