"""Column arithmetic at the ends of the range, and the bookkeeping of the best."""

from __future__ import annotations

import numpy as np
import pytest

from tiercel.linalg._best import Best
from tiercel.linalg._columns import divide, dots, norms, rescale, safe_norms


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_scalars_of_float32_columns_are_float64(size, kind):
    V = (size * np.array([[3.0, 1.0], [4.0, 0.0]])).astype(np.float32)
    W = V if kind == "numpy" else pytest.importorskip("torch").from_numpy(V)
    exact = V.astype(float)
    np.testing.assert_allclose(dots(W, W), (exact**2).sum(axis=0), rtol=1e-15)
    np.testing.assert_allclose(norms(W), [5 * size, size], rtol=1e-6)
    assert dots(W, W).dtype == norms(W).dtype == (exact if W is V else W.double()).dtype
    for scaled in (divide(W, norms(W)), rescale(W, 1 / norms(W))):
        assert scaled.dtype == W.dtype
        np.testing.assert_allclose(scaled, [[0.6, 1.0], [0.8, 0.0]], rtol=1e-6)


def test_norms_of_any_size():
    V = np.array([[3.0, 3e200, 3e-200, 0.0], [4.0, 4e200, 4e-200, 0.0]])
    np.testing.assert_allclose(safe_norms(V), [5, 5e200, 5e-200, 0], rtol=1e-15)


def test_a_wrong_claim_gives_way_to_what_was_measured():
    every = np.ones(3, dtype=bool)
    best = Best(np.zeros((1, 3)), np.array([9.0, 9.0, 9.0]))
    best.measure(every, np.full((1, 3), 1.0), np.array([5.0, 5.0, np.nan]))
    best.claim(np.array([True, True, False]), np.full((1, 3), 2.0), np.array([1, 7, 1]))
    np.testing.assert_array_equal(best.X, [[2.0, 1.0, 0.0]])
    np.testing.assert_array_equal(best.residual, [1.0, 5.0, 9.0])
    np.testing.assert_array_equal(best.unmeasured(), [True, False, False])
    best.settle(every)
    np.testing.assert_array_equal(best.X, [[1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(best.residual, [5.0, 5.0, 9.0])
