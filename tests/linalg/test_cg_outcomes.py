"""How a conjugate gradient ends, and what it says about it."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import positive, right_hand_sides, times

from tiercel.linalg import Outcome, conjugate_gradient
from tiercel.linalg.solution import GRAVITY

DTYPES = [np.float32, np.float64]


def test_the_default_limit():
    solution = conjugate_gradient(times(positive(150, 1e12)), right_hand_sides(150))
    assert (solution.outcome, solution.iterations) == (Outcome.MAX_ITERATIONS, 1000)
    solution = conjugate_gradient(times(positive(9, 1e16)), right_hand_sides(9))
    assert solution.iterations <= 90


def test_singular_but_consistent():
    Q, _ = np.linalg.qr(right_hand_sides(20, 20))
    A = (Q[:, :8] * np.arange(1.0, 9)) @ Q[:, :8].T
    B = A @ right_hand_sides(20, 2)
    solution = conjugate_gradient(times(A), B)
    assert solution.converged
    np.testing.assert_allclose(solution.x, np.linalg.pinv(A) @ B, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_and_inconsistent_stagnates(dtype):
    A, b = np.diag([1.0, 2.0, 0.0]).astype(dtype), np.ones(3, dtype=dtype)
    solution = conjugate_gradient(times(A), b)
    assert solution.outcome is Outcome.STAGNATED
    assert "singular" in solution.message
    assert "raise the penalty" in solution.message
    nothing = conjugate_gradient(lambda x: 0 * x, b)
    assert (nothing.outcome, nothing.iterations) == (Outcome.STAGNATED, 1)
    np.testing.assert_array_equal(nothing.x, 0)


def test_rounding_level_stagnates():
    A, b = positive(40, 1e4, dtype=np.float32), right_hand_sides(40, dtype=np.float32)
    solution = conjugate_gradient(times(A), b, max_iter=10_000)
    assert solution.outcome is Outcome.STAGNATED
    assert solution.iterations < 2000
    assert solution.residuals[0] < 1e-3
    assert "columns above tol=1e-05: 1 of 1; largest relative residual" in (
        solution.message
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(10))
def test_a_null_space_is_not_called_indefinite(seed, dtype):
    F, met = right_hand_sides(30, 20, dtype, seed), []
    A, b = F @ F.T, right_hand_sides(30, dtype=dtype, seed=seed)
    solution = conjugate_gradient(
        times(A), b, callback=lambda count, residuals, x: met.append(x)
    )
    assert solution.outcome in (Outcome.STAGNATED, Outcome.MAX_ITERATIONS)
    # A leap along a null direction is as long as its curvature is small.
    assert max(np.abs(x).max() for x in met) < 10 / np.finfo(dtype).eps


def test_indefinite_operators_are_named():
    b = np.ones(3)
    for diagonal in ([1.0, -2.0, 3.0], [-1.0, -2.0, -3.0]):
        solution = conjugate_gradient(times(np.diag(diagonal)), b)
        assert solution.outcome is Outcome.INDEFINITE
        assert "operator or the preconditioner is not positive" in solution.message
        assert solution.residuals[0] <= 1


@pytest.mark.parametrize(
    ("inverse", "steps"), [(-1.0, 0), ([1.0, -9.0, 1.0], 0), ([1.0, -0.1, 1.0], 1)]
)
def test_indefinite_preconditioners_are_named(inverse, steps):
    solution = conjugate_gradient(
        times(np.diag([1.0, 9.0, 1.0])),
        np.ones(3),
        preconditioner=lambda r: inverse * r,
    )
    assert (solution.outcome, solution.iterations) == (Outcome.INDEFINITE, steps)


def careful(r):
    """A preconditioner that looks at what it is given."""
    assert np.isfinite(r).all()
    return r


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_values_that_are_not_finite_are_named(bad):
    def breaks(first):
        calls = []

        def operator(X):
            calls.append(1)
            scale = np.array([[1.0], [2.0], [4.0]])
            return X * (scale if len(calls) < first else scale * [bad, 1.0])

        return operator

    B, finite = np.ones((3, 2)), []
    for first in (1, 2, 3):
        solution = conjugate_gradient(
            breaks(first),
            B,
            preconditioner=careful,
            callback=lambda count, residuals, X: finite.append(np.isfinite(X).all()),
        )
        assert solution.outcome is Outcome.DIVERGED
        assert "return finite values" in solution.message
        assert np.isfinite(solution.x).all()
        assert solution.residuals[0] <= 1
        assert solution.residuals[1] <= 1e-7
    assert all(finite)
    solution = conjugate_gradient(lambda X: bad * X, B, X0=B, preconditioner=careful)
    assert (solution.outcome, solution.iterations) == (Outcome.DIVERGED, 0)
    solution = conjugate_gradient(breaks(99), B, preconditioner=lambda R: bad * R)
    assert (solution.outcome, solution.iterations) == (Outcome.DIVERGED, 0)


def test_the_gravest_outcome_counts():
    A = np.diag([1.0, 2.0, 3.0, -1.0])
    B = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    solution = conjugate_gradient(times(A), B)
    assert solution.outcome is Outcome.INDEFINITE
    assert solution.residuals[0] <= 1e-7
    np.testing.assert_allclose(solution.x[:, 0], B[:, 0])
    assert "1 of 2" in solution.message
    assert set(GRAVITY) == set(Outcome)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"B": 3.0}, r"B must have shape \(n,\) or \(n, T\), not empty, not \(\)"),
        ({"B": np.ones((3, 0))}, "B must have shape"),
        ({"B": np.array([1.0, np.nan, 1.0])}, "B holds NaN or infinite values"),
        ({"X0": np.array([1.0, np.inf, 1.0])}, "X0 holds NaN or infinite values"),
        ({"X0": np.ones(2)}, "X0 must have shape"),
        ({"X0": np.ones((3, 1))}, r"X0 must have the shape of B, \(3,\), not \(3, 1\)"),
        ({"tol": 0.0}, r"tol must be positive, not 0\.0"),
        ({"tol": np.nan}, "tol must be positive, not nan"),
        ({"max_iter": -1}, "max_iter must not be negative, but it is -1"),
        ({"operator": lambda x: x[:2]}, r"the operator returned shape \(2,\), not the"),
        ({"preconditioner": lambda x: x[:, None]}, "the preconditioner returned shape"),
    ],
)
def test_bad_values(bad, message):
    arguments = {"operator": lambda x: x, "B": np.ones(3), **bad}
    with pytest.raises(ValueError, match=message):
        conjugate_gradient(**arguments)


def test_bad_kinds():
    torch = pytest.importorskip("torch")
    for arguments in (
        {"operator": np.eye(2), "B": np.ones(2)},
        {"operator": lambda x: x, "B": np.ones(2), "preconditioner": np.eye(2)},
    ):
        with pytest.raises(
            TypeError, match=r"must be a function that .*lambda X: A @ X"
        ):
            conjugate_gradient(**arguments)
    with pytest.raises(TypeError, match="mixes numpy arrays and torch tensors"):
        conjugate_gradient(lambda x: x, np.ones(2), X0=torch.ones(2))
    with pytest.raises(TypeError, match="operator must return the kind of array it is"):
        conjugate_gradient(lambda x: torch.from_numpy(x), np.ones(2))
