"""Conjugate gradient keeps the best it met, whatever goes wrong on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import positive, right_hand_sides, times, true_residuals

from tiercel.linalg import Outcome, conjugate_gradient

DTYPES = [np.float32, np.float64]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1000),
    condition=st.sampled_from([1e2, 1e6, 1e10, 1e16]),
    dtype=st.sampled_from(DTYPES),
    max_iter=st.integers(0, 90),
)
def test_no_earlier_iterate_was_better(seed, condition, dtype, max_iter):
    A, B = positive(20, condition, seed, dtype), right_hand_sides(20, 2, dtype, seed)
    met = []
    solution = conjugate_gradient(
        times(A),
        B,
        tol=1e-14,
        max_iter=max_iter,
        callback=lambda count, residuals, X: met.append(X),
    )
    assert len(met) == solution.iterations <= max_iter
    for X in met:
        noise = 100 * np.finfo(dtype).eps * (1 + np.linalg.norm(X, axis=0))
        assert (solution.residuals <= true_residuals(A, B, X) + noise).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_iterations_are_never_worse(dtype):
    condition = 1e3 if dtype == np.float32 else 1e7
    A, b = positive(30, condition, dtype=dtype), right_hand_sides(30, dtype=dtype)
    ends = [
        conjugate_gradient(times(A), b, tol=1e-15, max_iter=k).residuals[0]
        for k in range(0, 150, 3)
    ]
    size = np.linalg.norm(np.linalg.solve(A, b)) / np.linalg.norm(b)
    noise = 10 * np.finfo(dtype).eps * size
    assert (np.diff(ends) <= noise).all()
    assert ends[-1] < ends[0] == 1.0


@pytest.mark.parametrize("limit", [2, 10_000])
def test_slow_columns_are_given_the_time_that_was_allowed(limit):
    # The residual stays above its first value for 200 steps and more.
    A, b = positive(80, 1e7), right_hand_sides(80)
    solution = conjugate_gradient(times(A), b, max_iter=limit)
    assert (solution.outcome, solution.iterations > 800) == (
        (Outcome.CONVERGED, True) if limit > 2 else (Outcome.MAX_ITERATIONS, False)
    )
    assert np.argmin(solution.history[:200]) == 0


def glitches(A, errors):
    """Return the operator of A, plus the matrix that is given for a call."""
    calls = []

    def operator(x):
        calls.append(1)
        return (A + errors.get(len(calls), 0)) @ x

    return operator


def skew(n):
    """A matrix that leaves all curvatures alone and spoils every residual."""
    upper = np.triu(right_hand_sides(n, n))
    return upper - upper.T


def test_a_glitch_does_not_lose_what_was_found():
    # Products 12 to 19 are wrong; the check after 20 steps finds the recurrence lost.
    A, b, met = positive(60, 1e2), right_hand_sides(60), []
    operator = glitches(A, dict.fromkeys(range(12, 20), skew(60)))
    solution = conjugate_gradient(
        operator, b, max_iter=20, callback=lambda count, residuals, x: met.append(x)
    )
    true = [true_residuals(A, b, x) for x in met]
    assert min(true[:11]) < 0.2 * true[-1]
    assert solution.residuals[0] <= min(true[:11]) * (1 + 1e-9)
    assert conjugate_gradient(operator, b).converged


def test_a_false_claim_is_not_believed_and_hides_nothing():
    # Steps along products a thousand times too small go too far, and claim to do well.
    A, b = positive(60, 1e2), right_hand_sides(60)
    met = []

    def run(max_iter):
        return conjugate_gradient(
            glitches(A, {**dict.fromkeys(range(12, 20), -0.999 * A), 20: skew(60)}),
            b,
            max_iter=max_iter,
            callback=lambda count, residuals, x: met.append(x),
        )

    short = run(19)
    assert short.history[-1, 0] < 0.05
    assert short.residuals == pytest.approx(true_residuals(A, b, short.x))
    assert short.residuals[0] == 1.0
    met.clear()
    long = run(50)
    true = [true_residuals(A, b, x) for x in met]
    assert 0.05 < min(true[20:]) < 0.5
    np.testing.assert_allclose(long.residuals, min(true[20:]), rtol=1e-6)


def test_restarts_go_on_as_long_as_they_gain():
    # The recurrence is wrong at two checks in a row, after 20 and 40 steps.
    A, b = positive(60, 1e2), right_hand_sides(60)
    wrong = dict.fromkeys([18, 19, 39, 40], skew(60))
    solution = conjugate_gradient(glitches(A, wrong), b)
    assert solution.converged


def test_an_exact_but_false_end_is_not_taken():
    # The first product is doubled, and the recurrence ends with r = 0 exactly.
    b = np.ones(4)
    solution = conjugate_gradient(glitches(np.eye(4), {1: np.eye(4)}), b)
    assert (solution.converged, solution.iterations) == (True, 2)
    np.testing.assert_array_equal(solution.x, b)


def test_an_end_that_the_recurrence_missed_is_seen():
    # The first product spoils the residual by a little, and not the iterate.
    b = np.ones(4)
    solution = conjugate_gradient(
        glitches(np.eye(4), {1: 0.1 * skew(4)}), b, max_iter=1
    )
    assert 1e-7 < solution.history[1, 0] < 1
    assert (solution.converged, solution.residuals[0]) == (True, 0)


def test_ctrl_c_while_the_end_is_measured():
    calls = []

    def operator(x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return 2 * x

    solution = conjugate_gradient(operator, np.ones(3))
    assert solution.outcome is Outcome.INTERRUPTED
    np.testing.assert_array_equal(solution.x, 0.5)


@pytest.mark.parametrize("when", [2, 9, 30])
def test_ctrl_c_leaves_the_best_iterate(when):
    A, B, calls = positive(40, 1e4), right_hand_sides(40, 2), []

    def operator(X):
        calls.append(1)
        if len(calls) == when:
            raise KeyboardInterrupt
        return A @ X

    solution = conjugate_gradient(operator, B)
    assert solution.outcome is Outcome.INTERRUPTED
    np.testing.assert_allclose(
        solution.residuals, true_residuals(A, B, solution.x), rtol=1e-6
    )
    np.testing.assert_array_equal(solution.residuals, solution.history.min(axis=0))


def test_noise_ends_the_run_and_the_best_is_kept():
    # Each product is wrong by a fifth of its largest entry, always elsewhere.
    A, b = positive(30, 1e6), right_hand_sides(30)
    rng = np.random.default_rng(0)

    def noisy(x):
        return A @ x + 0.2 * np.abs(A @ x).max() * rng.standard_normal(30)

    solution = conjugate_gradient(noisy, b, max_iter=1000)
    assert solution.outcome in (Outcome.INDEFINITE, Outcome.STAGNATED)
    assert solution.residuals[0] <= 1
