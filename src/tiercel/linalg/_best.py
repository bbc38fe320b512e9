"""The best iterate of each column."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel.linalg._columns import choose


class Best:
    """The best iterates, as claimed by a recurrence and as measured by a product.

    A claim is free, but rounding may have made it wrong; a measurement costs a product
    with the operator. Both are kept, so that nothing is lost by a wrong claim. `X` and
    `residual` are those of the claims, and of measurements where there is no claim.
    """

    def __init__(self, X: Any, residual: np.ndarray) -> None:
        self.X = self._measured_X = X
        self.residual = self.measured = residual

    def claim(self, which: np.ndarray, X: Any, residual: np.ndarray) -> None:
        """Take columns of ``X`` whose claimed residual is smaller."""
        better = which & (residual < self.residual)
        self.X = choose(better, X, self.X)
        self.residual = np.where(better, residual, self.residual)

    def unmeasured(self) -> np.ndarray:
        """Tell which columns hold a claim that beats all that was measured."""
        return self.residual < self.measured

    def measure(self, which: np.ndarray, X: Any, residual: np.ndarray) -> None:
        """Take columns of ``X`` whose measured residual is smaller."""
        better = which & (residual < self.measured)
        self._measured_X = choose(better, X, self._measured_X)
        self.measured = np.where(better, residual, self.measured)
        self.settle(self.measured <= self.residual)

    def settle(self, which: np.ndarray) -> None:
        """Drop the claims of columns; what was measured remains."""
        self.X = choose(which, self._measured_X, self.X)
        self.residual = np.where(which, self.measured, self.residual)
