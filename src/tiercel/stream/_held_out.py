"""Samples that a stream holds out to choose a model by."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from tiercel._state import saved_array
from tiercel.stream._recursion import Recursion

KEPT = 50  # examples of each class, at most


class HeldOut:
    """A bounded, even selection from all the samples of each class that are held out.

    What is kept are the samples' features, not whether a model was right about them
    when they came: a model goes on changing, and its answers for a class that is not
    shown any more change most when a new class joins. So all are scored anew whenever
    there is something to choose.

    Parameters
    ----------
    n_features : int
    dtype : dtype
        Of the features.
    """

    def __init__(self, n_features: int, dtype: np.dtype) -> None:
        self.phi = np.zeros((0, n_features), dtype)  # with room for more
        self.truth = np.zeros(0, np.int64)
        self.offered = np.zeros(0, np.int64)  # how many samples of each class came

    def add(self, phi: np.ndarray, columns: np.ndarray) -> None:
        """Take in samples, given their features and the columns of their classes."""
        missing = int(columns.max(initial=-1)) + 1 - len(self.offered)
        if missing > 0:
            self.offered = np.append(self.offered, np.zeros(missing, np.int64))
        for row, column in zip(phi, columns, strict=True):
            self.offered[column] += 1
            place = place_of(int(self.offered[column]))
            if place is None:
                continue
            if place == self.offered[column] - 1:
                self._append(row, column)
            else:
                self.phi[np.flatnonzero(self.truth == column)[place]] = row

    def _append(self, row: np.ndarray, column: int) -> None:
        used = len(self.truth)
        if used == len(self.phi):
            room = np.zeros((max(used, 4), self.phi.shape[1]), self.phi.dtype)
            self.phi = np.concatenate([self.phi, room])
        self.phi[used] = row
        self.truth = np.append(self.truth, column)

    def totals(self, n_classes: int) -> np.ndarray:
        """Return how many samples of each class are kept."""
        return np.bincount(self.truth, minlength=n_classes)

    def scores(self, recursions: Sequence[Recursion], n_classes: int) -> np.ndarray:
        """Return what each recursion gives for each sample and class, (L, M, T)."""
        phi = self.phi[: len(self.truth)]
        return np.stack([phi @ r.weights()[:, :n_classes] for r in recursions])

    def arrays(self) -> dict[str, Any]:
        """Return what it takes to resume bit for bit."""
        return {
            "phi": self.phi[: len(self.truth)].copy(),
            "truth": self.truth.copy(),
            "offered": self.offered.copy(),
        }

    def restore(self, kept: dict[str, Any], n_classes: int) -> None:
        """Take up what :meth:`arrays` gave; refuse what does not fit."""
        whole = np.dtype(np.int64)
        truth = saved_array(kept, "truth", (None,), whole)
        offered = saved_array(kept, "offered", (None,), whole)
        shape = len(truth), self.phi.shape[1]
        phi = saved_array(kept, "phi", shape, self.phi.dtype)
        fits = len(offered) <= n_classes and truth.min(initial=0) >= 0
        if not (fits and truth.max(initial=-1) < len(offered)) or not np.array_equal(
            np.bincount(truth, minlength=len(offered)), np.minimum(offered, KEPT)
        ):
            raise ValueError("the saved held-out samples do not fit the model")
        self.phi, self.truth, self.offered = phi.copy(), truth, offered.copy()


def place_of(n: int) -> int | None:
    """Return where the n-th sample of a class is kept, or None if it is not.

    The first `KEPT` fill the places; later ones take those of earlier ones in such a
    way that all have the same chance to be there (reservoir sampling, Vitter 1985).
    The dice are a function of n alone, so that a stream resumes from n.
    """
    if n <= KEPT:
        return n - 1
    place = int(Random(n).random() * n)
    return place if place < KEPT else None
