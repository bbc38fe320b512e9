"""Cholesky factors: every layout, the smallest jitter that works, honest failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import gaussian, layouts, positive, read_only

from tiercel.linalg import FactorisationError, cholesky
from tiercel.linalg.cholesky import _attempt_torch, _ladder

INDEFINITE = np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 2.0], [0.0, 2.0, 4.0]])


def smooth_kernel(dtype, n=60):
    """A kernel matrix that is positive definite on paper and not in floating point."""
    X = np.random.default_rng(0).uniform(-1, 1, (n, 1)).astype(dtype)
    return gaussian(X, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 2, 300])
def test_every_layout(m, dtype):
    A = positive(m, dtype=dtype)
    expected = np.linalg.cholesky(A.astype(float)).T
    for given_A in [*layouts(A).values(), read_only(A)]:
        for overwrite in (False, True):
            factor = cholesky(given_A, overwrite=overwrite)
            assert factor.R.dtype == dtype
            assert (factor.jitter, factor.attempts) == (0.0, 1)
            np.testing.assert_allclose(
                factor.R, expected, atol=50 * np.finfo(dtype).eps
            )
            np.testing.assert_array_equal(np.tril(factor.R, -1), 0)
            if not overwrite:
                np.testing.assert_array_equal(given_A, A)


@pytest.mark.parametrize("order", ["C", "F"])
def test_overwrite_needs_no_second_matrix(order):
    A = positive(20).copy(order)
    assert cholesky(A, overwrite=True).R is A
    B = positive(20).copy(order)
    assert not np.shares_memory(cholesky(B).R, B)


def test_solve_and_logdet():
    A = positive(30, 1e4).astype(np.float32)
    factor, B = cholesky(A), np.random.default_rng(1).standard_normal((30, 3))
    exact = A.astype(float)
    np.testing.assert_allclose(exact @ factor.solve(B), B, atol=1e-2)
    np.testing.assert_allclose(factor.logdet(), np.linalg.slogdet(exact)[1], rtol=1e-4)
    right = B.astype(np.float32)
    assert np.shares_memory(factor.solve(right, overwrite=True), right)


@pytest.mark.parametrize(("dtype", "steps"), [(np.float32, 6), (np.float64, 10)])
def test_ladder(dtype, steps):
    eps = float(np.finfo(dtype).eps)
    ladder = list(_ladder(3.0, eps, None))
    assert len(ladder) == steps
    assert ladder[:3] == [0.0, 3 * eps, 30 * eps]
    np.testing.assert_allclose(ladder[-1], 3 * np.sqrt(eps))
    assert list(_ladder(3.0, eps, 2)) == ladder[:2]
    assert list(_ladder(0.0, eps, None)) == list(_ladder(-1.0, eps, None)) == [0.0]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_jitter_is_the_first_step_that_factorises(dtype, order):
    A = smooth_kernel(dtype).copy(order)
    factor = cholesky(A)
    ladder = list(_ladder(1.0, float(np.finfo(dtype).eps), None))
    assert factor.attempts > 1
    assert factor.jitter == ladder[factor.attempts - 1]
    for step in ladder[: factor.attempts - 1]:
        with pytest.raises(FactorisationError):
            cholesky(A + np.eye(len(A), dtype=dtype) * dtype(step), max_attempts=1)
    product = factor.R.astype(float).T @ factor.R
    error = product - A - factor.jitter * np.eye(len(A))
    assert np.abs(error).max() < 5 * np.finfo(dtype).eps


@settings(max_examples=30)
@given(exponent=st.integers(-45, 45), rank=st.integers(1, 12))
def test_scaling_the_matrix_scales_the_jitter(exponent, rank):
    F = np.random.default_rng(rank).standard_normal((12, rank))
    factor, scaled = cholesky(F @ F.T), cholesky(4.0**exponent * (F @ F.T))
    assert scaled.jitter == 4.0**exponent * factor.jitter
    np.testing.assert_array_equal(scaled.R, 2.0**exponent * factor.R)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_failure_names_pivot_jitter_and_remedy(dtype, order):
    A = INDEFINITE.astype(dtype).copy(order)
    eps = float(np.finfo(dtype).eps)
    last, attempts = 3 * np.sqrt(eps), len(list(_ladder(3.0, eps, None)))
    pivot = 3 * np.sqrt(eps) * 1.25  # 1 + j - 4 / (4 + j) to first order in j
    expected = (
        rf"pivot 3 of 3 is -[\d.e+]+ with a jitter of {last:.3g} "
        rf"\(attempts: {attempts}; mean of the diagonal: 3\); raise the penalty"
    )
    with pytest.raises(FactorisationError, match=expected) as failure:
        cholesky(A, overwrite=True)
    value = float(str(failure.value).split(" is ")[2].split()[0])
    np.testing.assert_allclose(value, 4 - 4 / pivot, rtol=0.01)
    np.testing.assert_array_equal(A, INDEFINITE)


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (-np.eye(2), "pivot 1 of 2 is -1 with a jitter of 0"),
        (np.zeros((2, 2)), "pivot 1 of 2 is 0 with a jitter of 0"),
        (np.diag([1.0, -1.0, 9.0]), "pivot 2 of 3 is -1 with a jitter of 4.47e-08"),
    ],
)
def test_hopeless_matrices(A, message):
    with pytest.raises(FactorisationError, match=message):
        cholesky(A)


def test_max_attempts():
    with pytest.raises(FactorisationError, match=r"jitter of 0 \(attempts: 1"):
        cholesky(np.ones((3, 3)), max_attempts=1)
    assert cholesky(np.ones((3, 3)), max_attempts=2).attempts == 2
    with pytest.raises(ValueError, match="max_attempts must be at least 1, not 0"):
        cholesky(np.eye(2), max_attempts=0)


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.ones((2, 3)), "A must be a square matrix"),
        (np.ones(4), "A must be a square matrix"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "A holds NaN or infinite"),
        (np.full((2, 2), np.inf), "A holds NaN or infinite"),
        (np.triu(np.ones((2, 2))), "not symmetric: its triangles differ by 1 where"),
        (np.eye(600) + np.eye(600, k=-1) * (np.arange(600) > 550), "not symmetric"),
    ],
)
def test_bad_values(A, message):
    with pytest.raises(ValueError, match=message):
        cholesky(A)


def test_bad_kinds():
    with pytest.raises(TypeError, match="A is complex"):
        cholesky(np.eye(2) + 1j)
    with pytest.raises(TypeError, match="A has dtype <U1"):
        cholesky([["a"]])


def test_rounding_is_not_asymmetry():
    A = positive(10, dtype=np.float32)
    A[0, 1] *= 1 + 1e-6
    assert cholesky(A).jitter == 0


@pytest.mark.parametrize("column_major", [False, True])
def test_torch_equals_numpy(column_major):
    torch = pytest.importorskip("torch")
    for A in (positive(40), smooth_kernel(np.float32)):
        tensor = torch.from_numpy(A.T if column_major else A).clone()
        factor, expected = cholesky(tensor), cholesky(A)
        np.testing.assert_array_equal(tensor.numpy(), A)
        slack = 200 * np.finfo(A.dtype).eps
        np.testing.assert_allclose((factor.R.T @ factor.R).numpy(), A, atol=slack)
        assert (factor.jitter > 0) == (expected.jitter > 0)
        inside = cholesky(tensor, overwrite=True).R
        assert inside.data_ptr() == tensor.data_ptr()
        np.testing.assert_array_equal(inside.numpy(), factor.R.numpy())


@pytest.mark.parametrize("block", [1, 7, 20, 64])
def test_torch_in_blocks(block):
    torch = pytest.importorskip("torch")
    A = positive(50)
    buffer = torch.from_numpy(A.copy())
    assert _attempt_torch(buffer, block) == (0, 0.0)
    np.testing.assert_allclose(buffer.triu().numpy(), cholesky(A).R, atol=1e-13)
    np.testing.assert_array_equal(
        buffer.numpy()[np.tri(50, k=-1) > 0], A[np.tri(50, k=-1) > 0]
    )
    A[30, 30] -= 2.0  # the pivots before it stay what they were
    failed, pivot = _attempt_torch(torch.from_numpy(A.copy()), block)
    schur = A[30, 30] - A[30, :30] @ np.linalg.solve(A[:30, :30], A[:30, 30])
    assert failed == 31
    np.testing.assert_allclose(pivot, schur, rtol=1e-10)


def test_torch_failure():
    torch = pytest.importorskip("torch")
    A = torch.from_numpy(INDEFINITE.copy())
    with pytest.raises(FactorisationError, match=r"pivot 3 of 3 is -[\d.e+]+ with"):
        cholesky(A, overwrite=True)
    np.testing.assert_array_equal(A.numpy(), INDEFINITE)
