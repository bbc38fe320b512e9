"""What would a guess have scored? Persistence and the nearest neighbour.

Both answer for a block of samples at a time, each sample from those before it only.
"""

from __future__ import annotations

import numpy as np


class Persistence:
    """Predict that what was last stays: y of the sample before."""

    def __init__(self) -> None:
        self.last: np.ndarray | None = None

    def predict_update(
        self, X: np.ndarray, Y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions for the block, and whether there is one."""
        answered = np.ones(len(Y), bool)
        answered[0] = self.last is not None
        first = Y[0] if self.last is None else self.last
        predicted = np.vstack([first, Y[:-1]])
        self.last = Y[-1].copy()
        return predicted, answered


class NearestNeighbour:
    """Predict the target of the nearest sample among the last ``memory`` ones.

    Distances are Euclidean in inputs divided by their standard deviation over all
    samples seen so far; an input that has not varied does not count. Of samples that
    are equally near, to rounding, the most recent one is taken.
    """

    def __init__(self, memory: int, n_inputs: int, n_outputs: int) -> None:
        self.memory = memory
        self.X, self.Y = np.empty((0, n_inputs)), np.empty((0, n_outputs))
        self.spread = Spread(n_inputs)

    def predict_update(
        self, X: np.ndarray, Y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions for the block, and whether there is one."""
        self.spread.start(X[0])
        center = self.spread.center
        X = np.where(np.isfinite(X), X, center)  # what is missing tells nothing
        variance = self.spread.before_each(X)
        held = len(self.X)
        self.X, self.Y = np.vstack([self.X, X]), np.vstack([self.Y, Y])
        nearest = _nearest(X - center, self.X - center, variance, held, self.memory)
        answered = np.arange(held, held + len(X)) > 0
        predicted = self.Y[nearest]
        self.X, self.Y = self.X[-self.memory :], self.Y[-self.memory :]
        return predicted, answered


def _nearest(
    X: np.ndarray, all_X: np.ndarray, variance: np.ndarray, held: int, memory: int
) -> np.ndarray:
    """Return for each row of X, itself row ``held + i``, the nearest one before it."""
    weights = np.zeros_like(variance)
    np.divide(1.0, variance, out=weights, where=variance > 0)
    # sum of w (x - z)^2 in one product, as each row has weights of its own
    left = np.hstack([weights, -2.0 * weights * X])
    distances = left @ np.hstack([all_X**2, all_X]).T
    own = (weights * X**2).sum(axis=1)
    rows = np.arange(held, held + len(X))[:, None]
    columns = np.arange(len(all_X))
    distances[(columns >= rows) | (columns < rows - memory)] = np.inf
    least = distances.min(axis=1)
    rounding = 1e-12 * (own + np.abs(least))
    near = distances <= (least + rounding)[:, None]
    return len(all_X) - 1 - near[:, ::-1].argmax(axis=1)


class Spread:
    """Running mean and sum of squares about it, column by column (Chan et al., 1983).

    Parameters
    ----------
    n_columns : int

    Attributes
    ----------
    count : int
    center : ndarray (n_columns,)
        The mean of the rows so far.
    squares : ndarray (n_columns,)
        The sum of their squared distances from it.
    """

    def __init__(self, n_columns: int) -> None:
        self.count = 0
        self.center, self.squares = np.zeros(n_columns), np.zeros(n_columns)

    def start(self, row: np.ndarray) -> None:
        """Measure from the first row on, so that constants have no variance at all."""
        if self.count == 0:
            self.center = np.where(np.isfinite(row), row, 0.0)

    def before_each(self, X: np.ndarray) -> np.ndarray:
        """Take in the rows; return the variance over those before each of them."""
        self.start(X[0])
        sums, squares, counts = self._take(X)
        n = np.maximum(counts[:-1, None], 1)
        return np.maximum(squares[:-1] - sums[:-1] ** 2 / n, 0.0) / n

    def add(self, X: np.ndarray) -> None:
        """Take in the rows."""
        if len(X):
            self.before_each(X)

    def variance(self) -> np.ndarray:
        """Return the mean squared distance from the mean."""
        return self.squares / max(self.count, 1)

    def _take(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sums, sums of squares about the old mean, and counts, row by row."""
        far = np.vstack([np.zeros_like(self.center), X - self.center])
        sums = np.cumsum(far, axis=0)
        squares = self.squares + np.cumsum(far**2, axis=0)
        counts = self.count + np.arange(len(far))
        self.count = int(counts[-1])
        shift = sums[-1] / self.count
        self.squares = np.maximum(squares[-1] - sums[-1] * shift, 0.0)
        self.center = self.center + shift
        return sums, squares, counts
