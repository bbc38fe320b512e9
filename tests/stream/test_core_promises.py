"""What the streaming core promises: memory safety, refusals without traces, corners."""

from __future__ import annotations

import copy
import errno
import importlib.util
import tracemalloc
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from tiercel.features import FourierFeatures
from tiercel.io import load, save
from tiercel.kernels import Gaussian
from tiercel.linalg import FactorisationError, _rotations
from tiercel.stream import (
    FrozenPredictor,
    OutputGroups,
    RecursiveRidge,
    SparseSpectrumGP,
    _loops,
)

FOURIER = FourierFeatures(Gaussian(1.5), n_frequencies=6, random_state=0)
PHASE = FourierFeatures(Gaussian(1.5), n_frequencies=6, map="phase", random_state=0)
PROCESS = {"noise": 0.2, "signal": 1.0, "length_scale": 1.0, "random_state": 0}


def stream(rows=60, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    Y = np.sin(X @ rng.standard_normal((3, outputs))) + 2.0
    Y += 0.1 * rng.standard_normal(Y.shape)
    return X, Y[:, 0] if outputs == 1 else Y


def held(model):
    """Return what stands for all numbers of a model."""
    window = getattr(model, "_window", None)
    return joblib.hash([model._recursion.arrays(), window and window.arrays()])


# --- what compiled loops see ----------------------------------------------------------


def test_features_fitted_to_other_inputs_are_refused():
    X, y = stream()
    fitted = FrozenEstimator(copy.deepcopy(FOURIER).fit(X[:, :2]))
    with pytest.raises(ValueError, match="not for 3 inputs"):
        RecursiveRidge(fitted).fit(X, y)
    with pytest.raises(ValueError, match="not for 3 inputs"):
        RecursiveRidge(fitted).predict_update(X[0], y[0])


@pytest.mark.parametrize("rows", [3, 60])
@pytest.mark.parametrize("change", [(1, 5), (2, 1), (1, 0)])
def test_a_transformer_that_changes_its_mind_is_refused(rows, change):
    X, y = stream(rows)
    shape = [1, 1]
    tiles = FunctionTransformer(lambda X: np.tile(X, shape))
    model = RecursiveRidge(tiles).fit(X, y)
    before = held(model)
    shape[:] = change
    with pytest.raises(ValueError, match="made an array of shape"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="made an array of shape"):
        model.predict(X)
    with pytest.raises(ValueError, match="made an array of shape"):
        model.predict_update(X[0], y[0])
    assert held(model) == before


def lied(model, **lies):
    again = type(model)(**model.get_params(deep=False))
    again._restore_state(model._saved_state() | lies)
    return again


@pytest.mark.parametrize(
    "lies",
    [
        {"n_features_in_": 50},
        {"n_features_in_": 2},
        {"n_features_in_": 3.0},
        {"n_features_in_": -3},
        {"n_outputs_": 2},
        {"n_outputs_": 0},
        {"_one_output": True},
        {"_offset": np.zeros(2)},
        {"_offset": np.nan},
        {"dtype": "int32"},
        {"ridge": -1.0},
        {"forgetting": 2.0},
        {"window": 5},
    ],
)
def test_a_state_that_lies_about_its_shape_is_refused(lies):
    model = RecursiveRidge(FOURIER).fit(*stream(outputs=3))
    with pytest.raises(ValueError, match=r"\w"):
        lied(model, **lies)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("factor", np.negative),
        ("factor", np.zeros_like),
        ("factor", lambda a: a.astype(int)),
        ("factor", lambda a: a * 1j),
        ("factor", lambda a: a * np.nan),
        ("rotated", lambda a: a[:, :0]),
        ("rss", lambda a: a - 1e9),
        ("prior", np.negative),
        ("seen", lambda n: -n),
        ("seen", lambda n: 2**70),
        ("seen", float),
    ],
)
def test_a_state_of_impossible_numbers_is_refused(name, change):
    model = RecursiveRidge(FOURIER).fit(*stream())
    kept = model._saved_state()["recursion"]
    with pytest.raises(ValueError, match=r"\w"):
        lied(model, recursion=kept | {name: change(kept[name])})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("count", lambda n: -n),
        ("count", lambda n: n + 1),
        ("weights", np.negative),
        ("X", lambda X: X * np.nan),
        ("X", lambda X: X * 1e200),
        ("Y", lambda Y: Y[:-1]),
    ],
)
def test_a_window_that_lies_is_refused(name, change):
    model = RecursiveRidge(window=7).fit(*stream())
    kept = model._saved_state()["window_"]
    with pytest.raises(ValueError, match=r"\w"):
        lied(model, window_=kept | {name: change(kept[name])})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weights_", lambda a: a.astype(int)),
        ("weights_", lambda a: a * np.nan),
        ("frequencies", lambda a: a * np.inf),
        ("offset_", lambda a: np.ones(7)),
        ("map", lambda a: "another"),
        ("one_output", lambda a: True),
    ],
)
def test_a_frozen_state_of_impossible_numbers_is_refused(name, change):
    state = RecursiveRidge(PHASE).fit(*stream(outputs=2)).freeze()._saved_state()
    with pytest.raises(ValueError, match=r"\w"):
        FrozenPredictor.__new__(FrozenPredictor)._restore_state(
            state | {name: change(state[name])}
        )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nothing_is_compiled_after_warm_up(dtype):
    """Whatever the layout of samples; this counts signatures, cached ones too."""
    X, y = stream(600)
    RecursiveRidge(dtype=dtype).warm_up()
    loops = [
        loop.dispatcher()
        for module in (_loops, _rotations)
        for loop in vars(module).values()
        if hasattr(loop, "dispatcher")
    ]
    before = [len(loop.overloads) for loop in loops]
    samples = [X[0], X[:3, 0], X[0].astype(">f8"), X[0].astype("f4"), [1, 2, 3]]
    for options in ({}, {"window": 9}, {"forgetting": 0.9}):
        for features in (None, FOURIER, PHASE):
            model = RecursiveRidge(features, dtype=dtype, **options)
            for x in samples:
                model.predict_update(x, 1.0)
                model.predict_one(x)
            model.partial_fit(X[:5], y[:5], y[:5]).partial_fit(X[:520], y[:520])
            if not options:
                model.remove(X[:5], y[:5], y[:5]).merge(copy.deepcopy(model))
            model.freeze().predict(X)
    process = SparseSpectrumGP(5, trend=9.0, dtype=dtype, **PROCESS).fit(X, y)
    process.predict_update(X[0], y[0])
    assert [len(loop.overloads) for loop in loops] == before


