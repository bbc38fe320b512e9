"""Tiercel's learners as models of River: River's own checks, and the same numbers."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

river = pytest.importorskip("river")

from river import (  # noqa: E402
    checks,
    datasets,
    evaluate,
    linear_model,
    metrics,
    preprocessing,
)

from tiercel.features import FourierFeatures  # noqa: E402
from tiercel.kernels import Gaussian  # noqa: E402
from tiercel.stream.incremental_classifier import IncrementalClassifier  # noqa: E402
from tiercel.stream.locally_weighted import LocallyWeightedProjection  # noqa: E402
from tiercel.stream.output_groups import OutputGroups  # noqa: E402
from tiercel.stream.recursive_ridge import RecursiveRidge  # noqa: E402
from tiercel.stream.river import (  # noqa: E402
    Classifier,
    MultiTargetRegressor,
    Regressor,
)
from tiercel.stream.sparse_spectrum_gp import SparseSpectrumGP  # noqa: E402

POLLS = [*next(iter(datasets.TrumpApproval()))[0]]
FOURIER = FourierFeatures(Gaussian(2.0), n_frequencies=10, random_state=0)
PROCESS = SparseSpectrumGP(10, 0.5, 2.0, 3.0, random_state=0)

CHECKED = {
    "ridge": Regressor(RecursiveRidge()),
    "ridge that forgets": Regressor(RecursiveRidge(forgetting=0.99)),
    "ridge with a window": Regressor(RecursiveRidge(window=20, fit_intercept=False)),
    "Fourier ridge": Regressor(RecursiveRidge(FOURIER), POLLS),
    "process": Regressor(PROCESS, POLLS),
    "local models": Regressor(LocallyWeightedProjection(1e-3), POLLS),
    "several outputs": MultiTargetRegressor(RecursiveRidge()),
    "classifier": Classifier(IncrementalClassifier()),
    "classifier that chooses": Classifier(
        IncrementalClassifier(ridge=[0.1, 10.0], recode="auto")
    ),
}
QUICK = ("ridge", "process", "several outputs", "classifier")


def all_checks():
    """Pair each model with each of River's checks, as River does for its own models."""
    return [
        pytest.param(
            model,
            check,
            id=f"{name}-{check.__name__}-{number}",
            marks=[] if name in QUICK else [pytest.mark.slow],
        )
        for name, model in CHECKED.items()
        for number, check in enumerate(checks.yield_checks(model))
    ]


@pytest.mark.parametrize(("model", "check"), all_checks())
def test_rivers_own_checks(model, check):
    assert model._unit_test_skips() == set()
    check(model.clone())


def polls(rows=120):
    """Return River's poll data as (dict, number) pairs, scaled to a friendly size."""
    scale = preprocessing.StandardScaler()
    for x, y in datasets.TrumpApproval().take(rows):
        scale.learn_one(x)
        yield scale.transform_one(x), y


def learned(model, samples):
    for x, y in samples:
        model.learn_one(x, y)
    return model


# --- the same numbers -------------------------------------------------------------


def test_predictions_are_those_of_rivers_bayesian_regression():
    """With unit prior and noise it is ridge regression without an intercept."""
    ours = Regressor(RecursiveRidge(ridge=1.0, fit_intercept=False))
    theirs = linear_model.BayesianLinearRegression(alpha=1, beta=1)
    rng = np.random.default_rng(0)
    for x, y in polls():
        x = {name: x[name] for name in rng.permutation(POLLS)[: rng.integers(1, 7)]}
        assert ours.predict_one(x) == pytest.approx(theirs.predict_one(x), abs=1e-8)
        ours.learn_one(x, y)
        theirs.learn_one(x, y)


def test_progressive_validation_of_a_pipeline_gives_the_error_of_the_arrays():
    """River predicts with what the scaler knew before the sample, and learns after."""
    model = preprocessing.StandardScaler() | Regressor(RecursiveRidge(FOURIER))
    stream = [*datasets.TrumpApproval().take(120)]
    found = evaluate.progressive_val_score(stream, model, metrics.MAE())
    scale, plain, errors = preprocessing.StandardScaler(), RecursiveRidge(FOURIER), []
    for x, y in stream:
        before = scale.transform_one(x)
        scale.learn_one(x)
        after = scale.transform_one(x)
        rows = [np.array([z[name] for name in sorted(POLLS)]) for z in (before, after)]
        errors.append(abs(y - (plain.predict_one(rows[0]) if errors else 0.0)))
        plain.learn_one(rows[1], y)
    assert found.get() == pytest.approx(np.mean(errors), rel=1e-10)


names = st.lists(st.sampled_from("abcdef"), unique=True)


