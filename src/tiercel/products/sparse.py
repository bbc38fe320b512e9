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
from tiercel.products.precision import LARGE
from tiercel.products.reach import check_reach
from tiercel.products.sparse_loops import compress, places_of, statistics

#: Share of the centres from which on those that have a column store it as a full row:
#: then adding it up is quicker, and takes little more memory.
FULL = 1 / 8

#: Share of the squared norms below which a distance has lost half of its digits.
NEAR = 2.0**-20

#: Numbers that the look for near pairs, and their differences, may take at a time.
REPAIRED = 2**17


class Left(NamedTuple):
    """A block of rows, ready to be multiplied with all the centres."""

    points: Any  # the columns that the centres use, renumbered and scaled
    squares: np.ndarray  # squared norms
    outside: np.ndarray  # the part of them that is in other columns


class SparseTile:
    """Tiles of a distance or dot kernel between CSR rows and CSR centres.

    ``functions`` is the module whose elementwise functions make values of statistics.
    """

    spares = 0

    def __init__(self, kernel: Kernel, Z: Any, functions: Any) -> None:
        if not kernel.takes_sparse:
            raise TypeError(
                f"{type(kernel).__name__} does not take sparse points; "
                "use a kernel that does, or X.toarray()"
            )
        self.kernel, self.functions = kernel, functions
        self.scale = np.atleast_1d(kernel.scale_of(Z.shape[1]))
        self.distance = kernel.statistic == "distance"
        self.active = np.unique(Z.indices)
        self.places = places_of(self.active)
        self.centers, self.squares, _ = self.rows(sparse.csr_matrix(Z))
        self._prepare()

    def _prepare(self) -> None:
        """Lay the centres out by columns, those that many centres have as full rows."""
        self.right = self.centers.T.tocsr()
        counts = np.diff(self.right.indptr)
        many = np.flatnonzero(counts >= max(1.0, FULL * self.right.shape[1]))
        self.full = np.full(len(counts), -1, np.int32)
        self.full[many] = np.arange(len(many))
        self.full_rows = self.right[many].toarray("C")

    @property
    def width(self) -> int:
        """Numbers that a prepared centre holds, on average."""
        m = self.right.shape[1]
        return -(-(3 * self.right.nnz + self.full.size) // m) + len(self.full_rows)

    def rows(self, X: Any) -> Left:
        """Scale CSR rows, and keep the columns that the centres use, renumbered."""
        if not X.has_canonical_format:
            # Entries of the same place count as their sum.
            X = X.copy()
            X.sum_duplicates()
        n, width = X.shape[0], max(1, len(self.active))
        ends, squares, outside = np.zeros(n + 1, np.int64), np.empty(n), np.empty(n)
        places, values = np.empty(X.nnz, np.int32), np.empty(X.nnz)
        compress(
            X.indptr, X.indices, X.data, self.scale, *self.places,
            ends, places, values, squares, outside,
        )  # fmt: skip
        kept = values[: ends[-1]], places[: ends[-1]], ends
        if self.distance:
            check_reach(float(squares.max()))
        return Left(sparse.csr_matrix(kept, shape=(n, width)), squares, outside)

    def fill(self, rows: Left, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        points, right, fold = rows.points, self.right, float(self.kernel.fold)
        terms = [fold * rows.squares, fold * self.squares]
        factor = -2.0 * fold
        if not self.distance:
            terms, factor = [0.0 * t for t in terms], fold
        statistics(
            points.indptr, points.indices, points.data, self.full, self.full_rows,
            right.indptr, right.indices, right.data, columns.start, factor, *terms, out,
        )  # fmt: skip
        if self.distance and self._loses(rows):
            self._repair(out, rows, columns)
        self.kernel.profile_in_place(out, self.functions)

    def _loses(self, rows: Left) -> bool:
        """Tell whether cancellation leaves too little of near pairs' distances."""
        return bool(self.kernel.rough or rows.squares.max() > LARGE)

    def _repair(self, t: np.ndarray, rows: Left, columns: slice) -> None:
        """Recompute the distances of near pairs from differences."""
        fold, squares = float(self.kernel.fold), self.squares[columns]
        step = max(1, REPAIRED // t.shape[1])
        for start in range(0, len(t), step):
            norms = rows.squares[start : start + step, None] + squares
            near = np.abs(t[start : start + step]) < (abs(fold) * NEAR) * norms
            i, j = np.nonzero(near)
            i += start
            t[i, j] = fold * self._differences(rows, i, j + columns.start)

    def _differences(self, rows: Left, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the squared distances of pairs, summed from their differences."""
        found = np.empty(len(i))
        step = max(1, REPAIRED // (_longest(rows.points) + _longest(self.centers)))
        for start in range(0, len(i), step):
            some = slice(start, start + step)
            gaps = rows.points[i[some]] - self.centers[j[some]]
            found[some] = rows.outside[i[some]] + _squared_norms(gaps)
        return found


class DeviceSparseTile(SparseTile):
    """The same on a torch device, where the product is torch's."""

    def __init__(self, kernel: Kernel, Z: Any, functions: Any, device: Any) -> None:
        self.device = device
        super().__init__(kernel, Z, functions)

    def _prepare(self) -> None:
        self.right = self._there(self.centers.T.toarray("C"))

    @property
    def width(self) -> int:
        """Numbers that a prepared centre holds."""
        return self.right.shape[0]

    def fill(self, rows: Left, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        points, torch = rows.points, self.functions
        parts = [self._there(p) for p in (points.indptr, points.indices, points.data)]
        left = torch.sparse_csr_tensor(
            *parts, size=points.shape, check_invariants=False
        )
        t = left @ self.right[:, columns]
        if self.distance:
            norms = self._there(rows.squares[:, None])
            norms = norms + self._there(self.squares[columns])
            t *= -2.0
            t += norms
            if self._loses(rows):
                i, j = (t < NEAR * norms).nonzero(as_tuple=True)
                pairs = i.cpu().numpy(), j.cpu().numpy() + columns.start
                t[i, j] = self._there(self._differences(rows, *pairs))
        out[...] = t
        if self.kernel.fold != 1.0:
            out *= self.kernel.fold
        self.kernel.profile_in_place(out, torch)

    def _there(self, values: np.ndarray) -> Any:
        """Return numbers where the tiles are."""
        return self.functions.from_numpy(np.ascontiguousarray(values)).to(self.device)


def _longest(X: Any) -> int:
    """Return the largest number of entries in a row, at least 1."""
    return int(np.diff(X.indptr).max(initial=1))


def _squared_norms(X: Any) -> np.ndarray:
    return np.asarray(X.multiply(X).sum(axis=1)).ravel()
