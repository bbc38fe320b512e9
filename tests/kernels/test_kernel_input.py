"""Impossible parameters and points are refused, with errors that say why."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tiercel.kernels import (
    Gaussian,
    Kernel,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    RationalQuadratic,
)

X = np.random.default_rng(0).standard_normal((5, 3))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Gaussian(0.0), "length_scale must be positive"),
        (Gaussian(np.nan), "length_scale must be positive"),
        (Linear([1.0, -1.0, 1.0]), "length_scale must be positive"),
        (Gaussian([1.0, 2.0]), "the points have 3 columns"),
        (Gaussian(np.ones((3, 1))), "the points have 3 columns"),
        (Gaussian("wide"), "length_scale must be a number"),
        (Gaussian(None), "length_scale must be positive"),
        (Matern(nu=1.0), "nu must be 0.5, 1.5 or 2.5"),
        (RationalQuadratic(alpha=0.0), "alpha must be positive"),
        (RationalQuadratic(alpha="a"), "alpha must be a number"),
        (Polynomial(degree=0), "degree must be a positive integer"),
        (Polynomial(degree=2.0), "degree must be a positive integer"),
        (Polynomial(offset=-0.1), "offset must be non-negative"),
    ],
)
def test_parameters(kernel, message):
    for call in (kernel, kernel.diagonal, lambda X: kernel.check(X.shape[1])):
        with pytest.raises(ValueError, match=message):
            call(X)


@pytest.mark.parametrize(
    ("points", "error", "message"),
    [
        (np.where(X > 1, np.nan, X), ValueError, "NaN"),
        (X[0], ValueError, "two dimensions"),
        (X[:0], ValueError, "empty"),
        (X + 1j, TypeError, "complex"),
        (np.array([["a"]]), TypeError, "numbers are needed"),
        (X[:, :2], ValueError, "X has 3 columns but Z has 2"),
    ],
)
def test_points(points, error, message):
    with pytest.raises(error, match=message):
        Gaussian()(X, points)


def test_libraries_do_not_mix():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="one library"):
        Gaussian()(torch.from_numpy(X), X)
    with pytest.raises(TypeError, match="one library"):
        Gaussian()(sparse.csr_matrix(X), torch.from_numpy(X))


def test_kernels_that_cannot_do_sparse_say_so():
    class Minimum(Kernel):
        def evaluate(self, X, Z):
            return np.minimum(X[:, :1], Z[:, :1].T)

    with pytest.raises(TypeError, match="does not take sparse"):
        Minimum()(sparse.csr_matrix(X))
    np.testing.assert_array_equal(Minimum().diagonal(X), X[:, 0])


def test_positions_of_precomputed_kernels():
    with pytest.raises(TypeError, match="integer positions"):
        Precomputed()(X, [0.5])
    with pytest.raises(ValueError, match="from 0 to 2"):
        Precomputed()(X, [3])
    with pytest.raises(ValueError, match="square"):
        Precomputed().diagonal(X)


def test_kernels_between_objects_that_are_no_vectors():
    class SharedLetters(Kernel):
        def prepare(self, X, Z):
            X = np.asarray(X, dtype=object)
            return X, X if Z is None else np.asarray(Z, dtype=object)

        def evaluate(self, X, Z):
            return np.array([[float(len({*x} & {*z})) for z in Z] for x in X])

    K = SharedLetters()(["kite", "hawk"], ["kestrel"])
    np.testing.assert_array_equal(K, [[3.0], [1.0]])
    assert K.dtype == np.float64
    np.testing.assert_array_equal((2.0 * SharedLetters()).diagonal(["owl"]), [6.0])
