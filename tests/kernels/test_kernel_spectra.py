"""Spectral densities against the kernels that they are the spectra of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, kve

from tiercel.kernels import (
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    _spectral,
)

KERNELS = [
    Gaussian(1.3),
    Laplacian(0.8),
    Matern(0.5, 2.0),
    Matern(1.5, 0.7),
    Matern(2.5, 1.0),
    RationalQuadratic(0.8, 1.2),
    RationalQuadratic(2.5, 0.9),
    RationalQuadratic(150.0, 1.1),
    Cauchy(0.6),
    Gaussian(1.0) + 0.5 * Laplacian(2.0),
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("delta", [0.3, 1.0, 2.5])
def test_inverse_transform_on_a_line(kernel, delta):
    def density(w):
        return kernel.spectral_density([[w]])[0]

    near = quad(lambda w: density(w) * np.cos(w * delta), 0.0, 1.0, limit=200)[0]
    far = quad(density, 1.0, np.inf, weight="cos", wvar=delta, limlst=200)[0]
    expected = kernel([[0.0]], [[delta]])[0, 0]
    assert 2.0 * (near + far) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(1.5), RationalQuadratic(0.6)])
def test_inverse_transform_in_space(kernel):
    # Radial in three dimensions: k(r) = 4 pi / r times the sine transform of w p(w).
    def radial(w):
        return w * kernel.spectral_density([[w, 0.0, 0.0]])[0]

    near = quad(lambda w: radial(w) * np.sin(1.4 * w), 0.0, 1.0)[0]
    far = quad(radial, 1.0, np.inf, weight="sin", wvar=1.4, limlst=200)[0]
    expected = kernel([[0.0] * 3], [[1.4, 0.0, 0.0]])[0, 0]
    assert 4.0 * np.pi / 1.4 * (near + far) == pytest.approx(expected, abs=1e-6)


def test_length_scales_stretch_the_density():
    lengths, w = np.array([0.5, 3.0]), np.array([[0.4, -1.1], [2.0, 0.1]])
    expected = 1.5 * Matern(2.5).spectral_density(w * lengths)
    np.testing.assert_allclose(Matern(2.5, lengths).spectral_density(w), expected)


def test_rational_quadratic_at_zero_frequency():
    assert RationalQuadratic(1.0).spectral_density([[0.0, 0.0]])[0] == np.inf
    kernel = RationalQuadratic(4.0)
    values = kernel.spectral_density([[0.0, 0.0], [1e-6, 0.0]])
    np.testing.assert_allclose(values[0], values[1], rtol=1e-9)


def test_bessel_function_beyond_overflow():
    x = np.array([1e-3, 0.5, 30.0, 200.0])
    direct = np.log(kve(60.5, x[1:])) - x[1:]
    uniform = _spectral.uniform_log_bessel_k(60.5, x[1:])
    np.testing.assert_allclose(uniform, direct, rtol=1e-7)
    # K_v(x) is Gamma(v) (2/x)^v / 2 for small x; it overflows here.
    limit = gammaln(150.0) + 150.0 * np.log(2.0 / x[0]) - np.log(2.0)
    assert _spectral.log_bessel_k(150.0, x)[0] == pytest.approx(limit, rel=1e-9)


def test_gaussian_frequencies_have_inverse_length_scales():
    kernel = Gaussian(np.array([0.5, 4.0]))
    w = kernel.sample_frequencies(40_000, 2, random_state=0)
    np.testing.assert_allclose(w.std(axis=0), [2.0, 0.25], rtol=0.02)
    np.testing.assert_array_equal(w, kernel.sample_frequencies(40_000, 2, 0))


def test_product_frequencies_are_sums():
    # A product of Gaussians is the Gaussian whose inverse variances add up.
    kernel = Gaussian(0.5) * (3.0 * Gaussian(1.0))
    w = kernel.sample_frequencies(40_000, 1, random_state=0)
    assert w.std() == pytest.approx(np.sqrt(5.0), rel=0.02)
    assert kernel.spectral_mass() == pytest.approx(3.0)


def test_sum_frequencies_are_a_mixture():
    kernel = 3.0 * Gaussian(0.01) + Gaussian(100.0)
    w = kernel.sample_frequencies(20_000, 1, random_state=0)
    assert np.mean(np.abs(w) > 1.0) == pytest.approx(0.75, abs=0.02)


def test_kernels_without_spectrum_say_so():
    assert not (Gaussian() + Linear()).shift_invariant
    with pytest.raises(TypeError, match="no spectral density"):
        Polynomial().spectral_density([[1.0]])
    with pytest.raises(TypeError, match="no spectral density"):
        (Gaussian() * Gaussian()).spectral_density([[1.0]])
    with pytest.raises(TypeError, match="Linear"):
        (Gaussian() * Linear()).sample_frequencies(5, 2)
