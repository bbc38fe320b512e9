"""Products on GPUs: rows travel in chunks, kernel entries never do.

Each device holds the prepared centres. Rows that lie on the host or on disk are sent
chunk by chunk, two chunks under way for each device on streams of their own, so that
one is copied while the other is computed. Several devices take chunks as they become
free; their sums are added in the order of the chunks. The same code drives torch's CPU
device, and several workers on one device, which is how it is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tiercel.products.fused_rows import FusedRows, launches
from tiercel.products.ordered import ordered_map
from tiercel.products.planner import BudgetError, Plan, Problem
from tiercel.products.rows import prefetched
from tiercel.products.tiles import tile_width
from tiercel.products.torch_tiles import StoredRows, TorchTiles


class Worker:
    """One device at work: its stream, its copy of the centres, its way to multiply."""

    def __init__(self, device: Any, maker: Any, own_stream: bool) -> None:
        import torch

        self.torch, self.device, self.maker = torch, device, maker
        self.stream = None
        if own_stream and device.type == "cuda":
            self.stream = torch.cuda.Stream(device)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run the block on the worker's stream and wait for it to finish."""
        if self.stream is None:
            yield
            return
        with self.torch.cuda.stream(self.stream):
            yield
            self.stream.synchronize()

    def take(self, array: Any) -> Any:
        """Bring an array (numpy, tensor or CSR) to the device."""
        if not isinstance(array, np.ndarray) and not _arrays.is_torch(array):
            return array  # sparse rows are sent by their tile, compressed
        tensor = self.torch.as_tensor(array)
        if tensor.device == self.device:
            return tensor
        if self.stream is not None and tensor.device.type == "cpu":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=self.stream is not None)


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

    # Verbs ------------------------------------------------------------------------

    def product(self, V: Any, like: Any) -> Any:
        """Return k(X, Z) V where ``like`` lies."""
        out = self._empty((self.op.shape[0], V.shape[1]), like)

        def work(worker: Worker, rows: slice, P: Any) -> None:
            out[rows] = worker.maker.product(P, worker.take(V)).to(out.device)

        for _ in self._run("product", V.shape[1], work):
            pass
        return out

    def cross_product(self, U: Any) -> Any:
        """Return k(X, Z)' U in float64."""

        def work(worker: Worker, rows: slice, P: Any) -> Any:
            return worker.maker.cross_product(P, worker.take(U[rows]))

        return self._sum("cross_product", U.shape[1], work)

    def gram_product(self, V: Any, weights: Any) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) V in float64."""

        def work(worker: Worker, rows: slice, P: Any) -> Any:
            w = None if weights is None else worker.take(weights[rows])
            return worker.maker.gram_product(P, worker.take(V), w)

        return self._sum("gram_product", V.shape[1], work)

    def gram(self, weights: Any, targets: Any) -> tuple[Any, Any]:
        """Return the Gram matrix and k(X, Z)' diag(weights) targets, in float64."""
        outputs = 1 if targets is None else targets.shape[1]
        plan, m = self.plan("gram", outputs), self.op.shape[1]
        tiles = self._tiles(self.home, self.torch.float64, plan)
        worker = Worker(self.home, tiles, own_stream=False)
        G = self._zeros(m, m)
        cross = None if targets is None else self._zeros(m, outputs)
        for start, X in self._chunks(plan):
            rows = slice(start, start + X.shape[0])
            w = None if weights is None else worker.take(weights[rows]).double()
            t = None if targets is None else worker.take(targets[rows]).double()
            tiles.add_gram(worker.take(X), w, G, t, cross, plan.tile_columns)
            self._report(rows.stop)
        upper = self.torch.triu(G)
        return upper.add_(self.torch.triu(upper, 1).T), cross

    def matrix(self) -> Any:
        """Return k(X, Z) where the centres lie."""
        out = self._empty(self.op.shape, self.op.Z)
        plan = self.plan("matrix", 1)
        tiles = self._tiles(self.home, self.dtype, plan)
        worker = Worker(self.home, tiles, own_stream=False)
        for start, X in self._chunks(plan):
            part = tiles.matrix(worker.take(X))
            out[start : start + X.shape[0]] = part.to(out.device, out.dtype)
        return out

    def plan(self, operation: str, outputs: int) -> Plan:
        """Return how an operation is cut up on these devices."""
        problem = self._problem(operation, outputs)
        method = self._method(problem)
        names = [str(d) for d in self.op.devices]
        return plan_device(problem, method, names, self._budget())

    # Work -------------------------------------------------------------------------

    def _run(self, operation: str, outputs: int, work: Callable) -> Iterator[Any]:
        """Yield ``work(worker, rows, prepared rows)`` for all chunks, in order."""
        plan = self.plan(operation, outputs)
        method = self._method(plan.problem)
        workers = [
            Worker(device, self._maker(device, plan, method), not self.resident)
            for _ in range(method.workers)
            for device in self.op.devices
        ]
        if not self.resident and self.home.type == "cuda":
            self.torch.cuda.current_stream(self.home).synchronize()

        def one(chunk: tuple[int, tuple[int, Any]]) -> Any:
            index, (start, X) = chunk
            # The same chunk always meets the same device, where it may be kept.
            worker = workers[index % len(workers)]
            with worker.at_work():
                P = self.prepared.get(start)
                if P is None:
                    P = worker.maker.prepare(worker.take(X))
                    if method.stored or self.resident:
                        self.prepared[start] = P
                return work(worker, slice(start, start + X.shape[0]), P)

        chunks = enumerate(self._chunks(plan))
        for index, result in enumerate(ordered_map(one, chunks, len(workers)), 1):
            yield result
            self._report(index * plan.block_rows)

    def _report(self, rows: int) -> None:
        if self.op.callback is not None:
            n = self.op.shape[0]
            self.op.callback(min(rows, n), n)

    def _sum(self, operation: str, outputs: int, work: Callable) -> Any:
        total = self._zeros(self.op.shape[1], outputs)
        for part in self._run(operation, outputs, work):
            total += part.to(self.home)
        return total

    def _chunks(self, plan: Plan) -> Iterator[tuple[int, Any]]:
        """Yield (first row, rows) chunk by chunk, from memory or from disk."""
        step, X = plan.block_rows, self.op.X
        if not self.op.from_disk:
            for start in range(0, X.shape[0], step):
                yield start, X[start : start + step]
            return
        for start, _, block in prefetched(X, step):
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
        workers = 1 if self.resident or problem.operation in ("gram", "matrix") else 2
        fused = self.fused and problem.operation not in ("gram", "matrix")
        if self.stored is None and problem.operation not in ("gram", "matrix"):
            self.stored = self._wants_stored(problem, workers)
        stored = bool(self.stored) and problem.operation not in ("gram", "matrix")
        return Method(fused and not stored, stored, self.resident, workers)

    def _wants_stored(self, problem: Problem, workers: int) -> bool:
        if not self.op.keep:
            return False
        names = [str(d) for d in self.op.devices]
        try:
            method = Method(False, True, self.resident, workers)
            plan_device(problem, method, names, self._budget())
        except BudgetError:
            if self.op.keep is True:
                raise
            return False
        if self.op.keep is True:
            return True
        return stored_rate(problem) > recomputed_rate(problem, self.fused)

    def _maker(self, device: Any, plan: Plan, method: Method) -> Any:
        """Return what multiplies on a device; centres are prepared once."""
        key = (device, method.fused, method.stored, plan.tile_rows)
        if key not in self.makers:
            maker: Any
            if method.fused:
                maker = FusedRows(
                    self.op.kernel,
                    self.centers[device],
                    device,
                    self.op.precision,
                    plan.tile_rows,
                )
            else:
                tiles = self._tiles(device, self.dtype, plan)
                maker = StoredRows(tiles) if method.stored else tiles
            self.makers[key] = maker
            if device.type == "cuda":
                self.torch.cuda.synchronize(device)
        return self.makers[key]

    def _tiles(self, device: Any, dtype: Any, plan: Plan) -> TorchTiles:
        Z = self.centers[device]
        return TorchTiles(self.op.kernel, Z, device, dtype, plan.tile_rows)

    def _centers(self, device: Any) -> Any:
        Z = self.op.Z
        if sparse.issparse(Z):
            return Z
        return self.torch.as_tensor(Z, device=device)

    def _problem(self, operation: str, outputs: int) -> Problem:
        (n, m), d = self.op.shape, self.op.X.shape[1]
        exact = operation == "gram" or self.dtype == self.torch.float64
        return Problem(
            operation=operation,
            n=n,
            m=m,
            d=d,
            outputs=outputs,
            itemsize=8 if exact else 4,
            width=tile_width(self.op.kernel, self.op.Z),
            row_bytes=self.op.row_bytes,
            spares=2,
            from_disk=self.op.from_disk,
        )

    def _budget(self) -> int:
        if self.op.device_memory is not None:
            return self.op.device_memory
        if self._default is None:
            # Half of what was free at first: later our own share would shrink it.
            self._default = min(device_free_memory(d) for d in self.op.devices) // 2
        return self._default

    _default: int | None = None

    def _empty(self, shape: tuple[int, int], like: Any) -> Any:
        on_device = _arrays.is_torch(like)
        device = like.device if on_device else "cpu"
        names = {np.dtype(np.float32): "float32", np.dtype(np.float64): "float64"}
        dtype = like.dtype if on_device else getattr(self.torch, names[like.dtype])
        return self.torch.empty(shape, dtype=dtype, device=device)

    def _zeros(self, rows: int, columns: int) -> Any:
        return self.torch.zeros(
            rows, columns, dtype=self.torch.float64, device=self.home
        )
