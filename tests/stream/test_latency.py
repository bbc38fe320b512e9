"""Latency reports: with a clock of their own, and the count of operations in C."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from c_programs import needs_gcc
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import ClassifierMixin

from tiercel.features import FourierFeatures
from tiercel.stream import RecursiveRidge, SparseSpectrumGP
from tiercel.stream.c_code import export_c
from tiercel.stream.latency import LatencyReport, latency_report, operations

SIZES = [50, 100, 200, 400, 800]


def law(F):
    return 2e-6 + 1e-8 * F + 1e-10 * F**2


class Simulated:
    """A model whose calls take what a law says, on a clock that it moves."""

    def __init__(self, n_features, now):
        self.n_features, self.now, self.samples = n_features, now, []

    def predict_update(self, x, y):
        self.samples.append((x, y))
        self.now[0] += law(self.n_features)


def simulated(made=None, **options):
    now, made = [0.0], [] if made is None else made

    def make(n_features):
        made.append(Simulated(n_features, now))
        return made[-1]

    options = {"n_inputs": 3, "n_features": SIZES, "samples": 100} | options
    return latency_report(make, clock=lambda: now[0], **options)


def report_of(medians, sizes=SIZES, **options):
    """Return a report in which each call takes the same."""
    seconds = np.repeat(np.array(medians)[:, None], 100, axis=1)
    n_bytes = np.full(len(medians), 8000)
    return LatencyReport("Model", np.array(sizes), seconds, n_bytes, **options)


def test_each_call_is_timed_by_the_given_clock():
    made = []
    report = simulated(made, samples=150)
    np.testing.assert_allclose(
        report.seconds, np.repeat(law(report.n_features)[:, None], 150, 1), rtol=1e-8
    )
    for model in made:
        assert len(model.samples) == 150 + 20  # some warm it up
        x, y = model.samples[-1]
        assert (x.shape, type(y)) == ((3,), float)


def test_several_outputs_are_arrays_and_classes_are_labels():
    made = []
    simulated(made, n_outputs=7)
    assert made[0].samples[0][1].shape == (7,)

    class Classes(ClassifierMixin, Simulated):
        pass

    now, made = [0.0], []

    def make(n_features):
        made.append(Classes(n_features, now))
        return made[-1]

    latency_report(make, 3, 4, [10, 20], samples=100, clock=lambda: now[0])
    assert {y for _, y in made[0].samples} == {0, 1, 2, 3}


def test_percentiles_median_and_worst():
    seconds = np.tile(np.arange(1.0, 102.0), (2, 1)) * [[1.0], [2.0]]
    report = LatencyReport("Model", np.array([10, 20]), seconds, np.zeros(2))
    np.testing.assert_allclose(report.median, [51.0, 102.0])
    np.testing.assert_allclose(report.percentile(99.0), [100.0, 200.0])
    np.testing.assert_allclose(report.worst, [101.0, 202.0])


def test_the_law_is_recovered():
    np.testing.assert_allclose(simulated().law(), [2e-6, 1e-8, 1e-10], rtol=1e-5)


def test_no_coefficient_of_a_law_is_negative():
    # The best parabola through these falls at first.
    assert (report_of([5e-6, 3e-6, 4e-6, 9e-6, 30e-6]).law() >= 0).all()


@pytest.mark.parametrize("size", [50, 51, 77, 200, 399, 650, 800])
def test_the_answer_inverts_the_law(size):
    report = simulated()
    assert report.largest_for(1.0001 * law(size), share=1.0) == size
    assert report.largest_for(2.0002 * law(size)) == size  # half by default


def test_nothing_is_promised_beyond_what_was_measured():
    report = simulated()
    budgets = {"long": 2.0002 * law(1500), "short": 2.0002 * law(20)}
    assert report.largest_for(budgets["long"]) == 800
    assert report.largest_for(budgets["short"]) == 0
    assert report.largest_for(budgets["long"], beyond=True) == 1500
    assert report.largest_for(budgets["short"], beyond=True) == 20
    assert report.largest_for(1e-7, beyond=True) == 0


times = st.lists(st.floats(1e-7, 1e-2), min_size=5, max_size=5)


@given(times, st.lists(st.floats(1e-8, 1.0), min_size=2, max_size=10), st.booleans())
def test_a_longer_period_never_fits_fewer(medians, periods, beyond):
    report = report_of(medians)
    answers = [report.largest_for(p, beyond=beyond) for p in sorted(periods)]
    assert answers == sorted(answers)


@given(times, st.floats(1e-8, 1.0), st.floats(0.01, 1.0))
def test_no_answer_contradicts_a_measurement(medians, period, share):
    report = report_of(medians)
    answer = report.largest_for(period, share)
    for size, seconds in zip(SIZES, medians, strict=True):
        if seconds > share * period:
            assert answer < size


def test_percentiles_decide():
    seconds = np.full((2, 100), 1e-6)
    seconds[:, ::20] = 1e-3  # five in a hundred
    report = LatencyReport("Model", np.array([10, 20]), seconds, np.zeros(2))
    assert report.largest_for(1e-4, percentile=90.0) == 20
    assert report.largest_for(1e-4, percentile=99.0) == 0


def test_the_text_has_a_table_and_an_answer():
    text = str(simulated(period=2.0002 * law(300)))
    first, heads, *rows, answer = text.splitlines()
    assert first == "Simulated, inputs: 3, outputs: 1: microseconds per predict_update"
    assert re.split(r"  +", heads.strip()) == [
        "features", "median", "99 %", "worst", "state, kB"
    ]  # fmt: skip
    assert [float(row.split()[0]) for row in rows] == SIZES
    assert [float(row.split()[1]) for row in rows] == [2.8, 4.0, 8.0, 22.0, 74.0]
    assert answer == (
        "Half of a period of 28 µs is enough for 300 features in 99 % of the calls."
    )
    assert len(str(simulated()).splitlines()) == len(text.splitlines()) - 1


def test_the_text_says_where_the_measurements_end():
    assert str(simulated(period=2.0002 * law(1500))).endswith(
        "for 800 features in 99 % of the calls. More were not measured; the fitted law "
        "says 1,500."
    )
    assert str(simulated(period=1e-6)).endswith(
        "is too short for 50 features, the least measured."
    )


@pytest.mark.parametrize(
    ("model", "arguments", "counted"),
    [
        (None, {"n_inputs": 3}, [21, 31]),  # and an intercept
        (SparseSpectrumGP(), {"n_inputs": 3, "n_outputs": 2}, [20, 30]),
        (
            RecursiveRidge(FourierFeatures(map="phase"), fit_intercept=False).fit(
                np.eye(4), np.ones((4, 3))
            ),
            {},
            [20, 30],
        ),
    ],
)
def test_models_get_the_wanted_features(model, arguments, counted):
    ticks = iter(range(10**6))
    before = model and model.get_params()
    report = latency_report(
        model,
        **arguments,
        n_features=[30, 20, 20],
        samples=100,
        clock=lambda: next(ticks),
    )
    np.testing.assert_array_equal(report.n_features, [20, 30])
    np.testing.assert_array_equal(report.median, [1.0, 1.0])
    # The factor is the largest part of the state.
    assert (report.n_bytes > 8 * np.square(counted)).all()
    assert (report.n_bytes < 8 * np.square(counted) + 8 * 40 * np.array(counted)).all()
    assert before is None or str(before) == str(model.get_params())


def test_inputs_and_outputs_are_those_of_a_fitted_model():
    model = RecursiveRidge(FourierFeatures()).fit(np.eye(4), np.ones((4, 3)))
    report = latency_report(model, n_features=[10, 20], samples=100)
    assert report.model == "RecursiveRidge, inputs: 4, outputs: 3"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_inputs": None}, ValueError, "say how many inputs"),
        ({"n_inputs": 0}, ValueError, "n_inputs must be"),
        ({"n_outputs": 1.5}, ValueError, "n_outputs must be"),
        ({"n_features": [50]}, ValueError, "two whole numbers"),
        ({"n_features": [50.5, 100.0]}, ValueError, "two whole numbers"),
        ({"n_features": [0, 100]}, ValueError, "2 or more each"),
        ({"samples": 10}, ValueError, "samples must be"),
        ({"period": 0.0}, ValueError, "period must be"),
        ({"period": np.nan}, ValueError, "period must be"),
        ({"model": RecursiveRidge()}, TypeError, "must be free"),
        ({"model": RecursiveRidge}, TypeError, "must be free"),
    ],
)
def test_bad_input_is_refused_before_anything_is_timed(arguments, error, message):
    def clock():
        raise AssertionError("timed")

    with pytest.raises(error, match=message):
        latency_report(**{"n_inputs": 3} | arguments, clock=clock)


@pytest.mark.parametrize("budget", [{"period": -1.0}, {"period": 1.0, "share": 1.5}])
def test_bad_budgets_are_refused(budget):
    with pytest.raises(ValueError, match="must be"):
        simulated().largest_for(**budget)


COUNTING = """
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
static long products, sums;
struct Counted {
    double value;
    Counted() : value() {}
    Counted(double value) : value(value) {}
    Counted operator-() const { return -value; }
};
#define OPERATOR(sign, count) \\
    static Counted operator sign(Counted a, Counted b) \\
    { count++; return a.value sign b.value; } \\
    static Counted &operator sign##=(Counted &a, Counted b) { return a = a sign b; }
