"""Conjugate gradient: what it answers, what it says about it, and how it ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import positive
from scipy.sparse.linalg import cg

from tiercel.linalg import Outcome, conjugate_gradient
from tiercel.linalg.solution import GRAVITY

DTYPES = [np.float32, np.float64]


def right_hand_sides(n, columns=None, dtype=np.float64, seed=0):
    shape = n if columns is None else (n, columns)
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def times(A):
    return lambda X: A @ X


def true_residuals(A, B, X):
    """Return ||b - A x|| / ||b|| of each column, from float64 products."""
    A, B, X = (np.asarray(V, dtype=float) for V in (A, B, X))
    return np.linalg.norm(B - A @ X, axis=0) / np.linalg.norm(B, axis=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [None, 1, 5])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_solves_to_the_dense_answer(n, columns, dtype):
    A, B = positive(n, 100.0, dtype=dtype), right_hand_sides(n, columns, dtype)
    solution = conjugate_gradient(times(A), B)
    tol = 1e-5 if dtype == np.float32 else 1e-7
    assert solution.converged
    assert solution.x.shape == B.shape
    assert solution.x.dtype == dtype
    assert solution.residuals.max() <= tol
    error = solution.x - np.linalg.solve(A.astype(float), B)
    assert np.linalg.norm(error) <= 100 * tol * np.linalg.norm(B)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 30),
    condition=st.sampled_from([1.0, 1e3, 1e8, 1e14]),
    dtype=st.sampled_from(DTYPES),
    max_iter=st.integers(0, 100),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
)
def test_reported_residuals_are_true(seed, n, condition, dtype, max_iter, scale):
    A, B = positive(n, condition, seed, dtype), right_hand_sides(n, 2, dtype, seed)
    B[:, 1] *= dtype(scale)
    solution = conjugate_gradient(times(A), B, max_iter=max_iter)
    true = true_residuals(A, B, solution.x)
    size = np.linalg.norm(solution.x.astype(float), axis=0)
    noise = (
        4
        * n
        * np.finfo(dtype).eps
        * (1 + size / np.linalg.norm(B.astype(float), axis=0))
    )
    assert (np.abs(solution.residuals - true) <= noise + 1e-6 * true).all()
    assert solution.history.shape == (solution.iterations + 1, 2)
    assert solution.converged == (
        solution.residuals.max() <= (1e-5 if dtype == np.float32 else 1e-7)
    )


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


def test_as_fast_as_the_textbook():
    A, b = positive(100, 1e3), right_hand_sides(100)
    steps = []
    cg(A, b, rtol=1e-7, callback=lambda x: steps.append(1))
    solution = conjugate_gradient(times(A), b)
    assert abs(solution.iterations - len(steps)) <= 3


@pytest.mark.parametrize("kinds", [1, 2, 5])
def test_as_many_steps_as_distinct_eigenvalues(kinds):
    spectrum = np.repeat(2.0 ** np.arange(kinds), 6)[:, None]
    solution = conjugate_gradient(
        lambda X: spectrum * X, right_hand_sides(6 * kinds, 3), tol=1e-10
    )
    assert solution.iterations == kinds


@pytest.mark.parametrize("limit", [2, 10_000])
def test_slow_columns_are_given_the_time_that_was_allowed(limit):
    # The residual stays above its first value for 200 steps and more.
    A, b = positive(80, 1e7), right_hand_sides(80)
    solution = conjugate_gradient(times(A), b, max_iter=limit)
    assert (solution.outcome, solution.iterations > 800) == (
        (Outcome.CONVERGED, True) if limit > 2 else (Outcome.MAX_ITERATIONS, False)
    )
    assert np.argmin(solution.history[:200]) == 0


def test_columns_do_not_know_of_each_other():
    A = positive(40, 100.0)
    B = right_hand_sides(40, 4) * [1e-30, 1.0, 1e30, 0.0]
    together = conjugate_gradient(times(A), B)
    assert together.converged
    for j in range(4):
        alone = conjugate_gradient(times(A), B[:, j])
        first = alone.history[:15, 0]  # later, rounding errors have grown
        np.testing.assert_allclose(together.history[: len(first), j], first, 1e-9)
        assert np.linalg.norm(together.x[:, j] - alone.x) <= 1e-5 * np.linalg.norm(
            B[:, j]
        )


def test_a_column_that_is_done_rests():
    spectrum = np.linspace(1, 100, 30)[:, None]
    B = right_hand_sides(30, 2)
    B[:, 0] = np.eye(30)[0]  # done after one step
    directions = []
    solution = conjugate_gradient(
        lambda X: directions.append(X) or spectrum * X, B, max_iter=15
    )
    assert len(directions) == 16  # the last one measures the answer
    assert directions[0][:, 0].any()
    np.testing.assert_array_equal([V[:, 0] for V in directions[1:15]], 0)
    np.testing.assert_array_equal(solution.history[1:, 0], 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_columns_have_zero_answers(dtype):
    A, B = positive(6, dtype=dtype), right_hand_sides(6, 3, dtype)
    B[:, 1] = 0
    for X0 in (None, np.ones((6, 3), dtype=dtype)):
        solution = conjugate_gradient(times(A), B, X0=X0)
        assert solution.converged
        assert solution.residuals[1] == 0
        np.testing.assert_array_equal(solution.x[:, 1], 0)
    solution = conjugate_gradient(times(A), np.zeros(6, dtype=dtype), X0=A[0])
    assert (solution.converged, solution.iterations) == (True, 0)


def test_scales_from_1e_30_to_1e30_in_float32():
    A, B = positive(12, 50.0), right_hand_sides(12, 2)
    for size in (1e-30, 1e30):
        scaled = (size * A).astype(np.float32)
        for right in (1.0, 1e-5, 1e5):
            solution = conjugate_gradient(
                times(scaled),
                (right * B).astype(np.float32),
                preconditioner=lambda R, scaled=scaled: (
                    R / np.diagonal(scaled)[:, None]
                ),
            )
            assert solution.converged
            expected = right / size * np.linalg.solve(A, B)
            np.testing.assert_allclose(
                solution.x, expected, rtol=0, atol=1e-3 * np.abs(expected).max()
            )


def test_the_right_preconditioner_needs_one_step():
    A, B = positive(30, 1e6), right_hand_sides(30, 3)
    inverse = np.linalg.inv(A)
    solution = conjugate_gradient(times(A), B, preconditioner=times(inverse))
    assert (solution.converged, solution.iterations) == (True, 1)


def test_a_single_precision_preconditioner_does_not_limit_the_answer():
    A, B = positive(50, 1e4), right_hand_sides(50, 2)
    inverse = np.linalg.inv(A).astype(np.float32)
    solution = conjugate_gradient(
        times(A),
        B,
        preconditioner=lambda R: inverse @ R.astype(np.float32),
        tol=1e-12,
    )
    assert solution.converged
    assert solution.iterations < 15
    assert solution.x.dtype == np.float64


@pytest.mark.parametrize("with_start", [False, True])
def test_no_iterations_at_all(with_start):
    A, B = positive(8), right_hand_sides(8, 2)
    X0 = 0.5 * np.linalg.solve(A, B) if with_start else None
    solution = conjugate_gradient(times(A), B, X0=X0, max_iter=0)
    assert (solution.outcome, solution.iterations) == (Outcome.MAX_ITERATIONS, 0)
    np.testing.assert_allclose(solution.residuals, 0.5 if with_start else 1.0)
    np.testing.assert_allclose(solution.x, X0 if with_start else 0 * B, rtol=1e-12)
    assert solution.history.shape == (1, 2)


def test_a_start_is_used_and_left_alone():
    A, B = positive(30, 1e3), right_hand_sides(30, 2)
    exact = np.linalg.solve(A, B)
    X0 = exact.copy()
    assert conjugate_gradient(times(A), B, X0=X0).iterations == 0
    X0[:, 1] += 1e-3 * B[:, 1]
    start = X0.copy()
    warm = conjugate_gradient(times(A), B, X0=X0)
    assert 0 < warm.iterations < conjugate_gradient(times(A), B).iterations
    np.testing.assert_array_equal(X0, start)
    np.testing.assert_allclose(warm.x, exact, atol=1e-4)


def test_a_run_can_be_stopped_and_taken_up():
    A, b = positive(40, 1e4), right_hand_sides(40)
    seen = []

    def stop(iteration, residuals, x):
        seen.append(iteration)
        np.testing.assert_allclose(residuals, true_residuals(A, b, x), rtol=1e-6)
        return iteration == 7

    first = conjugate_gradient(times(A), b, callback=stop)
    assert first.outcome is Outcome.INTERRUPTED
    assert "pass it as X0 to go on" in first.message
    assert seen == list(range(1, 8))
    assert first.residuals == pytest.approx(true_residuals(A, b, first.x))
    assert conjugate_gradient(times(A), b, X0=first.x).converged


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


def test_products_are_not_wasted():
    A, b, products, inverses = positive(100, 1e3), right_hand_sides(100), [], []
    solution = conjugate_gradient(
        lambda x: products.append(1) or A @ x,
        b,
        preconditioner=lambda r: inverses.append(1) or r,
    )
    assert solution.converged
    checks = solution.iterations // 20 + 1
    assert len(products) == solution.iterations + checks
    assert len(inverses) == solution.iterations + 1


def test_the_default_limit():
    solution = conjugate_gradient(times(positive(150, 1e12)), right_hand_sides(150))
    assert (solution.outcome, solution.iterations) == (Outcome.MAX_ITERATIONS, 1000)
    solution = conjugate_gradient(times(positive(9, 1e16)), right_hand_sides(9))
    assert solution.iterations <= 90


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


def test_noise_ends_the_run_and_the_best_is_kept():
    # Each product is wrong by a fifth of its largest entry, always elsewhere.
    A, b = positive(30, 1e6), right_hand_sides(30)
    rng = np.random.default_rng(0)

    def noisy(x):
        return A @ x + 0.2 * np.abs(A @ x).max() * rng.standard_normal(30)

    solution = conjugate_gradient(noisy, b, max_iter=1000)
    assert solution.outcome in (Outcome.INDEFINITE, Outcome.STAGNATED)
    assert solution.residuals[0] <= 1


def test_history_of_a_column_ends_where_the_column_did():
    spectrum = np.geomspace(1, 1e4, 40)[:, None]
    B = right_hand_sides(40, 2)
    B[:20, 0] = 0  # done at an earlier check than the other column
    solution = conjugate_gradient(
        lambda X: spectrum * X,
        B,
        callback=lambda count, residuals, X: residuals.fill(0),  # not our copy
    )
    assert solution.converged
    first, second = (np.argmax(solution.history <= 1e-7, axis=0) + 19) // 20
    assert first < second
    np.testing.assert_array_equal(solution.history[-1], solution.residuals)


def test_the_gravest_outcome_counts():
    A = np.diag([1.0, 2.0, 3.0, -1.0])
    B = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    solution = conjugate_gradient(times(A), B)
    assert solution.outcome is Outcome.INDEFINITE
    assert solution.residuals[0] <= 1e-7
    np.testing.assert_allclose(solution.x[:, 0], B[:, 0])
    assert "1 of 2" in solution.message
    assert set(GRAVITY) == set(Outcome)


@pytest.mark.parametrize("columns", [None, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_equals_numpy(columns, dtype):
    torch = pytest.importorskip("torch")
    A, B = positive(30, 100.0, dtype=dtype), right_hand_sides(30, columns, dtype)
    M, X0 = np.diagonal(A).copy(), 0.1 * B
    inverse = (1 / M) if columns is None else (1 / M)[:, None]
    expected = conjugate_gradient(
        times(A), B, X0=X0, preconditioner=lambda R: inverse * R
    )
    tensor, divide = torch.from_numpy(A), torch.from_numpy(inverse)
    solution = conjugate_gradient(
        lambda X: tensor @ X,
        torch.from_numpy(B),
        X0=torch.from_numpy(X0),
        preconditioner=lambda R: divide * R,
    )
    assert solution.converged
    assert abs(solution.iterations - expected.iterations) <= 1
    assert solution.x.dtype == tensor.dtype
    assert isinstance(solution.residuals, np.ndarray)
    np.testing.assert_allclose(solution.x.numpy(), expected.x, rtol=0, atol=1e-3)


def test_integers_and_other_layouts():
    A, B = positive(8), np.arange(16).reshape(8, 2)
    expected = conjugate_gradient(times(A), B.astype(float)).x
    for right in (B, B.tolist(), np.asfortranarray(B), B[::-1][::-1]):
        np.testing.assert_allclose(conjugate_gradient(times(A), right).x, expected)


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
