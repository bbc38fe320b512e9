"""The oracle of the engine's tests: dense kernel matrices in float64, all verbs."""

from __future__ import annotations

import numpy as np

from tiercel import kernels as k
from tiercel import products


class InverseMultiquadric(k.DistanceKernel):
    """A user's kernel with nothing but a profile."""

    def __init__(self, length_scale=1.0):
        self.length_scale = length_scale

    def profile(self, t, xp):
        return (1.0 + t) ** -0.5


KERNELS = {
    "linear": k.Linear(2.0),
    "polynomial": k.Polynomial(3, offset=0.5, length_scale=2.0),
    "gaussian": k.Gaussian(1.7),
    "gaussian_scales": k.Gaussian(np.array([1.0, 2.0, 1.5, 3.0, 1.2, 2.5])),
    "laplacian": k.Laplacian(2.0),
    "matern12": k.Matern(0.5, 2.0),
    "matern32": k.Matern(1.5, 2.0),
    "matern52": k.Matern(2.5, 2.0),
    "rational_quadratic": k.RationalQuadratic(1.5, 2.0),
    "cauchy": k.Cauchy(2.0),
    "sum": 0.5 * k.Gaussian(2.0) + k.Linear(3.0),
    "product": k.Gaussian(3.0) * k.Laplacian(np.arange(1.0, 7.0)) + k.Cauchy(),
    "own profile": InverseMultiquadric(2.0),
}

#: Relative error in norm. float32: entries of distance kernels carry an absolute error
#: of about 2**-24 times the scaled squared norm, at most 32 (products.precision.FAR).
TOLERANCE = {"float32": 5e-6, "float64": 3e-13}


def error(result, exact):
    """Return the relative error in norm of an array or tensor."""
    return np.linalg.norm(np.asarray(result) - exact) / np.linalg.norm(exact)


def problem(dtype, n=700, m=130, d=6, outputs=3, shift=0.0, seed=0):
    """Points of which some rows are centres (distance zero), vectors and weights."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) + shift).astype(dtype)
    Z = rng.standard_normal((m, d)) + shift
    Z[: m // 2] = X[np.arange(m // 2) % n]
    V = rng.standard_normal((m, outputs))
    U = rng.standard_normal((n, outputs))
    return X, Z.astype(dtype), V.astype(dtype), U.astype(dtype), rng.random(n)


def check_all(kernel, X, Z, V, U, w, tolerance, gram_tolerance=3e-13, **options):
    """Assert that all verbs equal dense algebra in float64."""
    op = products.KernelOperator(kernel, X, Z, **options)
    K = kernel(np.asarray(X, np.float64), np.asarray(Z, np.float64))
    check_operator(op, K, V, U, w, tolerance, gram_tolerance)


def check_operator(op, K, V, U, w, tolerance, gram_tolerance=3e-13):
    """Assert that an operator's verbs are those of the dense matrix ``K``."""
    V64, U64, w64 = (np.asarray(a, np.float64) for a in (V, U, w))
    assert error(op.product(V), K @ V64) < tolerance
    assert error(op.product(V[:, 0]), K @ V64[:, 0]) < tolerance
    assert error(op.cross_product(U), K.T @ U64) < tolerance
    assert error(op.gram_product(V), K.T @ (K @ V64)) < 2 * tolerance
    weighted = K.T @ (w64[:, None] * (K @ V64))
    assert error(op.gram_product(V, w), weighted) < 2 * tolerance
    assert error(op.matrix(), K) < tolerance
    G, cross = op.gram(w, U)
    assert str(G.dtype).endswith("float64")
    assert error(G, K.T @ (w64[:, None] * K)) < gram_tolerance
    assert error(cross, K.T @ (w64[:, None] * U64)) < gram_tolerance
    assert np.array_equal(np.asarray(G), np.asarray(G).T)
