"""Inner products and squared distances in float64, for dense and for sparse points.

Everything here takes points that are already checked and already float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from tiercel._arrays import match, namespace

# Below this share of ||x||^2 + ||z||^2, the expansion of ||x - z||^2 has lost so many
# digits to cancellation that a square root of it would no longer be float32-grade.
NEAR = 2.0**-20

# How many numbers the exact recomputation of near pairs may hold at once.
EXACT_CHUNK = 1_000_000


def backend(*arrays: Any) -> Any:
    """Return the namespace of the arrays; sparse matrices go with numpy."""
    dense = [a for a in arrays if not sparse.issparse(a)]
    return namespace(*(dense or [np.empty(0)]))


def scaled(X: Any, scale: np.ndarray) -> Any:
    """Return the points with columns multiplied by ``scale`` (0-d or one each)."""
    if np.all(scale == 1.0):
        return X
    if scale.ndim == 0:
        return X * float(scale)
    if sparse.issparse(X):
        return X.multiply(scale[None, :]).tocsr()
    return X * match(scale, X)


def centred(X: Any, Z: Any) -> tuple[Any, Any]:
    """Return both point sets minus the mean of ``Z``; sparse sets stay as they are.

    Distances do not change, but the cancellation in their expansion does: data far from
    the origin lose no digits. The two results are one object where the inputs were.
    """
    if sparse.issparse(X) or sparse.issparse(Z):
        return X, Z
    center = backend(X, Z).mean(Z, axis=0)
    shifted = Z - center
    return (shifted if X is Z else X - center), shifted


def squared_norms(X: Any) -> Any:
    """Return ``||x||^2`` for every row."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return backend(X).sum(X * X, axis=1)


def inner_products(X: Any, Z: Any) -> Any:
    """Return the dense matrix of ``x . z``."""
    products = X @ Z.T
    return products.toarray() if sparse.issparse(products) else products


def squared_distances(X: Any, Z: Any, exact_near: bool = False) -> Any:
    """Return the matrix of ``||x - z||^2``, never negative.

    Parameters
    ----------
    X, Z : array or sparse matrix of shape (n, d) and (m, d)
        Points in float64. Where ``Z`` is the very object ``X``, the diagonal is 0.
    exact_near : bool
        Recompute pairs that are almost equal from their differences, so that even the
        square root of the distance is accurate.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> squared_distances(X, X)
    array([[ 0., 25.],
           [25.,  0.]])
    """
    xp = backend(X, Z)
    same = X is Z
    X, Z = centred(X, Z)
    norms = squared_norms(X)[:, None] + squared_norms(Z)[None, :]
    distances = xp.clip(norms - 2.0 * inner_products(X, Z), 0.0, None)
    if exact_near:
        _recompute_near(X, Z, distances, norms)
    if same:
        diagonal = xp.arange(X.shape[0])
        distances[diagonal, diagonal] = 0.0
    return distances


def _recompute_near(X: Any, Z: Any, distances: Any, norms: Any) -> None:
    """Overwrite the distances of almost equal pairs by sums of squared differences."""
    xp = backend(X, Z)
    rows, columns = xp.nonzero(distances < NEAR * norms)
    chunk = max(1, EXACT_CHUNK // _numbers_per_row(X, Z))
    for start in range(0, rows.shape[0], chunk):
        i, j = rows[start : start + chunk], columns[start : start + chunk]
        difference = X[i] - Z[j]
        if isinstance(difference, np.matrix):  # sparse minus dense
            difference = np.asarray(difference)
        distances[i, j] = squared_norms(difference)


def _numbers_per_row(X: Any, Z: Any) -> int:
    """Return how many numbers a difference of two rows may hold."""
    if sparse.issparse(X) and sparse.issparse(Z):
        longest = int(np.diff(X.indptr).max()) + int(np.diff(Z.indptr).max())
        return max(1, longest)
    return int(X.shape[1])
