"""Checks of kernel parameters, with errors that say what would do."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from tiercel._arrays import to_numpy


def check_finite(parameters: dict[str, Any]) -> None:
    """Raise where a number among the parameters is NaN or infinite."""
    for name, value in parameters.items():
        if isinstance(value, Real) and not np.isfinite(float(value)):
            raise ValueError(f"{name} must be finite, not {value!r}")


def check_length_scale(length_scale: Any, n_features: int) -> None:
    """Raise unless ``length_scale`` is positive, finite and one or one per column."""
    try:
        values = np.asarray(to_numpy(length_scale), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"length_scale must be a number or one per column, not {length_scale!r}"
        ) from error
    if values.ndim > 1 or (values.ndim == 1 and values.shape[0] != n_features):
        raise ValueError(
            f"length_scale has shape {values.shape}, but the points have {n_features} "
            "columns; give one number, or one per column"
        )
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(
            f"length_scale must be positive and finite, not {length_scale!r}"
        )


def check_number(name: str, value: Any, *, positive: bool = True) -> None:
    """Raise unless ``value`` is one finite number, positive or at least zero."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number, not {value!r}") from error
    if not np.isfinite(number) or number < 0 or (positive and number == 0):
        kind = "positive" if positive else "non-negative"
        raise ValueError(f"{name} must be {kind} and finite, not {value!r}")
