"""Persistence and the nearest neighbour, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from contestants import (
    RunningMean,
    RunningMeanAnyhow,
    nearest,
    stream,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel.stream._prequential import tally
from tiercel.stream._prequential.baselines import NearestNeighbour, Spread
from tiercel.stream.evaluation import prequential


def test_persistence_on_a_random_walk_errs_by_its_steps():
    steps = np.random.default_rng(1).standard_normal((900, 2))
    walk = np.cumsum(steps, axis=0)
    report = prequential(RunningMean(), np.zeros((900, 1)), walk)
    persistence = report.baselines["persistence"]
    # There is nothing to persist at the first sample, so 899 errors count.
    expected = (steps[1:] ** 2).mean(axis=0)
    np.testing.assert_allclose(persistence.mse, expected, rtol=1e-12)
    np.testing.assert_allclose(
        persistence.nmse, expected / walk.var(axis=0), rtol=1e-12
    )


@given(
    seed=st.integers(0, 1000),
    n=st.integers(2, 60),
    memory=st.integers(1, 70),
    block=st.sampled_from([1, 5, 256]),
)
@settings(max_examples=30)
def test_the_nearest_neighbour_is_that_of_brute_force(seed, n, memory, block):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 100.0, 0.01] + [0.0, 50.0, 3.0]
    X[:, 2] = 0.1 if seed % 2 else X[:, 2]  # an input that never varies
    Y = rng.standard_normal((n, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "BLOCK", block)
        report = prequential(RunningMean(), X, Y, neighbours=memory)
    expected = ((nearest(X, Y, memory) - Y)[1:] ** 2).mean(axis=0)
    np.testing.assert_allclose(
        report.baselines["nearest_neighbour"].mse, expected, rtol=1e-9
    )


def test_of_equal_neighbours_the_latest_is_taken():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((5, 4))[rng.integers(0, 5, 400)]
    Y = np.arange(400.0)[:, None]
    guesses, answered = NearestNeighbour(400, 4, 1).predict_update(X, Y)
    for t in range(20, 400):
        same = np.flatnonzero((X[:t] == X[t]).all(axis=1))
        assert guesses[t, 0] == same[-1]
    assert answered.tolist() == [False] + [True] * 399


def test_what_is_missing_in_an_input_tells_the_neighbours_nothing():
    X, Y = stream(30, d=2, T=1)
    X[10:, 1] = np.nan
    report = prequential(RunningMeanAnyhow(outputs=1), X, Y)
    assert np.isfinite(report.baselines["nearest_neighbour"].nmse).all()


def test_the_spread_of_blocks_is_that_of_all_rows():
    X = np.random.default_rng(3).standard_normal((100, 2)) + np.array([1e6, 0.0])
    spread = Spread(2)
    variances = np.vstack([spread.before_each(X[:7]), spread.before_each(X[7:])])
    for t in (1, 2, 7, 8, 60, 99):
        np.testing.assert_allclose(variances[t], X[:t].var(axis=0), rtol=1e-8)
    np.testing.assert_allclose(spread.variance(), X.var(axis=0), rtol=1e-8)


def test_baselines_can_be_left_out():
    report = prequential(RunningMean(), *stream(50), baselines=False)
    assert report.baselines == {}
    assert "persistence" not in str(report)
