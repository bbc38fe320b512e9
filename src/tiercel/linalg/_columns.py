"""Arithmetic on the columns of an array, the scalars of each in float64."""

from __future__ import annotations

from typing import Any

from tiercel._arrays import namespace


def rescale(V: Any, factors: Any) -> Any:
    """Multiply columns by float64 factors, staying in the dtype of ``V``."""
    return V * namespace(V).astype(factors, V.dtype, copy=False)


def divide(V: Any, factors: Any) -> Any:
    """Divide columns in float64, where no factor is out of range, and round."""
    xp = namespace(V)
    return xp.astype(xp.astype(V, xp.float64) / factors, V.dtype, copy=False)


def dots(U: Any, V: Any) -> Any:
    """Return the inner products of columns, summed in float64."""
    xp = namespace(U, V)
    return xp.sum(U * V, axis=0, dtype=xp.float64)


def norms(V: Any) -> Any:
    """Return the Euclidean norms of columns in float64."""
    return namespace(V).sqrt(dots(V, V))


def safe_norms(V: Any) -> Any:
    """Return the norms of columns of any magnitude: nothing over- or underflows."""
    xp = namespace(V)
    largest = xp.astype(xp.max(xp.abs(V), axis=0), xp.float64)
    size = xp.where(largest > 0, largest, xp.ones_like(largest))
    return largest * norms(xp.astype(V, xp.float64) / size)
