"""One-step-ahead evaluation, against errors that can be written down."""

from __future__ import annotations

import math
import sys
import tracemalloc
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler

from tiercel.stream._prequential import tally
from tiercel.stream._prequential.baselines import NearestNeighbour, Spread
from tiercel.stream._prequential.durations import Durations
from tiercel.stream.detectors import ChangeDetector, ThresholdDetector
from tiercel.stream.evaluation import prequential, prequential_repeats


class RunningMean:
    """Predict the mean of the targets so far, 0 before the first."""

    def __init__(self, std=None):
        self.total, self.count, self.std = 0.0, 0, std

    def predict_one(self, x):
        mean = self.total / max(self.count, 1)
        return mean if self.std is None else (mean, self.std)

    def learn_one(self, x, y):
        if not np.all(np.isfinite(x)):
            raise ValueError("x holds NaN")
        self.total, self.count = self.total + y, self.count + 1


class InOneCall(RunningMean):
    def predict_update(self, x, y):
        answer = self.predict_one(x)
        self.learn_one(x, y)
        return answer


class Majority:
    """Predict the most frequent label so far; None before the first."""

    def __init__(self):
        self.counts = {}

    def predict_one(self, x):
        return max(self.counts, key=self.counts.get) if self.counts else None

    def learn_one(self, x, y):
        self.counts[y] = self.counts.get(y, 0) + 1


def running_means(y):
    """Return what `RunningMean` predicts."""
    totals = np.cumsum(y, axis=0) - y
    return (totals.T / np.maximum(np.arange(len(y)), 1)).T


