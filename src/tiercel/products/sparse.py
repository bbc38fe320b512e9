"""Tiles over sparse points: dense results from CSR rows, any number of columns.

Only columns in which some centre is not zero can add to an inner product. They are
renumbered once, so that data of 10**7 columns cost no more than the few that the
centres use; row norms are taken before the other columns are dropped. Sparse data are
not centred, which would fill them: their statistics are made in float64, which costs
little beside the handling of indices, and keeps what cancellation leaves of a distance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tiercel.kernels import Kernel

#: Centres are unpacked into a dense (columns, m) array if it is at least this full:
#: then that is quicker, and takes little more memory than the centres themselves.
FULL = 1 / 8

#: Rows of a tile made at a time by scipy, whose products are arrays of their own.
STRIP_ROWS = 64

#: Share of the squared norms below which a distance has lost half of its digits.
NEAR = 2.0**-20

#: How many numbers the differences of near pairs may take at a time.
DIFFERENCES = 2**17


class Left(NamedTuple):
    """A block of rows, ready to be multiplied with all the centres."""

    points: Any  # the columns that the centres use, renumbered and scaled
    squares: np.ndarray  # squared norms
    outside: np.ndarray  # the part of them that is in other columns


class SparseTile:
    """Tiles of a distance or dot kernel between CSR rows and CSR centres.

    With a ``device`` the products are made there by torch, else by scipy. ``functions``
    is the module whose elementwise functions make values of statistics.
    """

    spares = 1  # counts what a strip takes, and what comes with a sparse product

    def __init__(
        self,
        kernel: Kernel,
        Z: Any,
        dtype: Any,
        device: Any = None,
        functions: Any = None,
    ) -> None:
        if not kernel.takes_sparse:
            raise TypeError(
                f"{type(kernel).__name__} does not take sparse points; "
                "use a kernel that does, or X.toarray()"
            )
        self.kernel, self.device = kernel, device
        self.dtype = np.dtype(str(dtype).removeprefix("torch."))
        self.functions = functions or self._module
        self.scale = np.atleast_1d(kernel.scale_of(Z.shape[1]))
        self.distance = kernel.statistic == "distance"
        self.active = np.unique(Z.indices)
        self.centers, self.squares, _ = self._left(sparse.csr_matrix(Z))
        self.right = self._right()

    @property
    def width(self) -> int:
        """Numbers that a prepared centre holds, on average."""
        if not sparse.issparse(self.right):
            return self.right.shape[0]
        return -(-(3 * self.right.nnz + len(self.active)) // self.right.shape[1])

    def rows(self, X: Any) -> Left:
        """Return what a block of rows needs for all its tiles."""
        return self._left(X)

    def fill(self, rows: Left, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        n = out.shape[0]
        step = STRIP_ROWS if self.device is None else n
        for start in range(0, n, step):
            strip = Left(*(part[start : start + step] for part in rows))
            out[start : start + step] = self._statistic(strip, columns)
        if self.kernel.fold != 1.0:
            out *= self.kernel.fold
        self.kernel.profile_in_place(out, self.functions)

    def _statistic(self, rows: Left, columns: slice) -> Any:
        """Return scaled squared distances, or inner products, in float64."""
        t = self._products(rows.points, columns)
        if self.distance:
            t *= -2.0
            t += self._there(rows.squares[:, None])
            t += self._there(self.squares[columns])
            if self.kernel.rough:
                self._repair(t, rows, columns)
        return t

    def _repair(self, t: Any, rows: Left, columns: slice) -> None:
        """Recompute the distances of near pairs from differences."""
        norms = self._there(rows.squares[:, None]) + self._there(self.squares[columns])
        i, j = self._host(t < NEAR * norms).nonzero()
        step = max(1, DIFFERENCES // (_longest(rows.points) + _longest(self.centers)))
        for start in range(0, len(i), step):
            a, b = i[start : start + step], j[start : start + step]
            gaps = rows.points[a] - self.centers[b + columns.start]
            exact = rows.outside[a] + _squared_norms(gaps)
            t[a, b] = self._there(exact)

    def _products(self, points: Any, columns: slice) -> Any:
        """Return inner products with some centres as a dense array in float64."""
        right = self.right
        if columns != slice(0, right.shape[1]):
            right = right[:, columns]
        if self.device is None:
            dots = points @ right
            return dots.toarray() if sparse.issparse(dots) else np.asarray(dots)
        parts = [self._there(p) for p in (points.indptr, points.indices, points.data)]
        return self._module.sparse_csr_tensor(*parts, size=points.shape) @ right

    def _right(self) -> Any:
        """Return the compact centres, one column each; dense where that is full."""
        right = self.centers.T.tocsr()
        if self.device is not None:
            return self._there(right.toarray("C"))
        full = right.nnz >= FULL * right.shape[0] * right.shape[1]
        return right.toarray("C") if full else right

    def _left(self, X: Any) -> Left:
        """Scale CSR rows, and keep the columns that the centres use, renumbered."""
        if not X.has_canonical_format:
            # Entries of the same place count as their sum.
            X = X.copy()
            X.sum_duplicates()
        n, width = X.shape[0], max(1, len(self.active))
        scale = self.scale if self.scale.size == 1 else self.scale[X.indices]
        data = X.data * scale
        place = np.searchsorted(self.active, X.indices)
        place[place == len(self.active)] = 0
        kept = np.zeros(len(data), bool)
        if len(self.active):
            kept = self.active[place] == X.indices
        ends = np.concatenate(([0], np.cumsum(kept)))[X.indptr]
        points = sparse.csr_matrix((data[kept], place[kept], ends), shape=(n, width))
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        np.square(data, out=data)
        squares = np.bincount(row, data, n)
        data[kept] = 0.0
        return Left(points, squares, np.bincount(row, data, n))

    @property
    def _module(self) -> Any:
        if self.device is None:
            return np
        import torch

        return torch

    def _there(self, values: np.ndarray) -> Any:
        """Return numbers where the tiles are."""
        if self.device is None:
            return values
        return self._module.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def _host(self, values: Any) -> np.ndarray:
        return values if self.device is None else values.cpu().numpy()


def _longest(X: Any) -> int:
    """Return the largest number of entries in a row, at least 1."""
    return int(np.diff(X.indptr).max(initial=1))


def _squared_norms(X: Any) -> np.ndarray:
    return np.asarray(X.multiply(X).sum(axis=1)).ravel()
