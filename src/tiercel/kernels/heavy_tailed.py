"""Rational quadratic and Cauchy; t stands for the squared scaled distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel.kernels import _spectral
from tiercel.kernels._checks import check_number
from tiercel.kernels.distance_kernel import DistanceKernel


class RationalQuadratic(DistanceKernel):
    """(1 + ||x - z||^2 / (2 alpha length_scale^2))^-alpha: Gaussians of many widths.

    Parameters
    ----------
    alpha : float
        Small: heavy tails; towards infinity it becomes the Gaussian.
    length_scale : float or array of shape (d,)

    Examples
    --------
    >>> RationalQuadratic(alpha=0.5)([[0.0]], [[3.0**0.5]])
    array([[0.5]])
    """

    profile_operations = 25
    # The last term restores what rounding 1 + s loses, which alpha would multiply.
    fused = (
        "tl.exp2(-{alpha} * (tl.log2(1.0 + t * (0.5 / {alpha}))"
        " + 1.4426950408889634 * (t * (0.5 / {alpha})"
        " - ((1.0 + t * (0.5 / {alpha})) - 1.0))"
        " / (1.0 + t * (0.5 / {alpha}))))"
    )

    def __init__(self, alpha: float = 1.0, length_scale: Any = 1.0) -> None:
        self.alpha = alpha
        self.length_scale = length_scale

    @property
    def fold(self) -> float:  # type: ignore[override]
        """What the tiles multiply t by."""
        return 0.5 / self.alpha

    def check(self, n_features: int) -> None:
        """Raise ValueError where parameters do not fit the points."""
        check_number("alpha", self.alpha)
        super().check(n_features)

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the values at the squared scaled distances ``t``."""
        return xp.exp(-self.alpha * xp.log1p(self.fold * t))

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t."""
        return -0.5 * xp.exp(-(self.alpha + 1.0) * xp.log1p(self.fold * t))

    def profile_parameters(self, t: Any, xp: Any) -> dict[str, Any]:
        """Return d profile / d alpha."""
        s = self.fold * t
        slope = s / (1.0 + s) - xp.log1p(s)
        return {"alpha": self.profile(t, xp) * slope}

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Overwrite ``s``, which holds ``fold * t``, with the values."""
        xp.log1p(s, out=s)
        xp.multiply(s, -self.alpha, out=s)
        xp.exp(s, out=s)

    def _density(self, r: np.ndarray, n_features: int) -> np.ndarray:
        return _spectral.mixture_density(r, n_features, self.alpha)

    def _draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return _spectral.draw_mixture(shape, rng, self.alpha)


class Cauchy(DistanceKernel):
    """1 / (1 + ||x - z||^2 / length_scale^2): heavy tails at the cost of a division.

    Parameters
    ----------
    length_scale : float or array of shape (d,)

    Examples
    --------
    >>> Cauchy(length_scale=2.0)([[0.0]], [[2.0]])
    array([[0.5]])
    """

    profile_operations = 2
    fused = "1.0 / (1.0 + t)"

    def __init__(self, length_scale: Any = 1.0) -> None:
        self.length_scale = length_scale

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the values at the squared scaled distances ``t``."""
        return 1.0 / (1.0 + t)

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t."""
        return -((1.0 + t) ** -2.0)

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Overwrite ``s``, which holds ``fold * t``, with the values."""
        xp.add(s, 1.0, out=s)
        xp.reciprocal(s, out=s)

    # This is the rational quadratic of alpha=1 and length scale 1/sqrt(2).
    def _density(self, r: np.ndarray, n_features: int) -> np.ndarray:
        unit = 0.5**0.5
        return unit**n_features * _spectral.mixture_density(r * unit, n_features, 1.0)

    def _draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return _spectral.draw_mixture(shape, rng, 1.0) * 2.0**0.5
