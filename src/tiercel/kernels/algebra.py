"""Sums, products and positive multiples of kernels, which are kernels again.

Made by ``+`` and ``*``; their parts keep their parameters, which are searched as
``left__length_scale``, ``base__alpha`` and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel.kernels._checks import check_number
from tiercel.kernels._profile import plain_module
from tiercel.kernels.base import Gradient, Kernel, Pullback


class _Pair(Kernel):
    """Two kernels on the same points."""

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        """Whether k(x, z) depends on x - z only."""
        return self.left.shift_invariant and self.right.shift_invariant

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """Whether rows may be sparse."""
        return self.left.takes_sparse and self.right.takes_sparse

    @property
    def precomputed(self) -> bool:  # type: ignore[override]
        """Whether rows hold kernel values already."""
        return self.left.precomputed and self.right.precomputed

    def operations(self, n_features: int) -> int:
        """Return how many floating point operations one kernel value costs."""
        parts = self.left.operations(n_features), self.right.operations(n_features)
        return sum(parts) + 1

    def check(self, n_features: int) -> None:
        """Raise ValueError where parameters do not fit the points."""
        self._check_parts()
        self.left.check(n_features)
        self.right.check(n_features)

    def prepare(self, X: Any, Z: Any) -> tuple[Any, Any]:
        """Return the checked points."""
        self._check_parts()
        return self.right.prepare(*self.left.prepare(X, Z))

    def _check_parts(self) -> None:
        for name, part in (("left", self.left), ("right", self.right)):
            if not isinstance(part, Kernel):
                raise ValueError(f"{name} must be a kernel, not {part!r}")
        if self.left.precomputed != self.right.precomputed:
            raise ValueError(
                f"{type(self).__name__} mixes a precomputed kernel with one of "
                "vectors, but its parts see the same X; precompute both or neither"
            )


class Sum(_Pair):
    """left + right.

    Examples
    --------
    >>> from tiercel.kernels import Gaussian, Linear
    >>> kernel = Gaussian(2.0) + Linear()
    >>> kernel
    Sum(left=Gaussian(length_scale=2.0), right=Linear())
    >>> kernel([[1.0]])
    array([[2.]])
    """

    def evaluate(self, X: Any, Z: Any) -> Any:
        """Return the dense matrix k(X, Z)."""
        return self.left.evaluate(X, Z) + self.right.evaluate(X, Z)

    def evaluate_diagonal(self, X: Any) -> Any:
        """Return k(x, x) for every row."""
        return self.left.evaluate_diagonal(X) + self.right.evaluate_diagonal(X)

    def differentiate(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))``."""
        left = self.left.differentiate(X, Z, U)
        return _joined(left, self.right.differentiate(X, Z, U))

    def spectral_mass(self) -> float:
        """Return k(0), the integral of the spectral density."""
        return self.left.spectral_mass() + self.right.spectral_mass()

    def spectral_density(self, frequencies: Any) -> Any:
        """Return p(w) for each row w."""
        left = self.left.spectral_density(frequencies)
        return left + self.right.spectral_density(frequencies)

    def draw_frequencies(self, shape: tuple[int, int], rng: np.random.Generator) -> Any:
        """Return draws from the spectral density divided by its mass."""
        from_left = rng.random((shape[0], 1)) * self.spectral_mass()
        left = self.left.draw_frequencies(shape, rng)
        right = self.right.draw_frequencies(shape, rng)
        return np.where(from_left < self.left.spectral_mass(), left, right)