def test_python_allocates_nothing_that_stays():
    X, y = stream()
    model = RecursiveRidge(FOURIER).fit(X, y)
    model.predict_update(X[0], y[0])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(5000):
        model.predict_update(X[0], y[0])
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 500  # bytes, for 5,000 samples


# --- machine code on disk -------------------------------------------------------------


LOADED = []  # River's walk through memory stumbles over what numba lost


def fresh_loop(folder: Path):
    """Return a compiled loop, as a process that begins would."""
    file = folder / "a_loop.py"
    if not file.exists():
        file.write_text(
            "from tiercel._compiled import compiled\n\n\n"
            "@compiled\ndef twice(x):\n    return 2.0 * x\n"
        )
    spec = importlib.util.spec_from_file_location("a_loop", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    LOADED.append(module)
    return module.twice


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"damaged by a power cut"])
def test_damaged_machine_code_is_compiled_anew(tmp_path, ending, content):
    assert fresh_loop(tmp_path)(1.0) == 2.0
    files = list(tmp_path.rglob(f"*.{ending}"))
    assert files
    for file in files:
        file.write_bytes(content)
    assert fresh_loop(tmp_path)(2.0) == 4.0
    mended = fresh_loop(tmp_path)
    assert mended(3.0) == 6.0
    assert sum(mended.dispatcher().stats.cache_hits.values()) == 1


def test_a_full_disk_costs_the_cache_only(tmp_path, monkeypatch):
    from numba.core.caching import IndexDataCacheFile

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_save_index", full)
    assert fresh_loop(tmp_path)(1.5) == 3.0


