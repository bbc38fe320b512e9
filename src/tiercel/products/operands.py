"""What a kernel operator is given: points, vectors, weights, devices, all checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from tiercel import _arrays
from tiercel.kernels import Kernel
from tiercel.products.rows import as_rows, float_dtype, is_rows


class Vectors:
    """Right-hand sides: checked, made two-dimensional; what they were is remembered."""

    def __init__(self, V: Any, rows: int, name: str) -> None:
        values = V if _arrays.is_torch(V) else np.asarray(V)
        if values.ndim not in (1, 2):
            raise ValueError(
                f"{name} must have one or two dimensions, not {values.ndim}"
            )
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

    def restore(self, result: Any, keep_dtype: bool = True) -> Any:
        """Return a result as the kind of array the vectors were."""
        result = same_kind(result, self.like)
        if keep_dtype and _arrays.is_torch(result):
            result = result.to(self.like.dtype)
        elif keep_dtype:
            result = result.astype(self.like.dtype, copy=False)
        return result[:, 0] if self.flat else result


def same_kind(result: Any, like: Any) -> Any:
    """Return the result as a numpy array, or as a tensor where ``like`` is one."""
    if not _arrays.is_torch(like):
        return _arrays.to_numpy(result)
    if _arrays.is_torch(result):
        return result.to(like.device)
    return _arrays.match(result, like)


def check_pair(kernel: Kernel, X: Any, Z: Any) -> tuple[Any, Any]:
    """Return rows and centres, checked against each other and the kernel."""
    if isinstance(X, str | os.PathLike):
        raise TypeError("X is a path; open the file with tiercel.products.open_rows")
    missing = Z is None or Z is X
    X = as_rows(X) if is_rows(X) else _arrays.check_points(X, "X")
    kernel.check(X.shape[1])
    if sparse.issparse(X) and not kernel.takes_sparse:
        raise TypeError(
            f"{type(kernel).__name__} does not take sparse points; "
            "use a kernel that does, or X.toarray()"
        )
    if kernel.precomputed:
        return X, check_positions(Z, X.shape[1])
    if missing and is_rows(X):
        raise ValueError("rows that are read block by block need centers: pass Z")
    if missing:
        return X, X
    if is_rows(Z):
        Z = as_rows(Z, "Z").read(0, Z.shape[0])  # centres are few
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
    Z = _arrays.to_numpy(Z)
    if Z.dtype.kind not in "iu" or Z.shape not in ((Z.size,), (Z.size, 1)):
        raise TypeError(
            "with a Precomputed kernel, Z holds integer positions of columns of X, "
            f"not {Z.dtype} of shape {Z.shape}"
        )
    if Z.size == 0 or Z.min() < 0 or Z.max() >= n_columns:
        raise ValueError(f"positions in Z must lie in 0 ... {n_columns - 1}")
    return Z.reshape(-1).astype(np.intp)


def check_weights(weights: Any, n: int) -> Any:
    """Return row weights as a checked vector, or None."""
    if weights is None:
        return None
    vectors = Vectors(weights, n, "weights")
    if not vectors.flat:
        raise ValueError("weights must have one dimension, one number for each row")
    return _arrays.to_numpy(vectors.like)


def common_dtype(kernel: Kernel, X: Any, Z: Any) -> np.dtype[Any]:
    """Return float32 where all points are in float32, else float64."""
    points = (X,) if kernel.precomputed else (X, Z)
    single = all(_dtype(p) == np.float32 for p in points)
    return np.dtype(np.float32 if single else np.float64)


def _dtype(points: Any) -> np.dtype[Any]:
    if _arrays.is_torch(points):
        return np.dtype(str(points.dtype).removeprefix("torch."))
    return float_dtype(np.dtype(points.dtype))


def find_devices(device: Any, X: Any, Z: Any) -> list[Any]:
    """Return the torch devices to compute on; an empty list is the processor."""
    if device is None:
        found = [a.device for a in (X, Z) if _arrays.is_torch(a)]
        return [d for d in found if d.type != "cpu"][:1]
    many = isinstance(device, Sequence) and not isinstance(device, str)
    names = [
        f"cuda:{name}" if isinstance(name, int) else str(name)
        for name in (device if many else [device])
    ]
    kinds = {name.partition(":")[0] for name in names}
    if kinds <= {"cpu"}:
        return []
    if kinds != {"cuda"}:
        raise ValueError(
            f"device={device!r} is not known here; name 'cpu', or one or more CUDA "
            "devices such as 'cuda' or 'cuda:1'"
        )
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "CUDA devices are used through torch; install it with: "
            "pip install tiercel[gpu]"
        ) from error
    if not torch.cuda.is_available():
        raise RuntimeError(
            f"device={device!r} was asked for, but torch sees no CUDA device"
        )
    return [_numbered(torch.device(name)) for name in names]


def _numbered(device: Any) -> Any:
    """Return a CUDA device with its number, as tensors name theirs."""
    import torch

    count = torch.cuda.device_count()
    if device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    if device.index >= count:
        raise RuntimeError(f"{device} was asked for, but torch sees {count} devices")
    return device
