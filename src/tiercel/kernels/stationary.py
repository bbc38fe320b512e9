"""Gaussian, Laplacian and Matern; t stands for the squared scaled distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel.kernels import _spectral
from tiercel.kernels.distance_kernel import DistanceKernel


class Gaussian(DistanceKernel):
    """exp(-||x - z||^2 / (2 length_scale^2)), infinitely smooth.

    Parameters
    ----------
    length_scale : float or array of shape (d,)
        One width, or one per input column; a huge one switches its column off.

    Examples
    --------
    >>> Gaussian(length_scale=2.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    fold = -0.5
    fused = "tl.exp2(-0.7213475204444817 * t)"

    def __init__(self, length_scale: Any = 1.0) -> None:
        self.length_scale = length_scale

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the values at the squared scaled distances ``t``."""
        return xp.exp(-0.5 * t)

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t."""
        return -0.5 * xp.exp(-0.5 * t)

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Overwrite ``s``, which holds ``fold * t``, with the values."""
        xp.exp(s, out=s)

    def _density(self, r: np.ndarray, n_features: int) -> np.ndarray:
        return _spectral.gaussian_density(r, n_features)

    def _draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return _spectral.draw_gaussian(shape, rng)


class Laplacian(DistanceKernel):
    """exp(-||x - z|| / length_scale), with the Euclidean norm: continuous, not smooth.

    Parameters
    ----------
    length_scale : float or array of shape (d,)

    Examples
    --------
    >>> Laplacian(length_scale=2.0)([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.0821]])
    """

    rough = True
    profile_operations = 20
    fused = "tl.exp2(-1.4426950408889634 * tl.sqrt(t))"

    def __init__(self, length_scale: Any = 1.0) -> None:
        self.length_scale = length_scale

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the values at the squared scaled distances ``t``."""
        return xp.exp(-xp.sqrt(t))

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t."""
        return _exponential_derivative(t, xp)

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Overwrite ``s``, which holds ``fold * t``, with the values."""
        _exponential_in_place(s, xp)

    def _density(self, r: np.ndarray, n_features: int) -> np.ndarray:
        return _spectral.student_density(r, n_features, freedom=1.0)

    def _draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return _spectral.draw_student(shape, rng, freedom=1.0)


class Matern(DistanceKernel):
    """Matern kernel: nu sets how smooth, from the Laplacian (0.5) to the Gaussian.

    With s = sqrt(2 nu) ||x - z|| / length_scale: exp(-s) for nu=0.5,
    (1 + s) exp(-s) for 1.5, (1 + s + s^2/3) exp(-s) for 2.5.

    Parameters
    ----------
    nu : 0.5, 1.5 or 2.5
    length_scale : float or array of shape (d,)

    Examples
    --------
    >>> Matern(nu=2.5)([[0.0]], [[1.0]]).round(4)
    array([[0.524]])
    """

    def __init__(self, nu: float = 1.5, length_scale: Any = 1.0) -> None:
        self.nu = nu
        self.length_scale = length_scale

    @property
    def rough(self) -> bool:  # type: ignore[override]
        """Whether the value moves like sqrt(t) near 0."""
        # Only nu=0.5 moves like sqrt(t): the others are 1 - c t + O(t^1.5).
        return self.nu == 0.5

    @property
    def fold(self) -> float:  # type: ignore[override]
        """What the tiles multiply t by."""
        return 2.0 * self.nu

    @property
    def profile_operations(self) -> int:  # type: ignore[override]
        """Operations of one profile value."""
        return {0.5: 20, 1.5: 22, 2.5: 24}[self.nu]

    @property
    def fused(self) -> str:  # type: ignore[override]
        """Triton expression of the value."""
        if self.nu == 0.5:
            return Laplacian.fused
        if self.nu == 1.5:
            return (
                "(1.0 + 1.7320508075688772 * tl.sqrt(t))"
                " * tl.exp2(-2.4988211106473432 * tl.sqrt(t))"
            )
        return (
            "(1.0 + 2.23606797749979 * tl.sqrt(t) + 1.6666666666666667 * t)"
            " * tl.exp2(-3.225964182229561 * tl.sqrt(t))"
        )

    def check(self, n_features: int) -> None:
        """Raise ValueError where parameters do not fit the points."""
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5, not {self.nu!r}")
        super().check(n_features)

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the values at the squared scaled distances ``t``."""
        s = xp.sqrt(self.fold * t)
        if self.nu == 0.5:
            return xp.exp(-s)
        if self.nu == 1.5:
            return (1.0 + s) * xp.exp(-s)
        return (1.0 + s + s * s / 3.0) * xp.exp(-s)

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t."""
        if self.nu == 0.5:
            return _exponential_derivative(t, xp)
        s = xp.sqrt(self.fold * t)
        if self.nu == 1.5:
            return -1.5 * xp.exp(-s)
        return (-5.0 / 6.0) * (1.0 + s) * xp.exp(-s)

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Overwrite ``s``, which holds ``fold * t``, with the values."""
        if self.nu == 0.5:
            _exponential_in_place(s, xp)
            return
        xp.clip(s, 0.0, None, out=s)
        root = xp.sqrt(s)
        if self.nu == 1.5:
            xp.add(root, 1.0, out=s)
        else:
            xp.multiply(s, 1.0 / 3.0, out=s)
            xp.add(s, root, out=s)
            xp.add(s, 1.0, out=s)
        xp.negative(root, out=root)
        xp.exp(root, out=root)
        xp.multiply(s, root, out=s)

    def _density(self, r: np.ndarray, n_features: int) -> np.ndarray:
        return _spectral.student_density(r, n_features, freedom=2.0 * self.nu)

    def _draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return _spectral.draw_student(shape, rng, freedom=2.0 * self.nu)


def _exponential_derivative(t: Any, xp: Any) -> Any:
    """Return the derivative of exp(-sqrt(t)); at t = 0 opposite directions cancel."""
    root = xp.sqrt(t)
    safe = xp.where(t > 0, root, xp.ones_like(root))
    return xp.where(t > 0, -0.5 * xp.exp(-root) / safe, xp.zeros_like(root))


def _exponential_in_place(s: Any, xp: Any) -> None:
    xp.sqrt(s, out=s)
    xp.negative(s, out=s)
    xp.exp(s, out=s)
