"""Tiles over sparse points: dense results from CSR rows, any number of columns.

Only columns in which some centre is not zero can add to an inner product. They are
renumbered once, so that data of 10**7 columns cost no more than the few that the centres
use; row norms are taken before the other columns are dropped. Sparse data are not
centred, which would fill them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from tiercel.kernels import Kernel
from tiercel.products.precision import FAR

#: Centres are unpacked into a dense (columns, m) array up to this many numbers.
DENSE_LIMIT = 2**27


class SparseTile:
    """Tiles of a distance or dot kernel between CSR rows and CSR centres.

    With a ``device`` the products are made there by torch, else by scipy.
    """

    spares = 1  # a sparse product comes as an array of its own

    def __init__(self, kernel: Kernel, Z: Any, dtype: Any, device: Any = None) -> None:
        if not kernel.takes_sparse:
            raise TypeError(
                f"{type(kernel).__name__} does not take sparse points; "
                "use a kernel that does, or X.toarray()"
            )
        self.kernel, self.device = kernel, device
        self.dtype = np.dtype(str(dtype).removeprefix("torch."))
        self.scale = np.atleast_1d(kernel.scale_of(Z.shape[1]))
        self.distance = kernel.statistic == "distance"
        Z = sparse.csr_matrix(Z)
        self.active = np.unique(Z.indices)
        self.width = len(self.active)
        self.compact = self._compact(Z, np.float64)
        self.squares = self._squares(Z)
        self._right: dict[Any, Any] = {}

    def rows(self, X: Any) -> Any:
        """Return what a block of rows needs for all its tiles."""
        squares = self._squares(X)
        far = far_left = None
        if self.distance and self.dtype == np.float32 and squares.max() > FAR:
            far = np.flatnonzero(squares > FAR)
            far_left = self._compact(X[far], np.float64)
        return self._compact(X, self.dtype), squares, far, far_left

    def fill(self, rows: Any, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        left, squares, far, far_left = rows
        out[...] = self._values(left, squares, columns, self.dtype)
        if far is not None:
            exact = self._values(far_left, squares[far], columns, np.float64)
            out[far] = exact if self.device is None else exact.to(out.dtype)

    def _values(self, left: Any, squares: Any, columns: slice, dtype: Any) -> Any:
        t = self._dots(left, columns, dtype)
        if self.distance:
            t *= -2.0
            t += self._near(squares[:, None], dtype)
            t += self._near(self.squares[columns], dtype)
            # No differences of sparse rows: what rounding cannot tell from zero is zero.
            doubt = 16 * np.finfo(dtype).eps if self.kernel.rough else 0.0
            t[t < doubt * self._near(squares[:, None], dtype)] = 0.0
        if self.kernel.fold != 1.0:
            t *= self.kernel.fold
        self.kernel.profile_in_place(t, self._module)
        return t

    @property
    def _module(self) -> Any:
        if self.device is None:
            return np
        import torch

        return torch

    def _near(self, values: np.ndarray, dtype: Any) -> Any:
        """Return numbers where the tiles are."""
        values = values.astype(dtype)
        return values if self.device is None else self._tensor(values)

    def _tensor(self, values: np.ndarray) -> Any:
        return self._module.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def _dots(self, left: Any, columns: slice, dtype: Any) -> Any:
        right = self._columns(dtype)[:, columns]
        if self.device is None:
            dots = left @ right
            return dots.toarray() if sparse.issparse(dots) else np.asarray(dots)
        parts = [self._tensor(p) for p in (left.indptr, left.indices, left.data)]
        return self._module.sparse_csr_tensor(*parts, size=left.shape) @ right

    def _columns(self, dtype: Any) -> Any:
        """Return the compact centres, one column each; dense where that is small."""
        dtype = np.dtype(dtype)
        if dtype not in self._right:
            right = self.compact.T.astype(dtype)
            dense = right.shape[0] * right.shape[1] <= DENSE_LIMIT
            if self.device is not None:
                self._right[dtype] = self._tensor(right.toarray())
            else:
                self._right[dtype] = right.toarray("C") if dense else right.tocsc()
        return self._right[dtype]

    def _compact(self, X: Any, dtype: Any) -> Any:
        """Keep the active columns of CSR rows, renumbered and scaled."""
        if not len(self.active):
            return sparse.csr_matrix((X.shape[0], 1), dtype=dtype)
        position = np.searchsorted(self.active, X.indices)
        position[position == len(self.active)] = 0
        kept = self.active[position] == X.indices
        data = (X.data * self._scale_at(X.indices))[kept].astype(dtype)
        ends = np.concatenate(([0], np.cumsum(kept)))[X.indptr]
        shape = (X.shape[0], len(self.active))
        return sparse.csr_matrix((data, position[kept], ends), shape=shape)

    def _squares(self, X: Any) -> np.ndarray:
        data = X.data * self._scale_at(X.indices)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return np.bincount(rows, np.square(data, dtype=np.float64), X.shape[0])

    def _scale_at(self, columns: np.ndarray) -> Any:
        return self.scale if self.scale.size == 1 else self.scale[columns]
