"""A kernel matrix as an operator: checked, planned and prepared once, multiplied often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from tiercel import _arrays
from tiercel.kernels import Kernel, Precomputed
from tiercel.products.budget import default_budget, parse_bytes
from tiercel.products.cpu import CPUEngine
from tiercel.products.elementwise import functions_for
from tiercel.products.planner import Plan, Problem, plan_cpu, stored
from tiercel.products.precision import PRECISIONS
from tiercel.products.rows import Rows, as_rows, is_rows
from tiercel.products.tiles import make_tile

Device = Any


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
        if keep not in (True, False, "auto"):
            raise ValueError("keep must be True, False or 'auto'")
        if threads is not None and threads < 1:
            raise ValueError("threads must be at least 1")
        self.kernel, self.precision, self.keep = kernel, precision, keep
        self.threads, self.callback = threads, callback
        self.X, self.Z = check_pair(kernel, X, Z)
        self.from_disk = is_rows(X)
        self.shape = (self.X.shape[0], self.Z.shape[0])
        self.dtype = common_dtype(self.X, self.Z)
        self.devices = find_devices(device, self.X, self.Z)
        self.memory = memory if memory is None else parse_bytes(memory)
        self.device_memory = (
            device_memory if device_memory is None else parse_bytes(device_memory)
        )
        self._engine: Any = None
        self._stored: Any = None
        self._tiles: dict[Any, Any] = {}

    # Products ---------------------------------------------------------------------

    def product(self, V: Any) -> Any:
        """Return k(X, Z) V, of the kind, dtype and dimension of ``V``."""
        vectors = Vectors(V, self.shape[1], "V")
        if self.devices:
            result = self._on_devices().product(
                vectors.tensor(self._home), vectors.like
            )
            return vectors.restore(result)
        values = vectors.numpy()
        out = np.empty((self.shape[0], values.shape[1]), values.dtype)
        self._cpu("product", values.shape[1]).product(values, out)
        return vectors.restore(out)

    def cross_product(self, U: Any) -> Any:
        """Return k(X, Z)' U, summed in float64, of the kind of ``U``."""
        vectors = Vectors(U, self.shape[0], "U")
        if self.devices:
            result = self._on_devices().cross_product(vectors.values)
        else:
            values = vectors.numpy()
            result = self._cpu("cross_product", values.shape[1]).cross_product(values)
        return vectors.restore(result)

    def gram_product(self, V: Any, weights: Any = None) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) V in one sweep over the rows."""
        vectors = Vectors(V, self.shape[1], "V")
        w = check_weights(weights, self.shape[0])
        if self.devices:
            engine = self._on_devices()
            result = engine.gram_product(vectors.tensor(self._home), w)
        else:
            values = vectors.numpy()
            engine = self._cpu("gram_product", values.shape[1])
            result = engine.gram_product(values, w)
        return vectors.restore(result)

    def gram(self, weights: Any = None, targets: Any = None) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) in float64, made in one pass.

        With ``targets`` of shape (n,) or (n, T) the pass also returns
        k(X, Z)' diag(weights) targets: all that a direct solver needs.
        """
        w = check_weights(weights, self.shape[0])
        if w is not None and w.min() < 0:
            raise ValueError("weights must not be negative in a Gram matrix")
        vectors = (
            None if targets is None else Vectors(targets, self.shape[0], "targets")
        )
        if self.devices:
            G, cross = self._on_devices().gram(
                w, None if vectors is None else vectors.values
            )
        else:
            engine = self._cpu("gram", 1 if vectors is None else vectors.outputs)
            G, cross = engine.gram(w, None if vectors is None else vectors.numpy())
        G = _arrays.match(G, self.Z) if isinstance(G, np.ndarray) else G
        if vectors is None:
            return G
        return G, vectors.restore(cross, keep_dtype=False)

    def matrix(self) -> Any:
        """Return k(X, Z) itself, of the kind of ``Z``."""
        if self.devices:
            return self._on_devices().matrix()
        out = np.empty(self.shape, self.dtype)
        self._cpu("matrix", 1).matrix(out)
        return _arrays.match(out, self.Z)

    def plan(self, operation: str = "product", n_outputs: int = 1) -> Plan:
        """Return how an operation would be cut up; printing the plan explains it."""
        if operation not in OPERATIONS:
            raise ValueError(f"operation must be one of {OPERATIONS}")
        if self.devices:
            return self._on_devices().plan(operation, n_outputs)
        budget = default_budget() if self.memory is None else self.memory
        plan = plan_cpu(self._problem(operation, n_outputs), budget, self.threads)
        return stored(plan) if self._wants_stored(plan) else plan

    # Inside -----------------------------------------------------------------------

    def _problem(self, operation: str, outputs: int) -> Problem:
        (n, m), d = self.shape, self.X.shape[1]
        itemsize = np.dtype(self._tile_dtype).itemsize
        tile = self._tile(self._tile_dtype)
        return Problem(
            operation=operation,
            n=n,
            m=m,
            d=d,
            width=tile.width,
            row_bytes=self.row_bytes,
            outputs=outputs,
            itemsize=8 if operation == "gram" else itemsize,
            spares=tile.spares,
            from_disk=self.from_disk,
        )

    @property
    def row_bytes(self) -> int:
        """Bytes that one row of X takes on average."""
        if sparse.issparse(self.X):
            return 4 + -(-12 * self.X.nnz // self.shape[0])
        return self.X.shape[1] * self.dtype.itemsize

    @property
    def _tile_dtype(self) -> Any:
        return np.float64 if self.precision == "highest" else self.dtype

    def _tile(self, dtype: Any) -> Any:
        dtype = np.dtype(dtype)
        if dtype not in self._tiles:
            Z = self.Z if not _arrays.is_torch(self.Z) else _arrays.to_numpy(self.Z)
            functions = functions_for(self.shape[0] * self.shape[1])
            self._tiles[dtype] = make_tile(
                self.kernel, Z, dtype, np, functions=functions
            )
        return self._tiles[dtype]

    def _cpu(self, operation: str, outputs: int) -> CPUEngine:
        plan = self.plan(operation, outputs)
        X = _arrays.to_numpy(self.X) if _arrays.is_torch(self.X) else self.X
        tile = self._tile(self._tile_dtype)
        engine = CPUEngine(X, tile, self._tile, self.shape[1], plan, self._stored)
        engine.callback = self.callback
        if self._stored is None and operation != "gram" and self._wants_stored(plan):
            out = np.empty(self.shape, self._tile_dtype)
            engine.stored = self._stored = engine.matrix(out)
        return engine

    def _wants_stored(self, plan: Plan) -> bool:
        if not self.keep or plan.problem.operation in ("gram", "matrix"):
            return False
        n, m = self.shape
        fits = n * m * plan.problem.itemsize <= plan.budget - plan.peak
        if self.keep is True and not fits:
            from tiercel.products.budget import format_bytes

            raise ValueError(
                "keep=True needs "
                f"{format_bytes(n * m * plan.problem.itemsize + plan.peak)} "
                f"but the budget is {format_bytes(plan.budget)}"
            )
        return fits

    def _on_devices(self) -> Any:
        if self._engine is None:
            from tiercel.products.devices import DeviceEngine

            self._engine = DeviceEngine(self)
        return self._engine

    @property
    def _home(self) -> Any:
        return self.devices[0]


OPERATIONS = ("product", "cross_product", "gram_product", "gram", "matrix")


class Vectors:
    """Right-hand sides: checked, two-dimensional, and what they were remembered."""

    def __init__(self, V: Any, rows: int, name: str) -> None:
        values = V if _arrays.is_torch(V) else np.asarray(V)
        if values.ndim not in (1, 2):
            raise ValueError(f"{name} must have one or two dimensions")
        if values.shape[0] != rows:
            raise ValueError(
                f"{name} has {values.shape[0]} rows but the kernel matrix needs {rows}"
            )
        values = _arrays.check_float(values, name)
        if not _arrays.all_finite(values):
            raise ValueError(f"{name} holds NaN or infinite values")
        self.like, self.flat = values, values.ndim == 1
        self.values = values[:, None] if self.flat else values
        self.outputs = self.values.shape[1]

    def numpy(self) -> np.ndarray:
        """Return the vectors as a numpy matrix."""
        return _arrays.to_numpy(self.values)

    def tensor(self, device: Any) -> Any:
        """Return the vectors as a torch matrix on a device."""
        import torch

        return torch.as_tensor(self.values, device=device)

    def restore(self, result: Any, keep_dtype: bool = True) -> Any:
        """Return a result as the kind of array the vectors were."""
        if _arrays.is_torch(self.like):
            if not _arrays.is_torch(result):
                result = _arrays.match(result, self.like)
            result = result.to(self.like.device)
            result = result.to(self.like.dtype) if keep_dtype else result
        else:
            result = _arrays.to_numpy(result)
            if keep_dtype:
                result = result.astype(self.like.dtype, copy=False)
        return result[:, 0] if self.flat else result


def check_pair(kernel: Kernel, X: Any, Z: Any) -> tuple[Any, Any]:
    """Return rows and centres, checked against each other and the kernel."""
    if is_rows(X):
        X = as_rows(X)
        if Z is None and not isinstance(kernel, Precomputed):
            raise ValueError("rows on disk need centers: pass Z")
    else:
        X = _arrays.check_points(X, "X")
    if isinstance(kernel, Precomputed):
        return X, check_positions(Z, X.shape[1])
    kernel.check(X.shape[1])
    if Z is None:
        return X, X
    Z = _arrays.check_points(Z, "Z")
    if X.shape[1] != Z.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns but Z has {Z.shape[1]}")
    if sparse.issparse(X) != sparse.issparse(Z):
        raise TypeError(
            "X and Z must both be sparse or both be dense; "
            "use scipy.sparse.csr_matrix or .toarray() on one of them"
        )
    return X, Z


def check_positions(Z: Any, n_columns: int) -> np.ndarray:
    """Return which columns of a precomputed kernel matrix are the centres."""
    if Z is None:
        return np.arange(n_columns)
    Z = _arrays.to_numpy(Z).reshape(-1)
    if Z.dtype.kind not in "iu":
        raise TypeError(
            "with a Precomputed kernel, Z holds integer positions of columns of X"
        )
    if len(Z) == 0 or Z.min() < 0 or Z.max() >= n_columns:
        raise ValueError(f"positions in Z must lie in 0 ... {n_columns - 1}")
    return Z


def check_weights(weights: Any, n: int) -> Any:
    """Return row weights as a checked vector, or None."""
    if weights is None:
        return None
    vectors = Vectors(weights, n, "weights")
    if not vectors.flat:
        raise ValueError("weights must have one dimension, one number for each row")
    return _arrays.to_numpy(vectors.like)


def common_dtype(X: Any, Z: Any) -> Any:
    """Return float32 where both are float32, else float64."""
    names = {str(a.dtype).rpartition(".")[2] for a in (X, Z)} - {"int64"}
    return np.dtype(np.float32 if names == {"float32"} else np.float64)


def find_devices(device: Any, X: Any, Z: Any) -> list[Any]:
    """Return the torch devices to compute on; an empty list is the processor."""
    if device is None:
        found = [a.device for a in (X, Z) if _arrays.is_torch(a)]
        return [d for d in found if d.type != "cpu"][:1]
    many = isinstance(device, Sequence) and not isinstance(device, str)
    names = list(device) if many else [device]
    if all(str(name) == "cpu" for name in names):
        return []
    import torch

    devices = [torch.device(name) for name in names]
    if any(d.type == "cuda" for d in devices) and not torch.cuda.is_available():
        raise RuntimeError(
            f"device={device!r} was asked for, but torch sees no CUDA device"
        )
    return devices


__all__ = ["KernelOperator", "Rows"]
