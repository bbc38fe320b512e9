"""A kernel matrix as an operator: checked, planned and prepared once, used often."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from tiercel import _arrays
from tiercel.kernels import Kernel
from tiercel.products.budget import default_budget, format_bytes, parse_bytes
from tiercel.products.cpu import CPUEngine
from tiercel.products.elementwise import functions_for
from tiercel.products.operands import (
    Vectors,
    check_pair,
    check_weights,
    common_dtype,
    find_devices,
    same_kind,
)
from tiercel.products.planner import BudgetError, Plan, Problem, plan_cpu, stored
from tiercel.products.precision import PRECISIONS
from tiercel.products.rows import is_rows
from tiercel.products.temporaries import temporaries
from tiercel.products.tiles import make_tile

Device = Any

OPERATIONS = ("product", "cross_product", "gram_product", "gram", "matrix")


class KernelOperator:
    """The kernel matrix k(X, Z), never stored unless asked for.

    Iterative solvers multiply with the same matrix again and again: here the points are
    checked, centred, scaled and, on a GPU, split into halves once.

    Parameters
    ----------
    kernel : tiercel.kernels.Kernel
    X : array, CSR/CSC matrix, torch tensor, memory map or Rows, shape (n, d)
        The rows. Memory maps and :class:`~tiercel.products.Rows` are read block by
        block, the next one while this one is computed.
    Z : array, sparse matrix or torch tensor, shape (m, d), default=None
        The centres; ``None`` means the rows themselves (for a ``Precomputed`` kernel:
        all its columns).
    memory, device_memory : int, float or str, default=None
        Budgets of working memory beside inputs and result, as in ``"4GB"``; by default
        half of what is free.
    device : str, torch device or sequence of them, default=None
        Where to compute: by default where the tensors are, else on the processor.
        Several devices share the rows.
    precision : {"auto", "fast", "highest"}, default="auto"
        ``"auto"`` is as exact as the dtype of the points allows (relative error near
        1e-6 for float32); ``"fast"`` is near 1e-3 on a GPU; ``"highest"`` works in
        float64.
    threads : int, default=None
        Processor threads; by default all that this process may use.
    keep : bool or "auto", default=False
        Store the kernel matrix at first use. ``"auto"`` does so when it fits and
        reading it is expected to be faster than making it again.
    callback : callable, default=None
        Called as ``callback(rows_done, rows)`` while an operation goes on.

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> K = KernelOperator(Gaussian(1.0), X)
    >>> K.product(np.ones(3)).round(3)
    array([1.742, 2.213, 1.742])
    >>> print(K.shape, K.dtype)
    (3, 3) float64
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        Z: Any = None,
        *,
        memory: int | float | str | None = None,
        device_memory: int | float | str | None = None,
        device: Device | Sequence[Device] | None = None,
        precision: str = "auto",
        threads: int | None = None,
        keep: bool | str = False,
        callback: Callable[[int, int], object] | None = None,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be a tiercel kernel, not {type(kernel)!r}")
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {sorted(PRECISIONS)}")
        if not isinstance(keep, bool) and keep != "auto":
            raise ValueError(f"keep must be True, False or 'auto', not {keep!r}")
        if threads is not None and operator.index(threads) < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        if callback is not None and not callable(callback):
            raise TypeError("callback must be callable as callback(rows_done, rows)")
        self.kernel, self.precision, self.keep = kernel, precision, keep
        self.threads, self.callback = threads, callback
        self.X, self.Z = check_pair(kernel, X, Z)
        self.from_disk = is_rows(self.X)
        self.shape = (self.X.shape[0], self.Z.shape[0])
        self.dtype = common_dtype(kernel, self.X, self.Z)
        self.devices = find_devices(device, self.X, self.Z)
        self.memory = memory if memory is None else parse_bytes(memory)
        self.device_memory = (
            device_memory if device_memory is None else parse_bytes(device_memory)
        )
        self._stored: Any = None
        self._tiles: dict[Any, Any] = {}
        self._lock = threading.RLock()  # what is made once is made by one thread

    # Products ---------------------------------------------------------------------

    def product(self, V: Any) -> Any:
        """Return k(X, Z) V, of the kind, dtype and dimension of ``V``."""
        vectors = Vectors(V, self.shape[1], "V")
        if self.devices:
            return vectors.restore(self._on_devices.product(vectors.values))
        values = vectors.numpy()
        out = np.empty((self.shape[0], vectors.outputs), values.dtype)
        self._on_cpu("product", vectors.outputs).product(values, out)
        return vectors.restore(out)

    def cross_product(self, U: Any) -> Any:
        """Return k(X, Z)' U, summed in float64, of the kind of ``U``."""
        vectors = Vectors(U, self.shape[0], "U")
        if self.devices:
            result = self._on_devices.cross_product(vectors.values)
        else:
            engine = self._on_cpu("cross_product", vectors.outputs)
            result = engine.cross_product(vectors.numpy())
        return vectors.restore(result)

    def gram_product(self, V: Any, weights: Any = None) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) V in one sweep over the rows."""
        vectors = Vectors(V, self.shape[1], "V")
        w = check_weights(weights, self.shape[0])
        if self.devices:
            result = self._on_devices.gram_product(vectors.values, w)
        else:
            engine = self._on_cpu("gram_product", vectors.outputs)
            result = engine.gram_product(vectors.numpy(), w)
        return vectors.restore(result)

    def gram(self, weights: Any = None, targets: Any = None) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) in float64, made in one pass.

        With ``targets`` of shape (n,) or (n, T) the pass also returns
        k(X, Z)' diag(weights) targets, in float64 as well: all that a direct solver
        needs.
        """
        w = check_weights(weights, self.shape[0])
        if w is not None and w.min() < 0:
            raise ValueError("weights must not be negative in a Gram matrix")
        right = None if targets is None else Vectors(targets, self.shape[0], "targets")
        if self.devices:
            G, cross = self._on_devices.gram(w, None if right is None else right.values)
        else:
            engine = self._on_cpu("gram", 1 if right is None else right.outputs)
            G, cross = engine.gram(w, None if right is None else right.numpy())
        G = same_kind(G, self._points)
        return G if right is None else (G, right.restore(cross, keep_dtype=False))

    def matrix(self) -> Any:
        """Return k(X, Z) itself, of the kind of ``Z``."""
        if self.devices:
            return same_kind(self._on_devices.matrix(), self._points)
        out = np.empty(self.shape, self.dtype)
        self._on_cpu("matrix", 1).matrix(out)
        return same_kind(out, self._points)

    def plan(self, operation: str = "product", n_outputs: int = 1) -> Plan:
        """Return how an operation would be cut up; printing the plan explains it."""
        if operation not in OPERATIONS:
            raise ValueError(f"operation must be one of {OPERATIONS}")
        if operator.index(n_outputs) < 0:
            raise ValueError(f"n_outputs must not be negative, as {n_outputs} is")
        if self.devices:
            return self._on_devices.plan(operation, n_outputs)
        problem = self._problem(operation, n_outputs)
        return self._keeping(problem) or self._recomputing(problem)

    # Inside -----------------------------------------------------------------------

    def _on_cpu(self, operation: str, outputs: int) -> CPUEngine:
        """Return what does an operation on the processor."""
        problem = self._problem(operation, outputs)
        keeping = self._keeping(problem)
        plan = keeping or self._recomputing(problem)
        X = _arrays.to_numpy(self.X) if _arrays.is_torch(self.X) else self.X
        tile = self._tile(self._tile_dtype)
        engine = CPUEngine(X, tile, self._tile, self.shape[1], plan)
        engine.callback = self.callback
        with self._lock:
            if keeping and self._stored is None:
                out = np.empty(self.shape, self._tile_dtype)
                self._stored = engine.matrix(out)
        engine.stored = self._stored
        return engine

    def _recomputing(self, problem: Problem) -> Plan:
        """Return the plan of making tiles in every product."""
        return plan_cpu(problem, self.budget, self.threads)

    def _keeping(self, problem: Problem) -> Plan | None:
        """Return the plan of products with a matrix that is kept, if it is to be."""
        if not self.keep or problem.operation in ("gram", "matrix"):
            return None
        plan = stored(plan_cpu(problem, sys.maxsize, self.threads))
        if plan.peak <= self.budget:
            return replace(plan, budget=self.budget)
        if self.keep is True:
            raise BudgetError(
                f"keep=True needs {format_bytes(plan.peak, enough=True)}, "
                f"but the memory budget is {format_bytes(self.budget)}"
            )
        return None

    @cached_property
    def _on_devices(self) -> Any:
        from tiercel.products.devices import DeviceEngine

        return DeviceEngine(self)

    def _problem(self, operation: str, outputs: int) -> Problem:
        dtype = np.dtype(np.float64) if operation == "gram" else self._tile_dtype
        tile = self._tile(dtype)
        return Problem(
            operation=operation,
            n=self.shape[0],
            m=self.shape[1],
            d=self.X.shape[1],
            width=tile.width,
            row_bytes=self.row_bytes,
            outputs=outputs,
            itemsize=dtype.itemsize,
            spares=tile.spares + temporaries(self.kernel),
            from_disk=self.from_disk,
            slices_copy=sparse.issparse(self.X),
            held=self.held_bytes,
        )

    def _tile(self, dtype: np.dtype[Any]) -> Any:
        """Return what fills tiles of a dtype; it is made once."""
        with self._lock:
            if dtype not in self._tiles:
                Z = _arrays.to_numpy(self.Z) if _arrays.is_torch(self.Z) else self.Z
                functions = functions_for(self.shape[0] * self.shape[1])
                made = make_tile(self.kernel, Z, dtype, np, functions=functions)
                self._tiles[dtype] = made
            return self._tiles[dtype]

    @cached_property
    def budget(self) -> int:
        """The memory budget: half of what is free when it is first asked for."""
        return default_budget() if self.memory is None else self.memory

    @property
    def row_bytes(self) -> int:
        """Bytes that one row of X takes on average."""
        if sparse.issparse(self.X):
            entry = self.X.data.itemsize + self.X.indices.itemsize
            return 8 + -(-entry * self.X.nnz // self.shape[0])
        return self.X.shape[1] * self.dtype.itemsize

    @property
    def held_bytes(self) -> int:
        """Bytes that a source of rows needs for itself, beside the blocks it fills."""
        return getattr(self.X, "held_bytes", 0)

    @property
    def _tile_dtype(self) -> np.dtype[Any]:
        highest = self.precision == "highest"
        return np.dtype(np.float64) if highest else self.dtype

    @property
    def _points(self) -> Any:
        """The points whose kind results without vectors have."""
        return self.X if self.kernel.precomputed else self.Z


__all__ = ["KernelOperator"]
