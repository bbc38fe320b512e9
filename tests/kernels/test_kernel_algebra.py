"""Sums, products, multiples, and how their parameters are reached."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from tiercel.kernels import (
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Product,
    Scaled,
    Sum,
)

X = np.random.default_rng(0).standard_normal((5, 3))


def test_operators_build_kernels():
    kernel = 0.5 * Gaussian(2.0) + Linear() * Polynomial()
    assert isinstance(kernel, Sum)
    assert isinstance(kernel.left, Scaled)
    assert isinstance(kernel.right, Product)
    expected = 0.5 * Gaussian(2.0)(X) + Linear()(X) * Polynomial()(X)
    np.testing.assert_allclose(kernel(X), expected)
    np.testing.assert_allclose(kernel.diagonal(X), expected.diagonal())


@pytest.mark.parametrize("factor", [2, 2.0, np.float32(2.0), np.float64(2.0)])
def test_any_number_scales_from_both_sides(factor):
    for kernel in (factor * Gaussian(), Gaussian() * factor):
        assert isinstance(kernel, Scaled)
        np.testing.assert_allclose(kernel(X), 2.0 * Gaussian()(X))


def test_nested_parameters_are_reached_by_name():
    kernel = 0.5 * Gaussian(2.0) + Linear()
    kernel.set_params(left__base__length_scale=3.0, left__factor=0.25)
    copy = clone(kernel)
    np.testing.assert_array_equal(copy(X), 0.25 * Gaussian(3.0)(X) + Linear()(X))
    assert copy.get_params()["left__base__length_scale"] == 3.0


def test_parts_are_stored_untouched():
    left, right = Gaussian(), Laplacian()
    kernel = left + right
    assert kernel.left is left
    assert kernel.right is right


@pytest.mark.parametrize("other", [1.0, "kernel", None, np.ones(2)])
def test_only_kernels_are_added(other):
    with pytest.raises(TypeError):
        Gaussian() + other
    with pytest.raises(TypeError):
        other + Gaussian()


def test_only_numbers_scale():
    for other in ("2", None, np.ones(2), 1j):
        with pytest.raises(TypeError):
            other * Gaussian()


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf])
def test_factors_are_positive(factor):
    with pytest.raises(ValueError, match="factor must be"):
        (factor * Gaussian())(X)


def test_precomputed_does_not_mix_with_vectors():
    with pytest.raises(ValueError, match="precompute both or neither"):
        (Precomputed() + Gaussian())(X)
    K = Gaussian()(X)
    both = Precomputed() * Precomputed()
    np.testing.assert_array_equal(both(K, [1]), K[:, [1]] ** 2)


def test_sparse_needs_both_parts():
    assert (Gaussian() + Linear()).takes_sparse
    assert not (2.0 * Precomputed()).takes_sparse


def test_parts_must_be_kernels():
    with pytest.raises(ValueError, match="right must be a kernel"):
        Sum(Gaussian(), 3.0)(X)
    with pytest.raises(ValueError, match="base must be a kernel"):
        Scaled(2.0, "gaussian")(X)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    factor=st.floats(0.01, 100.0),
    length_scale=st.floats(0.1, 10.0),
)
def test_algebra_is_the_algebra_of_matrices(seed, factor, length_scale):
    rng = np.random.default_rng(seed)
    X, Z, U = rng.normal(size=(4, 2)), rng.normal(size=(3, 2)), rng.normal(size=(4, 3))
    one, two, three = Gaussian(length_scale), Polynomial(2), Laplacian()
    spread, factored = one * two + one * three, factor * (one * (two + three))
    np.testing.assert_allclose(factor * spread(X, Z), factored(X, Z), rtol=1e-12)
    expected = spread.pullback(X, Z, factor * U)
    actual = factored.pullback(X, Z, U)
    np.testing.assert_allclose(actual.X, expected.X, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(actual.Z, expected.Z, rtol=1e-9, atol=1e-10)
