"""Factors that gain and lose samples, against the factor of the changed matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import layouts, positive, read_only

from tiercel.linalg import (
    FactorisationError,
    _rotations,
    cholesky_downdate,
    cholesky_update,
    cholesky_update_rows,
    update,
)

DTYPES = [np.float32, np.float64]


def factor(m, dtype=np.float64, seed=0):
    """Return an upper factor whose lower triangle holds something else."""
    R = np.linalg.cholesky(positive(m, seed=seed)).T
    return (R - np.tri(m, k=-1)).astype(dtype)


def refactorised(R, X):
    U = np.triu(R).astype(float)
    X = np.atleast_2d(X).astype(float)
    return np.linalg.cholesky(U.T @ U + X.T @ X).T


def agree(R, expected, tolerance):
    np.testing.assert_allclose(np.triu(R), expected, atol=tolerance)
    np.testing.assert_array_equal(np.tril(R, -1), -np.tri(len(R), k=-1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [1, 2, 3, 20, 33])
def test_update_and_downdate_in_every_layout(m, dtype):
    x = np.random.default_rng(1).standard_normal(m).astype(dtype)
    expected = refactorised(factor(m, dtype), x)
    tolerance = 200 * np.finfo(dtype).eps
    for R in layouts(factor(m, dtype)).values():
        for sample in [*layouts(x).values(), read_only(x), x.tolist()]:
            assert cholesky_update(R, sample) is R
            agree(R, expected, tolerance)
            assert cholesky_downdate(R, sample) is R
            agree(R, np.triu(factor(m, dtype)), 10 * tolerance)
            np.testing.assert_array_equal(sample, x)
            R[...] = factor(m, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b", [0, 1, 7, 40])
@pytest.mark.parametrize("m", [1, 5, 40, 300])
def test_rows_in_every_layout(m, b, dtype):
    X = np.random.default_rng(2).standard_normal((b, m)).astype(dtype)
    expected = refactorised(factor(m, dtype), X)
    scale = np.abs(expected).max()
    for R in layouts(factor(m, dtype)).values():
        assert cholesky_update_rows(R, X) is R
        agree(R, expected, 100 * np.finfo(dtype).eps * scale)
    R = factor(m, dtype)
    for rows in [*layouts(X).values(), read_only(X)] if b else []:
        R[...] = factor(m, dtype)
        cholesky_update_rows(R, rows)
        agree(R, expected, 100 * np.finfo(dtype).eps * scale)
        np.testing.assert_array_equal(rows, X)


@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 12),
    b=st.integers(1, 40),
    few=st.sampled_from([0, 100]),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
    dtype=st.sampled_from(DTYPES),
)
def test_any_order_and_either_method_give_the_same_factor(
    seed, m, b, few, scale, dtype
):
    rng = np.random.default_rng(seed)
    X = (scale * rng.standard_normal((b, m))).astype(dtype)
    start = (scale * np.eye(m)).astype(dtype)
    one_by_one, at_once = start.copy(), start.copy()
    for i in rng.permutation(b):
        cholesky_update(one_by_one, X[i])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(update, "FEW", few)
        cholesky_update_rows(at_once, X)
    assert (np.diagonal(at_once) > 0).all()
    tolerance = 500 * np.finfo(dtype).eps * np.abs(at_once).max()
    np.testing.assert_allclose(one_by_one, at_once, rtol=0, atol=tolerance)


@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 12),
    size=st.floats(1e-3, 1e3),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
)
def test_update_then_downdate_returns(seed, m, size, scale):
    x = size * scale * np.random.default_rng(seed).standard_normal(m)
    R = scale * np.triu(factor(m, seed=seed))
    back = cholesky_downdate(cholesky_update(R.copy(), x), x)
    # What is left of 1 after the downdate says how many digits it may cost.
    left = 1 / (1 + np.sum(np.linalg.solve(R.T, x) ** 2))
    np.testing.assert_allclose(back, R, rtol=0, atol=1e-13 * scale / left)


def test_squares_are_never_formed():
    # In the normal equations of these rows 1e-12 is lost beside 1.
    X = np.array([[1.0, 1.0], [0.0, 1e-12]])
    R = np.zeros((2, 2))
    for x in X:
        cholesky_update(R, x)
    np.testing.assert_allclose(R, [[1.0, 1.0], [0.0, 1e-12]], rtol=1e-12)
    R = np.zeros((2, 2), order="F")
    np.testing.assert_allclose(np.abs(cholesky_update_rows(R, X)), X, rtol=1e-3)


def test_a_long_stream_does_not_drift():
    rng = np.random.default_rng(4)
    R, samples = np.eye(10), rng.standard_normal((4000, 10))
    window = 50
    for i, x in enumerate(samples):
        cholesky_update(R, x)
        if i >= window:
            cholesky_downdate(R, samples[i - window])
    agree(R - np.tri(10, k=-1), refactorised(np.eye(10), samples[-window:]), 1e-11)


def test_zeros_change_nothing_and_fill_a_zero_factor():
    R = factor(5)
    np.testing.assert_array_equal(cholesky_update(R.copy(), np.zeros(5)), R)
    np.testing.assert_array_equal(cholesky_downdate(R.copy(), np.zeros(5)), R)
    for x in np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 4.0], [3.0, 4.0, 0.0]]):
        R = cholesky_update(np.zeros((3, 3)), x)
        np.testing.assert_allclose(R.T @ R, np.outer(x, x), atol=1e-14)


@pytest.mark.parametrize("loop", [_rotations.rotate_in, _rotations.rotate_out])
def test_compiled_loops_do_what_their_python_does(loop):
    limit = (2e-16,) if loop is _rotations.rotate_out else ()
    compiled, plain, x = factor(7), factor(7), 0.1 * np.arange(7.0)
    assert loop(compiled, x.copy(), *limit) == pytest.approx(
        loop.__wrapped__(plain, x.copy(), *limit)
    )
    np.testing.assert_allclose(compiled, plain, rtol=1e-14)


def test_what_a_downdate_leaves_is_known_in_float64():
    R = np.triu(factor(40, np.float32))
    a = np.random.default_rng(6).standard_normal(40)
    x = (R.T.astype(float) @ (a / np.linalg.norm(a)) * (1 - 1e-4)).astype(np.float32)
    status, left = _rotations.rotate_out(R.copy(), x, 0.0)
    exact = 1 - np.sum(np.linalg.solve(R.T.astype(float), x.astype(float)) ** 2)
    assert status == _rotations.DONE
    np.testing.assert_allclose(left, exact, rtol=1e-9)


def test_update_with_a_workspace_allocates_nothing():
    R, x = factor(300), np.random.default_rng(5).standard_normal(300)
    expected = refactorised(R, x)
    cholesky_update(R.copy(), x.copy(), overwrite=True)  # compile
    tracemalloc.start()
    cholesky_update(R, x, overwrite=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < x.nbytes
    agree(R, expected, 1e-13)


def test_a_downdate_that_cannot_be_is_refused():
    R = factor(4)
    x = 2 * np.triu(R)[0]  # (R'R)^-1 norm of 2 e1: 4
    with pytest.raises(
        FactorisationError, match=r"1 - x'\(R'R\)\^-1 x = -3\).*unchanged"
    ):
        cholesky_downdate(R, x)
    agree(R, np.triu(factor(4)), 0)
    with pytest.raises(FactorisationError, match="not positive definite"):
        cholesky_downdate(np.diag([1.0, 0.0]), [0.1, 0.1])
    with pytest.raises(FactorisationError, match=r"x = 1\.19e-07"):
        cholesky_downdate(np.eye(1, dtype=np.float32), [np.sqrt(1 - 2.0**-23)])


@pytest.mark.parametrize("change", [cholesky_update, cholesky_downdate])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_samples_leave_the_factor_alone(change, bad):
    R = factor(3)
    with pytest.raises(
        ValueError, match="x holds NaN or infinite values; R is unchang"
    ):
        change(R, [0.0, 0.0, bad])
    with pytest.raises(
        ValueError, match="X holds NaN or infinite values; R is unchang"
    ):
        cholesky_update_rows(R, [[0.1, 0.1, 0.1], [0.0, 0.0, bad]])
    agree(R, np.triu(factor(3)), 0)


@pytest.mark.parametrize("change", [cholesky_update, cholesky_downdate])
def test_bad_input(change):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"updated on the CPU; pass R.numpy\(\)"):
        change(torch.eye(2), np.ones(2))
    for R in ([[1.0]], np.eye(1, dtype=int)):
        with pytest.raises(TypeError, match="R must be a numpy array of float32"):
            change(R, [1.0])
    with pytest.raises(ValueError, match="R must be a square matrix"):
        change(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match="R is read-only"):
        change(read_only(np.eye(2)), np.ones(2))
    for x in (np.ones(3), np.ones((1, 2)), torch.ones(2)):
        with pytest.raises(
            ValueError, match=r"x must be a numpy array of shape \(2,\)"
        ):
            change(np.eye(2), x)
    for X in (np.ones(2), np.ones((1, 3)), torch.ones((1, 2))):
        with pytest.raises(ValueError, match=r"X must be .* of shape \(b, 2\)"):
            cholesky_update_rows(np.eye(2), X)
