"""Every kernel against its formula, written out pair by pair."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gamma, kv
from sklearn.metrics.pairwise import polynomial_kernel

from tiercel.kernels import (
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    RationalQuadratic,
)

SCALES = [1.7, np.array([0.5, 1.0, 3.0, 10.0])]


def pairwise_distances(X, Z, length_scale):
    difference = (X[:, None, :] - Z[None, :, :]) / length_scale
    return np.sqrt(np.sum(difference**2, axis=2))


def general_matern(r, nu):
    s = np.sqrt(2.0 * nu) * r
    return 2.0 ** (1.0 - nu) / gamma(nu) * s**nu * kv(nu, s)


FORMULAS = [
    (Gaussian(), lambda r: np.exp(-(r**2) / 2.0)),
    (Laplacian(), lambda r: np.exp(-r)),
    (Matern(0.5), lambda r: general_matern(r, 0.5)),
    (Matern(1.5), lambda r: general_matern(r, 1.5)),
    (Matern(2.5), lambda r: general_matern(r, 2.5)),
    (RationalQuadratic(0.3), lambda r: (1.0 + r**2 / 0.6) ** -0.3),
    (Cauchy(), lambda r: 1.0 / (1.0 + r**2)),
]


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return rng.standard_normal((6, 4)), rng.standard_normal((5, 4))


@pytest.mark.parametrize("length_scale", SCALES, ids=["scalar", "vector"])
@pytest.mark.parametrize(("kernel", "formula"), FORMULAS)
def test_distance_kernels(kernel, formula, length_scale, points):
    kernel = kernel.__class__(**kernel.get_params() | {"length_scale": length_scale})
    expected = formula(pairwise_distances(*points, length_scale))
    np.testing.assert_allclose(kernel(*points), expected, rtol=1e-12)


@pytest.mark.parametrize("length_scale", SCALES, ids=["scalar", "vector"])
def test_dot_kernels(length_scale, points):
    X, Z = (p / length_scale for p in points)
    np.testing.assert_allclose(Linear(length_scale)(*points), X @ Z.T, rtol=1e-12)
    expected = polynomial_kernel(X, Z, degree=4, gamma=1.0, coef0=0.5)
    actual = Polynomial(4, 0.5, length_scale)(*points)
    np.testing.assert_allclose(actual, expected, rtol=1e-11)


def test_precomputed_selects_columns(points):
    K = Gaussian()(*points)
    kernel = Precomputed()
    np.testing.assert_array_equal(kernel(K), K)
    np.testing.assert_array_equal(kernel(K, [3, 0]), K[:, [3, 0]])
    np.testing.assert_array_equal(kernel(K, np.array([[2]])), K[:, [2]])
    np.testing.assert_array_equal(kernel.diagonal(K[:5]), K[:5].diagonal())


def test_results_keep_dtype_and_library(points):
    torch = pytest.importorskip("torch")
    X, Z = points
    assert Gaussian()(X.astype(np.float32), Z).dtype == np.float64
    assert Gaussian()(X.astype(int), None).dtype == np.float64
    tensor = Gaussian()(torch.from_numpy(X).float())
    assert tensor.dtype == torch.float32
    exact = Gaussian()(X.astype(np.float32).astype(float))
    np.testing.assert_allclose(tensor.numpy(), exact, rtol=1e-6)


def test_sparse_with_dense_centers(points):
    X, Z = points
    for kernel in (Laplacian(2.0), Polynomial(2)):
        mixed = kernel(sparse.csr_matrix(X), Z)
        np.testing.assert_allclose(mixed, kernel(X, Z), rtol=1e-12)


def test_operations_count_columns():
    assert Linear().operations(30) == 60
    assert Gaussian().operations(30) == 70
    assert (2.0 * Gaussian() + Linear()).operations(30) == 132


def test_wide_sparse_points_stay_sparse():
    X = sparse.random_array((6, 10_000_000), density=2e-6, format="csr", rng=0)
    Z = X[:4]
    narrow = np.unique(X.indices)
    kernel = Matern(1.5, 2.0) + Polynomial(2)
    tracemalloc.start()
    K, gradient = kernel(X, Z), kernel.pullback(X, Z, np.ones((6, 4)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80_000_000  # less than one dense row
    dense = X[:, narrow].toarray()
    np.testing.assert_allclose(K, kernel(dense, dense[:4]), rtol=1e-12)
    expected = kernel.pullback(dense, dense[:4], np.ones((6, 4))).parameters
    assert gradient.parameters == pytest.approx(expected, rel=1e-10)
