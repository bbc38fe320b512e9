"""Random features over many draws: their mean is the kernel, their spread is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tiercel.features import FourierFeatures
from tiercel.features.frequencies import draw_norms, isotropic_scale
from tiercel.kernels import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic

KERNELS = [
    Gaussian(1.3),
    Gaussian([0.5, 2.0, 1.0]),
    Laplacian(0.8),
    Matern(1.5, 0.7),
    Matern(2.5, [1.0, 3.0, 0.5]),
    RationalQuadratic(0.8, 1.2),
    Cauchy(0.6),
    2.5 * Gaussian(0.7),
    Gaussian([1.0, 2.0, 0.5]) + 0.5 * Laplacian([2.0, 4.0, 1.0]),
    Gaussian(1.0) * Cauchy(1.5),
]
MAPS = ["sincos", "phase"]
SAMPLINGS = ["independent", "orthogonal", "structured"]
POINTS = np.array([[0.3, -0.1, 0.2], [0.5, 0.9, -0.4], [-1.0, 0.6, 1.5], [2.0, 0, 0]])


def values(kernel, n_draws, X=POINTS, **settings):
    """Return phi(x)'phi(z) of every draw, (n_draws, n, n)."""
    draws = [
        FourierFeatures(kernel, random_state=seed, **settings).fit_transform(X)
        for seed in range(n_draws)
    ]
    return np.array([Phi @ Phi.T for Phi in draws])


def squared_errors(kernel, n_draws, X, **settings):
    """Return the mean squared error over all pairs, for every draw."""
    deviation = values(kernel, n_draws, X, **settings) - kernel(X)
    return np.mean(deviation**2, axis=(1, 2))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_mean_is_the_kernel(kernel, map, sampling):
    drawn = values(kernel, 120, map=map, sampling=sampling, n_frequencies=60)
    spread = drawn.std(axis=0) / np.sqrt(len(drawn))
    deviation = np.abs(drawn.mean(axis=0) - kernel(POINTS))
    assert (deviation <= 4.5 * spread + 1e-12).all()
    assert spread.max() < 0.02 * kernel.spectral_mass()


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Cauchy()], ids=repr)
@pytest.mark.parametrize("map", MAPS)
def test_variance_is_that_of_sutherland_and_schneider(kernel, map):
    X = np.array([[0.0, 0.0], [0.6, 0.5]])
    error = values(kernel, 1500, X, map=map, n_frequencies=20)[:, 0, 1]
    k, k2 = kernel(X)[0, 1], kernel(2.0 * X)[0, 1]
    expected = (
        (1 + k2 - 2 * k * k) / 40 if map == "sincos" else (1 + k2 / 2 - k * k) / 20
    )
    # A sample variance of 1500 draws spreads by root 2 / 1500, more or less: 3.7 %.
    assert np.var(error) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("sampling", ["orthogonal", "structured"])
@pytest.mark.parametrize("n_inputs", [2, 5, 8, 9, 70])
def test_orthogonal_directions_lower_the_error_of_a_gaussian(n_inputs, sampling):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((12, n_inputs)) / np.sqrt(n_inputs)
    n_frequencies = max(16, 2 * n_inputs)
    plain, drawn = (
        squared_errors(Gaussian(), 200, X, sampling=s, n_frequencies=n_frequencies)
        for s in ("independent", sampling)
    )
    gain = plain.mean() - drawn.mean()
    assert gain > 3.0 * np.hypot(plain.std(), drawn.std()) / np.sqrt(200)


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("sampling", ["orthogonal", "structured"])
@pytest.mark.parametrize("kernel", [Gaussian(0.5), Matern(1.5)], ids=repr)
def test_each_frequency_keeps_its_law(kernel, sampling, n_inputs):
    # Norms and directions of the last frequency of each of 4000 independent blocks.
    size = n_inputs
    if sampling == "structured":  # the next power of two
        size = 2 ** (n_inputs - 1).bit_length()
    features = FourierFeatures(
        kernel, 4000 * size, sampling=sampling, random_state=0
    ).fit(np.zeros((1, n_inputs)))
    drawn = features.frequencies_[size - 1 :: size]
    independent = kernel.sample_frequencies(4000, n_inputs, 1)
    norms = np.linalg.norm(drawn, axis=1)
    expected = np.linalg.norm(independent, axis=1)
    assert stats.ks_2samp(norms, expected).pvalue > 1e-5
    first, diagonal = drawn[:, 0] / norms, drawn.sum(axis=1) / norms
    if n_inputs == 1:
        assert abs(first.mean()) < 4.5 / np.sqrt(4000)
        return
    # A coordinate of a random direction is Beta((d - 1) / 2, (d - 1) / 2) on (-1, 1).
    half = (n_inputs - 1) / 2
    law = stats.beta(half, half, loc=-1, scale=2).cdf
    for coordinate in (first, diagonal / np.sqrt(n_inputs)):
        assert stats.kstest(coordinate, law).pvalue > 1e-5


def test_orthogonal_blocks_are_orthogonal():
    scale = np.array([0.5, 1.0, 2.0, 4.0])
    features = FourierFeatures(
        Matern(0.5, scale), 10, sampling="orthogonal", random_state=0
    ).fit(np.zeros((1, 4)))
    white = features.frequencies_ * scale
    white /= np.linalg.norm(white, axis=1)[:, None]
    for block in (white[:4], white[4:8], white[8:]):
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-14)


def test_scale_undoes_length_scales_that_are_proportional():
    kernel = 2.0 * (Gaussian([1.0, 4.0]) * Matern(1.5, [0.5, 2.0])) + Cauchy([3, 12])
    np.testing.assert_allclose(isotropic_scale(kernel, 2), [1.0, 0.25])
    drawn = kernel.sample_frequencies(20_000, 2, 0) / [1.0, 0.25]
    angle = np.arctan2(*drawn.T) / np.pi
    assert stats.kstest(angle, stats.uniform(-1, 2).cdf).pvalue > 1e-5


def test_norms_are_drawn_in_chunks(monkeypatch):
    monkeypatch.setattr("tiercel.features.frequencies.CHUNK", 64)
    norms = draw_norms(
        Gaussian(0.5), (3000, 3), np.full(3, 2.0), np.random.default_rng()
    )
    assert stats.kstest(norms, stats.chi(3).cdf).pvalue > 1e-5
