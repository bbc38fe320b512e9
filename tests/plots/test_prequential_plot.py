"""Learning curves: the lines that are drawn hold the numbers of the report."""

from __future__ import annotations

import numpy as np
import pytest

import tiercel.plots
from tiercel.stream.evaluation import prequential, prequential_repeats

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")


class Constant:
    def __init__(self, value=0.0):
        self.value = value

    def predict(self, X):
        return np.full((len(X), 2), self.value)


class Always:
    def predict(self, X):
        return ["up"] * len(X)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


def stream(n=300):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 2)), rng.standard_normal((n, 2)).cumsum(axis=0)


def lines_of(axes):
    """Return the lines by what they look like: label, dashes and width."""
    return {
        (line.get_label(), line.get_linestyle()): line
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def thin_lines(axes):
    return [line for line in axes.get_lines() if line.get_label().startswith("_")]


def holds(line, positions, values):
    np.testing.assert_array_equal(line.get_xdata(), positions)
    np.testing.assert_array_equal(line.get_ydata(), values)


def test_each_output_has_axes_with_the_curves_of_the_report():
    report = prequential(Constant(), *stream(), window=50, output_names=["u", "v"])
    all_axes = tiercel.plots.prequential(report)
    assert [axes.get_title() for axes in all_axes] == ["u", "v"]
    for output, axes in enumerate(all_axes):
        lines = lines_of(axes)
        solid, (thin,) = lines.pop(("Constant", "-")), thin_lines(axes)
        holds(solid, report.positions, report.cumulative[:, output])
        holds(thin, report.positions, report.windowed[:, output])
        assert thin.get_linewidth() < solid.get_linewidth()
        assert thin.get_color() == solid.get_color()
        for name, baseline in report.baselines.items():
            line = lines.pop((name.replace("_", " "), "--"))
            holds(line, report.positions, baseline.cumulative[:, output])
        assert not lines
        assert axes.get_yscale() == "log"
        assert axes.get_ylabel() == "nMSE"


def test_several_models_in_given_axes():
    X, Y = stream()
    reports = {
        "zero": prequential(Constant(), X, Y, baselines=False),
        "one": prequential(Constant(1.0), X, Y),
    }
    _, given = pyplot.subplots(2)
    drawn = tiercel.plots.prequential(reports, axes=given)
    assert list(drawn) == list(given)
    lines = lines_of(given[1])
    for name, report in reports.items():
        holds(lines[name, "-"], report.positions, report.cumulative[:, 1])
    assert lines["zero", "-"].get_color() != lines["one", "-"].get_color()
    baseline = reports["one"].baselines["persistence"]
    holds(
        lines["persistence", "--"], reports["one"].positions, baseline.cumulative[:, 1]
    )


def test_models_of_the_same_name_are_numbered():
    X, Y = stream(50)
    reports = [prequential(Constant(v), X, Y) for v in (0.0, 1.0)]
    lines = lines_of(tiercel.plots.prequential(reports)[0])
    for i, report in enumerate(reports):
        line = lines[f"Constant {i + 1}", "-"]
        holds(line, report.positions, report.cumulative[:, 0])


def test_repeats_are_a_mean_with_a_band():
    X, Y = stream(100)
    repeats = prequential_repeats(lambda seed: Constant(3.0 * seed), X, Y, 3)
    axes = tiercel.plots.prequential(repeats)[1]
    mean, std = repeats.mean.cumulative[:, 1], repeats.std.cumulative[:, 1]
    positions = repeats.reports[0].positions
    holds(lines_of(axes)["Constant", "-"], positions, mean)
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    for edge in (mean - std, mean + std):
        assert np.isin(edge, corners[:, 1]).all()


def test_error_rates_are_drawn_on_a_linear_scale():
    X, Y = stream()
    report = prequential(Always(), X, np.where(Y[:, 0] > 0, "up", "down"))
    axes = tiercel.plots.prequential(report)
    holds(lines_of(axes)["Always", "-"], report.positions, report.cumulative[:, 0])
    assert axes.get_yscale() == "linear"
    assert axes.get_ylabel() == "error rate"


def test_what_cannot_be_drawn():
    X, Y = stream(20)
    report = prequential(Constant(), X, Y)
    labels = prequential(Always(), X, ["up"] * 20)
    with pytest.raises(ValueError, match="no report"):
        tiercel.plots.prequential([])
    with pytest.raises(ValueError, match="of the same outputs"):
        tiercel.plots.prequential([report, labels])
    with pytest.raises(TypeError, match=r"what prequential\(\.\.\.\) and"):
        tiercel.plots.prequential({"a": 3.0})
    with pytest.raises(TypeError, match="return, not float"):
        tiercel.plots.prequential(3.0)
    _, axes = pyplot.subplots()
    with pytest.raises(ValueError, match="2 outputs need as many axes, not 1"):
        tiercel.plots.prequential(report, axes=axes)
