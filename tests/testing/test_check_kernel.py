"""The conformance case passes what is right and names what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel.kernels import (
    Cauchy,
    DistanceKernel,
    DotKernel,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    RationalQuadratic,
)
from tiercel.testing import check_kernel, kernel_checks

LENGTHS = [0.7, 1.3, 2.0]


class Wendland(DistanceKernel):
    """A compactly supported kernel, as a user would write it."""

    def __init__(self, length_scale=1.0):
        self.length_scale = length_scale

    def profile(self, t, xp):
        r = xp.sqrt(t)
        return xp.clip(1.0 - r, 0.0, None) ** 4 * (4.0 * r + 1.0)

    def profile_derivative(self, t, xp):
        return -10.0 * xp.clip(1.0 - xp.sqrt(t), 0.0, None) ** 3


class Minimum(Kernel):
    """A kernel that defines its matrix and nothing else."""

    def evaluate(self, X, Z):
        return (X[:, :1] * Z[:, :1].T > 0) * 1.0


KERNELS = [
    Linear(),
    Linear(LENGTHS),
    Polynomial(),
    Polynomial(1, 0.0),
    Polynomial(5, 0.5, LENGTHS),
    Gaussian(1.5),
    Gaussian(LENGTHS),
    Laplacian(),
    Laplacian(LENGTHS),
    Matern(0.5),
    Matern(1.5),
    Matern(2.5, LENGTHS),
    RationalQuadratic(),
    RationalQuadratic(30.0, LENGTHS),
    Cauchy(2.0),
    Precomputed(),
    0.5 * Gaussian(2.0) + Linear(),
    Gaussian(2.0) * Polynomial(2, 1.0, LENGTHS),
    Laplacian(2.0) * Gaussian(LENGTHS),
    3.0 * (Cauchy(2.0) + 2.0 * Matern(1.5)),
    Precomputed() + 2.0 * Precomputed(),
    Wendland(3.0),
    Wendland(3.0) + Gaussian(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_right_kernels_pass(kernel):
    check_kernel(kernel)


def test_one_column_and_other_points():
    check_kernel(Gaussian(2.0) + Linear(), n_features=1, random_state=7)
    check_kernel(Matern(0.5), n_features=8, random_state=8)


@settings(deadline=None, max_examples=25)
@given(
    leaf=st.sampled_from([Gaussian, Laplacian, Matern, RationalQuadratic, Cauchy]),
    log_scale=st.floats(-3.0, 3.0),
    n_features=st.integers(1, 10),
    seed=st.integers(0, 1000),
)
def test_any_length_scale_passes(leaf, log_scale, n_features, seed):
    check_kernel(leaf(length_scale=10.0**log_scale), n_features, seed)


class Wrong(Gaussian):
    """A Gaussian whose subclasses break one promise each."""


class WrongDerivative(Wrong):
    def profile_derivative(self, t, xp):
        return 0.5 * xp.exp(-0.5 * t)


class WrongInPlace(Wrong):
    fold = 1.0


class WrongFused(Wrong):
    fused = "tl.exp(-t)"


class WrongSign(Wrong):
    def profile(self, t, xp):
        return -xp.exp(-0.5 * t)


class WrongSpectrum(Wrong):
    def _density(self, r, n_features):
        return 1.05 * super()._density(r, n_features)


class WrongFrequencies(Wrong):
    def _draw(self, shape, rng):
        return 1.05 * super()._draw(shape, rng)


class WrongDiagonal(Wrong):
    def evaluate_diagonal(self, X):
        return 2.0 * super().evaluate_diagonal(X)


class WrongCheck(Wrong):
    def check(self, n_features):
        pass


class WrongRoughness(DistanceKernel):
    def profile(self, t, xp):
        return xp.exp(-xp.sqrt(t))


class WrongSymmetry(Kernel):
    def evaluate(self, X, Z):
        return X @ Z.T + X[:, :1]


class WrongStorage(Wrong):
    def __init__(self, length_scale=1.0):
        self.length_scale = 2.0 * length_scale


class ForgottenGradient(DotKernel):
    def __init__(self, slope=1.0):
        self.slope = slope

    def profile(self, t, xp):
        return xp.exp(self.slope * t)

    def profile_derivative(self, t, xp):
        return self.slope * self.profile(t, xp)


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (WrongDerivative(), "parameter_gradients point_gradients"),
        (WrongInPlace(), "in_place_profile_equals_profile"),
        (WrongFused(), "fused_expression_equals_profile"),
        (WrongSign(), "positive_semidefinite"),
        (WrongSpectrum(), "spectral_density_fits_frequencies"),
        (WrongFrequencies(), "frequencies_reproduce_kernel"),
        (WrongDiagonal(), "diagonal_agrees"),
        (WrongCheck(), "bad_parameters_raise"),
        (WrongRoughness(), "rough_where_needed"),
        (WrongSymmetry(), "symmetric"),
        (WrongStorage(), "parameters_round_trip"),
        (ForgottenGradient(), "parameter_gradients"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_wrong_kernels_are_caught(kernel, names):
    failures = {}
    for name, check in kernel_checks(kernel):
        try:
            check()
        except AssertionError as error:
            failures[name] = str(error)
    assert failures.keys() >= set(names.split())
    assert all(name in message for name, message in failures.items())
    with pytest.raises(AssertionError, match=type(kernel).__name__):
        check_kernel(kernel)


def test_gradients_and_spectra_are_optional():
    check_kernel(Minimum())
    with pytest.raises(TypeError, match="no gradients"):
        Minimum().pullback(np.ones((1, 1)), None, np.ones((1, 1)))