def stream(n=700, d=3, T=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(X @ rng.standard_normal((d, T))) + 0.1 * rng.standard_normal(
        (n, T)
    )


def cumulative_means(errors):
    return (np.cumsum(errors, axis=0).T / np.arange(1, len(errors) + 1)).T


# --- errors and curves ---------------------------------------------------------


@pytest.mark.parametrize("model", [RunningMean, InOneCall])
def test_errors_of_a_running_mean_in_closed_form(model):
    X, Y = stream()
    report = prequential(model(), X, Y)
    expected = running_means(Y)
    errors = (Y - expected) ** 2
    np.testing.assert_allclose(report.predictions, expected, rtol=1e-14)
    np.testing.assert_allclose(report.mse, errors.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(report.target_variance, Y.var(axis=0), rtol=1e-12)
    nmse = errors.mean(axis=0) / Y.var(axis=0)
    np.testing.assert_allclose(report.nmse, nmse, rtol=1e-12)
    assert report.output_names == ("y0", "y1")
    assert (report.n_samples, report.n_rejected, report.n_unanswered) == (700, 0, 0)


@given(
    n=st.integers(1, 60),
    n_points=st.integers(1, 40),
    window=st.integers(1, 70),
    block=st.sampled_from([1, 7, 256]),
)
@settings(max_examples=30)
def test_curves_are_means_up_to_and_before_each_position(n, n_points, window, block):
    X, Y = stream(n, seed=n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "BLOCK", block)
        report = prequential(RunningMean(), X, Y, window=window, n_points=n_points)
    k = min(n, n_points)
    expected = -(-np.arange(1, k + 1) * n // k)  # evenly spaced, up to the end
    np.testing.assert_array_equal(report.positions, expected)
    errors = (Y - running_means(Y)) ** 2
    variance = np.where(n > 1, Y.var(axis=0), np.nan)
    for position, cumulative, windowed in zip(
        report.positions, report.cumulative, report.windowed, strict=True
    ):
        mean = errors[:position].mean(axis=0) / variance
        np.testing.assert_allclose(cumulative, mean, rtol=1e-10)
        recent = errors[max(0, position - window) : position].mean(axis=0) / variance
        np.testing.assert_allclose(windowed, recent, rtol=1e-10)
    np.testing.assert_array_equal(report.cumulative[-1], report.nmse)


@pytest.mark.parametrize("n", [1, 5, 8, 9, 100, 1000])
@pytest.mark.parametrize("n_points", [1, 5, 8])
def test_curves_of_a_stream_of_unknown_length(n, n_points):
    X, Y = stream(n)
    known = prequential(RunningMean(), X, Y, n_points=n, window=10)
    report = prequential(
        RunningMean(), zip(X, Y, strict=True), n_points=n_points, window=10
    )
    steps = np.diff(np.concatenate([[0], report.positions]))
    assert len(report.positions) <= n_points + 1
    assert len(report.positions) >= min(n, n_points) / 2
    assert (steps[:-1] == steps[0]).all()
    assert 0 < steps[-1] <= steps[0]
    assert report.positions[-1] == n
    at = report.positions - 1
    np.testing.assert_array_equal(report.cumulative, known.cumulative[at])
    np.testing.assert_allclose(report.windowed, known.windowed[at], rtol=1e-12)
    np.testing.assert_array_equal(report.predictions, known.predictions)


def test_one_output_comes_back_in_the_shape_of_y():
    X, Y = stream(50)
    flat = prequential(RunningMean(0.1), X, Y[:, 0])
    column = prequential(RunningMean(0.1), X, Y[:, :1])
    assert flat.predictions.shape == flat.std.shape == (50,)
    assert column.predictions.shape == column.std.shape == (50, 1)
    assert flat.nmse == column.nmse == prequential(RunningMean(), X, Y).nmse[0]
    assert flat.output_names == ("y",)


def test_an_output_that_never_varies_has_no_nmse():
    X, Y = stream(40)
    Y[:, 1] = 0.3
    report = prequential(RunningMean(), X, Y, output_names=["force", "torque"])
    assert report.nmse[0] > 0
    assert np.isnan(report.nmse[1])
    assert report.mse[1] == pytest.approx(0.3**2 / 40)  # of the first sample alone
    assert report.target_variance[1] == 0
    assert "torque never varies, so no nMSE; its MSE is 0.00225" in str(report)
    assert "force never" not in str(report)


def test_large_offsets_do_not_spoil_the_variance():
    X, Y = stream(2000)
    report = prequential(RunningMean(), X, Y + 1e8, baselines=False)
    np.testing.assert_allclose(report.target_variance, Y.var(axis=0), rtol=1e-6)


def test_a_diverging_model_is_reported_as_it_is():
    X, Y = stream(20, T=1)
    answers = iter([0.0] * 10 + [1e200] + [np.nan] * 9)
    model = types.SimpleNamespace(
        predict_one=lambda x: next(answers), learn_one=lambda x, y: None
    )
    report = prequential(model, X, Y, n_points=20)
    assert np.isfinite(report.cumulative[:10]).all()
    assert report.cumulative[10] == np.inf
    assert np.isnan(report.nmse[0])
    assert np.isfinite(report.baselines["persistence"].nmse[0])


# --- baselines -------------------------------------------------------------------


def test_persistence_on_a_random_walk_errs_by_its_steps():
    steps = np.random.default_rng(1).standard_normal((900, 2))
    walk = np.cumsum(steps, axis=0)
    report = prequential(RunningMean(), np.zeros((900, 1)), walk)
    persistence = report.baselines["persistence"]
    # There is nothing to persist at the first sample, so 899 errors count.
    expected = (steps[1:] ** 2).mean(axis=0)
    np.testing.assert_allclose(persistence.mse, expected, rtol=1e-12)
    np.testing.assert_allclose(
        persistence.nmse, expected / walk.var(axis=0), rtol=1e-12
    )


def nearest(X, Y, memory):
    """Return the targets of nearest neighbours, one sample at a time."""
    answers = np.full(Y.shape, np.nan)
    for t in range(1, len(X)):
        std = X[:t].std(axis=0)
        scale = np.divide(1, std, out=np.zeros_like(std), where=std > 0)
        recent = slice(max(0, t - memory), t)
        distances = (((X[recent] - X[t]) * scale) ** 2).sum(axis=1)
        newest_first = distances[::-1]
        answers[t] = Y[recent][::-1][newest_first.argmin()]
    return answers


@given(
    seed=st.integers(0, 1000),
    n=st.integers(2, 60),
    memory=st.integers(1, 70),
    block=st.sampled_from([1, 5, 256]),
)
@settings(max_examples=30)
def test_the_nearest_neighbour_is_that_of_brute_force(seed, n, memory, block):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 100.0, 0.01] + [0.0, 50.0, 3.0]
    X[:, 2] = 0.1 if seed % 2 else X[:, 2]  # an input that never varies
    Y = rng.standard_normal((n, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "BLOCK", block)
        report = prequential(RunningMean(), X, Y, neighbours=memory)
    expected = ((nearest(X, Y, memory) - Y)[1:] ** 2).mean(axis=0)
    np.testing.assert_allclose(
        report.baselines["nearest_neighbour"].mse, expected, rtol=1e-9
    )


def test_of_equal_neighbours_the_latest_is_taken():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((5, 4))[rng.integers(0, 5, 400)]
    Y = np.arange(400.0)[:, None]
    guesses, answered = NearestNeighbour(400, 4, 1).predict_update(X, Y)
    for t in range(20, 400):
        same = np.flatnonzero((X[:t] == X[t]).all(axis=1))
        assert guesses[t, 0] == same[-1]
    assert answered.tolist() == [False] + [True] * 399


def test_what_is_missing_in_an_input_tells_the_neighbours_nothing():
    X, Y = stream(30, d=2, T=1)
    X[10:, 1] = np.nan
    report = prequential(RunningMeanAnyhow(), X, Y)
    assert np.isfinite(report.baselines["nearest_neighbour"].nmse).all()


class RunningMeanAnyhow(RunningMean):
    def learn_one(self, x, y):
        super().learn_one(np.zeros(1), y)


def test_the_spread_of_blocks_is_that_of_all_rows():
    X = np.random.default_rng(3).standard_normal((100, 2)) + [1e6, 0.0]
    spread = Spread(2)
    variances = np.vstack([spread.before_each(X[:7]), spread.before_each(X[7:])])
    for t in (1, 2, 7, 8, 60, 99):
        np.testing.assert_allclose(variances[t], X[:t].var(axis=0), rtol=1e-8)
    np.testing.assert_allclose(spread.variance(), X.var(axis=0), rtol=1e-8)


def test_baselines_can_be_left_out():
    report = prequential(RunningMean(), *stream(50), baselines=False)
    assert report.baselines == {}
    assert "persistence" not in str(report)


# --- models of every kind ----------------------------------------------------------


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


def river_model(kind, answer):
    """Return a stand-in whose class says that it is one of River's."""
    river_base = type(kind, (), {"__module__": "river.base"})
    seen = []

    class Model(river_base):
        def predict_one(self, x):
            return answer(x)

        def learn_one(self, x, y):
            seen.append((x, y))

    Model.__module__ = "river.linear_model"
    return Model(), seen


def test_a_river_model_gets_dicts_of_plain_numbers():
    X, Y = stream(20)
    model, seen = river_model("Regressor", lambda x: x[0] + x[2])
    report = prequential(model, X, Y[:, 0])
    np.testing.assert_array_equal(report.predictions, X[:, 0] + X[:, 2])
    assert seen == [
        (dict(enumerate(x.tolist())), y)
        for x, y in zip(X, Y[:, 0].tolist(), strict=True)
    ]
    assert all(type(y) is float for _, y in seen)
    assert "river" not in sys.modules


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


# --- labels ---------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["texts", "integers", "booleans", "objects"])
def test_error_rates_of_labels(labels):
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2 if labels == "booleans" else 4, 300)
    y = {
        "texts": y.astype(str),
        "integers": y,
        "booleans": y.astype(bool),
        "objects": np.array(["a", 2, ("b", 3), None.__class__], object)[y],
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


# --- standard deviations and gating ------------------------------------------------------


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
    return np.array(predictions), np.array(alarms)


def test_a_detector_keeps_the_model_from_learning():
    rng = np.random.default_rng(5)
    y = 0.1 * rng.standard_normal(600)
    y[200:260] += 1.0
    X = np.zeros((600, 1))
    report = prequential(InOneCall(0.1), X, y, detector=ChangeDetector(window=5))
    detector, model = ChangeDetector(window=5), RunningMean()
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
    Y[150:155] += 3.0
    model = RunningMean()
    report = prequential(
        model, np.zeros((300, 1)), Y, detector=ThresholdDetector(threshold=8.0)
    )
    past, reference = [], RunningMean()
    for t in range(300):
        error = Y[t] - reference.predict_one(None)
        scale = np.sqrt(np.mean(np.square(past), axis=0)) if t >= 30 else np.inf
        alarm = 0.5 * np.sum((error / scale) ** 2) >= 8.0
        assert report.gated[t] == alarm
        past.append(error)
        if not alarm:
            reference.learn_one(np.zeros(1), Y[t])
    assert report.gated[150:155].all()
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
        prequential(RunningMean(0.0), X, Y, detector=ChangeDetector())


# --- bad samples and bad arguments ------------------------------------------------------


def test_bad_samples_stop_the_evaluation_or_are_left_out():
    X, Y = stream(300)
    bad_X, bad_Y = X.copy(), Y.copy()
    bad_X[7, 1] = bad_Y[100, 1] = bad_Y[299, 0] = np.nan
    with pytest.raises(ValueError, match="x holds NaN") as caught:
        prequential(RunningMean(), bad_X, Y)
    assert "sample 7 of the stream" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="a target is NaN or infinite"):
        prequential(RunningMean(), X, bad_Y)
    report = prequential(RunningMean(), bad_X, bad_Y, on_error="skip")
    good = np.delete(np.arange(300), [7, 100, 299])
    clean = prequential(RunningMean(), X[good], Y[good])
    assert (report.n_samples, report.n_rejected) == (300, 3)
    assert report.positions[-1] == 300
    np.testing.assert_array_equal(report.nmse, clean.nmse)
    for name, baseline in clean.baselines.items():
        np.testing.assert_array_equal(report.baselines[name].nmse, baseline.nmse)
    np.testing.assert_array_equal(report.predictions[good], clean.predictions)
    assert np.isnan(report.predictions[[7, 100, 299]]).all()
    assert "rejected: 3" in str(report)


def test_a_stream_of_which_nothing_is_left_is_an_error():
    X, Y = stream(10)
    with pytest.raises(ValueError, match="every sample was rejected.*x holds NaN"):
        prequential(RunningMean(), X * np.nan, Y, on_error="skip")


def test_samples_of_another_size_are_bad_samples():
    X, Y = stream(3)
    pairs = [(X[0], Y[0]), (X[1, :2], Y[1]), (X[2], Y[2, :1]), (X[0], Y[1])]
    with pytest.raises(ValueError, match=r"shape \(2,\) .* first sample had 3"):
        prequential(RunningMean(), pairs)
    with pytest.raises(ValueError, match="1 targets came in where .* had 2"):
        prequential(RunningMean(), pairs[2:1:-1] and [pairs[0], pairs[2]])
    assert prequential(RunningMean(), pairs, on_error="skip").n_rejected == 2


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.empty((0, 2)), np.empty(0), "the stream holds no samples"),
        ([], None, "the stream holds no samples"),
        (np.ones(3), np.ones(3), "X must be a matrix"),
        (np.ones((3, 0)), np.ones(3), "X must be a matrix"),
        (np.ones((3, 2)), np.ones(4), r"y must have shape \(3,\) or \(3, T\)"),
        (np.ones((3, 2)), np.ones((3, 0)), "y must have shape"),
        (np.ones((3, 2)), np.ones((3, 1, 1)), "y must have shape"),
        ([(np.ones(2), np.ones((2, 2)))], None, "one value or a vector"),
    ],
)
def test_streams_that_will_not_do(X, y, message):
    with pytest.raises(ValueError, match=message):
        prequential(RunningMean(), X, y)


