"""How did the error go along the stream? Means at evenly spaced positions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Drawn(NamedTuple):
    """Curves of k points, for C contestants with T outputs."""

    positions: np.ndarray  # (k,)
    cumulative: np.ndarray  # (k, C, T)
    windowed: np.ndarray  # (k, C, T)
    seconds: np.ndarray  # (k,), medians over the window


class Curves:
    """Mean errors since the start and over a window, in constant memory.

    Where the length of the stream is known, the points lie at its n_points-th parts.
    Where it is not, they lie ever farther apart: as soon as there are `n_points`,
    every other one is dropped.

    Parameters
    ----------
    n_contestants, n_outputs : int
    window : int
        Samples that a windowed mean covers.
    n_points : int
        Points of a curve, at most; the stream's end may come on top.
    total : int or None
        Length of the stream, where it is known.
    """

    def __init__(
        self,
        n_contestants: int,
        n_outputs: int,
        window: int,
        n_points: int,
        total: int | None,
    ) -> None:
        self.window, self.n_points = window, n_points
        self.parts = (total, n_points) if total and total > n_points else (1, 1)
        self.may_thin = total is None
        self.seen = self.drawn = 0
        self.sums = np.zeros((n_contestants, n_outputs))
        self.counts = np.zeros(n_contestants, np.int64)
        self.recent = (
            np.empty((n_contestants, 0, n_outputs)),
            np.empty((n_contestants, 0), bool),
            np.empty(0),
        )
        self.positions = np.zeros(n_points + 1, np.int64)
        self.errors = np.zeros((n_points + 1, 2, n_contestants, n_outputs))
        self.seconds = np.zeros(n_points + 1)

    def add(
        self, errors: np.ndarray, answered: np.ndarray, seconds: np.ndarray
    ) -> None:
        """Take in a block of B samples.

        Parameters
        ----------
        errors : array (C, B, T)
        answered : array of bool (C, B)
            Which errors count.
        seconds : array (B,)
            NaN where a sample was rejected.
        """
        errors = np.where(answered[..., None], errors, 0.0)
        start, held = self.seen, len(self.recent[2])
        sums = self.sums[:, None] + np.cumsum(errors, axis=1)
        counts = self.counts[:, None] + np.cumsum(answered, axis=1)
        parts = zip(self.recent, (errors, answered, seconds), (1, 1, 0), strict=True)
        all_errors, all_answered, all_seconds = (
            np.concatenate([old, new], axis=axis) for old, new, axis in parts
        )
        end = start + len(seconds)
        while (position := self._next()) <= end:
            last = held + position - start
            span = slice(max(0, last - self.window), last)
            self._draw(
                position,
                _mean(sums[:, position - start - 1], counts[:, position - start - 1]),
                _mean(all_errors[:, span].sum(1), all_answered[:, span].sum(1)),
                _median(all_seconds[span]),
            )
        self.seen, self.sums, self.counts = end, sums[:, -1], counts[:, -1]
        keep = slice(-self.window, None)
        self.recent = all_errors[:, keep], all_answered[:, keep], all_seconds[keep]

    def finish(self) -> Drawn:
        """Return the curves, up to the last sample."""
        errors, answered, seconds = self.recent
        if self.seen and (not self.drawn or self.positions[self.drawn - 1] < self.seen):
            windowed = _mean(errors.sum(1), answered.sum(1))
            self._draw(self.seen, self.means(), windowed, _median(seconds))
        k = self.drawn
        return Drawn(
            self.positions[:k], self.errors[:k, 0], self.errors[:k, 1], self.seconds[:k]
        )

    def means(self) -> np.ndarray:
        """Return the mean error over all samples, (C, T)."""
        return _mean(self.sums, self.counts)

    def _next(self) -> int:
        """Return where the next point is due; make room for it."""
        if self.may_thin and self.drawn == self.n_points:
            kept = slice(1, self.drawn, 2)
            self.drawn //= 2
            for curve in (self.positions, self.errors, self.seconds):
                curve[: self.drawn] = curve[kept].copy()
            self.parts = (2 * self.parts[0], 1)
        stride, points = self.parts
        return -(-(self.drawn + 1) * stride // points)

    def _draw(
        self,
        position: int,
        cumulative: np.ndarray,
        windowed: np.ndarray,
        seconds: float,
    ) -> None:
        i = self.drawn
        self.positions[i], self.seconds[i] = position, seconds
        self.errors[i, 0], self.errors[i, 1] = cumulative, windowed
        self.drawn += 1


def _mean(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return sums over counts, NaN where nothing was counted."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / counts[:, None]


def _median(seconds: np.ndarray) -> float:
    known = seconds[np.isfinite(seconds)]
    return float(np.median(known)) if len(known) else float("nan")
