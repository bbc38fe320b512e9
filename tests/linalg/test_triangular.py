"""Triangular systems: every layout, both triangles, and what must not be touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import layouts, read_only

from tiercel.linalg import FactorisationError, solve_triangular
from tiercel.linalg.triangular import fortran_view


def upper(m, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    R = np.triu(rng.standard_normal((m, m))) / np.sqrt(m) + 2 * np.eye(m)
    return R.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [None, 1, 3])
@pytest.mark.parametrize("m", [1, 2, 33])
def test_every_layout(m, columns, dtype):
    rng = np.random.default_rng(1)
    B = rng.standard_normal(m if columns is None else (m, columns)).astype(dtype)
    tolerance = 100 * np.finfo(dtype).eps
    for R in layouts(upper(m, dtype)).values():
        for transpose in (False, True):
            for V in (R, R.T):  # upper, lower
                operator = V.T if transpose else V
                expected = np.linalg.solve(operator.astype(float), B.astype(float))
                for right in [*layouts(B).values(), read_only(B)]:
                    X = solve_triangular(
                        V, right, transpose=transpose, lower=V is not R
                    )
                    assert X.dtype == dtype
                    np.testing.assert_allclose(X, expected, tolerance, tolerance)
                    np.testing.assert_array_equal(right, B)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("name", layouts(np.eye(2)))
def test_overwrites_only_when_told(name, transpose):
    R, B = upper(7), np.arange(28.0).reshape(7, 4)
    expected = np.linalg.solve(R.T if transpose else R, B)
    fixed = read_only(B)
    for right in (layouts(B)[name], fixed, B.tolist()):
        X = solve_triangular(R, right, transpose=transpose, overwrite=True)
        np.testing.assert_allclose(X, expected, rtol=1e-12)
    np.testing.assert_array_equal(fixed, B)
    whole = layouts(B)[name]
    X = solve_triangular(R, whole, transpose=transpose, overwrite=True)
    assert np.shares_memory(X, whole) == (name in ("rows", "columns"))


def test_the_other_triangle_is_not_read():
    R, b = upper(9), np.arange(9.0)
    filled = np.where(np.tri(9, k=-1, dtype=bool), np.nan, R)
    np.testing.assert_array_equal(solve_triangular(filled, b), solve_triangular(R, b))
    np.testing.assert_array_equal(
        solve_triangular(filled.T, b, lower=True), solve_triangular(R.T, b, lower=True)
    )


@pytest.mark.parametrize("name", ["block of rows", "block of columns"])
def test_blocks_are_used_where_they_lie(name):
    R = layouts(upper(6))[name]
    view, flipped = fortran_view(R)
    assert np.shares_memory(view, R)
    assert flipped == (name == "block of rows")
    np.testing.assert_array_equal(view[:6, :6], R.T if flipped else R)


@given(seed=st.integers(0, 10_000), m=st.integers(1, 20), spread=st.floats(0, 30))
def test_backward_stable_for_any_grading(seed, m, spread):
    rng = np.random.default_rng(seed)
    grades = 10 ** (spread * rng.uniform(-1, 1, m))
    R = np.triu(rng.standard_normal((m, m))) * grades[:, None] + np.diag(grades)
    R[np.diag_indices(m)] = grades
    b = rng.standard_normal(m)
    x = solve_triangular(R, b)
    bound = 4 * m * np.finfo(float).eps * (np.abs(R) @ np.abs(x))
    assert (np.abs(R @ x - b) <= bound + 1e-300).all()


def test_right_hand_sides_take_the_factors_dtype():
    R = upper(5, np.float32)
    assert solve_triangular(R, np.arange(5)).dtype == np.float32
    assert solve_triangular(R, np.arange(5.0)).dtype == np.float32


@pytest.mark.parametrize("columns", [None, 3])
def test_torch_equals_numpy(columns):
    torch = pytest.importorskip("torch")
    R = upper(8)
    B = np.random.default_rng(2).standard_normal(8 if columns is None else (8, columns))
    for transpose in (False, True):
        for V, lower in ((R, False), (R.T.copy(), True)):
            expected = solve_triangular(V, B, transpose=transpose, lower=lower)
            for overwrite in (False, True):
                X = solve_triangular(
                    torch.from_numpy(V),
                    torch.from_numpy(B.copy()),
                    transpose=transpose,
                    lower=lower,
                    overwrite=overwrite,
                )
                np.testing.assert_allclose(X.numpy(), expected, rtol=1e-12)


def test_singular_matrices_are_refused():
    R = np.diag([1.0, 0.0, 2.0])
    with pytest.raises(FactorisationError, match=r"entry 1 .* is 0, .*larger penalty"):
        solve_triangular(R, np.ones(3))
    R[2, 2] = np.nan
    with pytest.raises(FactorisationError, match="entry 1"):
        solve_triangular(R, np.ones(3))
    with pytest.raises(FactorisationError, match="entry 1"):
        solve_triangular(R, np.ones(3), check=False)  # LAPACK looks itself


@pytest.mark.parametrize(
    ("R", "B", "message"),
    [
        (np.ones((2, 3)), np.ones(2), r"R must be a square matrix .*\(2, 3\)"),
        (np.ones((0, 0)), np.ones(0), "R must be a square matrix"),
        (np.eye(2), np.ones(3), r"B must have shape \(2,\) or \(2, T\).*\(3,\)"),
        (np.eye(2), np.ones((2, 0)), "B must have shape"),
        (np.eye(2), [1.0, np.nan], "B holds NaN or infinite values"),
    ],
)
def test_bad_shapes_and_values(R, B, message):
    with pytest.raises(ValueError, match=message):
        solve_triangular(R, B)


def test_bad_kinds():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="mixes numpy arrays and torch tensors"):
        solve_triangular(np.eye(2), torch.ones(2))
    with pytest.raises(TypeError, match="R is complex"):
        solve_triangular(np.eye(2) * 1j, np.ones(2))
