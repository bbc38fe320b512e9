"""Growing factors: extending is refactorising, however the columns are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import gaussian, layouts, positive

from tiercel.linalg import FactorisationError, GrowingCholesky, cholesky_extend


@given(
    k=st.integers(1, 15),
    p=st.integers(1, 15),
    condition=st.sampled_from([10.0, 1e6]),
    dtype=st.sampled_from([np.float32, np.float64]),
    scale=st.sampled_from([1.0, 1e-30, 1e30]),
)
def test_extending_is_refactorising(k, p, condition, dtype, scale):
    A = positive(k + p, condition, seed=k) * scale
    R = np.linalg.cholesky(A[:k, :k]).T.astype(dtype)
    extended = cholesky_extend(R, A[:k, k:], A[k:, k:], tol=0.0)
    assert extended.dtype == dtype
    np.testing.assert_array_equal(np.tril(extended, -1), 0)
    error = np.abs(extended.astype(float).T @ extended - A).max()
    assert error <= 20 * (k + p) * np.finfo(dtype).eps * scale


def test_layouts_of_the_old_factor():
    A = positive(9)
    expected = np.linalg.cholesky(A).T
    for R in layouts(np.linalg.cholesky(A[:6, :6]).T).values():
        for A12 in layouts(A[:6, 6:]).values():
            extended = cholesky_extend(R, A12, A[6:, 6:])
            np.testing.assert_allclose(extended, expected, atol=1e-14)


def test_the_lower_triangle_of_the_old_factor_is_not_read():
    R = np.array([[2.0, 1.0], [np.nan, 1.0]])
    extended = cholesky_extend(R, [[2.0], [3.0]], [[9.0]])
    np.testing.assert_array_equal(extended, [[2, 1, 1], [0, 1, 2], [0, 0, 2]])


def test_torch_equals_numpy():
    torch = pytest.importorskip("torch")
    A = torch.from_numpy(positive(9))
    R = torch.linalg.cholesky(A[:6, :6], upper=True)
    extended = cholesky_extend(R, A[:6, 6:], A[6:, 6:])
    expected = cholesky_extend(R.numpy(), A[:6, 6:].numpy(), A[6:, 6:].numpy())
    np.testing.assert_allclose(extended.numpy(), expected, atol=1e-14)
    for diagonal in ([[2.0]], [[1.0]]):
        with pytest.raises(FactorisationError, match="depend on the columns before"):
            cholesky_extend(torch.eye(2), torch.ones((2, 1)), torch.tensor(diagonal))
    with pytest.raises(TypeError, match="cholesky_extend mixes numpy arrays and torch"):
        cholesky_extend(torch.eye(2), np.ones((2, 1)), torch.tensor([[2.0]]))
    with pytest.raises(TypeError, match="cholesky_extend mixes numpy arrays and torch"):
        cholesky_extend(np.eye(2), np.ones((2, 1)), torch.tensor([[2.0]]))


def test_a_dependent_column_is_refused():
    # The new column is the sum of the old ones but for a pivot of 1e-6 of its diagonal.
    R, A12, A22 = np.eye(2), np.ones((2, 1)), np.array([[2.0 + 2e-6]])
    assert cholesky_extend(R, A12, A22)[2, 2] == pytest.approx(np.sqrt(2e-6))
    with pytest.raises(FactorisationError, match=r"1 new columns .* to tol=1e-05"):
        cholesky_extend(R, A12, A22, tol=1e-5)
    for diagonal in (2.0, 1.0):
        with pytest.raises(FactorisationError, match="let GrowingCholesky refuse them"):
            cholesky_extend(R, A12, [[diagonal]])


@pytest.mark.parametrize(
    ("R", "A12", "A22", "tol", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 1)), [[9.0]], None, "R must be a square matrix"),
        (np.eye(2), np.ones(2), [[9.0]], None, r"A12 must have shape \(2, 1\)"),
        (np.eye(2), np.ones((2, 2)), [[9.0]], None, r"A12 must have shape \(2, 1\)"),
        (np.eye(2), np.ones((3, 1)), [[9.0]], None, r"A12 must have shape \(2,\)"),
        (np.eye(2), [[np.nan], [0]], [[9.0]], None, "A12 holds NaN"),
        (np.eye(2), np.ones((2, 1)), [[np.nan]], None, "A22 holds NaN"),
        (np.eye(2), np.ones((2, 2)), np.tri(2), None, "A22 is not symmetric"),
        (np.eye(2), np.ones((2, 1)), [[9.0]], 1.0, r"tol must lie in \[0, 1\)"),
        ([[1, np.nan], [0, 1]], np.ones((2, 1)), [[9.0]], None, "R holds NaN"),
    ],
)
def test_bad_input(R, A12, A22, tol, message):
    with pytest.raises(ValueError, match=message):
        cholesky_extend(R, A12, A22, tol=tol)


def grow(A, cuts, capacity=None, **settings):
    """Append the columns of A in blocks; return the factor and which were kept."""
    growing, kept = GrowingCholesky(capacity or len(A), **settings), []
    for start, stop in zip([0, *cuts], [*cuts, len(A)], strict=True):
        new = np.arange(start, stop)
        accepted = growing.append(A[np.ix_(kept, new)], A[np.ix_(new, new)])
        kept += list(new[accepted])
    return growing, kept


@given(
    cuts=st.sets(st.integers(1, 23)).map(sorted),
    copies=st.lists(st.integers(0, 19), min_size=4, max_size=4),
    seed=st.integers(0, 1000),
)
def test_any_cut_gives_the_same_factor(cuts, copies, seed):
    points = np.random.default_rng(seed).uniform(-2, 2, (20, 3))
    points = np.insert(points, [5, 10, 15, 20], points[copies], axis=0)
    A = gaussian(points, points)
    growing, kept = grow(A, cuts)
    _, first = np.unique(points, axis=0, return_index=True)
    assert kept == sorted(first)
    assert (growing.size, growing.refused) == (20, 4)
    expected = np.linalg.cholesky(A[np.ix_(kept, kept)]).T
    np.testing.assert_allclose(growing.factor, expected, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solve_within_a_larger_buffer(dtype):
    A = positive(12).astype(dtype)
    growing, kept = grow(A, [5, 6], capacity=30, dtype=dtype)
    assert kept == list(range(12))
    assert np.shares_memory(growing.factor, growing._buffer)
    for B in (np.arange(12.0), np.arange(24.0).reshape(12, 2)):
        X = growing.solve(B)
        assert X.dtype == dtype
        expected = np.linalg.solve(A.astype(float), B)
        np.testing.assert_allclose(X, expected, rtol=1e4 * np.finfo(dtype).eps)


def test_refused_columns_add_nothing_to_a_fit():
    rng = np.random.default_rng(3)
    F, y = rng.standard_normal((40, 6)), rng.standard_normal(40)
    F = np.c_[F, F @ rng.standard_normal((6, 3))][:, rng.permutation(9)]
    growing, kept = grow(F.T @ F, [4])
    fit = F[:, kept] @ growing.solve(F[:, kept].T @ y)
    assert len(kept) == 6
    np.testing.assert_allclose(fit, F @ np.linalg.lstsq(F, y)[0], atol=1e-12)


def test_tolerance_decides_what_is_dependent():
    A = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-6]])
    assert grow(A, [])[1] == [0, 1]
    assert grow(A, [], tol=1e-5)[1] == [0]
    assert grow(A, [1], tol=1e-5)[1] == [0]
    assert grow(np.array([[1.0, 2.0], [2.0, 1.0]]), [])[1] == [0]


def test_a_bad_append_leaves_the_factor_as_it_was():
    growing = GrowingCholesky(3)
    growing.append([], positive(2))
    before = growing.factor.copy()
    bad = [
        (np.ones((2, 1)), [[np.nan]], "A22 holds NaN"),
        ([[np.inf], [1.0]], [[9.0]], "A12 holds NaN"),
        (np.ones((1, 1)), [[9.0]], r"A12 must have shape \(2, 1\), not \(1, 1\)"),
        (np.zeros((2, 2)), np.eye(2), "2 more columns do not fit: 2 of 3 places"),
    ]
    for A12, A22, message in bad:
        with pytest.raises(ValueError, match=message):
            growing.append(A12, A22)
    assert (growing.size, growing.refused) == (2, 0)
    np.testing.assert_array_equal(growing.factor, before)


def test_bad_settings():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        GrowingCholesky(0)
    with pytest.raises(TypeError, match="float32 or float64, not int64"):
        GrowingCholesky(2, np.int64)
    with pytest.raises(ValueError, match=r"tol must lie in \[0, 1\)"):
        GrowingCholesky(2, tol=-1.0)
    with pytest.raises(ValueError, match="the factor is empty"):
        GrowingCholesky(2).solve(np.ones(1))
    with pytest.raises(TypeError, match="GrowingCholesky holds numpy arrays"):
        GrowingCholesky(2).append(torch.ones((0, 1)), torch.ones((1, 1)))
