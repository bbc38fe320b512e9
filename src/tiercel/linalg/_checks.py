"""What every routine of this room asks of its matrices before it starts to work."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel._arrays import all_finite, check_float, is_torch, namespace

BLOCK = 256  # rows handled at a time, so that no second m x m array is ever made


def as_float(array: Any, name: str) -> Any:
    """Return numbers as a numpy array or torch tensor of float32 or float64."""
    return check_float(array if is_torch(array) else np.asarray(array), name)


def square(A: Any, name: str) -> Any:
    """Return ``A`` as a square matrix of floats; its entries are not looked at."""
    A = as_float(A, name)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.shape[0] == 0:
        raise ValueError(
            f"{name} must be a square matrix with at least one row, "
            f"but its shape is {tuple(A.shape)}"
        )
    return A


def symmetric(A: Any, name: str) -> Any:
    """Return ``A`` as a square, finite matrix whose two triangles agree."""
    A = square(A, name)
    if not all_finite(A):
        raise ValueError(
            f"{name} holds NaN or infinite values; look for them in the points, "
            "the weights or the kernel's parameters"
        )
    gap, largest = _asymmetry(A)
    if gap > np.sqrt(epsilon(A)) * largest:
        raise ValueError(
            f"{name} is not symmetric: its triangles differ by {gap:.3g} where the "
            f"largest entry is {largest:.3g}; fill both triangles, "
            f"or pass ({name} + {name}.T) / 2"
        )
    return A


def _asymmetry(A: Any) -> tuple[float, float]:
    """Return max |A - A'| and max |A|, by blocks of the upper triangle."""
    xp = namespace(A)
    gaps, sizes = [], []
    for start in range(0, A.shape[0], BLOCK):
        upper = A[start : start + BLOCK, start:]
        lower = A[start:, start : start + BLOCK].T
        gaps.append(xp.max(xp.abs(upper - lower)))
        sizes.append(xp.max(xp.abs(upper)))
    return float(xp.max(xp.stack(gaps))), float(xp.max(xp.stack(sizes)))


def columns(B: Any, rows: int, name: str, *, finite: bool = True) -> Any:
    """Return right-hand sides as floats of shape (rows,) or (rows, T)."""
    B = as_float(B, name)
    if B.ndim not in (1, 2) or B.shape[0] != rows or (B.ndim == 2 and not B.shape[1]):
        raise ValueError(
            f"{name} must have shape ({rows},) or ({rows}, T) with T >= 1, "
            f"but its shape is {tuple(B.shape)}"
        )
    if finite and not all_finite(B):
        raise ValueError(f"{name} holds NaN or infinite values; impute or drop them")
    return B


def same_kind(name: str, A: Any, B: Any) -> None:
    """Refuse numpy and torch in one call: a silent copy between devices is a trap."""
    if is_torch(A) != is_torch(B):
        raise TypeError(
            f"{name} mixes numpy arrays and torch tensors; pass one kind only"
        )


def epsilon(array: Any) -> float:
    """Return the spacing of floating-point numbers at 1 in the array's precision."""
    return float(namespace(array).finfo(array.dtype).eps)
