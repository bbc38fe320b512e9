"""Every estimator of the library comes back, and learns on as if nothing had been."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest

import tiercel
from tiercel.features import FourierFeatures
from tiercel.io import load, save
from tiercel.stream import (
    ChangeDetector,
    IncrementalClassifier,
    LocallyWeightedProjection,
    RecursiveRidge,
    SparseSpectrumGP,
)

ROOMS = [m.name for m in pkgutil.iter_modules(tiercel.__path__) if m.name[0] != "_"]


def offered():
    """Return the public classes that can be made without arguments and saved."""
    for room in ROOMS:
        front = import_module(f"tiercel.{room}")
        for name in getattr(front, "__all__", ()):
            cls = getattr(front, name)
            if isinstance(cls, type) and hasattr(cls, "get_params"):
                parameters = inspect.signature(cls).parameters.values()
                if all(p.default is not p.empty for p in parameters):
                    yield cls


@pytest.mark.parametrize("cls", list(offered()), ids=lambda cls: cls.__name__)
def test_an_unfitted_object_keeps_its_parameters(cls, tmp_path):
    save(cls(), tmp_path / "m")
    found = load(tmp_path / "m")
    assert type(found) is cls
    assert found.get_params(deep=False) == cls().get_params(deep=False)


def stream():
    X = np.random.default_rng(0).standard_normal((60, 3))
    return X, np.sin(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize(
    "learner",
    [
        RecursiveRidge(forgetting=0.99),
        RecursiveRidge(FourierFeatures(n_frequencies=10, random_state=0)),
        SparseSpectrumGP(n_frequencies=10, random_state=0),
        IncrementalClassifier(),
        LocallyWeightedProjection(),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_a_stream_that_was_interrupted_ends_in_the_same_file(learner, tmp_path):
    X, y = stream()
    if isinstance(learner, IncrementalClassifier):
        y = np.where(y > 1, "high", np.where(y < -1, "low", "middle"))
    save(learner.partial_fit(X[:30], y[:30]), tmp_path / "half")
    resumed = load(tmp_path / "half").partial_fit(X[30:], y[30:])
    save(resumed, tmp_path / "resumed")
    save(learner.partial_fit(X[30:], y[30:]), tmp_path / "whole")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
    np.testing.assert_array_equal(resumed.predict(X), learner.predict(X))


def test_a_detector_that_was_interrupted_raises_the_same_alarms(tmp_path):
    residuals = np.random.default_rng(0).standard_normal(60)
    residuals[40:] += 3
    detector = ChangeDetector(large_shift=3.0)
    detector.run(residuals[:35])
    save(detector, tmp_path / "m")
    found = load(tmp_path / "m")
    alarms = detector.run(residuals[35:])
    np.testing.assert_array_equal(found.run(residuals[35:]), alarms)
    assert alarms[-1]
    assert not alarms[0]


def test_a_frozen_predictor_predicts_as_before(tmp_path):
    X, y = stream()
    frozen = RecursiveRidge().partial_fit(X, y).freeze()
    save(frozen, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(X), frozen.predict(X))
