"""Squared distances: cancellation, coincident points, shifts, sparse points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tiercel.kernels import Laplacian, distances, squared_distances


def direct(X, Z):
    return ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    shift=st.sampled_from([0.0, 1.0, 1e3, 1e6]),
    spread=st.sampled_from([1e-3, 1.0, 100.0]),
    n_features=st.integers(1, 6),
)
def test_equals_differences(seed, shift, spread, n_features):
    rng = np.random.default_rng(seed)
    X = shift + spread * rng.standard_normal((7, n_features))
    Z = np.vstack([shift + spread * rng.standard_normal((4, n_features)), X[:2]])
    actual = squared_distances(X, Z, exact_near=True)
    # Centring rounds each coordinate in the last place of the shift.
    tolerance = 1e-12 * spread**2 + 1e-15 * shift * spread
    np.testing.assert_allclose(actual, direct(X, Z), rtol=1e-8, atol=tolerance)


def test_same_object_has_zero_diagonal():
    X = np.random.default_rng(0).standard_normal((20, 3)) + 1e5
    distances_ = squared_distances(X, X)
    np.testing.assert_array_equal(distances_.diagonal(), np.zeros(20))
    np.testing.assert_array_equal(distances_, distances_.T)


def test_never_negative():
    X = 1.0 + 1e-9 * np.random.default_rng(0).standard_normal((30, 5))
    X[0] = 100.0
    assert squared_distances(X, X.copy()).min() >= 0.0


@pytest.mark.parametrize("chunk", [1, 40, 1_000_000])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_near_pairs_are_exact(kind, chunk, monkeypatch):
    monkeypatch.setattr(distances, "EXACT_CHUNK", chunk)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((8, 5)) * (rng.random((8, 5)) < 0.6) + np.eye(8, 5)
    Z = X + 1e-7 * rng.standard_normal(X.shape) * (X != 0)
    actual = squared_distances(kind(X), kind(Z), exact_near=True)
    np.testing.assert_allclose(actual, direct(X, Z), rtol=1e-6, atol=0.0)


def test_torch_equals_numpy():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    X = rng.standard_normal((8, 5))
    Z = np.vstack([X[:3] + 1e-8, rng.standard_normal((2, 5))])
    tensor = squared_distances(torch.from_numpy(X), torch.from_numpy(Z), True)
    np.testing.assert_allclose(tensor.numpy(), direct(X, Z), rtol=1e-6)


def test_shifted_float32_data_lose_nothing():
    X = np.random.default_rng(3).standard_normal((40, 8)).astype(np.float32) + 1000
    exact = np.exp(-np.sqrt(direct(X.astype(float), X.astype(float))))
    np.testing.assert_allclose(Laplacian()(X), exact, rtol=1e-6)
