"""Structured directions against the matrices that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from tiercel.features import _butterflies, fourier, structured
from tiercel.features.structured import (
    draw_structure,
    structured_angles,
    structured_matrix,
)


@pytest.mark.parametrize("size", [1, 2, 4, 32, 256])
def test_transform_is_the_hadamard_matrix(size):
    x = np.random.default_rng(0).standard_normal((size, 5))
    expected = hadamard(size) @ x
    _butterflies.hadamard(x)
    np.testing.assert_allclose(x, expected, atol=1e-13 * size)


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_rotations_are_orthogonal(size):
    steps = size.bit_length() - 1
    angles = np.random.default_rng(0).uniform(0, 7, (steps, size // 2))
    B = np.eye(size)
    _butterflies.rotate(B, np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(B @ B.T, np.eye(size), atol=1e-14)
    assert size == 1 or np.abs(B).min() > 0  # every row sees every input


def test_one_rotation_by_hand():
    x = np.array([[1.0], [2.0]])
    _butterflies.rotate(x, np.array([[0.6]]), np.array([[0.8]]))
    np.testing.assert_allclose(x, [[0.6 + 1.6], [1.2 - 0.8]])


@given(
    n_inputs=st.integers(1, 150),
    n_frequencies=st.integers(1, 300),
    n_rows=st.integers(0, 140),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25)
def test_transform_is_multiplication_by_the_matrix(
    n_inputs, n_frequencies, n_rows, seed
):
    rng = np.random.default_rng(seed)
    norms, scale = rng.uniform(0.1, 9, n_frequencies), rng.uniform(0.1, 9, n_inputs)
    structure = draw_structure(norms, scale, rng)
    W = structured_matrix(structure)
    X = rng.standard_normal((n_rows, n_inputs)).astype(np.float32)
    assert W.shape == (n_frequencies, n_inputs)
    assert W.flags.c_contiguous
    np.testing.assert_allclose(structured_angles(structure, X), X @ W.T, atol=1e-11)
    np.testing.assert_allclose(np.linalg.norm(W / scale, axis=1), norms, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 16, 128])
def test_blocks_of_full_size_are_orthogonal(size):
    rng = np.random.default_rng(0)
    W = structured_matrix(draw_structure(np.ones(2 * size), np.ones(size), rng))
    for block in (W[:size], W[size:]):
        np.testing.assert_allclose(block @ block.T, np.eye(size), atol=1e-13)


def test_state_and_workspace_stay_small():
    size, count = 1024, 4096
    rng = np.random.default_rng(0)
    structure = draw_structure(np.ones(count), np.ones(size), rng)
    assert sum(part.size for part in structure) < count * 13  # log2(1024) + 3


def test_few_inputs_are_stored_as_the_same_matrix(monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 12))
    new = fourier.FourierFeatures(None, 40, sampling="structured", random_state=3)
    stored = new.fit_transform(X), new.frequencies_
    assert new.structure_ is None
    monkeypatch.setattr(fourier, "STORED", 0)
    transformed = new.fit_transform(X)
    assert new.structure_ is not None
    assert "frequencies_" not in vars(new)
    np.testing.assert_array_equal(new.frequencies_, stored[1])
    np.testing.assert_allclose(transformed, stored[0], atol=1e-13)


def test_rows_are_cut_into_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    structure = draw_structure(np.ones(20), np.ones(11), rng)
    X = rng.standard_normal((30, 11))
    whole = structured_angles(structure, X)
    monkeypatch.setattr(structured, "WIDTH", 7)
    np.testing.assert_allclose(structured_angles(structure, X), whole, atol=1e-14)