# --- refusals leave no trace ----------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [RecursiveRidge(FOURIER), SparseSpectrumGP(5, max_steps=3, random_state=0)],
    ids=repr,
)
def test_a_model_that_could_not_begin_has_not_begun(model):
    X, y = stream()
    model = copy.deepcopy(model)
    before = set(vars(model))
    with pytest.raises(ValueError, match="1e\\+150"):
        model.partial_fit(X, np.where(np.arange(60) == 7, 1e155, y))
    assert set(vars(model)) == before


@pytest.mark.parametrize(
    "model",
    [
        RecursiveRidge(FOURIER),
        SparseSpectrumGP(5, **PROCESS),
        OutputGroups(RecursiveRidge()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("value", [np.nan, 1e200])
def test_a_refused_fit_leaves_the_model_as_it_was(model, value):
    X, Y = stream(outputs=2)
    model = copy.deepcopy(model).fit(X, Y)
    before = model.predict(X)
    Y[3, 1] = value
    for verb in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"NaN|large|1e\+150"):
            verb(X, Y)
        np.testing.assert_array_equal(model.predict(X), before)
        assert model.n_samples_seen_ == 60


def test_groups_learn_a_batch_all_or_none():
    X, Y = stream(outputs=3)
    groups = OutputGroups(RecursiveRidge()).fit(X, Y)
    Y[5, 2] = 1e200
    with pytest.raises(ValueError, match="no model has learned it"):
        groups.partial_fit(X, Y)
    assert [model.n_samples_seen_ for model in groups.models_] == [60, 60, 60]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rows", [1, 60])
@pytest.mark.parametrize("where", ["X", "y"])
def test_weights_that_make_values_overflow_are_refused(dtype, rows, where):
    X, y = stream()
    model = RecursiveRidge(dtype=dtype).fit(X, y)
    before = held(model)
    large = 1e140 if dtype == "float64" else 1e20
    bad = (large * X, y) if where == "X" else (X, large * y)
    with pytest.raises(ValueError, match=r"large|rescale"):
        model.partial_fit(bad[0][:rows], bad[1][:rows], np.full(rows, 1e30))
    with pytest.raises(ValueError, match="unchanged"):
        model.learn_one(bad[0][0], bad[1][0], 1e30)
    assert held(model) == before
    model.partial_fit(bad[0][:rows], bad[1][:rows])
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (RecursiveRidge(ridge=1e80, dtype="float32"), "1e-60"),
        (RecursiveRidge(ridge=1e-300), "1e-200"),
        (SparseSpectrumGP(5, **{**PROCESS, "noise": 1e-200}), "noise"),
        (SparseSpectrumGP(5, **{**PROCESS, "signal": 1e200}), "no place"),
        (SparseSpectrumGP(5, **PROCESS, trend=1e-310), "trend"),
        (SparseSpectrumGP(5, **{**PROCESS, "length_scale": 1e-200}), "overflow"),
        (SparseSpectrumGP(5, **{**PROCESS, "length_scale": [1.0, 2.0]}), "shape"),
        (SparseSpectrumGP("many", **PROCESS), "n_frequencies"),
        (RecursiveRidge(dtype=None), "dtype"),
        (RecursiveRidge(window="long"), "window"),
    ],
    ids=repr,
)
def test_settings_that_no_state_can_hold_are_refused(model, word):
    with pytest.raises(ValueError, match=word):
        model.fit(*stream())


# --- time that passes, samples that leave, models that join ---------------------------


