"""How good a map is: measured, and promised by the bound."""

from __future__ import annotations

import numpy as np
import pytest

from tiercel.features import FourierFeatures, _rows, suggest_n_frequencies
from tiercel.kernels import Gaussian

KERNEL = Gaussian(0.5**0.5)  # exp(-||x - z||^2)
SQUARE = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 2))


def largest_errors(n_frequencies, map, n_draws):
    draws = (
        FourierFeatures(KERNEL, n_frequencies, map, random_state=seed).fit(SQUARE)
        for seed in range(n_draws)
    )
    return np.array([features.kernel_error(SQUARE).largest for features in draws])


@pytest.mark.parametrize("map", ["sincos", "phase"])
def test_error_is_that_of_all_pairs(map, monkeypatch):
    monkeypatch.setattr(_rows, "HELD", 3000)
    features = FourierFeatures(2.0 * KERNEL, 50, map, random_state=0).fit(SQUARE)
    Phi = features.transform(SQUARE)
    deviation = Phi @ Phi.T - 2.0 * KERNEL(SQUARE)
    largest, root_mean_square = features.kernel_error(SQUARE)
    assert largest == pytest.approx(np.abs(deviation).max(), rel=1e-10)
    assert root_mean_square == pytest.approx(np.sqrt(np.mean(deviation**2)), rel=1e-10)
    single = features.kernel_error(SQUARE.astype(np.float32))
    assert single == pytest.approx((largest, root_mean_square), rel=1e-5)


@pytest.mark.parametrize(
    ("map", "low", "high"), [("sincos", 1.4, 1.7), ("phase", 2.3, 2.8)]
)
@pytest.mark.parametrize("n_frequencies", [10, 100, 1000])
def test_largest_error_falls_as_the_root(map, low, high, n_frequencies):
    scaled = largest_errors(n_frequencies, map, 25) * np.sqrt(n_frequencies)
    spread = scaled.std() / np.sqrt(25)
    assert low - 2 * spread < scaled.mean() < high + 2 * spread


def test_bound_asks_for_many_more_than_needed():
    asked = suggest_n_frequencies(2, 2 * 2**0.5, 2.0, epsilon=0.1, delta=0.05)
    assert asked == pytest.approx(26_600, rel=0.002)
    for map in ("sincos", "phase"):
        assert np.mean(largest_errors(1000, map, 12) < 0.1) > 0.5


def test_bound_is_inverted():
    def probability(D, d, diameter, sigma, epsilon):
        return (
            2**8
            * (sigma * diameter / epsilon) ** 2
            * np.exp(-D * epsilon**2 / (4 * (d + 2)))
        )

    for settings in [(1, 3.0, 0.5, 0.2), (7, 10.0, 4.0, 0.05), (21, 1.0, 1.0, 0.5)]:
        D = suggest_n_frequencies(*settings, delta=0.01)
        assert probability(D, *settings) <= 0.01 < probability(D - 1, *settings)
    assert suggest_n_frequencies(1, 1e-9, 1e-9, 0.9, 0.9) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features", 0),
        ("diameter", 0.0),
        ("sigma", np.inf),
        ("sigma", np.nan),
        ("epsilon", 1.0),
        ("delta", 0.0),
    ],
)
def test_bound_refuses_what_it_cannot_answer(name, value):
    settings = {"n_features": 2, "diameter": 1.0, "sigma": 1.0}
    settings |= {"epsilon": 0.1, "delta": 0.1, name: value}
    with pytest.raises(ValueError, match=f"{name} must"):
        suggest_n_frequencies(**settings)
