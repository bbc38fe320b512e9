"""Kernels of the inner product of two points."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from scipy import sparse

from tiercel._arrays import to_numpy
from tiercel.kernels._checks import check_number
from tiercel.kernels._columns import column_products
from tiercel.kernels._profile import Profile, plain_module
from tiercel.kernels.base import Kernel, Pullback
from tiercel.kernels.distances import inner_products, scaled, squared_norms


class DotKernel(Profile, Kernel):
    """Base of kernels ``profile(t)``, t the sum of x_k z_k / length_scale_k^2.

    A subclass stores its parameters and defines ``profile``; ``profile_derivative``
    brings gradients, ``profile_parameters`` those of further parameters.

    Examples
    --------
    >>> class Exponential(DotKernel):
    ...     def profile(self, t, xp):
    ...         return xp.exp(t)
    ...
    ...     def profile_derivative(self, t, xp):
    ...         return xp.exp(t)
    >>> Exponential()([[1.0, 2.0]], [[2.0, -1.0]])
    array([[1.]])
    """

    statistic = "dot"

    def evaluate(self, X: Any, Z: Any) -> Any:
        """Return the dense matrix k(X, Z) for checked points in float64."""
        t = inner_products(*self._scaled(X, Z))
        return self.profile(t, plain_module(t))

    def evaluate_diagonal(self, X: Any) -> Any:
        """Return k(x, x) for checked rows in float64."""
        t = squared_norms(self._scaled(X, X)[0])
        return self.profile(t, plain_module(t))

    def differentiate(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))`` for checked input in float64."""
        x, z = self._scaled(X, Z)
        t = inner_products(x, z)
        xp, scale = plain_module(t), self.scale_of(X.shape[1])
        W = U * self.profile_derivative(t, xp)
        gradient = {
            name: xp.sum(U * values)
            for name, values in self.profile_parameters(t, xp).items()
        }
        if hasattr(self, "length_scale"):
            if scale.ndim == 0:
                gradient["length_scale"] = -2.0 * float(scale) * xp.sum(W * t)
            else:
                shared = to_numpy(column_products(x, W @ z))
                gradient["length_scale"] = -2.0 * scale * shared
        if sparse.issparse(X) or sparse.issparse(Z):
            return Pullback(gradient, None, None)
        return Pullback(gradient, scaled(W @ z, scale), scaled(W.T @ x, scale))


class Linear(DotKernel):
    """x . z / length_scale^2: linear functions of the inputs.

    Parameters
    ----------
    length_scale : float or array of shape (d,)

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    profile_operations = 0
    fused = "t"

    def __init__(self, length_scale: Any = 1.0) -> None:
        self.length_scale = length_scale

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the values at the scaled inner products ``t``."""
        return t

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t."""
        return xp.ones_like(t)

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Leave ``s``, which already holds the kernel's values."""


class Polynomial(DotKernel):
    """(x . z / length_scale^2 + offset)^degree: products of up to ``degree`` inputs.

    Parameters
    ----------
    degree : int
        At least 1.
    offset : float
        At least 0; with 0 only products of exactly ``degree`` inputs remain.
    length_scale : float or array of shape (d,)

    Examples
    --------
    >>> Polynomial(degree=2)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    def __init__(
        self, degree: int = 3, offset: float = 1.0, length_scale: Any = 1.0
    ) -> None:
        self.degree = degree
        self.offset = offset
        self.length_scale = length_scale

    @property
    def profile_operations(self) -> int:  # type: ignore[override]
        """Operations of one profile value."""
        return 1 + 2 * int(self.degree).bit_length()

    @property
    def fused(self) -> str:  # type: ignore[override]
        """Triton expression of the value."""
        return _power("(t + {offset})", int(self.degree))

    def check(self, n_features: int) -> None:
        """Raise ValueError where parameters do not fit the points."""
        if not isinstance(self.degree, Integral) or self.degree < 1:
            raise ValueError(f"degree must be a positive integer, not {self.degree!r}")
        check_number("offset", self.offset, positive=False)
        super().check(n_features)

    def profile(self, t: Any, xp: Any) -> Any:
        """Return the values at the scaled inner products ``t``."""
        return (t + self.offset) ** self.degree

    def profile_derivative(self, t: Any, xp: Any) -> Any:
        """Return d profile / d t."""
        return self.degree * (t + self.offset) ** (self.degree - 1)

    def profile_parameters(self, t: Any, xp: Any) -> dict[str, Any]:
        """Return d profile / d offset."""
        return {"offset": self.profile_derivative(t, xp)}

    def profile_in_place(self, s: Any, xp: Any) -> None:
        """Overwrite ``s``, which holds ``fold * t``, with the values."""
        xp.add(s, self.offset, out=s)
        odd = None  # product of the squarings that the binary digits of degree select
        degree = int(self.degree)
        while degree > 1:
            if degree % 2:
                odd = s + 0.0 if odd is None else xp.multiply(odd, s, out=odd)
            xp.multiply(s, s, out=s)
            degree //= 2
        if odd is not None:
            xp.multiply(s, odd, out=s)


def _power(base: str, degree: int) -> str:
    """Return ``base`` to an integer power as products; compilers share repeats."""
    if degree == 1:
        return base
    half = _power(base, degree // 2)
    square = f"({half} * {half})"
    return f"({square} * {base})" if degree % 2 else square