@pytest.mark.parametrize("pattern", [[1, 0], [0, 1, 1], [2, 0, 0]])
def test_samples_of_weight_zero_let_time_pass(pattern):
    """Every other one would starve every other feature's turn to be refreshed."""
    X, y = stream(400)
    X *= 1e-2
    weights = np.resize(np.array(pattern, float), 400)
    one = RecursiveRidge(ridge=0.4, forgetting=0.9)
    for sample in zip(X, y, weights, strict=True):
        one.learn_one(*sample)
        assert (one._recursion.state.prior[1:] >= 0.2).all()
    fading = weights * 0.9 ** np.arange(399, -1, -1)
    phi = np.column_stack([np.ones(400), X])
    A = (fading * phi.T) @ phi + np.diag(one._recursion.state.prior)
    exact = np.linalg.solve(A, phi.T @ (fading * y))
    np.testing.assert_allclose(one._recursion.weights()[:, 0], exact, rtol=1e-9)
    many = RecursiveRidge(ridge=0.4, forgetting=0.9).fit(X, y, weights)
    np.testing.assert_array_equal(many.coef_, one.coef_)


@pytest.mark.parametrize("features", [None, FOURIER])
def test_what_fades_does_not_slow_down_the_machine(features):
    """Numbers below the smallest normal one take many times as long on some CPUs."""
    X, y = stream(100)
    model = RecursiveRidge(features, forgetting=0.8, dtype="float32").fit(X, y)
    for _ in range(2000):
        model.learn_one(X[0] * (features is not None), 1.0)
    for array in (model._recursion.state.R, model._recursion.state.Z):
        sizes = np.abs(array[array != 0])
        assert sizes.min() >= np.finfo(np.float32).tiny


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_intercept_that_has_faded_away_is_not_known(dtype):
    X, y = stream()
    model = RecursiveRidge(ridge=0.1, forgetting=0.5, dtype=dtype).fit(X[:5], y[:5])
    for _ in range(1500):
        model.learn_one(X[6], y[6], 0.0)
        assert np.isfinite(model.predict_one(X[7]))
    assert model.predict_one(X[7]) == 0.0
    assert model.predict_update(X[7], 5.0) == 0.0
    assert model.predict_one(X[7]) == pytest.approx(5.0, abs=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("features", [None, FOURIER])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 50])
def test_without_its_samples_a_model_is_as_new(dtype, features, intercept, rows):
    X, y = stream(rows)
    model = RecursiveRidge(features, 0.1, fit_intercept=intercept, dtype=dtype)
    model.partial_fit(X[:1], y[:1], 0.0).remove(X[:1], y[:1], 0.0)
    new = held(model)
    model.partial_fit(X, y).remove(X, y)
    assert held(model) == new
    with pytest.raises(FactorisationError, match="no sample left"):
        model.remove(X[:1], y[:1], 0.0)


def test_samples_of_weight_zero_do_not_hide_the_last():
    X, y = stream(20)
    model = RecursiveRidge(ridge=0.1).partial_fit(X[:3], y[:3], 0.0)
    new = model._recursion.arrays()
    model.partial_fit(X, y).remove(X, y)
    np.testing.assert_array_equal(model._recursion.arrays()["factor"], new["factor"])
    assert model.n_samples_seen_ == 3
    assert model.intercept_ == 0.0


def test_the_last_sample_is_not_taken_for_another():
    model = RecursiveRidge(ridge=0.1).fit([[1.0]], [2.0])
    for x, weight in (([2.0], 1.0), ([1.0], 1.5)):
        with pytest.raises(FactorisationError, match="never learned"):
            model.remove([x], [2.0], [weight])
    assert model.predict_one([1.0]) == pytest.approx(2.0)


def test_where_a_removal_fails_the_window_still_answers(monkeypatch):
    X, y = stream(40)
    model = RecursiveRidge(FOURIER, ridge=0.1, window=15).fit(X[:25], y[:25])
    expected = model.predict_one(X[25])

    def refuse(self, weight=1.0):
        raise FactorisationError("cannot")

    monkeypatch.setattr(type(model._recursion), "remove", refuse)
    assert model.predict_update(X[25], y[25]) == pytest.approx(expected, abs=1e-12)


def test_a_window_that_joblib_lends_for_reading_slides_on(tmp_path):
    X, y = stream()
    model = RecursiveRidge(FOURIER, window=9).fit(X[:20], y[:20])
    joblib.dump(model, tmp_path / "model")
    lent = joblib.load(tmp_path / "model", mmap_mode="r")
    for x, target in zip(X[20:], y[20:], strict=True):
        assert lent.predict_update(x, target) == model.predict_update(x, target)