def test_streams_of_the_wrong_kind():
    from scipy import sparse

    for X in (np.ones((3, 2)), 5):
        with pytest.raises(TypeError, match="y is missing"):
            prequential(RunningMean(), X)
    with pytest.raises(TypeError, match="must yield pairs"):
        prequential(RunningMean(), [(np.ones(2), 1.0), np.ones(3)])
    with pytest.raises(TypeError, match="sparse"):
        prequential(RunningMean(), sparse.eye_array(3).tocsr(), np.ones(3))
    with pytest.raises(TypeError, match="X has dtype"):
        prequential(RunningMean(), np.array([["a"]]), np.ones(1))


@pytest.mark.parametrize(
    "bad",
    [
        {"window": 0},
        {"n_points": 2.5},
        {"neighbours": -1},
        {"on_error": "ignore"},
        {"output_names": ["a"]},
        {"output_names": "ab"},
    ],
)
def test_bad_settings_are_refused_before_the_model_is_touched(bad):
    model = RunningMean()
    with pytest.raises(ValueError, match=next(iter(bad))):
        prequential(model, *stream(10), **bad)
    assert model.count == 0


# --- time and memory ---------------------------------------------------------------------


def test_only_the_model_is_on_the_clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(
        sys.modules[prequential.__module__], "perf_counter", lambda: now[0]
    )

    class Slow(RunningMean):
        def predict_one(self, x):
            now[0] += 0.25
            return super().predict_one(x)

        def learn_one(self, x, y):
            now[0] += 2.0 if self.count == 90 else 0.5
            return super().learn_one(x, y)

    def pairs():
        for x, y in zip(*stream(100, T=1), strict=True):
            now[0] += 1000.0
            yield x, y

    report = prequential(Slow(), pairs(), window=10, n_points=100)
    assert report.seconds.median == pytest.approx(0.75, rel=0.003)
    assert report.seconds.percentile_99 == pytest.approx(0.75, rel=0.003)
    assert report.seconds.worst == pytest.approx(2.25)
    np.testing.assert_allclose(report.windowed_seconds, 0.75)


