"""Evaluation of models of every kind: how they are asked, taught and held back."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from contestants import (
    InOneCall,
    Majority,
    RunningMean,
    nearest,
    river_model,
    running_means,
    stream,
)
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler

from tiercel.stream.detectors import ChangeDetector, ThresholdDetector
from tiercel.stream.evaluation import prequential
from tiercel.stream.recursive_ridge import RecursiveRidge
from tiercel.stream.sparse_spectrum_gp import SparseSpectrumGP

# --- models of every kind ----------------------------------------------------


def test_an_sgd_regressor_is_asked_before_it_is_taught():
    X, Y = stream(300)
    y = Y[:, 0]
    report = prequential(SGDRegressor(random_state=0), X, y)
    model, expected = SGDRegressor(random_state=0), np.full(300, np.nan)
    for t in range(300):
        if t:  # an untaught model has no answer
            expected[t] = model.predict(X[t : t + 1])[0]
        model.partial_fit(X[t : t + 1], y[t : t + 1])
    np.testing.assert_array_equal(report.predictions, expected)
    assert report.n_unanswered == 1
    mse = np.nanmean((y - expected) ** 2)
    np.testing.assert_allclose(report.mse, mse, rtol=1e-12)
    assert "not answered: 1" in str(report)


def test_a_frozen_model_stays_as_it_is():
    X, Y = stream(200)
    model = LinearRegression().fit(X[:50], Y[:50])
    coefficients = model.coef_.copy()
    report = prequential(model, X[50:], Y[50:])
    np.testing.assert_allclose(report.predictions, model.predict(X[50:]), rtol=1e-12)
    np.testing.assert_array_equal(model.coef_, coefficients)
    with pytest.raises(ValueError, match="not fitted"):
        prequential(LinearRegression(), X, Y)


def test_a_river_model_gets_dicts_of_plain_numbers():
    X, Y = stream(20)
    loaded = "river" in sys.modules
    model, seen = river_model("Regressor", lambda x: x[0] + x[2])
    report = prequential(model, X, Y[:, 0])
    np.testing.assert_array_equal(report.predictions, X[:, 0] + X[:, 2])
    assert seen == [
        (dict(enumerate(x.tolist())), y)
        for x, y in zip(X, Y[:, 0].tolist(), strict=True)
    ]
    assert all(type(y) is float for _, y in seen)
    assert ("river" in sys.modules) == loaded


def test_a_river_model_with_named_inputs_and_several_outputs():
    pandas = pytest.importorskip("pandas")
    X, Y = stream(20)
    X, Y = pandas.DataFrame(X, columns=list("abc")), pandas.DataFrame(Y)
    Y.columns = ["left", "right"]
    model, seen = river_model(
        "MultiTargetRegressor", lambda x: {"right": x["a"], "left": x["b"]}
    )
    report = prequential(model, X, Y)
    np.testing.assert_array_equal(report.predictions, X[["b", "a"]])
    assert report.output_names == ("left", "right")
    assert seen[3] == (X.iloc[3].to_dict(), Y.iloc[3].to_dict())


def test_a_river_stream_of_dicts():
    X, Y = stream(30, d=2, T=1)
    pairs = [({"u": a, "v": b}, y) for (a, b), y in zip(X, Y[:, 0], strict=True)]
    model, seen = river_model("Regressor", lambda x: x["v"])
    from_dicts = prequential(model, iter(pairs))
    from_arrays = prequential(river_model("", lambda x: x[1])[0], X, Y[:, 0])
    assert seen == pairs
    np.testing.assert_array_equal(from_dicts.predictions, X[:, 1])
    for name, baseline in from_dicts.baselines.items():
        assert baseline.nmse == from_arrays.baselines[name].nmse
    texts = [({"u": "red"}, 1.0), ({"u": "green"}, 2.0)]
    model, seen = river_model("Regressor", lambda x: 0.0)
    with pytest.raises(TypeError, match="baselines=False"):
        prequential(model, texts)
    assert prequential(model, texts, baselines=False).mse == 2.5


def test_answers_that_are_overwritten_are_kept():
    X, Y = stream(30)
    answer = np.zeros(2)

    class InPlace:
        def predict_one(self, x):
            answer[:] = x[:2]
            return answer

        def learn_one(self, x, y):
            answer[:] = 99.0

    report = prequential(InPlace(), X, Y)
    np.testing.assert_array_equal(report.predictions, X[:, :2])


def test_models_that_cannot_be_evaluated():
    X, Y = stream(5)
    with pytest.raises(TypeError, match="pass a model, not the class RunningMean"):
        prequential(RunningMean, X, Y)
    with pytest.raises(TypeError, match="StandardScaler has none of the methods"):
        prequential(StandardScaler(), X, Y)
    with pytest.raises(TypeError, match="predicts 1 outputs, the stream has 2"):
        prequential(LinearRegression().fit(X, Y[:, 0]), X, Y)
    update_only = types.SimpleNamespace(predict_update=lambda x, y: y)
    assert prequential(update_only, X, Y).nmse.tolist() == [0, 0]
    with pytest.raises(TypeError, match="cannot be gated"):
        prequential(update_only, X, Y, detector=ChangeDetector())


def test_tiercels_own_learners():
    X, Y = stream(200)
    expected = np.full(Y.shape, np.nan)
    model = RecursiveRidge(ridge=0.5)
    for t in range(200):
        expected[t] = model.predict_update(X[t], Y[t])
    report = prequential(RecursiveRidge(ridge=0.5), X, Y)
    np.testing.assert_array_equal(report.predictions, expected)
    quiet = ThresholdDetector(threshold=1e9)  # predict_one, then learn_one
    gated = prequential(RecursiveRidge(ridge=0.5), X, Y, detector=quiet)
    np.testing.assert_allclose(gated.predictions[1:], expected[1:], rtol=1e-12)
    assert gated.n_unanswered == 1  # nobody knows yet how many outputs there are
    assert gated.gated_share == 0


def test_a_gaussian_process_covers_its_noise():
    X, Y = stream(400, d=2, T=1)
    model = SparseSpectrumGP(20, 0.1, 1.0, 1.0, random_state=0)
    report = prequential(model, X, Y[:, 0])
    assert report.coverage == model.coverage_[2]
    assert report.std.shape == (400,)
    assert report.nmse < report.baselines["nearest_neighbour"].nmse


# --- labels ------------------------------------------------------------------


OBJECTS = np.empty(4, object)
OBJECTS[:] = ["a", 2, 1 / 3, True]
OBJECTS[1] = ("b", 3)


@pytest.mark.parametrize("labels", ["texts", "integers", "booleans", "objects"])
def test_error_rates_of_labels(labels):
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2 if labels == "booleans" else 4, 300)
    y = {
        "texts": y.astype(str),
        "integers": y,
        "booleans": y.astype(bool),
        "objects": OBJECTS[y],
    }[labels]
    X = rng.standard_normal((300, 2))
    model, expected = Majority(), []
    for label in y:
        expected.append(model.predict_one(None))
        model.learn_one(None, label)
    report = prequential(Majority(), X, y)
    assert report.predictions[0] is None
    assert report.predictions.tolist() == expected
    wrong = np.array([p != t for p, t in zip(expected, y, strict=True)])[1:]
    assert report.error_rate == pytest.approx(wrong.mean())
    assert report.nmse is report.mse is report.target_variance is None
    changes = np.array([a != b for a, b in zip(y[1:], y[:-1], strict=True)])
    rate = report.baselines["persistence"].error_rate
    assert rate == pytest.approx(changes.mean())
    np.testing.assert_allclose(report.cumulative[-1], wrong.mean())
    assert "error rate, one step ahead" in str(report)


def test_the_nearest_neighbour_of_labels():
    X, Y = stream(200, d=2)
    y = np.where(Y[:, 0] > 0, "up", "down")
    report = prequential(Majority(), X, y)
    codes = nearest(X, (Y[:, :1] > 0) * 1.0, 2000)[1:, 0]
    wrong = codes != (Y[1:, 0] > 0)
    rate = report.baselines["nearest_neighbour"].error_rate
    assert rate == pytest.approx(wrong.mean())


def test_a_scikit_learn_classifier_knows_all_classes_at_its_first_sample():
    X, Y = stream(150)
    y = np.digitize(Y[:, 0], [-0.5, 0.5]).astype(float)  # floats, yet labels
    report = prequential(SGDClassifier(random_state=0), X, y)
    model, wrong = SGDClassifier(random_state=0), []
    for t in range(150):
        if t:
            wrong.append(model.predict(X[t : t + 1])[0] != y[t])
        model.partial_fit(X[t : t + 1], y[t : t + 1], classes=[0, 1, 2])
    assert report.error_rate == pytest.approx(np.mean(wrong))
    told = []

    class Listening(SGDClassifier):
        def partial_fit(self, X, y, classes=None):
            told.append(classes)
            return super().partial_fit(X, y, classes)

    prequential(Listening(), X[:5], y[:5])
    np.testing.assert_array_equal(told[0], np.unique(y[:5]))
    assert told[1:] == [None] * 4
    pairs = list(zip(X, y, strict=True))
    with pytest.raises(ValueError, match=r"pass classes=\[...\]"):
        prequential(SGDClassifier(), pairs)
    again = prequential(SGDClassifier(random_state=0), pairs, classes=[0, 1, 2])
    assert again.error_rate == report.error_rate
    assert prequential(model, pairs).n_unanswered == 0  # it knows its classes


def test_who_says_what_targets_are():
    X, counts = np.zeros((6, 1)), np.array([0, 2, 1, 3, 2, 4])
    fitted = LinearRegression().fit(X, counts)
    assert prequential(fitted, X, counts).error_rate is None
    dummy = DummyClassifier().fit(X, counts.astype(float))
    assert prequential(dummy, X, counts.astype(float)).error_rate == 4 / 6
    regressor, _ = river_model("Regressor", lambda x: 2.0)
    assert prequential(regressor, X, counts).mse == ((counts - 2) ** 2).mean()
    classifier, _ = river_model("Classifier", lambda x: 2.0)
    assert prequential(classifier, X, counts * 1.0).error_rate == 4 / 6
    assert prequential(Majority(), X, counts[:, None]).nmse is None
    several = prequential(RunningMean(), X, np.stack([counts, counts], axis=1))
    assert several.nmse.shape == (2,)


# --- standard deviations and gating ------------------------------------------


def test_coverage_counts_targets_within_two_standard_deviations():
    X, Y = stream(400)
    std = np.array([0.2, 0.5])
    report = prequential(RunningMean(std), X, Y)
    inside = np.abs(Y - running_means(Y)) <= 2 * std
    np.testing.assert_allclose(report.coverage, inside.mean(axis=0))
    np.testing.assert_array_equal(report.std, np.tile(std, (400, 1)))
    assert f"{100 * report.coverage[0]:.1f}" in str(report)
    shared = prequential(RunningMean(0.2), X, Y)  # one for all outputs
    assert shared.coverage[0] == report.coverage[0]
    assert prequential(RunningMean(), X, Y).coverage is None


def gated_run(model, y, closes):
    """Return predictions and alarms, the model learning only where none is."""
    predictions, alarms = [], []
    for value in y:
        predictions.append(model.predict_one(None))
        alarms.append(closes(value - predictions[-1]))
        if not alarms[-1]:
            model.learn_one(np.zeros(1), value)
    return np.ravel(predictions), np.ravel(alarms)


def test_a_detector_keeps_the_model_from_learning():
    rng = np.random.default_rng(5)
    y = 0.1 * rng.standard_normal(600)
    y[200:260] += 1.0
    X = np.zeros((600, 1))
    report = prequential(
        InOneCall(0.1, outputs=1), X, y, detector=ChangeDetector(window=5)
    )
    detector, model = ChangeDetector(window=5), RunningMean(outputs=1)
    expected, alarms = gated_run(model, y, lambda e: detector.update(e / 0.1))
    np.testing.assert_allclose(report.predictions, expected, rtol=1e-12)
    np.testing.assert_array_equal(report.gated, alarms)
    assert report.gated_share == alarms.mean()
    assert alarms[205:260].all()
    assert not alarms[270:].all()
    # The disturbance did not get in: the mean of an ungated model is off by 0.1.
    assert abs(model.total / model.count) < 0.02
    assert f"gated: {100 * alarms.mean():.1f} %" in str(report)


@pytest.mark.parametrize("outputs", [1, 2])
def test_without_predicted_deviations_past_errors_set_the_scale(outputs):
    rng = np.random.default_rng(6)
    Y = 0.3 * rng.standard_normal((300, outputs))
    Y[[29, 30]] += 3.0
    detector, model = ThresholdDetector(threshold=1.0), RunningMean(outputs=outputs)
    report = prequential(model, np.zeros((300, 1)), Y, detector=detector)
    past, reference = [], RunningMean(outputs=outputs)
    for t in range(300):
        error = Y[t] - reference.predict_one(None)
        scale = np.sqrt(np.mean(np.square(past), axis=0)) if t >= 30 else np.inf
        alarm = 0.5 * np.sum((error / scale) ** 2) >= 1.0
        assert report.gated[t] == alarm
        past.append(error)  # also that of an alarm
        if not alarm:
            reference.learn_one(np.zeros(1), Y[t])
    assert report.gated[29:31].tolist() == [False, True]
    assert 0.02 < report.gated_share < 0.5
    np.testing.assert_allclose(model.total, reference.total, rtol=1e-12)


def test_a_detector_watches_a_frozen_model_too():
    X, Y = stream(300)
    model = LinearRegression().fit(X, Y)
    disturbed = Y + 50.0 * (np.arange(300) >= 250)[:, None]
    report = prequential(model, X, disturbed, detector=ChangeDetector())
    assert report.gated[250]
    assert not report.gated[:250].all()


def test_a_gate_needs_numbers():
    X, Y = stream(5, T=1)
    with pytest.raises(ValueError, match="labels have none"):
        prequential(Majority(), X, ["a"] * 5, detector=ChangeDetector())
    with pytest.raises(TypeError, match=r"no update\(residuals\)"):
        prequential(RunningMean(), X, Y, detector=0.5)
    with pytest.raises(ValueError, match="residuals hold NaN or inf"):
        prequential(RunningMean(0.0, outputs=1), X, Y, detector=ChangeDetector())
