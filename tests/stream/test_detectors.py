"""Change detectors, against likelihoods maximised by hand and known false alarms."""

from __future__ import annotations

import json
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.base import clone

from tiercel.stream import _windowed_ratio
from tiercel.stream.detectors import ChangeDetector, ThresholdDetector

BOTH = [ChangeDetector(), ThresholdDetector()]


def log_likelihood(rows, theta):
    """Of rows ~ N(theta, I), up to what does not depend on theta."""
    return -0.5 * np.sum((rows - theta) ** 2)


def ratio(rows, a, b):
    """Return the log-likelihood ratio, both means at their best within their sets."""
    mean = rows.mean(axis=0)
    nu = np.linalg.norm(mean)
    direction = mean / nu if nu > 0 else np.eye(len(mean))[0]
    before, after = min(nu, a) * direction, max(nu, b) * direction
    return log_likelihood(rows, after) - log_likelihood(rows, before)


def statistic(U, t, a, b, M):
    return max(ratio(U[j : t + 1], a, b) for j in range(max(0, t - M + 1), t + 1))


def closed_form(nu, k, a, b):
    """Return S of Gijsberts 2011, section 6.1, case by case."""
    if nu < a:
        return -k / 2 * (nu - b) ** 2
    if nu <= b:
        return k / 2 * (-((nu - b) ** 2) + (nu - a) ** 2)
    return k / 2 * (nu - a) ** 2


@given(
    seed=st.integers(0, 10_000),
    p=st.integers(1, 4),
    M=st.integers(1, 12),
    a=st.floats(0, 2),
    gap=st.floats(0.01, 3),
    scale=st.sampled_from([0.0, 0.1, 1.0, 5.0]),
)
@settings(max_examples=30)
def test_the_statistic_is_the_largest_likelihood_ratio(seed, p, M, a, gap, scale):
    U = np.random.default_rng(seed).standard_normal((25, p)) * scale
    detector = ChangeDetector(a, a + gap, M, threshold=0.5)
    for t, u in enumerate(U):
        changed = detector.update(u)
        expected = statistic(U, t, a, a + gap, M)
        assert detector.statistic_ == pytest.approx(expected, rel=1e-9, abs=1e-11)
        assert changed == detector.changed_ == (detector.statistic_ >= 0.5)


@pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("nu", [0.0, 0.3, 0.5, 0.9, 1.0, 1.5, 4.0])
def test_constant_residuals_follow_the_closed_form(a, nu):
    detector = ChangeDetector(a, 1.5, window=6)
    u = nu * np.array([0.6, -0.8])
    for k in (1, 2, 3):
        detector.update(u)
        expected = max(closed_form(nu, i, a, 1.5) for i in range(1, k + 1))
        assert detector.statistic_ == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_the_compiled_loop_does_what_its_python_does():
    U = np.random.default_rng(1).standard_normal((30, 3))
    states = []
    for scan in (_windowed_ratio.scan, _windowed_ratio.scan.__wrapped__):
        state = np.zeros((7, 3)), np.zeros(2, np.int64), np.zeros(3)
        g = np.empty(30)
        assert scan(U, *state, 0.2, 0.9, g) == _windowed_ratio.DONE
        states.append([*state, g])
    for compiled, plain in zip(*states, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-14)


@pytest.mark.parametrize("threshold", [2.0, 5.0])
def test_single_samples_raise_as_many_false_alarms_as_chi_square_says(threshold):
    U = np.random.default_rng(2).standard_normal((200_000, 3))
    rate = ThresholdDetector(threshold).run(U).mean()
    expected = chi2.sf(2 * threshold, df=3)
    assert abs(rate - expected) < 4 * math.sqrt(expected / len(U))
    if threshold == 5.0:
        assert expected == pytest.approx(0.0186, abs=5e-5)


def test_a_threshold_that_is_met_exactly_is_met():
    # |u|^2 / 2 = 1.5 exactly, but sqrt(3)^2 / 2 is less in floating point
    assert math.sqrt(3.0) ** 2 < 3.0
    assert ThresholdDetector(threshold=1.5).update([1.0, 1.0, 1.0])
    assert ThresholdDetector(threshold=5.0).smallest_shift() == math.sqrt(10.0)


def test_the_threshold_detector_is_a_window_of_one_sample():
    U = np.random.default_rng(3).standard_normal((500, 2))
    np.testing.assert_array_equal(
        ThresholdDetector(2.0).run(U), (U**2).sum(axis=1) / 2 >= 2.0
    )


@pytest.mark.parametrize("nu", [0.8, 1.3, 3.0])
def test_the_delay_of_a_clean_shift(nu):
    # Once the window starts at the change, k samples weigh k nu^2 / 2.
    detector = ChangeDetector(0.0, 0.5, window=20, threshold=5.0)
    assert not detector.run(np.zeros((40, 2))).any()
    changed = detector.run(np.tile([0.0, nu], (30, 1)))
    assert np.argmax(changed) + 1 == math.ceil(10 / nu**2)
    assert changed[np.argmax(changed) :].all()


