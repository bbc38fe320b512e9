"""Conjugate gradient: what it answers, and at what cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import positive, right_hand_sides, times, true_residuals
from scipy.sparse.linalg import cg

from tiercel.linalg import Outcome, conjugate_gradient

DTYPES = [np.float32, np.float64]


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