class Product(_Pair):
    """left * right.

    Its spectral density, a convolution, has no closed form; frequencies can be drawn.

    Examples
    --------
    >>> from tiercel.kernels import Linear
    >>> (Linear() * Linear())([[2.0]], [[3.0]])
    array([[36.]])
    """

    def evaluate(self, X: Any, Z: Any) -> Any:
        """Return the dense matrix k(X, Z)."""
        return self.left.evaluate(X, Z) * self.right.evaluate(X, Z)

    def evaluate_diagonal(self, X: Any) -> Any:
        """Return k(x, x) for every row."""
        return self.left.evaluate_diagonal(X) * self.right.evaluate_diagonal(X)

    def differentiate(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))``."""
        left = self.left.differentiate(X, Z, U * self.right.evaluate(X, Z))
        right = self.right.differentiate(X, Z, U * self.left.evaluate(X, Z))
        return _joined(left, right)

    def spectral_mass(self) -> float:
        """Return k(0), the integral of the spectral density."""
        return self.left.spectral_mass() * self.right.spectral_mass()

    def draw_frequencies(self, shape: tuple[int, int], rng: np.random.Generator) -> Any:
        """Return draws from the spectral density divided by its mass."""
        # The spectrum of a product is the law of the sum of independent frequencies.
        left = self.left.draw_frequencies(shape, rng)
        return left + self.right.draw_frequencies(shape, rng)


class Scaled(Kernel):
    """factor * base.

    Parameters
    ----------
    factor : float
        Positive.
    base : Kernel

    Examples
    --------
    >>> from tiercel.kernels import Gaussian
    >>> 0.5 * Gaussian()
    Scaled(base=Gaussian(), factor=0.5)
    >>> (0.5 * Gaussian())([[1.0]])
    array([[0.5]])
    """

    def __init__(self, factor: float, base: Kernel) -> None:
        self.factor = factor
        self.base = base

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        """Whether k(x, z) depends on x - z only."""
        return self.base.shift_invariant

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """Whether rows may be sparse."""
        return self.base.takes_sparse

    @property
    def precomputed(self) -> bool:  # type: ignore[override]
        """Whether rows hold kernel values already."""
        return self.base.precomputed

    def operations(self, n_features: int) -> int:
        """Return how many floating point operations one kernel value costs."""
        return self.base.operations(n_features) + 1

    def check(self, n_features: int) -> None:
        """Raise ValueError where parameters do not fit the points."""
        self._check_parts()
        self.base.check(n_features)

    def prepare(self, X: Any, Z: Any) -> tuple[Any, Any]:
        """Return the checked points."""
        self._check_parts()
        return self.base.prepare(X, Z)

    def _check_parts(self) -> None:
        check_number("factor", self.factor)
        if not isinstance(self.base, Kernel):
            raise ValueError(f"base must be a kernel, not {self.base!r}")

    def evaluate(self, X: Any, Z: Any) -> Any:
        """Return the dense matrix k(X, Z)."""
        return self.factor * self.base.evaluate(X, Z)

    def evaluate_diagonal(self, X: Any) -> Any:
        """Return k(x, x) for every row."""
        return self.factor * self.base.evaluate_diagonal(X)

    def differentiate(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))``."""
        base = self.base.differentiate(X, Z, self.factor * U)
        values = self.base.evaluate(X, Z)
        slope = plain_module(values).sum(U * values)
        return Pullback(
            {"factor": slope} | _nested("base", base.parameters), base.X, base.Z
        )

    def spectral_mass(self) -> float:
        """Return k(0), the integral of the spectral density."""
        return self.factor * self.base.spectral_mass()

    def spectral_density(self, frequencies: Any) -> Any:
        """Return p(w) for each row w."""
        return self.factor * self.base.spectral_density(frequencies)

    def draw_frequencies(self, shape: tuple[int, int], rng: np.random.Generator) -> Any:
        """Return draws from the spectral density divided by its mass."""
        return self.base.draw_frequencies(shape, rng)


def _nested(part: str, gradient: Gradient) -> Gradient:
    return {f"{part}__{name}": value for name, value in gradient.items()}


def _joined(left: Pullback, right: Pullback) -> Pullback:
    """Return the sum of two gradients on the same points."""
    parameters = _nested("left", left.parameters) | _nested("right", right.parameters)
    to_X = None if left.X is None or right.X is None else left.X + right.X
    to_Z = None if left.Z is None or right.Z is None else left.Z + right.Z
    return Pullback(parameters, to_X, to_Z)
