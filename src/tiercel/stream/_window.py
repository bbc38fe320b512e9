"""A sliding window over a stream: what comes in must go out again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel.linalg import FactorisationError
from tiercel.stream._recursion import Recursion


class SlidingWindow:
    """The last samples of a recursion, so that each can be removed in its turn.

    Removing a sample loses a few digits, and over a long stream they would add up.
    So a second recursion, the heir, only ever learns; when it has seen a window's
    worth of samples it holds exactly the window, and takes over. No rounding error of
    a removal outlives one window. The price is a second sweep per sample and a second
    factor; both are constant.

    Parameters
    ----------
    size : int
        Samples in the window.
    heir : Recursion
        An empty recursion of the same shape as the one that is to slide.
    """

    def __init__(self, size: int, heir: Recursion) -> None:
        self.heir = heir
        self.empty = heir.arrays()
        self.X = np.zeros((size, len(heir.x)))
        self.Y = np.zeros((size, heir.n_outputs))
        self.weights = np.zeros(size)
        self.count = 0  # samples that ever came in

    def learn(self, recursion: Recursion, weight: float) -> float:
        """Learn the sample in the recursion's buffers and drop the oldest, if full."""
        x, y, size = recursion.x.copy(), recursion.y.copy(), len(self.weights)
        leverage = recursion.learn(weight)
        place = self.count % size
        oldest = self.X[place].copy(), self.Y[place].copy(), self.weights[place]
        self.X[place], self.Y[place], self.weights[place] = x, y, weight
        self.count += 1
        self._feed(self.heir, x, y, weight)
        if self.count % size == 0:
            recursion.restore(self.heir.arrays())
            self.heir.restore(self.empty)
        elif self.count > size:
            self._drop(recursion, *oldest)
        return leverage

    def _drop(
        self, recursion: Recursion, x: np.ndarray, y: np.ndarray, weight: float
    ) -> None:
        """Remove a sample; where rounding forbids it, learn the window anew."""
        recursion.x[:], recursion.y[:] = x, y
        try:
            recursion.remove(weight)
        except FactorisationError:
            recursion.restore(self.empty)
            for row in zip(self.X, self.Y, self.weights, strict=True):
                self._feed(recursion, *row)

    def _feed(
        self, recursion: Recursion, x: np.ndarray, y: np.ndarray, weight: float
    ) -> None:
        recursion.x[:], recursion.y[:] = x, y
        recursion.learn(weight)

    def arrays(self) -> dict[str, Any]:
        """Return what it takes to resume bit for bit."""
        return {
            "heir": self.heir.arrays(),
            "X": self.X.copy(),
            "Y": self.Y.copy(),
            "weights": self.weights.copy(),
            "count": self.count,
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Take up what :meth:`arrays` gave; refuse what does not fit."""
        for name in ("X", "Y", "weights"):
            held = getattr(self, name)
            if np.shape(kept[name]) != held.shape:
                raise ValueError(f"the saved window's {name} does not fit its size")
            held[...] = kept[name]
        self.heir.restore(kept["heir"])
        self.count = int(kept["count"])
