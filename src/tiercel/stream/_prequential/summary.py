"""How do counts become a report?"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel.stream._prequential.report import Figures, PrequentialReport
from tiercel.stream._prequential.samples import Samples
from tiercel.stream._prequential.tally import Tally


def make_report(
    name: str, samples: Samples, tally: Tally, gated: bool, window: int
) -> PrequentialReport:
    """Turn the counts into figures."""
    drawn, final = tally.finish(), tally.curves.means()
    variance = None if samples.are_labels else tally.spread.variance()
    counts = tally.counts
    contestants = [
        _errors(final[c], drawn.cumulative[:, c], drawn.windowed[:, c], variance)
        for c in range(1 + len(tally.baselines))
    ]
    predictions, std, gates = _kept(samples, tally)
    return PrequentialReport(
        **contestants[0],
        model=name,
        output_names=samples.output_names,
        n_samples=tally.seen,
        n_rejected=tally.seen - counts["accepted"],
        n_unanswered=counts["accepted"] - counts["answered"],
        window=int(window),
        positions=drawn.positions,
        target_variance=variance,
        baselines={
            name: Figures(**errors)
            for name, errors in zip(tally.baselines, contestants[1:], strict=True)
        },
        coverage=tally.covered / tally.judged if tally.judged else None,
        gated_share=counts["gated"] / counts["accepted"] if gated else None,
        seconds=tally.durations.quantiles(),
        windowed_seconds=drawn.seconds,
        predictions=predictions,
        std=std,
        gated=gates if gated else None,
    )


def _errors(
    final: np.ndarray,
    cumulative: np.ndarray,
    windowed: np.ndarray,
    variance: np.ndarray | None,
) -> dict[str, Any]:
    """Return errors as `Figures` has them: over the variance, or as rates."""
    if variance is None:
        rate = float(final[0])
        return {
            "mse": None,
            "nmse": None,
            "error_rate": rate,
            "cumulative": cumulative,
            "windowed": windowed,
        }
    scale = np.where(variance > 0, variance, np.nan)
    return {
        "mse": final,
        "nmse": final / scale,
        "error_rate": None,
        "cumulative": cumulative / scale,
        "windowed": windowed / scale,
    }


def _kept(
    samples: Samples, tally: Tally
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Return predictions, standard deviations and alarms, one per sample."""
    if not tally.kept:
        return None, None, None
    mean, std, gated = (
        np.concatenate(parts) for parts in zip(*tally.kept, strict=True)
    )
    if samples.scalar:
        mean, std = mean[:, 0], std[:, 0]
    if samples.are_labels:
        table = np.empty(len(samples.codes) + 1, object)  # its last entry is None
        for label, code in samples.codes.items():
            table[code] = label
        mean = table[np.where(np.isnan(mean), len(samples.codes), mean).astype(int)]
    return mean, std if tally.judged else None, gated
