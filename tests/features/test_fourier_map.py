"""The map itself: its formula, its inputs of every kind, its errors."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from tiercel.features import FourierFeatures, _rows
from tiercel.kernels import (
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
)

MAPS = ["sincos", "phase"]
# The last one is applied by butterflies, the others as stored matrices.
CASES = [("independent", 5), ("orthogonal", 5), ("structured", 5), ("structured", 90)]


def fitted(n_inputs, map="sincos", sampling="independent", kernel=None, count=40):
    new = FourierFeatures(kernel, count, map, sampling, random_state=0)
    return new.fit(np.zeros((1, n_inputs)))


def formula(features, X, mass=1.0):
    """Return the map as the books write it, in float64."""
    angles = X.astype(np.float64) @ features.frequencies_.T
    count = features.n_frequencies
    if features.map == "phase":
        return np.sqrt(2 * mass / count) * np.cos(angles + features.phases_)
    return np.sqrt(mass / count) * np.hstack([np.cos(angles), np.sin(angles)])


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize(("sampling", "n_inputs"), CASES)
@pytest.mark.parametrize(("dtype", "grade"), [(np.float64, 2e-13), (np.float32, 3e-8)])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_map_is_its_formula(map, sampling, n_inputs, dtype, grade, offset, monkeypatch):
    # Far from the origin angles are large: made in float32 they would be off by 1e-3.
    monkeypatch.setattr(_rows, "HELD", 1500)
    features = fitted(n_inputs, map, sampling, 3.0 * Matern(2.5))
    X = np.random.default_rng(0).standard_normal((100, n_inputs)) + offset
    X = X.astype(dtype)
    Phi = features.transform(X)
    assert Phi.dtype == dtype
    expected = formula(features, X, mass=3.0)
    np.testing.assert_allclose(Phi, expected, atol=grade + 1e-13 * offset)


@pytest.mark.parametrize(
    "kernel", [Gaussian(), 0.3 * Laplacian(), Gaussian() * Matern()]
)
@pytest.mark.parametrize(("sampling", "n_inputs"), CASES)
def test_sincos_has_the_exact_diagonal(kernel, sampling, n_inputs):
    features = fitted(n_inputs, "sincos", sampling, kernel)
    Phi = features.transform(np.random.default_rng(0).normal(0, 50, (200, n_inputs)))
    np.testing.assert_allclose(
        np.sum(Phi**2, axis=1), kernel.spectral_mass(), rtol=1e-13
    )


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize(("sampling", "n_inputs"), CASES)
def test_a_seed_is_a_map(map, sampling, n_inputs):
    new = FourierFeatures(None, 30, map, sampling, random_state=7)
    first = clone(new).fit(np.ones((4, n_inputs), np.float32))
    second = clone(new).fit(np.random.default_rng(0).normal(size=(9, n_inputs)))
    np.testing.assert_array_equal(first.frequencies_, second.frequencies_)
    np.testing.assert_array_equal(first.phases_, second.phases_)
    X = np.random.default_rng(1).normal(size=(5, n_inputs))
    np.testing.assert_array_equal(first.transform(X), second.transform(X))
    other = new.set_params(random_state=8).fit(X)
    assert np.abs(other.frequencies_ - first.frequencies_).min() > 0


def test_attributes_are_what_streaming_learners_read():
    for map, amplitude in (("sincos", 0.3), ("phase", 0.3 * np.sqrt(2))):
        features = fitted(3, map, kernel=0.9 * Gaussian([1.0, 2.0, 3.0]), count=10)
        assert features.frequencies_.shape == (10, 3)
        assert features.frequencies_.dtype == np.float64
        assert features.frequencies_.flags.c_contiguous
        assert features.phases_.shape == (10,)
        assert (features.phases_ != 0).all() == (map == "phase")
        assert np.abs(features.phases_).max() <= np.pi
        assert features.amplitude_ == pytest.approx(amplitude)
        assert isinstance(features.amplitude_, float)


def test_frequencies_are_those_of_the_kernel():
    kernel = Gaussian([1.0, 2.0]) * Matern(1.5) + Laplacian()
    expected = kernel.sample_frequencies(40, 2, 0)
    for map in MAPS:
        features = fitted(2, map, kernel=kernel)
        np.testing.assert_array_equal(features.frequencies_, expected)
    assert fitted(2, kernel=kernel).structure_ is None


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize(("sampling", "n_inputs"), CASES)
def test_sparse_rows_are_dense_rows(map, sampling, n_inputs):
    features = fitted(n_inputs, map, sampling)
    X = sparse.random_array((60, n_inputs), density=0.2, rng=0, format="csr")
    expected = features.transform(X.toarray())
    for rows in (X, X.astype(np.float32), sparse.csr_matrix(X), X.tocsc()):
        got = features.transform(rows)
        assert isinstance(got, np.ndarray)
        assert got.dtype == rows.dtype
        atol = 1e-13 if rows.dtype == np.float64 else 1e-6
        np.testing.assert_allclose(got, expected, atol=atol)
    assert features.kernel_error(X) == pytest.approx(features.kernel_error(X.toarray()))


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize(("sampling", "n_inputs"), CASES)
def test_tensors_are_arrays(map, sampling, n_inputs, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(_rows, "HELD_ON_DEVICE", 500)
    features = fitted(n_inputs, map, sampling)
    for dtype, atol in ((np.float64, 1e-13), (np.float32, 3e-8)):
        X = np.random.default_rng(0).standard_normal((50, n_inputs)).astype(dtype)
        tensor, expected = torch.from_numpy(X), features.transform(X)
        got = features.transform(tensor)
        assert got.dtype == tensor.dtype
        np.testing.assert_array_equal(got.numpy(), expected)
        # What runs off the CPU, here on it.
        parts = features.frequencies_, features.phases_, features.amplitude_
        got = _rows.map_tensor(tensor, *parts, map == "sincos")
        assert got.dtype == tensor.dtype
        np.testing.assert_allclose(got.numpy(), expected, atol=atol)
    assert features.kernel_error(tensor) == pytest.approx(features.kernel_error(X))
    again = clone(features).fit(tensor)
    np.testing.assert_array_equal(again.frequencies_, features.frequencies_)


@pytest.mark.cuda
@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize(("sampling", "n_inputs"), CASES)
def test_tensors_stay_on_their_device(map, sampling, n_inputs):
    import torch

    features = fitted(n_inputs, map, sampling)
    X = np.random.default_rng(0).standard_normal((50, n_inputs)).astype(np.float32)
    got = features.transform(torch.from_numpy(X).cuda())
    assert got.is_cuda
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.cpu().numpy(), features.transform(X), atol=1e-7)


def test_tables_are_read_with_their_names():
    values = np.random.default_rng(0).standard_normal((20, 2))
    for table in (pd.DataFrame, pl.DataFrame):
        X = table({"a": values[:, 0], "b": values[:, 1]})
        features = FourierFeatures(None, 3, random_state=0).fit(X)
        assert list(features.feature_names_in_) == ["a", "b"]
        expected = formula(features, values)
        np.testing.assert_allclose(features.transform(X), expected, atol=1e-14)
        with pytest.raises(ValueError, match="feature names"):
            features.transform(pd.DataFrame(values, columns=["b", "a"]))


def test_names_of_features():
    features = fitted(2, "sincos", count=2)
    names = [f"fourierfeatures{i}" for i in range(4)]
    assert list(features.get_feature_names_out()) == names
    table = features.set_output(transform="pandas").transform(np.ones((3, 2)))
    assert list(table.columns) == names
    assert len(fitted(2, "phase", count=2).get_feature_names_out()) == 2


def test_in_a_pipeline_it_is_nearly_kernel_ridge():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    y = np.sin(X[:, 0]) * X[:, 1]
    new = FourierFeatures(Gaussian(1.0), 500, random_state=0)
    model = make_pipeline(new, Ridge(1e-3, fit_intercept=False)).fit(X, y)
    Z = rng.uniform(-2, 2, (50, 2))
    K = Gaussian(1.0)(X) + 1e-3 * np.eye(300)
    exact = Gaussian(1.0)(Z, X) @ np.linalg.solve(K, y)
    np.testing.assert_allclose(model.predict(Z), exact, atol=0.01)


def test_workspace_does_not_grow_with_the_rows():
    features = fitted(20, count=512)
    X = np.random.default_rng(0).standard_normal((5000, 20)).astype(np.float32)
    features.transform(X[:10])  # compiles
    tracemalloc.start()
    Phi = features.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < Phi.nbytes + 6 * 2**20


def test_bad_settings_say_what_would_do():
    X = np.zeros((3, 2))
    for settings, error, message in [
        ({"kernel": "rbf"}, TypeError, "kernel must be a kernel of tiercel.kernels"),
        ({"n_frequencies": 0}, ValueError, "positive integer, not 0"),
        ({"n_frequencies": 2.5}, ValueError, r"positive integer, not 2\.5"),
        ({"map": "cosine"}, ValueError, "map must be one of 'sincos', 'phase'"),
        ({"sampling": "halton"}, ValueError, "one of 'independent', 'orthogonal'"),
        ({"kernel": Gaussian(-1.0)}, ValueError, "length_scale must be positive"),
        ({"kernel": Gaussian([1.0, 2.0, 3.0])}, ValueError, "points have 2 columns"),
        ({"kernel": Linear()}, TypeError, "need a shift-invariant kernel"),
        ({"kernel": Gaussian() + Polynomial()}, TypeError, "shift-invariant kernel"),
        ({"kernel": Precomputed()}, TypeError, "shift-invariant kernel"),
    ]:
        with pytest.raises(error, match=message):
            FourierFeatures(**settings).fit(X)


@pytest.mark.parametrize("sampling", ["orthogonal", "structured"])
def test_spectra_that_are_not_isotropic_are_refused(sampling):
    class Box(Kernel):
        def spectral_mass(self):
            return 1.0

        def draw_frequencies(self, shape, rng):
            return rng.uniform(-1, 1, shape)

    X = np.zeros((3, 2))
    for kernel, message in [
        (
            Gaussian([1.0, 2.0]) * Gaussian([2.0, 1.0]),
            "stretch the columns differently",
        ),
        (Gaussian() + Laplacian([1.0, 2.0]), "use sampling='independent'"),
        (2.0 * Box(), "Box is not known to be isotropic"),
    ]:
        FourierFeatures(kernel).fit(X)
        with pytest.raises(ValueError, match=message):
            FourierFeatures(kernel, sampling=sampling).fit(X)


def test_bad_points_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(NotFittedError):
        FourierFeatures().transform(np.zeros((1, 2)))
    with pytest.raises(AttributeError):
        _ = FourierFeatures().frequencies_
    features = fitted(2)
    for X in (np.zeros((1, 3)), torch.zeros(1, 3), sparse.csr_array((1, 3))):
        with pytest.raises(ValueError, match="expecting 2 features"):
            features.transform(X)
    for X in (np.array([[np.nan, 0.0]]), torch.tensor([[np.nan, 0.0]])):
        with pytest.raises(ValueError, match="NaN"):
            features.transform(X)


def test_a_failed_fit_leaves_the_map():
    features = fitted(2)
    X = np.ones((3, 2))
    before = features.transform(X)
    with pytest.raises(TypeError, match="shift-invariant"):
        features.set_params(kernel=Linear(), n_frequencies=7).fit(X)
    np.testing.assert_array_equal(features.transform(X), before)


def test_default_kernels_are_not_shared():
    first = FourierFeatures().fit(np.zeros((1, 2)))
    first.kernel_.set_params(length_scale=9.0)
    second = FourierFeatures().fit(np.zeros((1, 2)))
    assert second.kernel_.length_scale == 1.0


@pytest.mark.parametrize("sampling", ["independent", "orthogonal", "structured"])
def test_a_saved_map_resumes_and_a_forged_one_is_refused(sampling):
    X = np.random.default_rng(0).standard_normal((5, 80))
    drawn = FourierFeatures(None, 50, "phase", sampling).fit(X)
    again = FourierFeatures(None, 50, "phase", sampling)
    again._restore_state(drawn._saved_state())
    np.testing.assert_array_equal(again.transform(X), drawn.transform(X))
    forgeries = {
        "n_features_in_": 79,
        "phases_": drawn.phases_[1:],
        "kernel_": None,
        "amplitude_": "1",
    }
    if drawn.structure_ is None:
        forgeries["frequencies_"] = drawn.frequencies_[:, 1:]
    else:
        forgeries["structure_"] = (drawn.structure_[0][:, 1:], *drawn.structure_[1:])
    for name, value in forgeries.items():
        state = drawn._saved_state() | {name: value}
        with pytest.raises(ValueError, match=r"\w"):
            FourierFeatures(None, 50, "phase", sampling)._restore_state(state)
