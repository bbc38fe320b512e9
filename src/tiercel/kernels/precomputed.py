"""Kernel values that somebody else has computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel._arrays import match, to_numpy
from tiercel.kernels.base import Kernel, Pullback
from tiercel.kernels.distances import backend


class Precomputed(Kernel):
    """Rows that already hold kernel values against some reference points.

    ``k(X, Z)`` is ``X[:, Z]``: ``X`` has one column per reference point, ``Z`` holds
    integer positions of reference points, or is None for all of them.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> Precomputed()(K, [1])
    array([[0.5],
           [1. ]])
    """

    precomputed = True

    def evaluate(self, X: Any, Z: Any) -> Any:
        """Return the dense matrix k(X, Z)."""
        return X[:, Z]

    def evaluate_diagonal(self, X: Any) -> Any:
        """Return k(x, x) for every row."""
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"the diagonal of a precomputed kernel needs a square matrix, not "
                f"{tuple(X.shape)}"
            )
        return X.diagonal()

    def differentiate(self, X: Any, Z: Any, U: Any) -> Pullback:
        """Return the gradient of ``sum(U * k(X, Z))``."""
        xp = backend(X)
        references = xp.arange(X.shape[1], device=X.device)
        chosen = xp.astype(Z[:, None] == references[None, :], X.dtype)
        return Pullback({}, U @ chosen, None)

    def operations(self, n_features: int) -> int:
        """Return how many floating point operations one kernel value costs."""
        return 1

    def prepare(self, X: Any, Z: Any) -> tuple[Any, Any]:
        """Return the checked values and positions."""
        X = self._prepare_one(X, "X")
        count = X.shape[1]
        if Z is None:
            return X, match(np.arange(count), X)
        positions = to_numpy(Z)
        if positions.ndim == 2 and positions.shape[1] == 1:
            positions = positions[:, 0]
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise TypeError(
                "Z must hold integer positions of reference points, of shape (m,) or "
                f"(m, 1), not {positions.dtype} of shape {positions.shape}"
            )
        if positions.size == 0 or positions.min() < 0 or positions.max() >= count:
            raise ValueError(
                f"Z must hold positions from 0 to {count - 1}, one at least"
            )
        return X, match(positions.astype(np.int64), X)