def test_quantiles_of_a_histogram():
    seconds = 10 ** np.random.default_rng(7).uniform(-6, -2, 5001)
    durations = Durations()
    for part in np.array_split(seconds, 20):
        durations.add(part)
    ordered = np.sort(seconds)
    median, late, worst = durations.quantiles()
    assert median == pytest.approx(ordered[2500], rel=0.0024)
    assert late == pytest.approx(ordered[math.ceil(0.99 * 5001) - 1], rel=0.0024)
    assert worst == ordered[-1]
    durations.add(np.array([0.0, 1e9]))  # beyond both ends
    assert durations.bins.sum() == 5003
    assert all(math.isnan(q) for q in Durations().quantiles()[:2])


def peak_memory(n, keep):
    rng = np.random.default_rng(8)
    pairs = ((rng.standard_normal(3), rng.standard_normal(2)) for _ in range(n))
    settings = {"neighbours": 100, "window": 50, "n_points": 20}
    tracemalloc.start()
    prequential(RunningMean(), pairs, keep_predictions=keep, **settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_depend_on_the_length_unless_predictions_are_kept():
    peak_memory(300, keep=False)  # what is loaded at the first call
    short, long = peak_memory(1024, keep=False), peak_memory(8192, keep=False)
    assert long - short < 20_000
    assert peak_memory(8192, keep=True) - long > 7000 * 2 * 8


def test_predictions_are_not_kept_unless_asked_for():
    report = prequential(RunningMean(0.1), *stream(30), keep_predictions=False)
    assert report.predictions is report.std is report.gated is None
    assert report.coverage is not None


# --- repetitions ---------------------------------------------------------------------------


def make_sgd(seed):
    return SGDRegressor(random_state=seed, eta0=0.01 * (seed + 1))


def test_repeats_are_mean_and_deviation_of_single_runs():
    X, Y = stream(200)
    y = Y[:, 0]
    repeats = prequential_repeats(make_sgd, X, y, 4, window=20, n_points=10)
    singles = [prequential(make_sgd(s), X, y, window=20, n_points=10) for s in range(4)]
    for name in ("nmse", "mse", "cumulative", "windowed"):
        values = np.stack([getattr(report, name) for report in singles])
        np.testing.assert_allclose(getattr(repeats.mean, name), values.mean(axis=0))
        std = np.sqrt(((values - values.mean(axis=0)) ** 2).sum(axis=0) / 3)
        np.testing.assert_allclose(getattr(repeats.std, name), std, rtol=1e-9)
    assert repeats.std.nmse > 0
    assert repeats.mean.coverage is repeats.mean.gated_share is None
    assert repeats.mean.seconds.worst > 0
    (mean,), (std,) = repeats.mean.nmse, repeats.std.nmse
    assert f"{mean:.4g} ± {std:.4g}" in str(repeats)
    assert "4 repetitions" in str(repeats)
    baselines = singles[0].baselines
    assert f"{baselines['persistence'].nmse[0]:.4g}" in str(repeats)
    assert repeats.reports[0].baselines["persistence"].nmse == baselines[
        "persistence"
    ].nmse  # fmt: skip


def test_each_repetition_has_its_own_detector():
    X, Y = stream(200, T=1)
    detector = ThresholdDetector(threshold=1.0)
    repeats = prequential_repeats(
        lambda seed: RunningMean(0.5), X, Y, 3, detector=detector
    )
    single = prequential(RunningMean(0.5), X, Y, detector=ThresholdDetector(1.0))
    assert repeats.mean.gated_share == pytest.approx(single.gated_share)
    assert repeats.std.gated_share == pytest.approx(0)
    assert repeats.mean.coverage == pytest.approx(single.coverage)
    assert detector.n_residuals_ == 0


def test_repeated_error_rates():
    X, Y = stream(100)
    y = np.where(Y[:, 0] > 0, "up", "down")
    labels = ["down", "up"]
    repeats = prequential_repeats(
        lambda s: DummyClassifier(strategy="constant", constant=labels[s]).fit(X, y),
        X, y, 2,
    )  # fmt: skip
    rates = [(y == "up").mean(), (y == "down").mean()]
    assert repeats.mean.error_rate == pytest.approx(0.5)
    assert repeats.std.error_rate == pytest.approx(np.std(rates, ddof=1))
    assert repeats.mean.nmse is None


def test_what_cannot_be_repeated():
    X, Y = stream(5)
    with pytest.raises(ValueError, match="at least 2"):
        prequential_repeats(make_sgd, X, Y, 1)
    with pytest.raises(TypeError, match="must be two arrays"):
        prequential_repeats(make_sgd, zip(X, Y, strict=True), None)


# --- tables ----------------------------------------------------------------------------------


def test_a_report_prints_one_line_per_contestant():
    X, Y = stream(300)
    report = prequential(RunningMean(), X, Y, output_names=["force", "torque"])
    lines = str(report).splitlines()
    assert lines[0] == "RunningMean: nMSE, one step ahead, 300 samples"
    assert lines[1].split() == ["force", "torque"]
    figures = {line.split()[0]: line.split()[1:] for line in lines[2:5]}
    assert figures["RunningMean"] == [f"{e:.4g}" for e in report.nmse]
    for name in ("persistence", "nearest_neighbour"):
        assert figures[name] == [f"{e:.4g}" for e in report.baselines[name].nmse]
    assert lines[5].startswith("seconds per sample: median")
    nmse = ", ".join(f"{e:.3g}" for e in report.nmse)
    assert (
        repr(report) == f"<PrequentialReport of RunningMean: 300 samples, nMSE {nmse}>"
    )
