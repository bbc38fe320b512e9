"""Kernels of the distance between two points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from tiercel._arrays import check_points, match, to_numpy
from tiercel.kernels._columns import column_products, weighted_squares
from tiercel.kernels._profile import Profile, plain_module
from tiercel.kernels.base import Kernel, Pullback
from tiercel.kernels.distances import (
    backend,
    centred,
    scaled,
    squared_distances,
)


class DistanceKernel(Profile, Kernel):
    """Base of kernels ``profile(t)``, t the sum of ((x_k - z_k) / length_scale_k)^2.

    A subclass stores its parameters and defines ``profile``; ``profile_derivative``
    brings gradients, ``profile_parameters`` those of further parameters. The rest
    (sparse input, torch, the engine) follows.

    Examples
    --------
    >>> from tiercel.kernels import DistanceKernel
    >>> class InverseMultiquadric(DistanceKernel):
    ...     def __init__(self, length_scale=1.0):
    ...         self.length_scale = length_scale
    ...
    ...     def profile(self, t, xp):
    ...         return (1.0 + t) ** -0.5
    ...
    ...     def profile_derivative(self, t, xp):
    ...         return -0.5 * (1.0 + t) ** -1.5
    >>> float(InverseMultiquadric()([[0.0]], [[3.0**0.5]])[0, 0])
    0.5
    """

    statistic = "distance"
    shift_invariant = True
    #: Whether the value moves like sqrt(t) near 0, so that small t must be exact.
    rough: bool = False

    def evaluate(self, X: Any, Z: Any) -> Any:
        """Return the dense matrix k(X, Z) for checked points in float64."""
        t = squared_distances(*self._scaled(X, Z), exact_near=self.rough)
        return self.profile(t, plain_module(t))

    def evaluate_diagonal(self, X: Any) -> Any:
        """Return k(x, x), the profile at 0, for checked rows in float64."""
        n_rows = X.shape[0]
        zero = (
            np.zeros(n_rows) if sparse.issparse(X) else backend(X).zeros_like(X[:, 0])
        )
        return self.profile(zero, plain_module(zero))

    def differentiate(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))`` for checked input in float64."""
        x, z = centred(*self._scaled(X, Z))
        t = squared_distances(x, z, exact_near=self.rough)
        xp, scale = plain_module(t), self.scale_of(X.shape[1])
        W = U * self.profile_derivative(t, xp)
        gradient = {
            name: xp.sum(U * values)
            for name, values in self.profile_parameters(t, xp).items()
        }
        rows, columns = W.sum(1), W.sum(0)
        # Sparse points may have millions of columns: no dense rows unless asked for.
        dense = not (sparse.issparse(X) or sparse.issparse(Z))
        from_z = W @ z if dense or scale.ndim else None
        if hasattr(self, "length_scale"):
            if scale.ndim == 0:
                gradient["length_scale"] = -2.0 * float(scale) * xp.sum(W * t)
            else:
                moved = (
                    weighted_squares(rows, x)
                    + weighted_squares(columns, z)
                    - 2.0 * column_products(x, from_z)
                )
                gradient["length_scale"] = -2.0 * scale * to_numpy(moved)
        if not dense:
            return Pullback(gradient, None, None)
        to_X = scaled(2.0 * (rows[:, None] * x - from_z), scale)
        to_Z = scaled(2.0 * (columns[:, None] * z - W.T @ x), scale)
        return Pullback(gradient, to_X, to_Z)

    # --- spectrum: a subclass that has one defines _density and _draw --------

    def spectral_mass(self) -> float:
        """Return k(0), the integral of the spectral density."""
        return float(self.profile(np.zeros(1), np)[0])

    def spectral_density(self, frequencies: Any) -> Any:
        """Return p(w) for each row w: k(delta) is the integral of p(w) cos(w . delta).

        Parameters
        ----------
        frequencies : array of shape (q, d)

        Returns
        -------
        array of shape (q,)

        Examples
        --------
        >>> from tiercel.kernels import Gaussian
        >>> Gaussian().spectral_density([[0.0]])
        array([0.39894228])
        """
        w = check_points(frequencies, "frequencies")
        n_features = w.shape[1]
        self.check(n_features)
        length_scale = 1.0 / np.broadcast_to(self.scale_of(n_features), (n_features,))
        r = np.linalg.norm(to_numpy(w).astype(np.float64) * length_scale, axis=1)
        return match(np.prod(length_scale) * self._density(r, n_features), w)

    def draw_frequencies(self, shape: tuple[int, int], rng: np.random.Generator) -> Any:
        """Return frequencies drawn from the spectral density divided by its mass."""
        return self._draw(shape, rng) * self.scale_of(shape[1])

    def _density(self, r: np.ndarray, n_features: int) -> np.ndarray:
        """Return the density at norm ``r`` for unit length scales."""
        return super().spectral_density(r)

    def _draw(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Draw frequencies for unit length scales."""
        return super().draw_frequencies(shape, rng)
