"""What the search for hyperparameters asks of its input, with errors that say why."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from tiercel._arrays import all_finite, check_float, check_points, to_numpy


def as_samples(X: Any, Y: Any, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and outputs in float64, the outputs as columns."""
    X, Y = as_points(X, "X"), as_finite("Y", Y)
    if Y.ndim not in (1, 2) or len(Y) != len(X) or 0 in Y.shape:
        raise ValueError(
            f"Y must have shape ({len(X)},) or ({len(X)}, T) with T >= 1, as X has "
            f"{len(X)} rows, but its shape is {Y.shape}"
        )
    if len(X) < least:
        raise ValueError(f"at least {least} samples are needed, but there is {len(X)}")
    return X, Y.reshape(len(X), -1)


def as_points(X: Any, name: str) -> np.ndarray:
    X = check_points(X, name)
    if sparse.issparse(X):
        raise TypeError(f"{name} is sparse; pass {name}.toarray()")
    return to_numpy(X).astype(np.float64)


def as_finite(name: str, values: Any) -> np.ndarray:
    array = check_float(to_numpy(values), name).astype(np.float64)
    if not all_finite(array):
        raise ValueError(f"{name} holds NaN or infinite values; impute or drop them")
    return array


def as_positive(name: str, values: Any, ndim: int) -> np.ndarray:
    array = as_finite(name, values)
    if array.ndim != ndim or array.size == 0:
        wanted = "hold one number per input" if ndim else "be one number"
        raise ValueError(f"{name} must {wanted}, but its shape is {array.shape}")
    if not np.all(array > 0):
        raise ValueError(f"{name} must be positive, not {values!r}")
    return array


def check_width(name: str, points: np.ndarray, length_scale: np.ndarray) -> None:
    if points.shape[1] != len(length_scale):
        raise ValueError(
            f"{name} has {points.shape[1]} columns, but there are "
            f"{len(length_scale)} length scales: one per input is needed"
        )


def check_counts(**counts: Any) -> None:
    for name, count in counts.items():
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{name} must be a whole number from 1, not {count!r}")
