"""What every kernel is: evaluation, gradients, spectrum and algebra.

A kernel is a parameter object (scikit-learn's ``get_params``, ``set_params`` and
``clone``) with a handful of verbs. The verbs in this file check their arguments, work
in float64 and give back the input's dtype; kernels define the mathematics behind them.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from tiercel._arrays import check_points, to_numpy
from tiercel.kernels._checks import check_finite, check_length_scale
from tiercel.kernels._conversions import (
    as_dtype_of,
    check_same_library,
    in_float64,
    on_host,
)
from tiercel.kernels.distances import backend

Gradient = dict[str, Any]


class NotOffered(TypeError):
    """What was asked for is not defined by this kernel."""


class Pullback(NamedTuple):
    """Gradient of ``sum(U * k(X, Z))``.

    Attributes
    ----------
    parameters : dict
        One float per scalar parameter, one numpy vector per vector parameter, named as
        ``get_params`` names them.
    X, Z : array or None
        Gradients with respect to the points; None where points have no gradient (sparse
        points, positions).
    """

    parameters: Gradient
    X: Any
    Z: Any


class Kernel(BaseEstimator):
    """Base of all kernels: a subclass defines ``evaluate`` and inherits the rest.

    Kernels of the form profile(distance) or profile(inner product) are shorter to write
    and faster to use as a :class:`DistanceKernel` or a :class:`DotKernel`. Subclass
    this one for anything else.

    Examples
    --------
    >>> import numpy as np
    >>> class Brownian(Kernel):
    ...     def evaluate(self, X, Z):
    ...         return np.minimum(X, Z.T)
    >>> (2.0 * Brownian())(np.array([[1.0], [3.0]]))
    array([[2., 2.],
           [2., 6.]])
    """

    #: What the engine's tiles hold: "distance", "dot", or None for dense evaluation.
    statistic: str | None = None
    #: Whether k(x, z) depends on x - z only.
    shift_invariant: bool = False
    #: Whether rows may be sparse.
    takes_sparse: bool = False
    #: Whether rows hold kernel values already, so that Z holds positions.
    precomputed: bool = False
    #: Triton expression of the kernel's value, or None.
    fused: str | None = None

    # numpy scalars and arrays then leave ``scalar * kernel`` to the kernel.
    __array_ufunc__ = None

    # --- what a subclass defines ---------------------------------------------

    def evaluate(self, X: Any, Z: Any) -> Any:
        """Return the dense matrix k(X, Z) for checked points in float64."""
        raise NotOffered(f"{type(self).__name__} does not define evaluate(X, Z)")

    def differentiate(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))`` for checked input in float64."""
        raise NotOffered(
            f"{type(self).__name__} has no gradients: define differentiate(X, Z, U)"
        )

    def check(self, n_features: int) -> None:
        """Raise ValueError where parameters do not fit points with ``n_features``.

        Numbers must be finite and a ``length_scale`` positive, one or one per column;
        override it to ask for more.
        """
        parameters = self.get_params(deep=False)
        if "length_scale" in parameters:
            check_length_scale(parameters["length_scale"], n_features)
        check_finite(parameters)

    def operations(self, n_features: int) -> int:
        """Return how many floating point operations one kernel value costs."""
        return 2 * n_features

    def spectral_density(self, frequencies: Any) -> Any:
        """Return p(w) per row w: k(delta) is the integral of p(w) cos(w . delta)."""
        raise NotOffered(
            f"{type(self).__name__} has no spectral density in closed form"
        )

    def spectral_mass(self) -> float:
        """Return k(0), the integral of the spectral density."""
        raise NotOffered(f"{type(self).__name__} is not shift invariant")

    def draw_frequencies(self, shape: tuple[int, int], rng: np.random.Generator) -> Any:
        """Return frequencies drawn from the spectral density divided by its mass."""
        raise NotOffered(f"{type(self).__name__} has no spectral density to draw from")

    # --- what a caller uses --------------------------------------------------

    def __call__(self, X: Any, Z: Any = None) -> Any:
        """Return the dense kernel matrix.

        Parameters
        ----------
        X : array, tensor or sparse matrix of shape (n, d)
        Z : array, tensor or sparse matrix of shape (m, d), optional
            Without it, ``Z`` is ``X``.

        Returns
        -------
        array of shape (n, m), in the dtype and on the device of ``X``
        """
        X, Z = self.prepare(X, Z)
        return as_dtype_of(self.evaluate(*in_float64(X, Z)), X, Z)

    def diagonal(self, X: Any) -> Any:
        """Return k(x, x) for every row, in time proportional to their number."""
        X, _ = self.prepare(X, None)
        return as_dtype_of(self.evaluate_diagonal(in_float64(X)[0]), X)

    def evaluate_diagonal(self, X: Any) -> Any:
        """Return k(x, x) for checked rows in float64."""
        blocks = []
        for start in range(0, X.shape[0], 16):
            block = X[start : start + 16]
            blocks.append(self.evaluate(block, block).diagonal())
        return backend(blocks[0]).concat(blocks)

    def pullback(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))``.

        Matrix products only: memory stays at the size of the kernel matrix.

        Parameters
        ----------
        X, Z : array, tensor or sparse matrix of shape (n, d) and (m, d)
            ``Z=None`` takes X in both places; the two contributions stay separate.
        U : array or tensor of shape (n, m)

        Returns
        -------
        Pullback

        Examples
        --------
        >>> import numpy as np
        >>> from tiercel.kernels import Linear
        >>> X, Z = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
        >>> gradient = Linear().pullback(X, Z, np.array([[1.0]]))
        >>> gradient.X, gradient.parameters
        (array([[3., 4.]]), {'length_scale': -22.0})
        """
        X, Z = self.prepare(X, Z)
        U = check_points(U, "U")
        check_same_library(X, U, "U")
        if tuple(U.shape) != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"U has shape {tuple(U.shape)}, but k(X, Z) has "
                f"{(X.shape[0], Z.shape[0])}"
            )
        gradient = self.differentiate(*in_float64(X, Z, U))
        parameters = {k: on_host(v) for k, v in gradient.parameters.items()}
        to_X, to_Z = (
            None if part is None else as_dtype_of(part, points)
            for part, points in ((gradient.X, X), (gradient.Z, Z))
        )
        return Pullback(parameters, to_X, to_Z)

    def jacobian(self, X: Any, Z: Any = None) -> Gradient:
        """Return the derivatives of every entry, for small problems.

        Parameters
        ----------
        X, Z : array or tensor of shape (n, d) and (m, d)

        Returns
        -------
        dict
            One numpy array in float64 per parameter, of shape (n, m) or, for a vector
            with one entry per input, (n, m, d); and "X" for dk(x, z)/dx, (n, m, d).
        """
        X, Z = in_float64(*self.prepare(X, Z))
        one = backend(X, Z).ones_like(X[:1, :1]) if not sparse.issparse(X) else [[1.0]]
        entries: dict[str, list[Any]] = {}
        for i in range(X.shape[0]):
            for j in range(Z.shape[0]):
                pair = self.differentiate(X[i : i + 1], Z[j : j + 1], one)
                for name, value in pair.parameters.items():
                    entries.setdefault(name, []).append(on_host(value))
                if pair.X is not None:
                    entries.setdefault("X", []).append(to_numpy(pair.X)[0])
        shape = (X.shape[0], Z.shape[0])
        return {
            name: np.reshape(values, shape + np.shape(values[0]))
            for name, values in entries.items()
        }

    def sample_frequencies(
        self, n_frequencies: int, n_features: int, random_state: Any = None
    ) -> np.ndarray:
        """Draw frequencies from the spectral density divided by k(0).

        Parameters
        ----------
        n_frequencies, n_features : int
            Shape of the result.
        random_state : int, numpy Generator or None

        Returns
        -------
        array of shape (n_frequencies, n_features), float64

        Examples
        --------
        >>> from tiercel.kernels import Gaussian
        >>> Gaussian(0.5).sample_frequencies(3, 2, random_state=0).shape
        (3, 2)
        """
        self.check(n_features)
        rng = np.random.default_rng(random_state)
        return self.draw_frequencies((n_frequencies, n_features), rng)

    def prepare(self, X: Any, Z: Any) -> tuple[Any, Any]:
        """Return the checked points; a missing ``Z`` becomes the very object ``X``.

        Override it, and ``evaluate``, for a kernel between objects that are no vectors.
        """
        same = Z is None or Z is X
        X = self._prepare_one(X, "X")
        if same:
            return X, X
        Z = self._prepare_one(Z, "Z")
        check_same_library(X, Z, "Z")
        if X.shape[1] != Z.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} columns but Z has {Z.shape[1]}; "
                "both need the same inputs"
            )
        return X, Z

    def _prepare_one(self, points: Any, name: str) -> Any:
        points = check_points(points, name)
        if sparse.issparse(points) and not self.takes_sparse:
            raise TypeError(
                f"{type(self).__name__} does not take sparse input; "
                f"pass {name}.toarray()"
            )
        self.check(points.shape[1])
        return points

    # --- algebra -------------------------------------------------------------

    def __add__(self, other: Any) -> Kernel:
        from tiercel.kernels.algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        from tiercel.kernels.algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(float(other), self) if isinstance(other, Real) else NotImplemented

    def __rmul__(self, other: Any) -> Kernel:
        return self.__mul__(other)
