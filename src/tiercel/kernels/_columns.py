"""Sums over rows, one per column, for dense and for sparse points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def weighted_squares(weights: Any, x: Any) -> Any:
    """Return sum_i weights_i x_ik^2 for every column k."""
    squares = x.multiply(x) if sparse.issparse(x) else x * x
    return squares.T @ weights


def column_products(x: Any, y: Any) -> Any:
    """Return sum_i x_ik y_ik for every column k; either may be sparse."""
    if sparse.issparse(x):
        x, y = y, x
    if sparse.issparse(y):
        return np.asarray(y.multiply(x).sum(axis=0)).ravel()
    return (x * y).sum(0)
