"""R R' against the dense product, for sizes that no block divides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrices import layouts, read_only

from tiercel.linalg import triangular_gram
from tiercel.linalg.multiply import _gram_by_blocks


def triangle(m, dtype=np.float64):
    """An upper triangle, and what must be left alone below it."""
    return np.random.default_rng(m).uniform(-1, 1, (m, m)).astype(dtype)


def dense(R):
    U = np.triu(R).astype(float)
    return np.triu(U @ U.T) + np.tril(R, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 2, 7, 129, 300])
def test_every_layout(m, dtype):
    R = triangle(m, dtype)
    bound = 2 * m * np.finfo(dtype).eps * dense(np.abs(R))
    for name, array in [*layouts(R).items(), ("read-only", read_only(R))]:
        product = triangular_gram(array)
        assert product.dtype == dtype
        assert (np.abs(product - dense(R)) <= bound).all()
        np.testing.assert_array_equal(array, R)
        over = triangular_gram(array, overwrite=True)
        np.testing.assert_array_equal(over, product)
        if name in ("rows", "columns"):
            assert over is array


def test_the_lower_triangle_is_not_read():
    R = np.where(np.tri(9, k=-1, dtype=bool), np.nan, triangle(9))
    expected = dense(np.triu(R))
    np.testing.assert_allclose(np.triu(triangular_gram(R)), expected, atol=1e-14)


@given(m=st.integers(1, 40), block=st.integers(1, 45))
def test_torch_in_blocks(m, block):
    torch = pytest.importorskip("torch")
    R = torch.from_numpy(triangle(m))
    expected = dense(R.numpy())
    assert _gram_by_blocks(R, block) is R
    np.testing.assert_allclose(R.numpy(), expected, atol=1e-13)


def test_torch_overwrites_only_when_told():
    torch = pytest.importorskip("torch")
    R = torch.from_numpy(triangle(9))
    product = triangular_gram(R)
    np.testing.assert_array_equal(R.numpy(), triangle(9))
    assert triangular_gram(R, overwrite=True) is R
    np.testing.assert_array_equal(R.numpy(), product.numpy())


@pytest.mark.parametrize("R", [np.ones((2, 3)), np.ones((0, 0)), np.ones(4)])
def test_bad_shapes(R):
    with pytest.raises(ValueError, match="R must be a square matrix"):
        triangular_gram(R)