OPERATOR(*, products)
OPERATOR(/, products)
OPERATOR(+, sums)
OPERATOR(-, sums)
static bool operator<(Counted a, Counted b) { return a.value < b.value; }
static bool operator>(Counted a, Counted b) { return a.value > b.value; }
static bool operator>=(Counted a, Counted b) { return a.value >= b.value; }
static bool operator<=(Counted a, Counted b) { return a.value <= b.value; }
static bool operator==(Counted a, Counted b) { return a.value == b.value; }
static bool operator!=(Counted a, Counted b) { return a.value != b.value; }
static Counted sqrt(Counted a) { return sqrt(a.value); }
static Counted fabs(Counted a) { return fabs(a.value); }
static Counted sin(Counted a) { return sin(a.value); }
static Counted cos(Counted a) { return cos(a.value); }
#define double Counted
#include "arm.h"
int main()
{
    static arm_state state;
    Counted x[ARM_INPUTS], y[1], mean[1], std;
    for (int i = 0; i < ARM_INPUTS; i++)
        x[i] = Counted(0.5);
    y[0] = Counted(1.0);
    arm_reset(&state);
    products = sums = 0;
    arm_predict_update(&state, x, y, Counted(1.0), mean, &std);
    printf("%ld %ld", products, sums);
}
"""


@needs_gcc
@pytest.mark.parametrize(("n_frequencies", "n_inputs"), [(1, 1), (7, 3), (40, 12)])
def test_operations_are_those_that_the_exported_code_does(
    n_frequencies, n_inputs, tmp_path
):
    X = np.random.default_rng(0).standard_normal((50, n_inputs))
    model = SparseSpectrumGP(n_frequencies, 0.1, 1.0, 1.0).fit(X, X[:, 0])
    export_c(model, tmp_path / "arm.h", "arm")
    (tmp_path / "count.cpp").write_text(COUNTING)
    compiled = ["g++", "-w", "-O1", "count.cpp", "-o", "count"]
    subprocess.run(compiled, cwd=tmp_path, check=True)
    counted = subprocess.check_output([tmp_path / "count"], text=True).split()
    ours = operations(n_frequencies, n_inputs)
    assert [int(count) for count in counted] == [ours.multiplications, ours.additions]


def test_the_documented_counts_are_those_of_the_table():
    # Gijsberts 2011, Table 4.1, evaluated.
    assert operations(25, 12)[2:] == (10_751, 7_851)
    assert operations(200, 21)[2:] == (647_801, 484_601)
