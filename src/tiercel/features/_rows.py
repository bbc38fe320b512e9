"""Rows through the map in blocks, so that what lies between stays small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from tiercel._arrays import match
from tiercel.features._waves import write_waves

HELD = 2**18  # numbers of a block on the CPU, 2 MB
HELD_ON_DEVICE = 2**24


def blocks(n_rows: int, width: int, held: int) -> Iterator[slice]:
    """Cut rows into blocks of at most ``held`` numbers, but one row at least."""
    height = max(1, held // width)
    for start in range(0, n_rows, height):
        yield slice(start, min(start + height, n_rows))


def map_rows(
    X: Any,
    angles: Callable[[Any], np.ndarray],
    phases: np.ndarray,
    amplitude: float,
    n_outputs: int,
) -> np.ndarray:
    """Return the features of numpy or CSR rows, in the dtype of ``X``.

    Angles are made in float64 whatever the dtype: those of far points are large, and
    what float32 rounds off them would be visible in the cosine.
    """
    out = np.empty((X.shape[0], n_outputs), X.dtype)
    for rows in blocks(X.shape[0], max(len(phases), X.shape[1]), HELD):
        write_waves(angles(X[rows]), phases, amplitude, out[rows])
    return out


def dense_angles(frequencies: np.ndarray, X: Any) -> Callable[[Any], np.ndarray]:
    """Return the function from rows like those of ``X`` to their products."""
    turned = frequencies.T
    if sparse.issparse(X):
        turned = np.ascontiguousarray(turned)  # scipy would copy it for every block
    return lambda rows: rows.astype(np.float64, copy=False) @ turned


def map_tensor(
    X: Any, frequencies: np.ndarray, phases: np.ndarray, amplitude: float, both: bool
) -> Any:
    """Return the features of a torch tensor, on its device and in its dtype."""
    import torch

    turned, shift = match(frequencies, X).T, match(phases, X)
    count = len(phases)
    out = torch.empty((len(X), (1 + both) * count), dtype=X.dtype, device=X.device)
    for rows in blocks(len(X), max(count, X.shape[1]), HELD_ON_DEVICE):
        angles = X[rows].double() @ turned + shift
        out[rows, :count] = amplitude * torch.cos(angles)
        if both:
            out[rows, count:] = amplitude * torch.sin(angles)
    return out
