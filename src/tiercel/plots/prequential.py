"""Learning curves: how the error of models went along a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tiercel.stream.evaluation import Figures, PrequentialReport, Repeats

Report = PrequentialReport | Repeats

BASELINES = {"persistence": "0.35", "nearest_neighbour": "0.6"}  # shades of grey


def prequential(
    reports: Report | Sequence[Report] | Mapping[str, Report], axes: Any = None
) -> Any:
    """Draw learning curves of one model, or of several on the same stream.

    The error since the start is a solid line, the error over the window a thin one of
    the same colour, the baselines are dashed. Errors of regression are drawn on a
    logarithmic scale. Of repeated evaluations the mean is drawn, with a band of one
    standard deviation about the solid line.

    Parameters
    ----------
    reports : PrequentialReport or Repeats, or a sequence of them, or a dict
        The keys of a dict name the curves; otherwise the models do. Baselines are taken
        from the first report that has some.
    axes : matplotlib axes, or a sequence of them, optional
        One per output. New ones, side by side, if there are none.

    Returns
    -------
    matplotlib axes, or an array of them where there are several outputs

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.stream.evaluation import prequential as evaluate
    >>> class Zero:
    ...     def predict(self, X):
    ...         return np.zeros(len(X))
    >>> y = np.sin(np.arange(1000) / 20)
    >>> report = evaluate(Zero(), np.arange(1000.0)[:, None], y)
    >>> axes = prequential(report)
    >>> [line.get_label() for line in axes.get_lines() if line.get_linestyle() == "--"]
    ['persistence', 'nearest neighbour']
    >>> axes.figure.savefig("learning.png")  # doctest: +SKIP
    """
    named = _named(reports)
    first = _single(next(iter(named.values())))
    axes_of = _axes(axes, len(first.output_names))
    for name, report in named.items():
        for output, ax in enumerate(axes_of):
            _draw(ax, report, output, name)
    _draw_baselines(axes_of, [_single(report) for report in named.values()])
    for output, ax in enumerate(axes_of):
        _label(ax, first, output)
    axes_of[-1].legend(frameon=False, fontsize="small")
    return axes_of[0] if len(axes_of) == 1 else axes_of


def _named(reports: Any) -> dict[str, Report]:
    """Return the reports by the names of their curves; all of the same outputs."""
    if isinstance(reports, Mapping):
        named = dict(reports)
    else:
        many = list(reports) if isinstance(reports, Iterable) else [reports]
        names = [_single(report).model for report in many]
        twice = {name for name in names if names.count(name) > 1}
        numbered = [
            f"{name} {names[: i + 1].count(name)}" if name in twice else name
            for i, name in enumerate(names)
        ]
        named = dict(zip(numbered, many, strict=True))
    if not named:
        raise ValueError("there is no report to draw")
    kinds = {
        (_single(report).output_names, _single(report).nmse is None)
        for report in named.values()
    }
    if len(kinds) > 1:
        raise ValueError(
            "reports drawn together must be of the same outputs, all of numbers or all "
            "of labels"
        )
    return named


def _single(report: Any) -> PrequentialReport:
    if not isinstance(report, Report):
        raise TypeError(
            "reports are what prequential(...) and prequential_repeats(...) return, "
            f"not {type(report).__name__}"
        )
    return report.reports[0] if isinstance(report, Repeats) else report


def _axes(axes: Any, n_outputs: int) -> np.ndarray:
    """Return one axes per output."""
    if axes is None:
        import matplotlib.pyplot as plt

        size = (4.8 * n_outputs, 3.6)
        _, axes = plt.subplots(1, n_outputs, figsize=size, layout="constrained")
    flat = np.array(axes, dtype=object).reshape(-1)
    if len(flat) != n_outputs:
        raise ValueError(f"{n_outputs} outputs need as many axes, not {len(flat)}")
    return flat


def _draw(ax: Any, report: Report, output: int, name: str) -> None:
    """Draw what a model reached: solid, thin, and the band of repetitions."""
    figures: Figures = report.mean if isinstance(report, Repeats) else report
    positions = _single(report).positions
    cumulative = figures.cumulative[:, output]
    (line,) = ax.plot(positions, cumulative, lw=1.8, label=name)
    color = line.get_color()
    ax.plot(positions, figures.windowed[:, output], lw=0.7, alpha=0.7, color=color)
    if isinstance(report, Repeats):
        std = report.std.cumulative[:, output]
        band = cumulative - std, cumulative + std
        ax.fill_between(positions, *band, color=color, alpha=0.2, lw=0)


def _draw_baselines(axes: np.ndarray, reports: Sequence[PrequentialReport]) -> None:
    report = next((report for report in reports if report.baselines), None)
    if report is None:
        return
    for name, figures in report.baselines.items():
        for output, ax in enumerate(axes):
            ax.plot(
                report.positions,
                figures.cumulative[:, output],
                ls="--",
                lw=1.2,
                color=BASELINES.get(name, "0.5"),
                label=name.replace("_", " "),
            )


def _label(ax: Any, report: PrequentialReport, output: int) -> None:
    ax.set_xlabel("samples")
    ax.set_title(report.output_names[output], fontsize="medium")
    if report.nmse is None:
        ax.set_ylabel("error rate")
        ax.set_ylim(bottom=0.0)
    else:
        ax.set_ylabel("nMSE")
        ax.set_yscale("log")
