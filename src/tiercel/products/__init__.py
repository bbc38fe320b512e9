"""How do I multiply with a kernel matrix that is never stored?

k(X, Z) has one entry for every pair of a row of X (n of them) and a centre (m). At
n = 10**9 and m = 10**5 it would fill 400 terabytes; what learning needs is only its
product with a few vectors. The functions here make the matrix tile by tile, use each
tile where it lies in cache (or, on a GPU, in registers) and forget it.

=====================  ==============================================================
:func:`product`        k(X, Z) V
:func:`cross_product`  k(X, Z)' U
:func:`gram_product`   k(X, Z)' diag(w) k(X, Z) V, in one sweep over the rows
:func:`gram`           k(X, Z)' diag(w) k(X, Z), in float64, one pass, half the work
:func:`matrix`         k(X, Z), for what must be dense
:func:`plan`           what an operation would do: tiles, passes, peak memory
=====================  ==============================================================

Iterative solvers hold a :class:`KernelOperator`, which checks and prepares the points
once. Rows may be numpy arrays, torch tensors (also on a GPU), CSR matrices, memory maps
or any :class:`Rows` (:func:`open_rows` reads npy, npz, HDF5, Parquet and zarr).

The result is of the kind of the vectors: numpy in, numpy out; a tensor comes back on
its device. The dtype of the points decides the precision: float32 points give answers
with a relative error near 1e-6.
"""

from __future__ import annotations

from typing import Any

from tiercel.kernels import Kernel
from tiercel.products.budget import format_bytes, parse_bytes
from tiercel.products.files import open_rows
from tiercel.products.kernel_operator import KernelOperator
from tiercel.products.planner import BudgetError, Plan
from tiercel.products.rows import GeneratedRows, Rows


def product(kernel: Kernel, X: Any, Z: Any, V: Any, **options: Any) -> Any:
    """Return k(X, Z) V without storing the kernel matrix.

    Parameters
    ----------
    kernel : tiercel.kernels.Kernel
    X : array, sparse matrix, torch tensor or Rows, shape (n, d)
    Z : array, sparse matrix, torch tensor or None, shape (m, d)
        The centres; ``None`` means ``X``.
    V : array or torch tensor, shape (m,) or (m, T)
    **options
        ``memory``, ``device_memory``, ``device``, ``precision``, ``threads``,
        ``keep`` and ``callback``, as in :class:`KernelOperator`.

    Returns
    -------
    array of shape (n,) or (n, T), of the kind and dtype of ``V``

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Gaussian
    >>> X, Z = np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]])
    >>> product(Gaussian(1.0), X, Z, np.array([1.0, -1.0])).round(4)
    array([0.8647, 0.    ])
    """
    return KernelOperator(kernel, X, Z, **options).product(V)


def cross_product(kernel: Kernel, X: Any, Z: Any, U: Any, **options: Any) -> Any:
    """Return k(X, Z)' U, summed over the rows in float64.

    The arguments are those of :func:`product`; ``U`` has shape (n,) or (n, T).

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Linear
    >>> X, Z = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
    >>> cross_product(Linear(), X, Z, np.ones(2))
    array([3., 9.])
    """
    return KernelOperator(kernel, X, Z, **options).cross_product(U)


def gram_product(
    kernel: Kernel, X: Any, Z: Any, V: Any, weights: Any = None, **options: Any
) -> Any:
    """Return k(X, Z)' diag(weights) k(X, Z) V in one sweep over the rows.

    The arguments are those of :func:`product`; ``weights`` has shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Linear
    >>> X, Z = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
    >>> gram_product(Linear(), X, Z, np.array([1.0, 0.0]), weights=np.array([1.0, 0.5]))
    array([3., 9.])
    """
    return KernelOperator(kernel, X, Z, **options).gram_product(V, weights)


def gram(
    kernel: Kernel,
    X: Any,
    Z: Any,
    weights: Any = None,
    targets: Any = None,
    **options: Any,
) -> Any:
    """Return k(X, Z)' diag(weights) k(X, Z), computed and summed in float64.

    A float32 Gram matrix of a smooth kernel is not positive definite at the small
    penalties that kernel methods use; this one is exact to float64 rounding whatever
    the dtype of the points. With ``targets`` of shape (n,) or (n, T) the same pass also
    returns k(X, Z)' diag(weights) targets.

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Linear
    >>> X, Z = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
    >>> gram(Linear(), X, Z)
    array([[ 5., 15.],
           [15., 45.]])
    """
    return KernelOperator(kernel, X, Z, **options).gram(weights, targets)


def matrix(kernel: Kernel, X: Any, Z: Any = None, **options: Any) -> Any:
    """Return the kernel matrix k(X, Z) itself, made by tiles on all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Linear
    >>> matrix(Linear(), np.array([[1.0], [2.0]]))
    array([[1., 2.],
           [2., 4.]])
    """
    return KernelOperator(kernel, X, Z, **options).matrix()


def plan(
    kernel: Kernel,
    X: Any,
    Z: Any = None,
    n_outputs: int = 1,
    operation: str = "product",
    **options: Any,
) -> Plan:
    """Return how an operation would be cut into tiles, and what memory it needs.

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.kernels import Gaussian
    >>> X = np.zeros((1000, 3))
    >>> print(plan(Gaussian(), X, X[:100], memory="64MB", threads=2))
    product with k(X, Z): 1,000 x 100 entries, 3 columns, 1 outputs, float64
      on cpu, tiles recomputed in every product; every entry is computed once
      tiles of 512 x 100, 2 at a time
      working memory 963 KB of a budget of 64 MB
    """
    return KernelOperator(kernel, X, Z, **options).plan(operation, n_outputs)


__all__ = [
    "BudgetError",
    "GeneratedRows",
    "KernelOperator",
    "Plan",
    "Rows",
    "cross_product",
    "format_bytes",
    "gram",
    "gram_product",
    "matrix",
    "open_rows",
    "parse_bytes",
    "plan",
    "product",
]
