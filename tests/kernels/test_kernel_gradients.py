"""Gradients against the textbook sums over pairs and inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tiercel.kernels import (
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    RationalQuadratic,
)

LENGTHS = np.array([0.7, 1.5, 2.5])


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    return X, Z, rng.standard_normal((6, 4))


def test_gaussian_gradient_written_out(problem):
    X, Z, U = problem
    difference = (X[:, None, :] - Z[None, :, :]) / LENGTHS**2  # (n, m, d)
    UK = (U * Gaussian(LENGTHS)(X, Z))[:, :, None]
    gradient = Gaussian(LENGTHS).pullback(X, Z, U)
    np.testing.assert_allclose(gradient.X, -(UK * difference).sum(axis=1))
    np.testing.assert_allclose(gradient.Z, (UK * difference).sum(axis=0))
    to_lengths = (UK * difference**2 * LENGTHS).sum(axis=(0, 1))
    np.testing.assert_allclose(gradient.parameters["length_scale"], to_lengths)


def test_jacobian_of_polynomial_written_out(problem):
    X, Z, _ = problem
    jacobian = Polynomial(3, 0.5, 2.0).jacobian(X, Z)
    slope = 3.0 * (X @ Z.T / 4.0 + 0.5) ** 2
    np.testing.assert_allclose(jacobian["offset"], slope)
    np.testing.assert_allclose(jacobian["X"], slope[:, :, None] * Z[None, :, :] / 4.0)
    np.testing.assert_allclose(jacobian["length_scale"], -slope * (X @ Z.T) / 4.0)


def test_one_length_scale_is_the_sum_of_equal_ones(problem):
    for kernel in (Matern(2.5), RationalQuadratic(0.4), Linear()):
        one = kernel.set_params(length_scale=1.3).pullback(*problem)
        many = kernel.set_params(length_scale=np.full(3, 1.3)).pullback(*problem)
        total = many.parameters["length_scale"].sum()
        np.testing.assert_allclose(one.parameters["length_scale"], total)


def test_vector_gradients_survive_far_data(problem):
    X, Z, U = problem
    near = Gaussian(LENGTHS).pullback(X, Z, U)
    far = Gaussian(LENGTHS).pullback(X + 1e4, Z + 1e4, U)
    np.testing.assert_allclose(far.X, near.X, rtol=1e-8)
    actual, expected = (g.parameters["length_scale"] for g in (far, near))
    np.testing.assert_allclose(actual, expected, rtol=1e-8)


@pytest.mark.parametrize("kernel", [Laplacian(), Matern(0.5), Matern(1.5)])
def test_coincident_points_add_nothing(kernel, problem):
    X, _, _ = problem
    gradient = kernel.pullback(X, X.copy(), np.eye(6))
    np.testing.assert_array_equal(gradient.X, np.zeros_like(X))
    assert gradient.parameters["length_scale"] == 0.0
    alone = kernel.pullback(X, None, np.ones((6, 6)))
    assert np.all(np.isfinite(alone.X))
    np.testing.assert_allclose(alone.X, alone.Z)


def test_composites_follow_the_chain_rule(problem):
    X, Z, U = problem
    left, right = Gaussian(2.0), Polynomial(2, 0.3)
    gradient = (0.7 * (left * right)).pullback(X, Z, U)
    of_left = left.pullback(X, Z, 0.7 * U * right(X, Z))
    of_right = right.pullback(X, Z, 0.7 * U * left(X, Z))
    np.testing.assert_allclose(gradient.X, of_left.X + of_right.X)
    assert gradient.parameters.keys() == {
        "factor",
        "base__left__length_scale",
        "base__right__length_scale",
        "base__right__offset",
    }
    expected = of_right.parameters["offset"]
    np.testing.assert_allclose(gradient.parameters["base__right__offset"], expected)
    total = np.sum(U * left(X, Z) * right(X, Z))
    np.testing.assert_allclose(gradient.parameters["factor"], total)


def test_precomputed_scatters_to_its_columns(problem):
    X, _, _ = problem
    U = np.arange(12.0).reshape(6, 2)
    gradient = Precomputed().pullback(X, [2, 0], U)
    expected = np.column_stack([U[:, 1], np.zeros(6), U[:, 0]])
    np.testing.assert_array_equal(gradient.X, expected)
    assert gradient.Z is None


def test_float32_points_get_float32_gradients(problem):
    X, Z, U = (a.astype(np.float32) for a in problem)
    gradient = Gaussian().pullback(X, Z, U)
    exact = Gaussian().pullback(*(a.astype(float) for a in (X, Z, U)))
    assert gradient.X.dtype == gradient.Z.dtype == np.float32
    np.testing.assert_allclose(gradient.X, exact.X, rtol=1e-6)
    assert gradient.parameters == exact.parameters


def test_gradients_that_cannot_be_had_say_so(problem):
    X, Z, U = problem

    class Minimum(Kernel):
        def evaluate(self, X, Z):
            return np.minimum(X[:, :1], Z[:, :1].T)

    with pytest.raises(TypeError, match="define differentiate"):
        Minimum().pullback(X, Z, U)
    with pytest.raises(ValueError, match=r"U has shape \(6, 3\)"):
        Gaussian().pullback(X, Z, U[:, :3])
