"""One sample of a linear stream, beside River and beside the bare BLAS step."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, dsyr
from threadpoolctl import threadpool_limits

from benchmarks.harness import Benchmark, Contestant, Latencies
from tiercel.stream.recursive_ridge import RecursiveRidge

BEFORE = 500  # samples that are learned before the clock is looked at
CALLS, SLOW_CALLS = 3000, 300  # of numpy arrays, of dicts
CHECKED = 20  # predictions that are compared
OUTPUTS = 7
RIDGE = 1.0  # River's prior and noise, where both are 1


@dataclass
class Data:
    X: np.ndarray
    Y: np.ndarray

    @property
    def y(self) -> np.ndarray:
        return self.Y[:, 0]

    @property
    def dicts(self) -> list[dict[int, float]]:
        """The first samples, as River takes them."""
        rows = self.X[: BEFORE + SLOW_CALLS].tolist()
        return [dict(enumerate(row)) for row in rows]


def prepare(features: int) -> Data:
    random = np.random.default_rng(0)
    X = random.standard_normal((BEFORE + CALLS, features))
    W = random.standard_normal((features, OUTPUTS)) / features**0.5
    return Data(X, X @ W + 0.1 * random.standard_normal((len(X), OUTPUTS)))


def reference(data: Data) -> np.ndarray:
    """Each sample's prediction from all before it, by a dense solve of its own."""
    found = np.empty(CHECKED)
    for t, x in enumerate(data.X[BEFORE : BEFORE + CHECKED]):
        X, y = data.X[: BEFORE + t], data.y[: BEFORE + t]
        found[t] = x @ np.linalg.solve(X.T @ X + RIDGE * np.eye(len(x)), X.T @ y)
    return found


@dataclass
class Ready:
    """A model that knows the first samples, and those that come now."""

    model: Any
    samples: Any  # rows of an array, or dicts
    targets: Any


def follow(ready: Ready, step: Callable[[Any, Any, Any], Any]) -> Latencies:
    """Time ``step`` by itself for each sample, on a copy of the model: same answers.

    All is single-threaded: numpy and SciPy have a BLAS each, and both are told.
    """
    model, clock = copy.deepcopy(ready.model), time.perf_counter
    seconds, answers = np.empty(len(ready.samples)), []
    with threadpool_limits(1):
        for t, (x, y) in enumerate(zip(ready.samples, ready.targets, strict=True)):
            start = clock()
            answer = step(model, x, y)
            seconds[t] = clock() - start
            if t < CHECKED:
                answers.append(np.ravel(answer)[0])
    return Latencies(seconds, np.array(answers))


def ridge(X: np.ndarray, targets: np.ndarray) -> Ready:
    model = RecursiveRidge(ridge=RIDGE, fit_intercept=False)
    for x, y in zip(X[:BEFORE], targets[:BEFORE], strict=True):
        model.learn_one(x, y)
    return Ready(model, X[BEFORE:], targets[BEFORE:])


def predict_update(ready: Ready) -> Latencies:
    return follow(ready, lambda model, x, y: model.predict_update(x, y))


def of_river(model: Any, data: Data) -> Ready:
    samples, targets = data.dicts, data.y[: BEFORE + SLOW_CALLS].tolist()
    for x, y in zip(samples[:BEFORE], targets[:BEFORE], strict=True):
        model.learn_one(x, y)
    return Ready(model, samples[BEFORE:], targets[BEFORE:])


def bayesian_regression(data: Data) -> Ready:
    from river.linear_model import BayesianLinearRegression

    return of_river(BayesianLinearRegression(alpha=1, beta=1), data)


def adapter(data: Data) -> Ready:
    from tiercel.stream.river import Regressor

    model = RecursiveRidge(ridge=RIDGE, fit_intercept=False)
    return of_river(Regressor(model), data)


def predict_and_learn(ready: Ready) -> Latencies:
    def step(model: Any, x: dict[int, float], y: float) -> float:
        found = model.predict_one(x)
        model.learn_one(x, y)
        return found

    return follow(ready, step)


@dataclass
class Moments:
    """(X'X + ridge)^-1 and the weights, after the first samples."""

    inverse: np.ndarray
    weights: np.ndarray
    samples: np.ndarray
    targets: np.ndarray


def moments(data: Data) -> Moments:
    X, y = data.X[:BEFORE], data.y[:BEFORE]
    inverse = np.linalg.inv(X.T @ X + RIDGE * np.eye(X.shape[1]))
    inverse = np.asfortranarray(inverse)
    return Moments(inverse, inverse @ (X.T @ y), data.X[BEFORE:], data.y[BEFORE:])


def blas_alone(given: Moments) -> Latencies:
    """The two BLAS calls of the Sherman-Morrison update, in place, and nothing else.

    What turns them into a recursion, and their answers into predictions, is done while
    the clock stands.
    """
    inverse, weights = given.inverse.copy(order="F"), given.weights.copy()
    seconds, answers, clock = np.empty(len(given.samples)), [], time.perf_counter
    gain = np.empty(len(weights))
    with threadpool_limits(1):
        for t, (x, y) in enumerate(zip(given.samples, given.targets, strict=True)):
            start = clock()
            dsymv(1.0, inverse, x, y=gain, overwrite_y=1, lower=1)
            first = clock() - start
            answers.append(x @ weights)
            share = 1.0 / (1.0 + x @ gain)
            weights += share * (y - answers[-1]) * gain
            start = clock()
            dsyr(-share, gain, a=inverse, overwrite_a=1, lower=1)
            seconds[t] = first + clock() - start
    return Latencies(seconds, np.array(answers[:CHECKED]))


BENCHMARK = Benchmark(
    title="One sample: predict, then learn",
    sentence=(
        "`RecursiveRidge.predict_update` of a sample with so many features, no feature "
        "map and no intercept, one thread: Tiercel with one output and with "
        f"{OUTPUTS}, the same model through the adapter for River and River's own "
        "`BayesianLinearRegression` (both predict and then learn a dict), and what "
        "SciPy's BLAS takes for the product (symv) and the update (syr) of a symmetric "
        f"matrix of that size alone. All have learned {BEFORE} samples before."
    ),
    cases=[{"features": features} for features in (50, 100, 200, 400, 500, 1000)],
    prepare=prepare,
    contestants={
        "tiercel": Contestant(predict_update, lambda data: ridge(data.X, data.y)),
        f"tiercel, {OUTPUTS} outputs": Contestant(
            predict_update, lambda data: ridge(data.X, data.Y)
        ),
        "symv and syr alone": Contestant(blas_alone, moments),
        "tiercel as a River model": Contestant(
            predict_and_learn, adapter, needs=("river",)
        ),
        "River, BayesianLinearRegression": Contestant(
            predict_and_learn, bayesian_regression, needs=("river",)
        ),
    },
    baseline="tiercel",
    reference=reference,
    tolerance=1e-9,
)
