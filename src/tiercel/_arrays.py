"""What every room needs to know about arrays: whose they are and whether they will do.

The backend is inferred from the arguments and is never global: numpy arrays stay numpy
arrays, torch tensors stay on their device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.externals.array_api_compat import array_namespace

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def is_torch(array: Any) -> bool:
    """Tell whether ``array`` is a torch tensor, without importing torch."""
    return type(array).__module__.partition(".")[0] == "torch"


def namespace(*arrays: Any) -> Any:
    """Return the array-API namespace (numpy's or torch's) that the arrays share."""
    return array_namespace(*(a for a in arrays if a is not None))


def to_numpy(array: Any) -> np.ndarray:
    """Return ``array`` as a numpy array, sharing memory where that is possible.

    Examples
    --------
    >>> to_numpy([1, 2])
    array([1, 2])
    """
    if is_torch(array):
        return array.detach().cpu().numpy()
    return np.asarray(array)


def match(array: np.ndarray, like: Any) -> Any:
    """Return the numpy ``array`` as what ``like`` is: numpy, or torch on its device."""
    if not is_torch(like):
        return array
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)).to(like.device)


def check_float(array: Any, name: str) -> Any:
    """Return ``array`` in float32 or float64; refuse complex, object and text.

    Integers and booleans become float64, half precision becomes float32.
    """
    if is_torch(array):
        if array.requires_grad:
            raise ValueError(
                f"{name} requires grad, but gradients are not recorded here; "
                f"pass {name}.detach()"
            )
        import torch

        if array.dtype in (torch.float32, torch.float64):
            return array
        if array.dtype.is_complex:
            raise TypeError(
                f"{name} is complex; split it into real and imaginary parts"
            )
        half = array.dtype in (torch.float16, torch.bfloat16)
        return array.to(torch.float32 if half else torch.float64)
    dtype = array.dtype.newbyteorder("=")
    if dtype in FLOATS:
        return array.astype(dtype, copy=False)
    if dtype.kind == "c":
        raise TypeError(f"{name} is complex; split it into real and imaginary parts")
    if dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {dtype}, but numbers are needed")
    return array.astype(np.float32 if dtype == np.float16 else np.float64)


def all_finite(array: Any) -> bool:
    """Tell whether no entry is NaN or infinite, without a mask the size of the array.

    A sum is finite unless an entry is not, or it overflows: only then look closer.
    """
    if sparse.issparse(array):
        array = array.data
    if is_torch(array):
        total = array.sum()
        return bool(total.isfinite()) or bool(array.isfinite().all())
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(array)
    return bool(np.isfinite(total)) or bool(np.isfinite(array).all())


def check_points(X: Any, name: str = "X") -> Any:
    """Return ``X`` as a matrix of points: two dimensions, floats, finite, not empty.

    numpy arrays, torch tensors, CSR/CSC matrices and anything that numpy can read
    (lists, DataFrames) are accepted; sparse input comes back as CSR.

    Examples
    --------
    >>> check_points([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    if sparse.issparse(X):
        X = sparse.csr_matrix(X) if not isinstance(X, sparse.csr_array) else X
    elif is_torch(X):
        if str(X.layout) != "torch.strided":
            raise TypeError(
                f"{name} is a sparse tensor; pass a scipy CSR matrix, or "
                f"{name}.to_dense()"
            )
    else:
        X = _as_array(X, name)
    if X.ndim != 2:
        hint = f"; use {name}.reshape(-1, 1) for a single column" if X.ndim == 1 else ""
        raise ValueError(
            f"{name} must have two dimensions (rows, columns), not {X.ndim}{hint}"
        )
    X = check_float(X, name)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"{name} is empty: its shape is {tuple(X.shape)}")
    if not all_finite(X):
        raise ValueError(f"{name} holds NaN or infinite values; impute or drop them")
    return X


def _as_array(X: Any, name: str) -> np.ndarray:
    """Return what numpy reads, masks and nullable columns of DataFrames respected."""
    if np.ma.is_masked(X):
        raise ValueError(f"{name} has masked entries; fill them, or drop their rows")
    columns = getattr(X, "dtypes", ())
    if any(hasattr(kind, "na_value") for kind in columns) and all(
        kind.kind in "fiub" for kind in columns
    ):
        return X.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(X)
