"""Products on the processor: one thread for each row block, nothing stored.

numpy releases the interpreter lock inside matrix products and elementwise functions, so
plain Python threads keep every core busy. Each thread makes one tile of the kernel
matrix in its own buffer, uses it while it is in cache, and goes on. Sums over rows are
kept in float64, and in an order that does not depend on the threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np

from tiercel.products.ordered import ordered_map, single_threaded_blas
from tiercel.products.planner import PANEL, Plan, gram_rows
from tiercel.products.rows import prefetched


class CPUEngine:
    """Products with k(X, Z) where X is in memory, sparse or on disk.

    Parameters
    ----------
    X
        The rows: an array, a CSR matrix, or ``Rows`` on disk.
    tile, make
        What fills tiles of k(rows, Z), and a function that makes the same for another
        dtype.
    m
        The number of centres.
    plan
        Sizes of tiles and pieces, number of threads.
    stored
        The kernel matrix itself, where it is kept.
    """

    def __init__(
        self,
        X: Any,
        tile: Any,
        make: Callable[[Any], Any],
        m: int,
        plan: Plan,
        stored: np.ndarray | None = None,
    ) -> None:
        self.X, self.tile, self.make, self.plan = X, tile, make, plan
        self.shape = (X.shape[0], m)
        self.dtype = np.dtype(np.float32 if plan.problem.itemsize == 4 else np.float64)
        self.stored = stored
        self.callback: Callable[[int, int], object] | None = None
        self._local = threading.local()

    def product(self, V: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write k(X, Z) V into ``out``."""
        V = np.ascontiguousarray(V, self.dtype)

        def work(piece: tuple[int, Any]) -> None:
            for start, stop, columns, K in self._tiles(*piece):
                if columns.start == 0:
                    out[start:stop] = K @ V[columns]
                else:
                    out[start:stop] += K @ V[columns]

        self._run(work)
        return out

    def cross_product(self, U: np.ndarray) -> np.ndarray:
        """Return k(X, Z)' U, summed in float64."""

        def work(piece: tuple[int, Any]) -> np.ndarray:
            total = np.zeros((self.shape[1], U.shape[1]))
            for start, stop, columns, K in self._tiles(*piece):
                total[columns] += K.T @ U[start:stop].astype(self.dtype, copy=False)
            return total

        return self._sum(work, U.shape[1])

    def gram_product(self, V: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return k(X, Z)' diag(w) k(X, Z) V, summed in float64."""
        V = np.ascontiguousarray(V, self.dtype)
        whole = self.stored is not None or self.plan.tile_columns >= self.shape[1]

        def weigh(W: np.ndarray, start: int, stop: int) -> np.ndarray:
            if weights is None:
                return W
            return W * weights[start:stop, None].astype(W.dtype, copy=False)

        def work(piece: tuple[int, Any]) -> np.ndarray:
            total = np.zeros(V.shape)
            for start, stop, _, K in self._tiles(*piece):
                total += K.T @ weigh(K @ V, start, stop)
            return total

        def work_twice(piece: tuple[int, Any]) -> np.ndarray:
            first, X = piece
            W = np.zeros((X.shape[0], V.shape[1]), self.dtype)
            total = np.zeros(V.shape)
            for start, stop, columns, K in self._tiles(first, X):
                W[start - first : stop - first] += K @ V[columns]
            for start, stop, columns, K in self._tiles(first, X):
                rows = weigh(W[start - first : stop - first], start, stop)
                total[columns] += K.T @ rows
            return total

        return self._sum(work if whole else work_twice, V.shape[1])

    def gram(
        self, weights: np.ndarray | None, targets: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return k(X, Z)' diag(w) k(X, Z) and k(X, Z)' diag(w) targets in float64."""
        n, m = self.shape
        tile = self.make(np.dtype(np.float64))
        height = gram_rows(self.plan.tile_rows, n)
        block, G = np.empty((height, m)), np.zeros((m, m))
        cross = None if targets is None else np.zeros((m, targets.shape[1]))
        with single_threaded_blas(), closing(self._blocks()) as blocks:
            for first, X in blocks:
                for start in range(0, X.shape[0], height):
                    rows = X[start : start + height]
                    here = slice(first + start, first + start + rows.shape[0])
                    K, root = block[: rows.shape[0]], None
                    if weights is not None:
                        root = np.sqrt(weights[here], dtype=np.float64)[:, None]
                    self._fill_rows(tile, rows, root, K)
                    if cross is not None and targets is not None:
                        right = targets[here].astype(np.float64)
                        cross += K.T @ (right if root is None else root * right)
                    self._add_gram(K, G)
                    self._report(here.stop)
        return mirror_lower(G), cross

    def matrix(self, out: np.ndarray) -> np.ndarray:
        """Write k(X, Z) itself into ``out``."""

        def work(piece: tuple[int, Any]) -> None:
            for start, stop, columns, K in self._tiles(*piece):
                out[start:stop, columns] = K

        self._run(work)
        return out

    def _fill_rows(self, tile: Any, X: Any, root: Any, out: np.ndarray) -> None:
        """Fill rows of the kernel matrix, times the roots of their weights."""
        step, everything = self.plan.tile_rows, slice(0, self.shape[1])

        def work(start: int) -> None:
            part = out[start : start + step]
            spare = [np.empty(part.shape, out.dtype) for _ in range(tile.spares)]
            tile.fill(tile.rows(X[start : start + step]), everything, part, spare)
            if root is not None:
                part *= root[start : start + step]

        self._in_parallel(work, range(0, out.shape[0], step))

    def _add_gram(self, K: np.ndarray, G: np.ndarray) -> None:
        """Add the lower half of K' K to that of ``G``, panels of rows in parallel.

        Threads with a panel each have no barriers, as a BLAS call of many threads has.
        """
        m = len(G)

        def work(start: int) -> None:
            stop = min(start + PANEL, m)
            panel = K[:, start:stop]
            G[start:stop, start:stop] += panel.T @ panel  # BLAS makes half of it
            G[start:stop, :start] += panel.T @ K[:, :start]

        # The longest panels come first, so that no thread is left with one at the end.
        self._in_parallel(work, reversed(range(0, m, PANEL)))

    def _in_parallel(self, work: Callable[[int], None], pieces: Iterable[int]) -> None:
        with closing(ordered_map(work, pieces, self.plan.threads)) as results:
            for _ in results:
                pass

    def _tiles(
        self, first: int, X: Any
    ) -> Iterator[tuple[int, int, slice, np.ndarray]]:
        """Yield (start, stop, columns, K) over the tiles of one piece of rows."""
        m = self.shape[1]
        step, width = self.plan.tile_rows, self.plan.tile_columns
        for a in range(0, X.shape[0], step):
            part = X[a : a + step]
            start, stop = first + a, first + a + part.shape[0]
            if self.stored is not None:
                yield start, stop, slice(0, m), self.stored[start:stop]
                continue
            rows = self.tile.rows(part)
            for c in range(0, m, width):
                columns = slice(c, min(c + width, m))
                K, *spare = self._buffers(stop - start, columns.stop - c)
                self.tile.fill(rows, columns, K, spare)
                yield start, stop, columns, K

    def _buffers(self, rows: int, columns: int) -> list[np.ndarray]:
        """Return this thread's tile and spare tiles, cut to size."""
        flat = getattr(self._local, "flat", None)
        if flat is None:
            size = self.plan.tile_rows * self.plan.tile_columns
            count = 1 + self.tile.spares
            flat = self._local.flat = [np.empty(size, self.dtype) for _ in range(count)]
        return [b[: rows * columns].reshape(rows, columns) for b in flat]

    def _blocks(self) -> Generator[tuple[int, Any], None, None]:
        """Yield (first row, rows): all of X at once, or block after block from disk."""
        if not self.plan.problem.from_disk:
            yield 0, self.X
            return
        with closing(prefetched(self.X, self.plan.block_rows)) as blocks:
            for start, _, block in blocks:
                yield start, block

    def _run(
        self,
        work: Callable[[tuple[int, Any]], Any],
        add: Callable[[Any], object] | None = None,
    ) -> None:
        """Do ``add(work((first row, rows)))`` for every piece, in order."""
        step = self.plan.piece_rows
        with single_threaded_blas(), closing(self._blocks()) as blocks:
            for first, X in blocks:
                # Cut in the worker: of sparse rows a slice is a copy.
                def cut_and_work(a: int, first: int = first, X: Any = X) -> Any:
                    return work((first + a, X[a : a + step]))

                starts = range(0, X.shape[0], step)
                # A block's buffer is read into again once all of its pieces are done.
                with closing(
                    ordered_map(cut_and_work, starts, self.plan.threads)
                ) as results:
                    for a, result in zip(starts, results, strict=True):
                        if add is not None:
                            add(result)
                        self._report(first + min(a + step, X.shape[0]))

    def _sum(self, work: Callable[[tuple[int, Any]], Any], outputs: int) -> np.ndarray:
        total = np.zeros((self.shape[1], outputs))

        def add(part: np.ndarray) -> None:
            np.add(total, part, out=total)

        self._run(work, add)
        return total

    def _report(self, rows: int) -> None:
        if self.callback is not None:
            self.callback(rows, self.shape[0])


def mirror_lower(G: np.ndarray, step: int = 512) -> np.ndarray:
    """Copy the lower half of a square matrix to its upper half, in place."""
    for a in range(0, len(G), step):
        b = a + step
        G[a:b, b:] = G[b:, a:b].T
        block = G[a:b, a:b]
        block[...] = np.tril(block) + np.tril(block, -1).T
    return G
