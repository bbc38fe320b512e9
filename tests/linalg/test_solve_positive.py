"""Answers without jitter, against long double arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import extended_solve, gaussian, layouts, needs_extended, positive

from tiercel.linalg import (
    CholeskyFactor,
    FactorisationError,
    Outcome,
    cholesky,
    solve_positive,
)

EPS = np.finfo(np.float64).eps


def kernel_system(penalty, n=80, dtype=np.float64):
    """Return K + penalty I of a smooth kernel, its largest eigenvalue about n."""
    X = np.random.default_rng(0).standard_normal((n, 2))
    A = (gaussian(X, X) + penalty * np.eye(n)).astype(dtype)
    return A, np.random.default_rng(1).standard_normal((n, 2))


def error(X, exact):
    gap = np.linalg.norm((X - exact).astype(float), axis=0)
    return (gap / np.linalg.norm(exact.astype(float), axis=0)).max()


@needs_extended
@pytest.mark.parametrize("penalty", [1e-1, 1e-4, 1e-7, 1e-10, 1e-12])
def test_as_exact_as_the_condition_allows(penalty):
    A, B = kernel_system(penalty)
    solution = solve_positive(A, B)
    assert solution.converged
    assert error(solution.x, extended_solve(A, B)) <= 10 * EPS * 80 / penalty
    residual = np.linalg.norm(B - A @ solution.x, axis=0) / np.linalg.norm(B, axis=0)
    noise = EPS * np.linalg.norm(A) * np.linalg.norm(solution.x, axis=0)
    assert (np.abs(solution.residuals - residual) <= noise).all()


@needs_extended
@pytest.mark.parametrize("penalty", [1e-3, 1e-6, 1e-8])
def test_jitter_of_the_factor_is_kept_out(penalty):
    # The factor's jitter, 1e-6 times the diagonal, outweighs the smaller penalties.
    A, B = kernel_system(penalty)
    A32 = A.astype(np.float32)
    factor = cholesky(A32 + 1e-6 * np.eye(len(A), dtype=np.float32))
    factor = CholeskyFactor(factor.R, 1e-6, 2)
    exact = extended_solve(A, B)
    solution = solve_positive(A, B, factor=factor)
    assert solution.converged
    assert error(solution.x, exact) <= 10 * EPS * 80 / penalty
    assert error(factor.solve(B), exact) > min(1e-4 / penalty, 1) * 1e-3
    assert "preconditioner: factor with jitter 1e-06" in solution.message


@needs_extended
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_single_precision_matrices_of_any_scale(scale):
    A, B = kernel_system(1e-4)
    A = (scale * A).astype(np.float32)
    solution = solve_positive(A, B)
    assert solution.converged
    assert solution.x.dtype == np.float64
    assert error(solution.x, extended_solve(A, B)) <= 10 * EPS * 80 / 1e-4
    # Rounding makes this one indefinite: no answer to it is right at any scale.
    A = (scale * kernel_system(1e-10)[0]).astype(np.float32)
    solution = solve_positive(A, B)
    assert solution.outcome is Outcome.STAGNATED
    assert "A is singular to working precision" in solution.message
    assert "make A in float64" in solution.message


@given(
    seed=st.integers(0, 1000),
    m=st.integers(1, 20),
    condition=st.sampled_from([1.0, 1e4, 1e8, 1e11]),
    exponent=st.integers(-100, 100),
)
def test_residuals_reach_rounding_level(seed, m, condition, exponent):
    A = 10.0**exponent * positive(m, condition, seed)
    B = np.random.default_rng(seed).standard_normal((m, 3)) * [1e-100, 1.0, 1e100]
    solution = solve_positive(A, B)
    assert solution.converged
    for b, x in zip(B.T, solution.x.T, strict=True):
        x, b = x / np.abs(b).max(), b / np.abs(b).max()
        level = EPS * (np.linalg.norm(A) * np.linalg.norm(x) + np.linalg.norm(b))
        assert np.linalg.norm(b - A @ x) <= 20 * level


@pytest.mark.parametrize("rank", [1, 5, 19])
def test_singular_systems_with_an_answer(rank):
    F = np.random.default_rng(rank).standard_normal((20, rank))
    A = F @ F.T
    B = A @ np.random.default_rng(2).standard_normal((20, 2))
    solution = solve_positive(A, B)
    assert solution.converged
    assert cholesky(A).jitter > 0
    np.testing.assert_allclose(A @ solution.x, B, atol=1e-11)
    np.testing.assert_allclose(F.T @ solution.x, np.linalg.pinv(F) @ B, atol=1e-6)


def test_singular_systems_without_an_answer():
    solution = solve_positive(np.diag([1.0, 0.0, 2.0]), np.ones(3))
    assert solution.outcome is Outcome.STAGNATED
    assert "B is not in its range: raise the penalty" in solution.message
    np.testing.assert_allclose(solution.residuals, 1 / np.sqrt(3))


def test_a_tolerance_stops_early():
    A, B = kernel_system(1e-6)
    factor = cholesky(A.astype(np.float32) + np.eye(len(A), dtype=np.float32) * 1e-4)
    near = solve_positive(A, B, factor=factor, tol=1e-3)
    far = solve_positive(A, B, factor=factor)
    assert near.converged
    assert 1e-8 < near.residuals.max() <= 1e-3
    assert near.iterations < far.iterations
    assert far.residuals.max() < 1e-6 * near.residuals.max()
    short = solve_positive(A, B, factor=factor, max_iter=1)
    assert (short.outcome, short.iterations) == (Outcome.MAX_ITERATIONS, 1)
    assert "raise max_iter" in short.message


def test_a_run_cut_short_is_not_called_rounding():
    A, b = positive(50, 10.0), np.random.default_rng(4).standard_normal(50)
    identity = cholesky(np.eye(50))
    for steps in (15, 20, 30):
        solution = solve_positive(A, b, factor=identity, max_iter=steps)
        assert solution.residuals[0] > 1e-12
        assert solution.outcome is Outcome.MAX_ITERATIONS
    assert solution.residuals[0] < 1e-7


def test_a_good_factor_leaves_little_to_do():
    A, B = kernel_system(1e-2)
    assert solve_positive(A, B).iterations <= 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [None, 1, 4])
@pytest.mark.parametrize("m", [1, 2, 300])
def test_shapes_dtypes_and_layouts(m, columns, dtype):
    A = positive(m, 100.0, dtype=dtype)
    shape = m if columns is None else (m, columns)
    B = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    B[..., :1] = 0
    expected = np.linalg.solve(A.astype(float), B.astype(float))
    for matrix in layouts(A).values():
        solution = solve_positive(matrix, B)
        assert solution.converged
        assert (solution.x.dtype, solution.x.shape) == (dtype, B.shape)
        gap = np.linalg.norm(solution.x - expected)
        assert gap <= 1000 * np.finfo(dtype).eps * np.linalg.norm(expected)
        np.testing.assert_array_equal(matrix, A)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_torch_equals_numpy(dtype):
    torch = pytest.importorskip("torch")
    A, B = kernel_system(1e-3, dtype=dtype)
    expected = solve_positive(A, B)
    for right, x in ((B, expected.x), (B[:, 0], expected.x[:, 0])):
        solution = solve_positive(torch.from_numpy(A), torch.from_numpy(right.copy()))
        assert solution.converged
        np.testing.assert_allclose(solution.x.numpy(), x, rtol=1e-8, atol=1e-8)


def test_bad_input():
    torch = pytest.importorskip("torch")
    I = np.eye(3)  # noqa: E741
    with pytest.raises(ValueError, match="A is not symmetric"):
        solve_positive(np.tri(3), np.ones(3))
    with pytest.raises(ValueError, match="B holds NaN"):
        solve_positive(I, [1.0, np.nan, 1.0])
    with pytest.raises(ValueError, match=r"B must have shape \(3,\)"):
        solve_positive(I, np.ones(2))
    with pytest.raises(ValueError, match="tol must be positive, not -1"):
        solve_positive(I, np.ones(3), tol=-1.0)
    with pytest.raises(ValueError, match="max_iter must not be negative"):
        solve_positive(I, np.ones(3), max_iter=-1)
    with pytest.raises(ValueError, match=r"factor is \(2, 2\) and A is \(3, 3\)"):
        solve_positive(I, np.ones(3), factor=cholesky(np.eye(2)))
    with pytest.raises(TypeError, match="mixes numpy arrays and torch tensors"):
        solve_positive(I, torch.ones(3))
    with pytest.raises(TypeError, match="mixes numpy arrays and torch tensors"):
        solve_positive(I, np.ones(3), factor=cholesky(torch.eye(3)))
    with pytest.raises(FactorisationError, match="pivot 2 of 3 is -1"):
        solve_positive(np.diag([1.0, -1.0, 1.0]), np.ones(3))
