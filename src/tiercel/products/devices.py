"""Products on GPUs: rows travel in chunks, kernel entries never do.

Each device holds the prepared centres. Rows that lie on the host or on disk are sent
chunk by chunk, two chunks under way for each device on streams of their own, so that
one is copied while the other is computed. Several devices take chunks as they become
free; their sums are added in the order of the chunks. The same code drives torch's CPU
device, and several workers on one device, which is how it is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from tiercel import _arrays
from tiercel.products.budget import device_free_memory
from tiercel.products.device_plan import (
    Method,
    plan_device,
    recomputed_rate,
    stored_rate,
)
from tiercel.products.device_worker import Worker
from tiercel.products.fused_rows import FusedRows, launches
from tiercel.products.ordered import ordered_map
from tiercel.products.planner import BudgetError, Plan, Problem
from tiercel.products.rows import prefetched
from tiercel.products.temporaries import temporaries
from tiercel.products.tiles import tile_width
from tiercel.products.torch_tiles import (
    KeptTiles,
    TorchTiles,
    as_tensor,
    full_float32,
    mirror_upper,
)

#: Operations that make every tile once, on the first device.
ONCE = ("gram", "matrix")


class DeviceEngine:
    """Products with k(X, Z) on one or several devices.

    Parameters
    ----------
    operator : KernelOperator
        Whose kernel, points, devices, budget and precision are used.
    """

    def __init__(self, operator: Any) -> None:
        import torch

        self.torch, self.op = torch, operator
        self.home = operator.devices[0]
        self.resident = (
            len(operator.devices) == 1
            and _arrays.is_torch(operator.X)
            and operator.X.device == self.home
        )
        wide = operator.dtype == np.float64 or operator.precision == "highest"
        self.dtype = torch.float64 if wide else torch.float32
        self.centers = {d: self._centers(d) for d in operator.devices}
        self.fused = self._fused()
        self.stored: bool | None = None
        self.makers: dict[Any, Any] = {}
        self.prepared: dict[int, Any] = {}
        self.cut = 0

    # Verbs ------------------------------------------------------------------------

    def product(self, V: Any) -> Any:
        """Return k(X, Z) V where ``V`` lies."""
        V = as_tensor(V)
        out = V.new_empty(self.op.shape[0], V.shape[1])
        V = V.to(self.home)

        def work(worker: Worker, rows: slice, P: Any) -> None:
            out[rows] = worker.maker.product(P, worker.take(V))

        self._run("product", V.shape[1], work)
        return out

    def cross_product(self, U: Any) -> Any:
        """Return k(X, Z)' U in float64."""

        def work(worker: Worker, rows: slice, P: Any) -> Any:
            return worker.maker.cross_product(P, worker.take(U[rows]))

        return self._sum("cross_product", U.shape[1], work)

    def gram_product(self, V: Any, weights: Any) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) V in float64."""
        V = as_tensor(V, self.home)

        def work(worker: Worker, rows: slice, P: Any) -> Any:
            w = None if weights is None else worker.take(weights[rows])
            return worker.maker.gram_product(P, worker.take(V), w)

        return self._sum("gram_product", V.shape[1], work)

    def gram(self, weights: Any, targets: Any) -> tuple[Any, Any]:
        """Return the Gram matrix and k(X, Z)' diag(weights) targets, in float64."""
        outputs = 1 if targets is None else targets.shape[1]
        plan, m = self.plan("gram", outputs), self.op.shape[1]
        tiles = self._tiles(self.home, self.torch.float64).cut(plan.tile_rows)
        G = self._zeros(m, m)
        cross = None if targets is None else self._zeros(m, outputs)

        def work(worker: Worker, rows: slice, X: Any) -> None:
            w = None if weights is None else worker.take(weights[rows]).double()
            t = None if targets is None else worker.take(targets[rows]).double()
            tiles.add_gram(X, w, G, t, cross, plan.tile_columns)

        self._one_by_one(plan, work)
        return mirror_upper(G), cross

    def matrix(self) -> Any:
        """Return k(X, Z) where the centres lie."""
        single = self.op.dtype == np.float32
        dtype = self.torch.float32 if single else self.torch.float64
        Z = self.op.Z
        device = Z.device if _arrays.is_torch(Z) else "cpu"
        out = self.torch.empty(self.op.shape, dtype=dtype, device=device)
        plan = self.plan("matrix", 1)
        tiles = self._tiles(self.home, self.dtype).cut(plan.tile_rows)
        self._one_by_one(plan, lambda _, rows, X: tiles.matrix(X, out[rows]))
        return out

    def plan(self, operation: str, outputs: int) -> Plan:
        """Return how an operation is cut up on these devices."""
        problem = self._problem(operation, outputs)
        return self._plan(problem, self._method(problem))

    # Work -------------------------------------------------------------------------

    def _run(
        self,
        operation: str,
        outputs: int,
        work: Callable[[Worker, slice, Any], Any],
        add: Callable[[Any], object] | None = None,
    ) -> None:
        """Do ``add(work(worker, rows, prepared rows))`` for all chunks, in order."""
        plan = self.plan(operation, outputs)
        method = self._method(plan.problem)
        workers = [
            Worker(device, self._maker(device, plan, method), not self.resident)
            for _ in range(method.workers)
            for device in self.op.devices
        ]
        if not self.resident and self.home.type == "cuda":
            self.torch.cuda.current_stream(self.home).synchronize()
        prepared = self._prepared(plan, method.stored or self.resident)

        def one(chunk: tuple[int, tuple[int, Any]]) -> Any:
            index, (start, X) = chunk
            # The same chunk always meets the same device, where it may be kept.
            worker = workers[index % len(workers)]
            with worker.at_work():
                P = prepared.get(start)
                if P is None:
                    P = worker.maker.prepare(worker.take(X))
                    if method.stored or self.resident:
                        prepared[start] = P
                return work(worker, slice(start, start + X.shape[0]), P)

        with (
            full_float32.held(),
            closing(self._chunks(plan)) as chunks,
            closing(ordered_map(one, enumerate(chunks), len(workers))) as results,
        ):
            for index, result in enumerate(results, 1):
                if add is not None:
                    add(result)
                self._report(index * plan.block_rows)

    def _sum(
        self, operation: str, outputs: int, work: Callable[[Worker, slice, Any], Any]
    ) -> Any:
        total = self._zeros(self.op.shape[1], outputs)
        self._run(operation, outputs, work, lambda part: total.add_(part.to(self.home)))
        return total

    def _one_by_one(
        self, plan: Plan, work: Callable[[Worker, slice, Any], object]
    ) -> None:
        """Do ``work(worker, rows, X[rows])`` on the first device, chunk by chunk."""
        worker = Worker(self.home, None, own_stream=False)
        with full_float32.held(), closing(self._chunks(plan)) as chunks:
            for start, X in chunks:
                rows = slice(start, start + X.shape[0])
                work(worker, rows, worker.take(X))
                self._report(rows.stop)

    def _report(self, rows: int) -> None:
        if self.op.callback is not None:
            n = self.op.shape[0]
            self.op.callback(min(rows, n), n)

    def _prepared(self, plan: Plan, kept: bool) -> dict[int, Any]:
        """Return what was prepared of chunks that were cut in this way."""
        if not kept:
            return {}
        if plan.block_rows != self.cut:
            self.prepared, self.cut = {}, plan.block_rows
        return self.prepared

    def _chunks(self, plan: Plan) -> Generator[tuple[int, Any], None, None]:
        """Yield (first row, rows) chunk by chunk, from memory or from disk."""
        step, X = plan.block_rows, self.op.X
        if not self.op.from_disk:
            for start in range(0, X.shape[0], step):
                yield start, X[start : start + step]
            return
        with closing(prefetched(X, step)) as blocks:
            for start, _, block in blocks:
                # The block's buffer is read into again; workers run behind.
                yield start, np.array(block)

    # Choices ----------------------------------------------------------------------

    def _fused(self) -> bool:
        """Tell whether the fused kernels can serve this operator."""
        if self.dtype != self.torch.float32 or sparse.issparse(self.op.X):
            return False
        if self.home.type != "cuda" or not find_spec("triton"):
            return False
        return launches(self.op.kernel) is not None

    def _method(self, problem: Problem) -> Method:
        # Two workers a device: one computes while the other's rows are on their way.
        workers = 1 if self.resident or problem.operation in ONCE else 2
        fused = self._fuses(problem.operation)
        if self.stored is None and problem.operation not in ONCE:
            self.stored = self._wants_stored(problem, workers)
        stored = bool(self.stored) and problem.operation not in ONCE
        return Method(fused and not stored, stored, self.resident, workers)

    def _fuses(self, operation: str) -> bool:
        return self.fused and operation not in ONCE

    def _wants_stored(self, problem: Problem, workers: int) -> bool:
        if not self.op.keep:
            return False
        try:
            self._plan(problem, Method(False, True, self.resident, workers))
        except BudgetError:
            if self.op.keep is True:
                raise
            return False
        if self.op.keep is True:
            return True
        return stored_rate(problem) > recomputed_rate(problem, self.fused)

    def _plan(self, problem: Problem, method: Method) -> Plan:
        names = [str(d) for d in self.op.devices]
        return plan_device(problem, method, names, self._budget, self.op.budget)

    def _maker(self, device: Any, plan: Plan, method: Method) -> Any:
        """Return what multiplies on a device; centres are prepared once."""
        if not method.fused:
            tiles = self._tiles(device, self.dtype).cut(plan.tile_rows)
            return KeptTiles(tiles) if method.stored else tiles
        Z = self.centers[device]
        arguments = (self.op.kernel, Z, device, self.op.precision, plan.tile_rows)
        return self._made(("fused", device), device, lambda: FusedRows(*arguments))

    def _tiles(self, device: Any, dtype: Any) -> TorchTiles:
        Z = self.centers[device]
        return self._made(
            (dtype, device),
            device,
            lambda: TorchTiles(self.op.kernel, Z, device, dtype, 1),
        )

    def _made(self, key: Any, device: Any, make: Callable[[], Any]) -> Any:
        """Return what was made for a device before, or make it."""
        if key not in self.makers:
            self.makers[key] = make()
            if device.type == "cuda":
                self.torch.cuda.synchronize(device)
        return self.makers[key]

    def _centers(self, device: Any) -> Any:
        Z = self.op.Z
        return Z if sparse.issparse(Z) else as_tensor(Z, device)

    def _problem(self, operation: str, outputs: int) -> Problem:
        wide = operation == "gram" or self.dtype == self.torch.float64
        dtype = self.torch.float64 if wide else self.torch.float32
        width, spares = tile_width(self.op.kernel, self.op.Z), 0
        if not self._fuses(operation):
            tile = self._tiles(self.home, dtype).tile
            width, spares = tile.width, tile.spares + temporaries(self.op.kernel)
            if sparse.issparse(self.op.Z):
                # Products and norms come as arrays of their own, in float64.
                spares += 24 // (8 if wide else 4)
        return Problem(
            operation=operation,
            n=self.op.shape[0],
            m=self.op.shape[1],
            d=self.op.X.shape[1],
            outputs=outputs,
            itemsize=8 if wide else 4,
            width=width,
            row_bytes=self.op.row_bytes,
            spares=spares,
            from_disk=self.op.from_disk,
            held=self.op.held_bytes,
        )

    @cached_property
    def _budget(self) -> int:
        """The device budget: half of what is free when it is first asked for."""
        if self.op.device_memory is not None:
            return self.op.device_memory
        return min(device_free_memory(d) for d in self.op.devices) // 2

    def _zeros(self, rows: int, columns: int) -> Any:
        return self.torch.zeros(
            rows, columns, dtype=self.torch.float64, device=self.home
        )
