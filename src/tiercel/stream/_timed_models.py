"""Models of several sizes, and what a call of each takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone

from tiercel.features import FourierFeatures
from tiercel.stream.recursive_ridge import RecursiveRidge
from tiercel.stream.sparse_spectrum_gp import SparseSpectrumGP

WARM = 20  # calls that are not counted: they compile and fill the caches
ROUNDS = 10  # so that a busy spell of the machine hits every size


def maker(model: Any) -> Callable[[int], Any]:
    """Return what makes a model like this one from a number of features."""
    if model is None:
        model = RecursiveRidge(FourierFeatures(random_state=0))
    if isinstance(model, SparseSpectrumGP):
        model = clone(model)
        if model.noise is None:  # nothing is tuned: it would not change the time
            model.set_params(noise=0.1, signal=1.0, length_scale=1.0)
        return lambda size: clone(model).set_params(n_frequencies=size // 2)
    features = getattr(model, "features", None)
    if isinstance(model, type) or not isinstance(features, FourierFeatures):
        raise TypeError(
            "the number of features must be free: pass a SparseSpectrumGP(), a model "
            "with features=FourierFeatures(), or a function from a number of features "
            f"to a model, not {model!r}"
        )
    waves = 2 if features.map == "sincos" else 1
    return lambda size: clone(model).set_params(features__n_frequencies=size // waves)


def outputs_of(model: Any) -> int:
    """Return the outputs or classes that a fitted model has, else the least that do."""
    if isinstance(model, ClassifierMixin):
        return max(len(getattr(model, "classes_", ())), 2)
    return getattr(model, "n_outputs_", 1)


def measure(
    models: list[Any],
    n_inputs: int,
    n_outputs: int,
    samples: int,
    clock: Callable[[], float],
) -> np.ndarray:
    """Return the seconds (K, samples) of each call, measured in turns."""
    rng = np.random.default_rng(0)
    X = list(rng.standard_normal((samples, n_inputs)))
    Y: list[Any] = list(rng.standard_normal((samples, n_outputs)))
    if isinstance(models[0], ClassifierMixin):
        Y = [i % n_outputs for i in range(samples)]
    elif n_outputs == 1:
        Y = [float(y[0]) for y in Y]
    for model in models:
        for x, y in zip(X[:WARM], Y[:WARM], strict=True):
            model.predict_update(x, y)
    seconds = np.empty((len(models), samples))
    for turn in range(ROUNDS):
        rows = range(turn * samples // ROUNDS, (turn + 1) * samples // ROUNDS)
        for model, taken in zip(models, seconds, strict=True):
            for i in rows:
                x, y = X[i], Y[i]
                start = clock()
                model.predict_update(x, y)
                taken[i] = clock() - start
    return seconds


def array_bytes(thing: Any) -> int:
    """Return the bytes of all arrays that a model holds, each counted once.

    Examples
    --------
    >>> array_bytes({"a": np.zeros(3), "b": [np.zeros((2, 2))]})
    56
    """
    found: dict[int, int] = {}

    def collect(part: Any) -> None:
        if isinstance(part, np.ndarray):
            found[id(part)] = part.nbytes
        elif isinstance(part, dict):
            for value in part.values():
                collect(value)
        elif isinstance(part, (list, tuple)):
            for value in part:
                collect(value)
        elif type(part).__module__.startswith("tiercel.") and hasattr(part, "__dict__"):
            collect(vars(part))

    collect(thing)
    return sum(found.values())
