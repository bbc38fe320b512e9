"""What came out? The figures of an evaluation, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tiercel.stream._prequential.durations import Seconds

Cell = Callable[[Any], str]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Figures:
    """What a model, or a baseline, reached on a stream.

    Attributes
    ----------
    mse : ndarray (T,) or None
        Mean squared error of each output; None for labels.
    nmse : ndarray (T,) or None
        The same over the variance of that output over the whole stream (Gijsberts
        2011, section 5.3.1): 1 is what the mean would have scored. NaN for an output
        that never varies, as no error is small beside nothing; see its ``mse``.
    error_rate : float or None
        Share of wrong labels; None for numbers.
    cumulative, windowed : ndarray (k, T)
        nMSE, or error rate, up to each position, and over the window before it.
    coverage : ndarray (T,) or None
        Share of targets within two predicted standard deviations of the prediction.
    gated_share : float or None
        Share of samples at which the detector saw a change.
    seconds : Seconds or None
        Median, 99th percentile and worst of the time for one sample.
    windowed_seconds : ndarray (k,) or None
        The median over the window before each position.
    """

    mse: np.ndarray | None
    nmse: np.ndarray | None
    error_rate: float | None
    cumulative: np.ndarray
    windowed: np.ndarray
    coverage: np.ndarray | None = None
    gated_share: float | None = None
    seconds: Seconds | None = None
    windowed_seconds: np.ndarray | None = None

    @property
    def error(self) -> np.ndarray:
        """The nMSE of each output, or the error rate, as a vector."""
        return np.array([self.error_rate]) if self.nmse is None else self.nmse


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PrequentialReport(Figures):
    """One-step-ahead evaluation of a model; printing it gives a table.

    The figures of the model itself are attributes of the report; those of the
    baselines stand in ``baselines``. What a contestant did not answer (a baseline its
    first sample, a model its None) is left out of its means.

    Attributes
    ----------
    model : str
        The model's name.
    output_names : tuple of str
    n_samples : int
        Samples of the stream, rejected ones included.
    n_rejected : int
        Samples that were left out because they, or what the model made of them, raised
        an error.
    n_unanswered : int
        Samples that were learned but not predicted.
    window : int
        Samples that a windowed figure covers.
    positions : ndarray (k,)
        Number of samples seen at each point of the curves.
    target_variance : ndarray (T,) or None
    baselines : dict of Figures
        ``"persistence"`` and ``"nearest_neighbour"``.
    predictions, std : ndarray (n_samples,) or (n_samples, T), or None
        NaN, or None among labels, where there was no answer.
    gated : ndarray of bool (n_samples,) or None
        Where the detector saw a change.
    """

    model: str
    output_names: tuple[str, ...]
    n_samples: int
    n_rejected: int
    n_unanswered: int
    window: int
    positions: np.ndarray
    target_variance: np.ndarray | None
    baselines: dict[str, Figures] = field(default_factory=dict)
    predictions: np.ndarray | None = None
    std: np.ndarray | None = None
    gated: np.ndarray | None = None

    def __repr__(self) -> str:
        error = ", ".join(f"{e:.3g}" for e in self.error)
        return (
            f"<PrequentialReport of {self.model}: {self.n_samples} samples, "
            f"{measure(self)} {error}>"
        )

    def __str__(self) -> str:
        lines = [f"{self.model}: {measure(self)}, one step ahead, {_extent(self)}"]
        return "\n".join([*lines, *_table(self, self, None), *_notes(self)])


@dataclass(frozen=True, eq=False, repr=False)
class Repeats:
    """Repeated evaluations; printing them gives mean ± standard deviation.

    Attributes
    ----------
    reports : tuple of PrequentialReport
        One per repetition. The baselines, which repeat themselves, are in the first.
    mean, std : Figures
        Of every figure, over the repetitions; ``std`` divides by their number less one.
    """

    reports: tuple[PrequentialReport, ...]
    mean: Figures = field(init=False)
    std: Figures = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _reduced(self.reports, np.mean))
        object.__setattr__(self, "std", _reduced(self.reports, _sample_std))

    def __repr__(self) -> str:
        return f"<Repeats of {self.reports[0].model}: {len(self.reports)} repetitions>"

    def __str__(self) -> str:
        report = self.reports[0]
        lines = [
            f"{report.model}: {measure(report)}, one step ahead, {_extent(report)}, "
            f"mean ± std of {len(self.reports)} repetitions"
        ]
        return "\n".join([*lines, *_table(report, self.mean, self.std)])


def measure(report: Figures) -> str:
    """Return the name of what the report's errors are measured in."""
    return "error rate" if report.nmse is None else "nMSE"


def _reduced(reports: Sequence[Figures], reduce: Callable[..., Any]) -> Figures:
    """Return figures whose every value is that of ``reduce`` over the reports."""
    values: dict[str, Any] = {}
    for name in (f.name for f in fields(Figures)):
        all_values = [getattr(report, name) for report in reports]
        missing = any(value is None for value in all_values)
        values[name] = None if missing else reduce(all_values, axis=0)
    if values["seconds"] is not None:
        values["seconds"] = Seconds(*values["seconds"].tolist())
    return Figures(**values)


def _sample_std(values: Any, axis: int) -> Any:
    return np.std(values, axis=axis, ddof=1)


def _extent(report: PrequentialReport) -> str:
    return f"{report.n_samples} sample" + "s" * (report.n_samples != 1)


def _table(
    report: PrequentialReport, figures: Figures, spread: Figures | None
) -> list[str]:
    """Return one line per contestant, one column per output, and what else is known."""

    def cells(name: str, form: str, scale: float = 1.0) -> list[str]:
        values = np.atleast_1d(getattr(figures, name)) * scale
        if spread is None:
            return [f"{v:{form}}" for v in values]
        widths = np.atleast_1d(getattr(spread, name)) * scale
        return [f"{v:{form}} ± {w:{form}}" for v, w in zip(values, widths, strict=True)]

    rows = [["", *report.output_names], [report.model, *cells("error", ".4g")]]
    for name, baseline in report.baselines.items():
        rows.append([name, *(f"{e:.4g}" for e in baseline.error)])
    if figures.coverage is not None:
        rows.append(["% within 2 std", *cells("coverage", ".1f", 100.0)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([f"{row[0]:<{widths[0]}}", *map(str.rjust, row[1:], widths[1:])])
        for row in rows
    ]
    if figures.gated_share is not None:
        (share,) = cells("gated_share", ".1f", 100.0)
        lines.append(f"gated: {share} % of the samples")
    if figures.seconds is not None:
        median, late, worst = cells("seconds", ".2g")
        lines.append(
            f"seconds per sample: median {median}, 99th percentile {late}, "
            f"worst {worst}"
        )
    return [line.rstrip() for line in lines]


def _notes(report: PrequentialReport) -> list[str]:
    """Return what a reader of the table has to know besides."""
    notes = []
    if report.n_rejected:
        notes.append(f"rejected: {report.n_rejected}")
    if report.n_unanswered:
        notes.append(f"not answered: {report.n_unanswered}")
    if report.nmse is not None and report.target_variance is not None:
        assert report.mse is not None
        for name, variance, mse in zip(
            report.output_names, report.target_variance, report.mse, strict=True
        ):
            if variance == 0:
                notes.append(f"{name} never varies, so no nMSE; its MSE is {mse:.4g}")
    return notes
