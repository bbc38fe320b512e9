"""Arrays, texts in arrays, tensors and sparse matrices as arrays that a file can hold.

A file holds plain numbers, row-major. What else there is to know of an array (its
order in memory, that it holds text, a byte order that is not the machine's) stands in
the document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from tiercel._arrays import is_torch
from tiercel.io._file import NAMES
from tiercel.io._plain import Unsaveable

Keep = Callable[[np.ndarray], str]

SPARSE = {
    kind.__name__: kind
    for kind in (
        sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array
    )
}  # fmt: skip


def encode_array(array: np.ndarray, keep: Keep) -> Any:
    """Return the JSON for an array of numbers or texts, whose data ``keep`` takes."""
    columns = array.flags.f_contiguous and not array.flags.c_contiguous
    order = "F" if columns else "C"
    if array.dtype.kind == "U":
        node = {"text": [keep(_characters(array)), order]}
    elif array.dtype.newbyteorder("<") in NAMES:
        node = {"array": [keep(array), order]}
    else:
        raise Unsaveable(f"arrays of dtype {array.dtype} cannot be saved")
    return node if array.dtype.isnative else {"swapped": node}


def _characters(array: np.ndarray) -> np.ndarray:
    """Return the code points of fixed-width texts along a new last axis."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    points = np.ascontiguousarray(native).reshape(-1).view(np.uint32)
    return points.reshape(*array.shape, array.itemsize // 4)


def decode_text(points: np.ndarray) -> np.ndarray:
    """Return the texts whose code points stand along the last axis."""
    if points.dtype != np.uint32 or points.ndim == 0 or points.shape[-1] == 0:
        raise ValueError("texts must be stored as code points")
    if points.size and points.max() > 0x10FFFF:
        raise ValueError("texts hold numbers that stand for no character")
    width = points.shape[-1]
    return points.reshape(-1).view(f"U{width}").reshape(points.shape[:-1])


def encode_tensor(tensor: Any) -> tuple[str, np.ndarray]:
    """Return what kind of tensor it is, and its values as a numpy array."""
    if str(tensor.layout) != "torch.strided":
        raise Unsaveable("sparse tensors cannot be saved; keep a scipy CSR matrix")
    here = tensor.detach().cpu()
    if str(here.dtype) == "torch.bfloat16":  # numpy has none: its bits as integers
        import torch

        return "bfloat16", here.view(torch.int16).numpy()
    if here.dtype.is_complex or here.is_quantized:
        raise Unsaveable(f"tensors of {here.dtype} cannot be saved")
    return "tensor", here.resolve_neg().numpy()


def decode_tensor(kind: str, array: np.ndarray) -> Any:
    """Return the tensor on the CPU; it shares the memory of ``array``."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "the model holds torch tensors; install torch with: "
            "pip install tiercel[gpu]"
        ) from error

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if kind == "bfloat16" else tensor


def is_tensor(value: Any) -> bool:
    """Tell whether ``value`` is a plain torch tensor, without importing torch."""
    return is_torch(value) and type(value).__name__ == "Tensor"


def decode_sparse(
    name: str, shape: list[int], data: Any, indices: Any, indptr: Any
) -> Any:
    """Return a compressed sparse matrix, after checks that scipy's loops rely on."""
    rows, columns = shape
    parts = [data, indices, indptr]
    if not all(type(part) is np.ndarray and part.ndim == 1 for part in parts):
        raise ValueError("a sparse matrix must consist of three vectors")
    matrix = SPARSE[name]((data, indices, indptr), shape=(rows, columns))
    matrix.check_format(full_check=True)
    return matrix