def test_an_alarm_ends_when_the_shift_has_left_the_window():
    detector = ChangeDetector(0.5, 1.0, window=8, threshold=2.0)
    detector.run(np.full(8, 3.0))
    # k - s shifted ones among k samples: the mean falls until the window is clean.
    changed = detector.run(np.zeros(20))
    ends = [
        max(closed_form(3.0 * max(0, k - s) / k, k, 0.5, 1.0) for k in range(1, 9))
        >= 2.0
        for s in range(1, 21)
    ]
    np.testing.assert_array_equal(changed, ends)
    assert changed[0]
    assert not changed[8:].any()


@pytest.mark.parametrize(
    ("settings", "shift"),
    [((0.0, 4.0, 100, 100.0), 2.25), ((0.5, 8.0, 10, 20.0), 67.75 / 15)],
)
def test_the_smallest_shift_that_is_found(settings, shift):
    detector = ChangeDetector(*settings)
    assert detector.smallest_shift() == pytest.approx(shift, rel=1e-14)
    for factor, found in ((1.001, True), (0.999, False)):
        detector.reset()
        full = np.full(settings[2], factor * shift)
        assert detector.run(full).any() == found


@given(
    a=st.floats(0, 2), gap=st.floats(0.01, 3), M=st.integers(1, 50),
    h=st.floats(0.1, 50),
)  # fmt: skip
@settings(max_examples=30)
def test_a_full_window_of_the_smallest_shift_meets_the_threshold(a, gap, M, h):
    detector = ChangeDetector(a, a + gap, M, h)
    nu = detector.smallest_shift()
    assert closed_form(nu, M, a, a + gap) == pytest.approx(h, rel=1e-6)


@pytest.mark.parametrize("detector", BOTH)
def test_many_at_once_are_the_same_as_one_by_one(detector):
    U = np.random.default_rng(4).standard_normal((60, 2)) * 1.5
    one_by_one, at_once = clone(detector), clone(detector)
    flags = [one_by_one.update(u) for u in U]
    np.testing.assert_array_equal(at_once.run(U[:25]), flags[:25])
    np.testing.assert_array_equal(at_once.run(np.asfortranarray(U[25:])), flags[25:])
    assert at_once.statistic_ == one_by_one.statistic_
    assert at_once.changed_ == one_by_one.changed_ == flags[-1]
    assert len(at_once.run(np.empty((0, 2)))) == 0
    with pytest.raises(ValueError, match="0 residuals came in"):
        at_once.run(np.empty((5, 0)))


@pytest.mark.parametrize("detector", BOTH)
def test_single_residuals_may_be_numbers(detector):
    u = np.random.default_rng(5).standard_normal(40) * 3
    scalars, vectors = clone(detector), clone(detector)
    flags = [scalars.update(float(v)) for v in u]
    np.testing.assert_array_equal(vectors.run(u[:, None]), flags)
    np.testing.assert_array_equal(clone(detector).run(u), flags)


@given(stop=st.integers(0, 50), M=st.integers(1, 15), seed=st.integers(0, 1000))
@settings(max_examples=25)
def test_a_restored_detector_goes_on_bit_for_bit(stop, M, seed):
    U = np.random.default_rng(seed).standard_normal((60, 3))
    first = ChangeDetector(window=M, threshold=1.0)
    first.run(U[:stop])
    state = first._saved_state()
    second = ChangeDetector(window=M, threshold=1.0)
    second.run(U[:7, :2])  # to be forgotten
    second._restore_state(state)
    assert second.statistic_ == first.statistic_
    assert second.changed_ == first.changed_
    for u in U[stop:]:
        assert second.update(u) == first.update(u)
        assert second.statistic_ == first.statistic_
    values = {k: v for k, v in state.items() if not isinstance(v, np.ndarray)}
    assert json.loads(json.dumps(values)) == values


def test_a_saved_state_is_a_copy():
    detector = ChangeDetector(window=4)
    detector.run([1.0, 2.0])
    state = detector._saved_state()
    detector.run([5.0, 6.0, 7.0])
    np.testing.assert_array_equal(state["residuals"], [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"residuals": np.ones((21, 1))}, "at most the window's 20"),
        ({"residuals": np.full((2, 1), np.nan)}, "finite float64"),
        ({"residuals": np.ones((2, 1), np.float32)}, "finite float64"),
        ({"residuals": np.ones(2)}, "finite float64"),
        ({"residuals": np.ones((0, 3))}, "finite float64"),
        ({"statistic": np.array([np.nan])}, "not NaN"),
        ({"statistic": np.ones(2)}, "one float64"),
        ({"changed": 1}, "true or false"),
        ({"ring": 1}, "not the state of a detector"),
        ({"residuals": np.ones((3, 0))}, "finite float64"),
    ],
)
def test_a_broken_state_is_refused_and_changes_nothing(broken, message):
    detector = ChangeDetector()
    detector.run([1.0, 2.0])
    before = detector._saved_state()
    with pytest.raises(ValueError, match=message):
        detector._restore_state({**before, **broken})
    unchanged(detector, before)


