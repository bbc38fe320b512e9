"""A kernel under test with points to try it on, and the comparisons that checks use."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from tiercel.kernels import Gaussian, Kernel


class KernelCase:
    """A kernel, random points for it, and weights for sums over its matrix.

    Attributes
    ----------
    kernel : Kernel
    X : array of shape (n, d)
        Rows; for a precomputed kernel a square matrix of kernel values.
    Z : array of shape (m, d), or of shape (m,) with positions
    U : array of shape (n, m)
    rng : numpy Generator
    """

    def __init__(self, kernel: Kernel, n_features: int, random_state: Any) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.rng = np.random.default_rng(random_state)
        spread = telling_spread(kernel, n_features) if kernel.shift_invariant else 1.0
        self.X = spread * self.rng.standard_normal((9, n_features))
        self.Z = spread * self.rng.standard_normal((6, n_features))
        if kernel.precomputed:
            self.X = Gaussian(2.0)(self.X)
            self.Z = np.array([0, 3, 4, 7, 8, 2])
        self.U = self.rng.standard_normal((9, 6))

    @property
    def points_again(self) -> Any:
        """What ``Z=None`` stands for, as another object."""
        return np.arange(9) if self.kernel.precomputed else self.X.copy()

    def with_parameter(self, name: str, value: Any) -> Kernel:
        """Return a copy of the kernel with one parameter changed."""
        return clone(self.kernel).set_params(**{name: value})


def telling_spread(kernel: Kernel, n_features: int) -> float:
    """Return the spread of points between which the kernel's values differ most.

    Much closer points are all alike to the kernel and much farther ones all unlike:
    there, rounding would be all that is left to check.
    """
    points = np.random.default_rng(0).standard_normal((9, n_features))
    spreads = 10.0 ** np.arange(-5.0, 5.5, 0.5)
    contrast = [np.std(kernel(spread * points)[0, 1:]) for spread in spreads]
    return float(spreads[np.argmax(contrast)])


def numbers(kernel: Kernel) -> dict[str, np.ndarray]:
    """Return the parameters that are numbers or vectors of numbers, as float64."""
    found = {}
    for name, value in kernel.get_params(deep=True).items():
        values = np.asarray(value)
        if values.dtype.kind in "iuf":
            found[name] = values.astype(np.float64)
    return found


def assert_close(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Raise where the largest error exceeds ``tolerance`` times the largest entry."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (
        f"{what} has shape {actual.shape} instead of {expected.shape}"
    )
    size = max(float(np.max(np.abs(expected), initial=0.0)), 1e-300)
    error = float(np.max(np.abs(actual - expected), initial=0.0)) / size
    assert error <= tolerance, (
        f"{what} has a relative error of {error:.1e}, more than {tolerance:.0e}"
    )


def assert_raises(error: Any, call: Any, what: str) -> None:
    """Raise unless ``call()`` raises ``error``."""
    try:
        call()
    except error:
        return
    names = error if isinstance(error, type) else error[0]
    raise AssertionError(f"{what} raises no {names.__name__}")