def test_a_model_merges_with_itself():
    X, y = stream()
    model = RecursiveRidge(ridge=0.1).fit(X, y)
    twice = RecursiveRidge(ridge=0.1).fit(np.r_[X, X], np.r_[y, y])
    model.merge(model)
    np.testing.assert_allclose(model.coef_, twice.coef_, rtol=1e-12)
    np.testing.assert_allclose(
        model._recursion.state.rss, twice._recursion.state.rss, rtol=1e-12
    )


@pytest.mark.parametrize("ridges", [(1e-3, 10.0), (10.0, 1e-3)])
def test_merging_keeps_the_ridge_and_the_other_model(ridges):
    X, y = stream()
    model = RecursiveRidge(ridge=ridges[0]).fit(X[:1], y[:1])
    other = RecursiveRidge(ridge=ridges[1]).fit(X[1:], y[1:])
    before = held(other)
    model.merge(other)
    whole = RecursiveRidge(ridge=ridges[0]).fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(
        model._recursion.state.rss, whole._recursion.state.rss, rtol=1e-9
    )
    assert held(other) == before


def test_a_merge_that_fails_leaves_the_model_as_it_was():
    X, y = stream()
    model = RecursiveRidge(FOURIER, ridge=1e-12).fit(X[:2], y[:2])
    before = held(model)
    with pytest.raises(FactorisationError, match="ridge is so much larger"):
        model.merge(RecursiveRidge(FOURIER, ridge=1e6).fit(X[2:4], y[2:4]))
    assert held(model) == before


def test_models_on_differently_fitted_scalers_do_not_merge():
    X, y = stream()
    one = RecursiveRidge(StandardScaler()).fit(X[:30], y[:30])
    with pytest.raises(ValueError, match="differ in their features"):
        one.merge(RecursiveRidge(StandardScaler()).fit(X[30:], y[30:]))
    scaled = FrozenEstimator(StandardScaler().fit(X))
    one = RecursiveRidge(scaled).fit(X[:30], y[:30])
    one.merge(RecursiveRidge(scaled).fit(X[30:], y[30:]))
    np.testing.assert_allclose(one.coef_, RecursiveRidge(scaled).fit(X, y).coef_)


def test_moments_of_large_and_small_units_keep_both():
    X, y = stream(80)
    X *= [1e6, 1.0, 1e-6]
    y = X @ [1e-6, 1.0, 1e6] + y
    ridge = 1e-13
    phi = np.column_stack([np.ones(79), X[1:]])
    model = RecursiveRidge(ridge=ridge).fit(X[:1], y[:1])
    model.learn_moments(phi.T @ phi, phi.T @ y[1:], y[1:] @ y[1:], 79)
    whole = RecursiveRidge(ridge=ridge).fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-6)


def test_moments_of_dependent_features_are_taken_over():
    X, y = stream(80)
    X[:, 2] = X[:, 0]
    phi = np.column_stack([np.ones(79), X[1:]])
    model = RecursiveRidge(ridge=0.1).fit(X[:1], y[:1])
    model.learn_moments(phi.T @ phi, phi.T @ y[1:], y[1:] @ y[1:], 79)
    np.testing.assert_allclose(model.coef_, Ridge(0.1).fit(X, y).coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [("gram", np.nan), ("cross", np.nan), ("squares", np.inf), ("gram", 1.0)],
)
def test_moments_that_cannot_be_are_refused(name, value):
    X, y = stream(20)
    phi = np.column_stack([np.ones(20), X])
    moments = {"gram": phi.T @ phi, "cross": phi.T @ y, "squares": np.array([y @ y])}
    moments[name].flat[1 % moments[name].size] += value  # 1.0: not symmetric
    model = RecursiveRidge().fit(X, y)
    before = held(model)
    with pytest.raises(ValueError, match=r"NaN|symmetric"):
        model.learn_moments(**moments, n_samples=20)
    assert held(model) == before


# --- corners --------------------------------------------------------------------------


