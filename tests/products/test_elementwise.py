"""The compiled exponential against extended precision, and where it is used."""

import numpy as np
import pytest

from tiercel import products
from tiercel.kernels import Gaussian, Laplacian, Matern
from tiercel.products import elementwise

LOOPS = {"float32": elementwise.exp_float32, "float64": elementwise.exp_float64}


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 9e-8), ("float64", 2e-16)])
def test_exponentials_are_right_to_rounding(dtype, bound):
    info = np.finfo(dtype)
    ends = np.log(info.smallest_normal), np.log(info.max)
    rng = np.random.default_rng(0)
    wide = rng.uniform(*ends, 100_000).astype(dtype)
    x = np.concatenate([wide, rng.standard_normal(100_000).astype(dtype)])
    exact = np.exp(x.astype(np.longdouble))
    LOOPS[dtype](x)
    assert np.max(np.abs(x / exact - 1)) < bound


@pytest.mark.parametrize("dtype", LOOPS)
def test_the_ends_of_the_range_are_those_of_numpy(dtype):
    x = np.array([0.0, -0.0, 1e-30, -1e4, 1e4, np.inf, -np.inf, np.nan], dtype)
    expected = np.array([1.0, 1.0, 1.0, 0.0, np.inf, np.inf, 0.0, np.nan], dtype)
    LOOPS[dtype](x)
    np.testing.assert_array_equal(x, expected)


def test_what_cannot_be_done_in_place_is_left_to_numpy():
    fast = elementwise.Elementwise()
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    assert np.array_equal(fast.exp(x), np.exp(x))
    columns = x[:, :2].copy(order="F")
    expected = np.exp(columns)
    assert fast.exp(columns, out=columns) is columns
    assert np.array_equal(columns, expected)
    assert fast.sqrt is np.sqrt


@pytest.mark.parametrize("dtype", LOOPS)
@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(2.0), Matern(2.5, 2.0)])
def test_large_products_with_it_are_as_exact(monkeypatch, kernel, dtype):
    monkeypatch.setattr(elementwise, "MANY", 1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 6)).astype(dtype)
    v = rng.standard_normal(80)
    exact = kernel(X.astype(float), X[:80].astype(float)) @ v
    result = products.product(kernel, X, X[:80], v)
    bound = 5e-6 if dtype == "float32" else 3e-13
    assert np.linalg.norm(result - exact) < bound * np.linalg.norm(exact)
