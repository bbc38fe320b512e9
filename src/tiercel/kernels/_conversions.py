"""Into float64 for the work, and back to what the caller brought."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel._arrays import is_torch, to_numpy


def check_same_library(X: Any, other: Any, name: str) -> None:
    """Refuse to mix numpy with torch, or devices."""
    if is_torch(X) != is_torch(other):
        raise TypeError(
            f"X and {name} must come from one library, but one is a torch tensor and "
            "the other is not"
        )
    if is_torch(X) and X.device != other.device:
        raise ValueError(
            f"X is on {X.device} but {name} is on {other.device}; move one of them"
        )


def in_float64(*arrays: Any) -> list[Any]:
    """Return floats as float64; one object stays one object."""
    done: dict[int, Any] = {}
    for array in arrays:
        if id(array) not in done:
            done[id(array)] = _double(array)
    return [done[id(array)] for array in arrays]


def _double(array: Any) -> Any:
    if is_torch(array):
        return array.double() if array.is_floating_point() else array
    return array.astype(np.float64, copy=False) if array.dtype.kind == "f" else array


def as_dtype_of(result: Any, *inputs: Any) -> Any:
    """Return the result in float32 if all floating inputs were float32."""
    dtypes = {str(a.dtype).removeprefix("torch.") for a in inputs}
    if "float32" in dtypes and "float64" not in dtypes:
        return result.float() if is_torch(result) else result.astype(np.float32)
    return result


def on_host(value: Any) -> Any:
    """Return a scalar as a float and a vector as a numpy array."""
    value = to_numpy(value)
    return float(value) if value.ndim == 0 else value