def test_one_weight_stands_for_all_rows():
    X, y = stream()
    found = RecursiveRidge().fit(X, y, 2.5).coef_
    np.testing.assert_array_equal(
        found, RecursiveRidge().fit(X, y, np.full(60, 2.5)).coef_
    )


@pytest.mark.parametrize("ridge", [1e-12, 1e-3, 1e12])
@pytest.mark.parametrize("at_once", [True, False])
def test_constant_and_repeated_inputs_do_not_matter_to_predictions(ridge, at_once):
    X, _ = stream(50)
    X[:, 1], X[:, 2] = 7.0, X[:, 0]
    y = 1e6 + 2.0 * X[:, 0]
    model = RecursiveRidge(ridge=ridge)
    if at_once:
        model.fit(X, y)
    else:
        for x, target in zip(X, y, strict=True):
            model.learn_one(x, target)
    reference = Ridge(ridge, solver="svd").fit(X, y)
    np.testing.assert_allclose(model.predict(X), reference.predict(X), rtol=1e-13)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_features_odd_or_even(size):
    X, y = stream()
    model = RecursiveRidge(ridge=0.3, fit_intercept=False)
    for x, target in zip(X[:, :size], y, strict=True):
        model.learn_one(x, target)
    exact = Ridge(0.3, fit_intercept=False).fit(X[:, :size], y)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-12)


def test_one_output_in_a_column_stays_a_column():
    X, y = stream()
    model = RecursiveRidge().fit(X, y[:, None])
    assert model.predict(X).shape == (60, 1)
    assert model.predict_one(X[0]).shape == (1,)
    assert model.coef_.shape == (1, 3)
    with pytest.raises(ValueError, match=r"of shape \(1,\)"):
        model.predict_update(X[0], 1.0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_blocks_and_single_samples_count_the_same(dtype):
    X, y = stream()
    singles, blocks = (SparseSpectrumGP(5, dtype=dtype, **PROCESS) for _ in range(2))
    for x, target in zip(X, y, strict=True):
        singles.predict_update(x, target)
    blocks.partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    assert singles.coverage_ == blocks.coverage_
    assert singles.evidence_ == blocks.evidence_
    whole = SparseSpectrumGP(5, **PROCESS).partial_fit(X, y)
    assert whole.evidence_ == pytest.approx(singles.evidence_, rel=1e-5)


def test_settings_changed_in_midstream_do_not_mix_up_weights():
    X, y = stream()
    model = RecursiveRidge().fit(X, y)
    coef, intercept = model.coef_, model.intercept_
    model.set_params(fit_intercept=False)
    np.testing.assert_array_equal(model.coef_, coef)
    assert model.intercept_ == intercept


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (RecursiveRidge(), {"fit_intercept": False}),
        (RecursiveRidge(), {"window": 5}),
        (RecursiveRidge(window=9), {"window": 5}),
        (RecursiveRidge(), {"ridge": 2.0}),
        (RecursiveRidge(), {"dtype": "float32"}),
        (SparseSpectrumGP(5, **PROCESS), {"trend": 50.0}),
    ],
    ids=repr,
)
def test_what_could_not_be_loaded_is_not_saved(model, change, tmp_path):
    X, y = stream()
    model = copy.deepcopy(model).fit(X, y)
    before = model.get_params()
    with pytest.raises(ValueError, match="parameters were changed"):
        save(model.set_params(**change), tmp_path / "model")
    save(model.set_params(**before), tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_waves_are_exact_where_they_are_hard():
    near = np.arange(-1_900_000, 1_900_000, 977) * (np.pi / 2)
    angles = np.concatenate([near, np.nextafter(near, 0.0), [3e6, -3e6, 0.0, 1e-300]])
    sine, cosine = np.empty_like(angles), np.empty_like(angles)
    _loops.wave(angles, sine, cosine, 1.0)
    np.testing.assert_allclose(sine, np.sin(angles), rtol=0, atol=5e-16)
    np.testing.assert_allclose(cosine, np.cos(angles), rtol=0, atol=5e-16)
