"""One-step-ahead evaluation, against errors that can be written down."""

from __future__ import annotations

import math
import tracemalloc
import types

import numpy as np
import pytest
from contestants import (
    InOneCall,
    RunningMean,
    running_means,
    stream,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import SGDRegressor

from tiercel.stream._prequential import run, tally
from tiercel.stream._prequential.durations import Durations
from tiercel.stream.detectors import ThresholdDetector
from tiercel.stream.evaluation import prequential, prequential_repeats

# --- errors and curves -------------------------------------------------------


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
    flat = prequential(RunningMean(0.1, outputs=1), X, Y[:, 0])
    column = prequential(RunningMean(0.1, outputs=1), X, Y[:, :1])
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


# --- bad samples and bad arguments -------------------------------------------


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
    np.testing.assert_allclose(report.nmse, clean.nmse, rtol=1e-12)
    for name, baseline in clean.baselines.items():
        nmse = report.baselines[name].nmse
        np.testing.assert_allclose(nmse, baseline.nmse, rtol=1e-12)
    np.testing.assert_array_equal(report.predictions[good], clean.predictions)
    assert np.isnan(report.predictions[[7, 100, 299]]).all()
    assert "rejected: 3" in str(report)


def test_a_stream_of_which_nothing_is_left_is_an_error():
    X, Y = stream(10)
    with pytest.raises(ValueError, match=r"every sample was rejected.*x holds NaN"):
        prequential(RunningMean(), X * np.nan, Y, on_error="skip")


def test_samples_of_another_size_are_bad_samples():
    X, Y = stream(3)
    pairs = [(X[0], Y[0]), (X[1, :2], Y[1]), (X[2], Y[2, :1]), (X[0], Y[1])]
    with pytest.raises(ValueError, match=r"shape \(2,\) .* first sample had 3"):
        prequential(RunningMean(), pairs)
    with pytest.raises(ValueError, match=r"1 targets came in where .* had 2"):
        prequential(RunningMean(), [pairs[0], pairs[2]])
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
        prequential(RunningMean(outputs=1), [(np.ones(2), 1.0), np.ones(3)])
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


# --- time and memory ---------------------------------------------------------


def test_only_the_model_is_on_the_clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(run, "perf_counter", lambda: now[0])

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

    report = prequential(Slow(outputs=1), pairs(), window=10, n_points=100)
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
    short, long = peak_memory(512, keep=False), peak_memory(4096, keep=False)
    assert long - short < 20_000
    assert peak_memory(4096, keep=True) - long > 3000 * 2 * 8


def test_predictions_are_not_kept_unless_asked_for():
    report = prequential(RunningMean(0.1), *stream(30), keep_predictions=False)
    assert report.predictions is report.std is report.gated is None
    assert report.coverage is not None


# --- repetitions -------------------------------------------------------------


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
        lambda seed: RunningMean(0.5, outputs=1), X, Y, 3, detector=detector
    )
    single = prequential(
        RunningMean(0.5, outputs=1), X, Y, detector=ThresholdDetector(1.0)
    )
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


# --- tables ------------------------------------------------------------------


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
