"""A sliding window over a stream: what comes in must go out again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel._state import saved_array, saved_int
from tiercel.linalg import FactorisationError
from tiercel.stream._one_by_one import check_weights
from tiercel.stream._recursion import MOST_SAMPLES, Recursion, own


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
        self.X = np.zeros((size, len(heir.x)))
        self.Y = np.zeros((size, heir.n_outputs))
        self.weights = np.zeros(size)
        self.count = 0  # samples that ever came in

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self.X, self.Y, self.weights = own(self.X), own(self.Y), own(self.weights)

    def learn(self, recursion: Recursion, weight: float) -> float:
        """Learn the sample in the recursion's buffers and drop the oldest, if full."""
        x, y, size = recursion.x.copy(), recursion.y.copy(), len(self.weights)
        leverage = recursion.learn(weight)
        answer = recursion.mean.copy()
        place = self.count % size
        oldest = self.X[place].copy(), self.Y[place].copy(), self.weights[place]
        self.X[place], self.Y[place], self.weights[place] = x, y, weight
        self.count += 1
        self._feed(self.heir, x, y, weight)
        if self.count % size == 0:
            recursion.take_over(self.heir)
        elif self.count > size:
            self._drop(recursion, *oldest)
        recursion.mean[:] = answer  # dropping may have asked for another
        return leverage

    def _drop(
        self, recursion: Recursion, x: np.ndarray, y: np.ndarray, weight: float
    ) -> None:
        """Remove a sample; where rounding forbids it, learn the window anew."""
        recursion.x[:], recursion.y[:] = x, y
        try:
            recursion.remove(weight)
        except FactorisationError:
            recursion.clear()
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

    def restore(self, kept: dict[str, Any], holder: Recursion) -> None:
        """Take up what :meth:`arrays` gave; refuse what does not fit."""
        found = {n: getattr(self, n).shape for n in ("X", "Y", "weights")}
        held = {n: saved_array(kept, n, shape) for n, shape in found.items()}
        check_weights(held["weights"])
        self.heir.map.check_size(held["X"], "the saved window")
        self.heir.check_taken(held["X"], held["Y"], held["weights"])
        count, size = saved_int(kept, "count", most=MOST_SAMPLES), len(self.weights)
        self.heir.restore(kept["heir"])
        if (self.heir.seen, holder.seen) != (count % size, min(count, size)):
            raise ValueError(
                f"a window of {size} samples cannot have seen {count} and hold "
                f"{holder.seen}, with {self.heir.seen} for its heir"
            )
        for name, array in held.items():
            getattr(self, name)[...] = array
        self.count = count
