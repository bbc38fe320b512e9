"""What models and moments must share before they join a recursion."""

from __future__ import annotations

import numpy as np

from tiercel.stream._recursion import Recursion


def rows_of_moments(
    gram: np.ndarray, cross: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows A and B, as few as will do, with A'A = gram and A'B = cross.

    By eigenvectors once the diagonal is 1: features in large units leave those in
    small ones their digits.
    """
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    size[size == 0.0] = 1.0
    scaled = gram / size[:, None] / size
    if not np.allclose(scaled, scaled.T, atol=1e-8):
        raise ValueError("gram is not the sum of phi phi': not symmetric")
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T))
    if values[0] < -1e-8 * max(values[-1], 1.0):
        raise ValueError("gram is not the sum of phi phi': not positive definite")
    kept = values > np.finfo(float).eps * len(gram) * values[-1]
    root = np.sqrt(values[kept])[:, None]
    vectors = vectors[:, kept].T
    return root * vectors * size, vectors @ (cross / size[:, None]) / root


def same_map(one: Recursion, other: Recursion) -> bool:
    """Tell whether two recursions see the same features: of points, for any maps."""
    if (one.map.n_inputs, one.map.n_taken) != (other.map.n_inputs, other.map.n_taken):
        return False
    X = np.random.default_rng(0).standard_normal((5, one.map.n_inputs))
    taken, others = ([both.map.taken(x) for x in X] for both in (one, other))
    a, b = one.map.compiled, other.map.compiled
    return (
        np.array_equal(taken, others, equal_nan=True)
        and (a.kind, a.scale, a.intercept) == (b.kind, b.scale, b.intercept)
        and np.array_equal(a.frequencies, b.frequencies)
        and np.array_equal(a.phases, b.phases)
    )
