"""Checks of a kernel's spectrum by Monte Carlo, in any number of dimensions."""

from __future__ import annotations

import numpy as np
from scipy.special import gamma

from tiercel.kernels.base import NotOffered
from tiercel.testing._case import KernelCase

DRAWS = 50_000
SPREADS = 5.0  # standard errors that an average may be off


def frequencies_reproduce_kernel(case: KernelCase) -> None:
    """Check that k(delta) is k(0) times the mean of cos(w . delta) over draws."""
    w = _draws(case)
    if w is None:
        return
    assert w.shape == (DRAWS, case.n_features), f"frequencies have shape {w.shape}"
    mass = case.kernel.spectral_mass()
    waves = mass * np.cos(w @ (case.X[:6] - case.Z[:6]).T)
    expected = np.diagonal(case.kernel(case.X[:6], case.Z[:6]))
    _assert_means(waves, expected, "the mean of cos(w . delta)")
    at_zero = case.kernel.diagonal(case.X)[0]
    assert np.isclose(mass, at_zero, rtol=1e-12), f"spectral_mass() is {mass}"


def spectral_density_fits_frequencies(case: KernelCase) -> None:
    """Check that the density is that of the draws, up to the mass k(0).

    The share of draws within an ellipsoid is the integral of the density over it; in
    polar coordinates, where a density may be infinite at 0 and its integral is tame.
    """
    w = _draws(case)
    if w is None:
        return
    d = case.n_features
    axes = np.median(np.abs(w), axis=0)
    radii = np.linalg.norm(w / axes, axis=1)
    directions = case.rng.standard_normal(w.shape)
    directions *= axes / np.linalg.norm(directions, axis=1)[:, None]
    for radius in np.quantile(radii, [0.3, 0.7]):
        share = case.rng.random(DRAWS)
        within = radius * share[:, None] * directions
        try:
            density = case.kernel.spectral_density(within)
        except NotOffered:
            return
        volume = np.prod(np.sqrt(np.pi) * radius * axes) / gamma(0.5 * d + 1.0)
        mass = d * volume * share ** (d - 1) * density / case.kernel.spectral_mass()
        inside = radii <= radius
        what = "the mass of an ellipsoid of frequencies"
        _assert_means((mass - inside)[:, None], np.zeros(1), what)


def _draws(case: KernelCase) -> np.ndarray | None:
    """Return frequencies, None where the kernel has none."""
    if not case.kernel.shift_invariant:
        return None
    try:
        return case.kernel.sample_frequencies(DRAWS, case.n_features, case.rng)
    except NotOffered:
        return None


def _assert_means(samples: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Raise where a column's mean is too many standard errors off."""
    error = np.abs(samples.mean(axis=0) - expected)
    allowed = SPREADS * samples.std(axis=0) / np.sqrt(len(samples)) + 1e-12
    worst = int(np.argmax(error / allowed))
    assert error[worst] <= allowed[worst], (
        f"{what} is off by {error[worst]:.2g}, more than {allowed[worst]:.2g}"
    )