@settings(max_examples=25)
@given(st.lists(names, min_size=1, max_size=60), st.sampled_from([None, 8]))
def test_a_feature_that_comes_late_has_always_been_0(appearances, window):
    rng = np.random.default_rng(len(appearances))
    model = Regressor(RecursiveRidge(ridge=0.5, window=window))
    X, y = pd.DataFrame(0.0, range(len(appearances)), [*"abcdef"]), []
    for row, present in enumerate(appearances):
        X.loc[row, present] = rng.standard_normal(len(present))
        y.append(rng.standard_normal())
        model.learn_one(X.loc[row, present].to_dict(), y[-1])
    kept = slice(-window if window else None, None)
    reference = Ridge(0.5).fit(X[kept], y[kept])
    query = {name: 1.0 for name in "fedcbaz"}
    expected = reference.intercept_ + reference.coef_.sum()
    assert model.predict_one(query) == pytest.approx(expected, abs=1e-9)
    assert set(model.names) == set().union(*appearances)


def test_a_model_that_has_grown_forgets_as_before():
    """The old samples' weights: w_t = forgetting^(n - t), whenever a feature came."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), rng.standard_normal(300)
    X[:150, 2] = 0.0
    model = Regressor(RecursiveRidge(ridge=1e-9, forgetting=0.97))
    for t, (row, target) in enumerate(zip(X, y, strict=True)):
        model.learn_one(dict(zip("abc"[: 2 + (t >= 150)], row, strict=False)), target)
    reference = Ridge(1e-9).fit(X, y, 0.97 ** np.arange(299, -1, -1))
    np.testing.assert_allclose(model.learner.coef_, reference.coef_, atol=1e-6)


def test_the_ridge_of_a_feature_that_came_late_is_kept_up_as_that_of_others():
    model = Regressor(RecursiveRidge(ridge=2.0, forgetting=0.9))
    for t in range(60):
        model.learn_one({"a": 1.0} | ({"late": 0.0} if t >= 10 else {}), 1.0)
        if t >= 10:  # nothing but its ridge is in its moment
            moment = (model.learner._recursion.state.R[:, -1] ** 2).sum()
            assert 1.0 <= moment <= 2.0 + 1e-12


@pytest.mark.parametrize(("ridge", "recode"), [(0.3, 0.5), ([0.1, 1.0, 10.0], "auto")])
def test_a_classifier_takes_in_features_as_if_it_had_known_them(ridge, recode):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    X[:80, 2:] = 0.0
    labels = [["cup", "box", 3][k] for k in X[:, :3].argmax(1)]
    kind = IncrementalClassifier(ridge=ridge, recode=recode)
    wrapped, plain = Classifier(kind), copy.deepcopy(kind)
    for t, (row, label) in enumerate(zip(X, labels, strict=True)):
        wrapped.learn_one(dict(zip("abcd"[: 2 if t < 80 else 4], row)), label)  # noqa: B905
        plain.learn_one(row, label)
    expected = plain.decision_function(X)
    np.testing.assert_allclose(
        wrapped.learner.decision_function(X), expected, atol=1e-9
    )
    assert wrapped.learner.ridge_ == plain.ridge_
    assert wrapped.predict_one({"d": 0.1, "b": 3.0}) == plain.predict_one(
        [0, 3, 0, 0.1]
    )


@pytest.mark.parametrize("model", [RecursiveRidge(FOURIER), PROCESS])
def test_features_that_are_named_beforehand_may_come_late(model):
    wrapped = Regressor(model, inputs=["b", "a", "c"])
    plain = copy.deepcopy(model)
    for x, y in [({"a": 1.0}, 2.0), ({"b": 0.5, "a": 0.1}, 1.0), ({"c": 2.0}, 0.0)]:
        wrapped.learn_one(x, y)
        plain.learn_one(np.array([x.get(name, 0.0) for name in "bac"]), y)
    rows = np.random.default_rng(0).standard_normal((5, 3))
    expected = plain.predict(rows)
    for row, value in zip(rows, expected, strict=True):
        x = dict(zip("bac", row, strict=True))
        assert wrapped.predict_one(x) == pytest.approx(value, abs=1e-12)


def test_a_process_gives_its_error_bars_as_river_does():
    model = learned(Regressor(PROCESS, POLLS), polls())
    for x, _ in polls(5):
        row = np.array([x[name] for name in POLLS])
        mean, std = model.learner.predict_one(row)
        found = model.predict_one(x, with_dist=True)
        assert (found.mu, found.sigma) == pytest.approx((mean, std), rel=1e-12)
        assert model.predict_one(x) == mean


def test_before_the_first_sample():
    X = pd.DataFrame({"a": [1.0, 2.0]}, index=[7, 8])
    assert Regressor(RecursiveRidge()).predict_one({"a": 1.0}) == 0.0
    assert Regressor(PROCESS).predict_many(X).to_dict() == {7: 0.0, 8: 0.0}
    assert MultiTargetRegressor(RecursiveRidge()).predict_one({"a": 1.0}) == {}
    assert Classifier(IncrementalClassifier()).predict_one({"a": 1.0}) is None
    prior = Regressor(PROCESS).predict_one({"a": 1.0}, with_dist=True)
    assert (prior.mu, prior.sigma) == (0.0, pytest.approx(np.hypot(0.5, 2.0)))
    unknown = Regressor(SparseSpectrumGP()).predict_one({"a": 1.0}, with_dist=True)
    assert unknown.sigma == np.inf


def test_several_outputs_keep_their_names():
    model = MultiTargetRegressor(OutputGroups(RecursiveRidge(ridge=0.1)), inputs=[0, 1])
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 2)), rng.standard_normal((30, 2))
    for row, targets in zip(X, Y, strict=True):
        model.learn_one(dict(enumerate(row)), {"z": targets[0], "y": targets[1]})
    found = model.predict_one({1: 2.0, 0: 1.0})
    expected = Ridge(0.1).fit(X, Y).predict([[1.0, 2.0]])[0]
    assert found == {"z": pytest.approx(expected[0]), "y": pytest.approx(expected[1])}
    assert list(found) == ["y", "z"]


def test_targets_may_be_put_in_order():
    model = MultiTargetRegressor(RecursiveRidge(), targets=["z", "y"])
    model.learn_one({"a": 1.0}, {"y": 2.0, "z": 3.0})
    assert model.predict_one({"a": 1.0}) == {"z": 3.0, "y": 2.0}
    np.testing.assert_allclose(model.learner.intercept_, [3.0, 2.0])


def test_weights_of_samples_count():
    model = Regressor(RecursiveRidge(ridge=0.1))
    stream = [({"a": 1.0}, 2.0, {"w": 3.0}), ({"a": 2.0}, 5.0, {}), ({"a": 4.0}, 1.0)]
    evaluate.progressive_val_score(stream, model, metrics.MAE())
    reference = Ridge(0.1).fit([[1], [2], [4]], [2, 5, 1], [3, 1, 1])
    assert model.learner.coef_ == pytest.approx(reference.coef_)


@pytest.mark.parametrize("model", [PROCESS, LocallyWeightedProjection()])
def test_a_weight_that_the_learner_does_not_know_is_refused(model):
    wrapped = Regressor(model, ["a"])
    with pytest.raises(ValueError, match="w must be 1, not 2"):
        wrapped.learn_one({"a": 1.0}, 1.0, w=2.0)
    assert wrapped.predict_one({"a": 1.0}) == 0.0
    wrapped.learn_one({"a": 1.0}, 1.0, w=1.0)
    assert wrapped.learner.n_samples_seen_ == 1


# --- many rows --------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pytest.importorskip("polars").DataFrame]
)
@pytest.mark.parametrize("model", [RecursiveRidge(), PROCESS])
def test_frames_are_learned_as_their_rows(make, model):
    rows, y = zip(*polls(60), strict=True)
    one, many = Regressor(model, POLLS), Regressor(model, POLLS)
    learned(one, zip(rows, y, strict=True))
    frame = make([{name: x[name] for name in reversed(x)} for x in rows])
    many.learn_many(frame[:35], make({"y": y})["y"][:35])
    many.learn_many(frame[35:], make({"y": y})["y"][35:])
    found = many.predict_many(frame)
    assert type(found) is type(frame["gallup"])
    np.testing.assert_allclose(found, [one.predict_one(x) for x in rows], rtol=1e-9)


def test_predictions_keep_the_index_of_a_frame():
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}, index=["x", "y"])
    regressor, classifier = (
        Regressor(RecursiveRidge()),
        Classifier(IncrementalClassifier()),
    )
    regressor.learn_many(X, pd.Series([1.0, 2.0]))
    classifier.learn_many(X, pd.Series(["left", "right"]))
    assert [*regressor.predict_many(X[["b"]]).index] == ["x", "y"]
    assert classifier.predict_many(X).to_dict() == {"x": "left", "y": "right"}


def test_columns_that_are_new_or_missing_are_0_elsewhere():
    model = Regressor(RecursiveRidge(ridge=0.1))
    model.learn_many(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), pd.Series([1.0, 0.0, 3.0]))
    model.learn_many(pd.DataFrame({"b": [1.0, 4.0]}), pd.Series([2.0, 1.0]))
    X = np.array([[1, 0], [2, 0], [3, 0], [0, 1], [0, 4]])
    reference = Ridge(0.1).fit(X, [1, 0, 3, 2, 1])
    np.testing.assert_allclose(model.learner.coef_, reference.coef_, rtol=1e-10)
    found = model.predict_many(pd.DataFrame({"b": [1.0], "unheard of": [9.0]}))
    np.testing.assert_allclose(found, reference.predict([[0, 1]]), rtol=1e-10)


# --- what is refused ----------------------------------------------------------------


def same_state(model, before):
    return pickle.dumps(model) == before


@pytest.mark.parametrize(("verb", "y"), [("learn_one", [1.0]), ("predict_one", [])])
def test_a_feature_without_a_place_is_refused(verb, y):
    model = Regressor(PROCESS)
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"feature 'c' is new.*inputs=\[.*unchanged"):
        getattr(model, verb)({"c": 1.0, "a": 1.0}, *y)
    assert same_state(model, before)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ({"a": "red"}, 1.0, "'a' is 'red', which is not a number"),
        ({"a": 1.0, "new": None}, 1.0, "'new' is None, which is not a number"),
        ({"a": 1.0, "new": np.nan}, 1.0, "NaN"),
        ({"a": 1.0, "new": 2.0}, np.nan, "NaN"),
        ({"a": 1.0, "new": 2.0}, "high", "y must hold numbers"),
    ],
)
def test_a_refused_sample_leaves_no_trace(x, y, message):
    model = Regressor(RecursiveRidge())
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.learn_one(x, y)
    assert same_state(model, before)


def test_a_refused_frame_leaves_no_trace():
    model = Regressor(RecursiveRidge())
    model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    before = pickle.dumps(model)
    for column, message in [(["3", "4"], "'c' holds texts"), ([1.0, None], "NaN")]:
        with pytest.raises(ValueError, match=message):
            model.learn_many(pd.DataFrame({"c": column}), pd.Series([1.0, 2.0]))
    assert same_state(model, before)


def test_targets_stay_the_same():
    model = MultiTargetRegressor(RecursiveRidge())
    model.learn_one({"a": 1.0}, {"y": 2.0, "z": 3.0})
    for targets in ({"y": 1.0}, {"y": 1.0, "z": 2.0, "w": 3.0}):
        with pytest.raises(ValueError, match=r"learns \['y', 'z'\]"):
            model.learn_one({"a": 1.0}, targets)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Regressor(IncrementalClassifier()), TypeError, "Regressor wraps"),
        (lambda: Regressor(RecursiveRidge), TypeError, "Regressor wraps"),
        (lambda: Regressor(Ridge()), TypeError, "Regressor wraps"),
        (lambda: Classifier(RecursiveRidge()), TypeError, "Classifier wraps"),
        (lambda: Regressor(PROCESS, []), ValueError, "inputs must be a list"),
        (lambda: Regressor(PROCESS, "ab"), ValueError, "inputs must be a list"),
        (lambda: Regressor(PROCESS, ["a", "a"]), ValueError, "inputs must be a list"),
        (
            lambda: MultiTargetRegressor(RecursiveRidge(), targets=["a", "a"]),
            ValueError,
            "targets must be a list",
        ),
    ],
)
def test_what_cannot_be_wrapped_is_refused_at_once(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_error_bars_are_asked_of_a_process():
    model = Regressor(RecursiveRidge())
    for _ in range(2):
        with pytest.raises(ValueError, match="RecursiveRidge gives no error bars"):
            model.predict_one({"a": 1.0}, with_dist=True)
        model.learn_one({"a": 1.0}, 1.0)


# --- copies -------------------------------------------------------------------------


def test_the_model_that_was_given_stays_as_it_is():
    model = RecursiveRidge().fit([[1.0]], [2.0])
    wrapped = learned(Regressor(model), polls(20))
    assert model.n_samples_seen_ == 1
    assert wrapped.learner.n_samples_seen_ == 20
    assert wrapped.clone().predict_one({"a": 1.0}) == 0.0


def test_hyperparameters_that_were_found_stay_and_need_an_order():
    rows, y = zip(*polls(60), strict=True)
    X = np.array([[x[name] for name in POLLS] for x in rows])
    process = SparseSpectrumGP(10, max_steps=5, random_state=0).optimize(X, y)
    with pytest.raises(ValueError, match="in that order with inputs"):
        Regressor(process)
    wrapped = learned(Regressor(process, POLLS).clone(), zip(rows, y, strict=True))
    expected = process.partial_fit(X, y).predict(X[:3])
    found = [wrapped.predict_one(x) for x in rows[:3]]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_pickled_model_goes_on_where_it_was():
    model = learned(Regressor(RecursiveRidge(window=30)), polls(50))
    twin = pickle.loads(pickle.dumps(model))
    for x, y in polls(60):
        assert twin.predict_one(x) == model.predict_one(x)
        model.learn_one({**x, "new": y}, y)
        twin.learn_one({**x, "new": y}, y)
