"""Spectral densities of unit length scale, and draws from them.

Each density p belongs to a kernel by Bochner's theorem, k(delta) = integral of
p(w) cos(w . delta) dw, and depends on r = ||w|| only. Length scales enter from outside:
frequencies are divided by them, densities multiplied by their product.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, kve

Shape = tuple[int, int]


def gaussian_density(r: np.ndarray, n_features: int) -> np.ndarray:
    """Return the standard normal density."""
    return np.exp(-0.5 * r**2 - 0.5 * n_features * np.log(2.0 * np.pi))


def draw_gaussian(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """Draw from the standard normal density."""
    return rng.standard_normal(shape)


def student_density(r: np.ndarray, n_features: int, freedom: float) -> np.ndarray:
    """Return the multivariate t density: the spectrum of Matern nu = freedom / 2."""
    half = 0.5 * (freedom + n_features)
    constant = gammaln(half) - gammaln(0.5 * freedom)
    constant -= 0.5 * n_features * np.log(freedom * np.pi)
    return np.exp(constant - half * np.log1p(r**2 / freedom))


def draw_student(shape: Shape, rng: np.random.Generator, freedom: float) -> np.ndarray:
    """Draw from the multivariate t density."""
    normal = rng.standard_normal(shape)
    return normal / np.sqrt(rng.chisquare(freedom, (shape[0], 1)) / freedom)


def mixture_density(r: np.ndarray, n_features: int, alpha: float) -> np.ndarray:
    """Return the spectrum of the rational quadratic (1 + t / (2 alpha))^-alpha.

    That kernel is the mean of Gaussians exp(-tau t / 2) over tau ~ Gamma(alpha) of mean
    1, so its spectrum is the same mean of normal densities of variance tau: a Bessel
    function. At r = 0 it is infinite unless alpha > n_features / 2.
    """
    order = alpha - 0.5 * n_features
    constant = alpha * np.log(alpha) - gammaln(alpha) + np.log(2.0)
    constant -= 0.5 * n_features * np.log(2.0 * np.pi)
    positive = r > 0
    x = np.sqrt(2.0 * alpha) * np.where(positive, r, 1.0)
    log_density = constant + order * np.log(x / (2.0 * alpha)) + log_bessel_k(order, x)
    at_zero = np.inf
    if order > 0:
        at_zero = np.exp(
            gammaln(order)
            - gammaln(alpha)
            + 0.5 * n_features * np.log(alpha / (2.0 * np.pi))
        )
    return np.where(positive, np.exp(log_density), at_zero)


def draw_mixture(shape: Shape, rng: np.random.Generator, alpha: float) -> np.ndarray:
    """Draw a variance per frequency, then a normal frequency of that variance."""
    variance = rng.gamma(alpha, 1.0 / alpha, (shape[0], 1))
    return rng.standard_normal(shape) * np.sqrt(variance)


def log_bessel_k(order: float, x: np.ndarray) -> np.ndarray:
    """Return log K_order(x) for x > 0, also where K overflows.

    Overflow needs a large order or a tiny x, where the uniform expansion holds.
    """
    scaled = kve(order, x)
    direct = np.isfinite(scaled)
    result = np.log(np.where(direct, scaled, 1.0)) - x
    if np.all(direct):
        return result
    return np.where(direct, result, uniform_log_bessel_k(order, x))


def uniform_log_bessel_k(order: float, x: np.ndarray) -> np.ndarray:
    """Return log K_order(x) by the expansion for large orders (Olver 1954)."""
    v = abs(order)
    root = np.hypot(1.0, x / v)
    p = 1.0 / root
    eta = root + np.log(x / v) - np.log1p(root)
    u1 = (3.0 * p - 5.0 * p**3) / 24.0
    u2 = (81.0 * p**2 - 462.0 * p**4 + 385.0 * p**6) / 1152.0
    series = 1.0 - u1 / v + u2 / v**2
    return 0.5 * np.log(np.pi / (2.0 * v * root)) - v * eta + np.log(series)
