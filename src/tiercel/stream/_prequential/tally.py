"""How do samples become figures? Blocks of them, handed to all who count."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tiercel.stream._prequential.baselines import (
    NearestNeighbour,
    Persistence,
    Spread,
)
from tiercel.stream._prequential.curves import Curves, Drawn
from tiercel.stream._prequential.durations import Durations

BLOCK = 256  # samples that are kept back and counted together


class Answer(NamedTuple):
    """What came of one sample."""

    mean: np.ndarray | None  # None where the model gave no answer
    std: np.ndarray | None
    gated: bool
    seconds: float


class Block:
    """Room for a few hundred samples and their answers."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        self.X = np.empty((BLOCK, n_inputs))
        self.Y, self.mean, self.std = np.full((3, BLOCK, n_outputs), np.nan)
        self.accepted, self.answered, self.gated = np.zeros((3, BLOCK), bool)
        self.seconds = np.full(BLOCK, np.nan)
        self.size = 0

    def add(self, x: Any, target: np.ndarray, answer: Answer) -> None:
        """Fill the next row."""
        i = self.size
        if self.X.shape[1]:
            self.X[i] = x
        self.Y[i], self.accepted[i], self.gated[i] = target, True, answer.gated
        if answer.mean is not None:
            self.mean[i], self.answered[i] = answer.mean, True
        if answer.std is not None:
            self.std[i] = answer.std
        self.seconds[i] = answer.seconds
        self.size += 1

    def cut(self) -> Block:
        """Return the rows that are filled."""
        for name, rows in vars(self).items():
            if name != "size":
                setattr(self, name, rows[: self.size])
        return self


class Tally:
    """All figures of an evaluation, from blocks of samples, in constant memory.

    Only predictions that are to be kept grow with the stream.

    Parameters
    ----------
    n_inputs, n_outputs : int
    are_labels : bool
        Whether an error is 0 or 1, or else squared.
    baselines : bool
    neighbours : int
        Samples among which the nearest one is looked for.
    keep : bool
        Whether predictions are kept.
    **curves
        Settings of `Curves`.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        *,
        are_labels: bool,
        baselines: bool,
        neighbours: int,
        keep: bool,
        **curves: Any,
    ) -> None:
        self.are_labels = are_labels
        self.baselines: dict[str, Any] = {}
        if baselines:
            self.baselines["persistence"] = Persistence()
            nearest = NearestNeighbour(neighbours, n_inputs, n_outputs)
            self.baselines["nearest_neighbour"] = nearest
        self.curves = Curves(1 + len(self.baselines), n_outputs, **curves)
        self.spread, self.durations = Spread(n_outputs), Durations()
        self.shape = n_inputs if baselines else 0, n_outputs
        self.block, self.seen = Block(*self.shape), 0
        self.counts = dict.fromkeys(("accepted", "answered", "gated"), 0)
        self.covered, self.judged = np.zeros(n_outputs), 0
        self.keep = keep
        self.kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, x: Any, target: np.ndarray, answer: Answer) -> None:
        """Count one sample."""
        self.block.add(x, target, answer)
        self._flush_if(self.block.size == BLOCK)

    def reject(self) -> None:
        """Count one sample that could not be used."""
        self.block.size += 1
        self._flush_if(self.block.size == BLOCK)

    def any_accepted(self) -> bool:
        """Tell whether at least one sample was not rejected."""
        return self.counts["accepted"] > 0 or bool(self.block.accepted.any())

    def finish(self) -> Drawn:
        """Count what was kept back, and return the curves."""
        self._flush_if(self.block.size > 0)
        return self.curves.finish()

    def _flush_if(self, due: bool) -> None:
        if not due:
            return
        block = self.block.cut()
        self.curves.add(*self._errors(block), block.seconds)
        self.spread.add(block.Y[block.accepted])
        self.durations.add(block.seconds[block.accepted])
        with np.errstate(invalid="ignore"):  # no std: NaN, which covers nothing
            inside = np.abs(block.Y - block.mean) <= 2.0 * block.std
        self.covered += inside.sum(axis=0)
        self.judged += int((block.answered & ~np.isnan(block.std).any(axis=1)).sum())
        self.seen += block.size
        for name in ("accepted", "answered", "gated"):
            self.counts[name] += int(getattr(block, name).sum())
        if self.keep:
            self.kept.append((block.mean, block.std, block.gated))
        self.block = Block(*self.shape)

    def _errors(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """Return errors (C, B, T) of the model and the baselines, and which count."""
        predicted = [block.mean, *(np.full((2, *block.Y.shape), np.nan))]
        answered = [block.answered, *(np.zeros((2, block.size), bool))]
        used = block.accepted
        if used.any():
            for i, baseline in enumerate(self.baselines.values(), start=1):
                guess = baseline.predict_update(block.X[used], block.Y[used])
                predicted[i][used], answered[i][used] = guess
        n = 1 + len(self.baselines)
        with np.errstate(over="ignore"):
            gaps = np.stack(predicted[:n]) - block.Y
            errors = (gaps != 0).astype(float) if self.are_labels else gaps**2
        return errors, np.stack(answered[:n])
