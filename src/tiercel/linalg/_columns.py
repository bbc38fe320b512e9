"""Arithmetic on the columns of an array, with the scalars of each in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel._arrays import namespace


def wide(V: Any) -> Any:
    """Return ``V`` in float64, itself if it is already."""
    xp = namespace(V)
    return xp.astype(V, xp.float64, copy=False)


def rescale(V: Any, factors: Any) -> Any:
    """Multiply columns in float64, where no factor is out of range, and round."""
    return namespace(V).astype(wide(V) * factors, V.dtype, copy=False)


def divide(V: Any, sizes: Any) -> Any:
    """Divide columns in float64, where the inverse of no size is needed, and round."""
    return namespace(V).astype(wide(V) / sizes, V.dtype, copy=False)


def dots(U: Any, V: Any) -> Any:
    """Return the inner products of columns in float64.

    The products too: two float32 numbers of size 1e-30 have none in float32.
    """
    return namespace(U, V).sum(wide(U) * wide(V), axis=0)


def norms(V: Any) -> Any:
    """Return the Euclidean norms of columns in float64."""
    return namespace(V).sqrt(dots(V, V))


def safe_norms(V: Any) -> Any:
    """Return the norms of columns of any magnitude: nothing over- or underflows."""
    xp = namespace(V)
    largest = wide(xp.max(xp.abs(V), axis=0))
    return largest * norms(wide(V) / nonzero(largest))


def nonzero(sizes: Any) -> Any:
    """Return sizes to divide by, with 1 in the place of 0."""
    xp = namespace(sizes)
    return xp.where(sizes > 0, sizes, xp.ones_like(sizes))


def choose(which: np.ndarray, this: Any, other: Any) -> Any:
    """Take columns ``which`` of ``this`` and the others of ``other``."""
    if which.all():
        return this
    if not which.any():
        return other
    xp = namespace(this)
    return xp.where(xp.asarray(which, device=this.device), this, other)
