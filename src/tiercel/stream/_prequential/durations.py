"""How long did the model take? Quantiles in constant memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SHORTEST, DECADES, PER_DECADE = 1e-9, 13, 500


class Seconds(NamedTuple):
    """Seconds that a model took for one sample, to predict and to learn.

    Median and percentile are known to a quarter of a per cent; the worst is exact.
    """

    median: float
    percentile_99: float
    worst: float


class Durations:
    """A histogram with bins of equal ratio, from a nanosecond to hours.

    Examples
    --------
    >>> durations = Durations()
    >>> durations.add(np.array([1e-3, 2e-3, 5.0]))
    >>> [round(s, 4) for s in durations.quantiles()]
    [0.002, 5.0, 5.0]
    """

    def __init__(self) -> None:
        self.bins = np.zeros(DECADES * PER_DECADE, np.int64)
        self.worst = 0.0

    def add(self, seconds: np.ndarray) -> None:
        """Take in durations."""
        if not len(seconds):
            return
        ratio = np.log10(np.maximum(seconds, SHORTEST) / SHORTEST)
        place = np.minimum((ratio * PER_DECADE).astype(int), len(self.bins) - 1)
        np.add.at(self.bins, place, 1)
        self.worst = max(self.worst, float(seconds.max()))

    def quantiles(self) -> Seconds:
        """Return median, 99th percentile and the longest duration."""
        return Seconds(self._quantile(0.5), self._quantile(0.99), self.worst)

    def _quantile(self, share: float) -> float:
        """Return the middle of the bin with the smallest value that has the share."""
        counts = np.cumsum(self.bins)
        if not counts[-1]:
            return float("nan")
        place = int(np.searchsorted(counts, share * counts[-1]))
        middle = SHORTEST * 10 ** ((place + 0.5) / PER_DECADE)
        return float(min(middle, self.worst))