def unchanged(detector, before):
    after = detector._saved_state()
    assert set(after) == set(before)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize("detector", BOTH)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_rejected_residual_leaves_the_detector_alone(detector, bad):
    detector = clone(detector)
    with pytest.raises(ValueError, match="residuals hold NaN or infinite values"):
        detector.update([0.0, bad])
    assert detector.n_residuals_ == 0  # so another number may still come
    detector.run([[1.0, 2.0, 3.0]])
    before = detector._saved_state()
    for reject in (
        lambda: detector.update([0.0, 0.0, bad]),
        lambda: detector.run([[0.0, 0.0, 9.0], [0.0, bad, 0.0]]),
        lambda: detector.update([1.0, 2.0]),
        lambda: detector.update(1.0),
        lambda: detector.update([[1.0, 2.0, 3.0]]),
        lambda: detector.update([]),
        lambda: detector.run(np.ones((1, 1, 3))),
    ):
        with pytest.raises(ValueError, match="residuals"):
            reject()
        unchanged(detector, before)
    with pytest.raises(TypeError, match="numbers are needed"):
        detector.update(["1", "2", "3"])


@pytest.mark.parametrize(
    "bad",
    [
        {"small_shift": -0.1},
        {"small_shift": 0.5},
        {"large_shift": 0.0},
        {"large_shift": math.inf},
        {"threshold": 0.0},
        {"threshold": math.nan},
        {"threshold": "5"},
        {"window": 0},
        {"window": 2.0},
        {"depth": 3},
    ],
)
def test_bad_parameters_are_refused_at_once_and_change_nothing(bad):
    detector = ChangeDetector()
    detector.run([1.0, 2.0])
    before, parameters = detector._saved_state(), detector.get_params()
    ((name, value),) = bad.items()
    with pytest.raises(ValueError, match=name):
        detector.set_params(**{"threshold": 3.0, **bad})
    if name != "depth":
        with pytest.raises(ValueError, match=name):
            setattr(detector, name, value)
        with pytest.raises(ValueError, match=name):
            ChangeDetector(**bad)
    assert detector.get_params() == parameters
    unchanged(detector, before)


def test_shifts_and_threshold_change_at_run_time():
    U = np.random.default_rng(6).standard_normal((40, 2)) + 0.6
    detector = ChangeDetector(0.0, 0.5, window=10, threshold=5.0)
    detector.run(U[:20])
    held = detector.statistic_
    detector.set_params(small_shift=1.0, large_shift=2.0)
    detector.threshold = 0.1
    assert detector.statistic_ == held  # until the next sample
    for t in range(20, 40):
        changed = detector.update(U[t])
        expected = statistic(U, t, 1.0, 2.0, 10)
        assert detector.statistic_ == pytest.approx(expected)
        assert changed == (expected >= 0.1)


def test_the_window_keeps_its_length_until_a_reset():
    detector = ChangeDetector(window=5)
    detector.window = 6
    detector.update(1.0)
    with pytest.raises(ValueError, match=r"call reset\(\) before"):
        detector.window = 7
    assert detector.set_params(window=6, threshold=2.0).threshold == 2.0
    detector.reset()
    assert (detector.statistic_, detector.changed_) == (0.0, False)
    detector.window = 2
    detector.run(np.full((9, 2), 3.0))  # and another number of residuals
    assert detector.statistic_ == pytest.approx(closed_form(math.sqrt(18), 2, 0, 0.5))


@pytest.mark.parametrize("detector", BOTH)
def test_clones_start_anew_and_copies_go_on(detector):
    detector = clone(detector).set_params(threshold=1.25)
    U = np.random.default_rng(7).standard_normal((30, 2))
    detector.run(U[:10])
    fresh, copy = clone(detector), pickle.loads(pickle.dumps(detector))
    assert fresh.get_params() == copy.get_params() == detector.get_params()
    assert fresh.n_residuals_ == 0
    assert "threshold=1.25" in repr(detector)
    np.testing.assert_array_equal(copy.run(U[10:]), detector.run(U[10:]))


def test_warming_up_leaves_no_trace():
    detector = ChangeDetector()
    detector.warm_up()
    assert detector.n_residuals_ == 0


def test_memory_is_constant():
    detector, u = ChangeDetector(window=50), np.ones(4)
    for _ in range(100):
        detector.update(u)
    tracemalloc.start()
    used = []
    for _ in range(2):
        for _ in range(2000):
            detector.update(u)
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert used[1] - used[0] < 1000
