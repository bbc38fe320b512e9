"""Fill one tile k(X_b, Z) of a kernel matrix, in place and at the precision promised.

A tile of a distance kernel is one matrix product: the row ``[x, |x|^2, 1]`` times the
column ``[-2z, 1, |z|^2]`` is the squared distance, so the norms cost two columns more
and no pass over the tile. Three things keep float32 answers float32-grade:

* points are centred by the mean of Z first: distances do not change, rounding does;
* rows so far from that centre that their rounding would show (:data:`FAR`) are done in
  float64, and only those;
* near pairs, where the expansion has lost its digits, are made from differences if the
  kernel is not smooth at distance zero (`rough`), or if rows are so far from the centre
  that float64 does not do either (:data:`LARGE`).

The code serves numpy and torch alike: ``xp`` is one of the two modules, and
``functions`` what computes the kernels' elementwise functions for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tiercel.kernels import (
    DistanceKernel,
    DotKernel,
    Kernel,
    Product,
    Scaled,
    Sum,
)
from tiercel.products.precision import (
    FAR,
    LARGE,
    NEAR,
    REMADE,
    REMADE_ON_DEVICE,
)
from tiercel.products.reach import check_reach
from tiercel.products.sparse import DeviceSparseTile, SparseTile

#: Up to this many columns differences are cheaper than repairing an expansion.
FEW_COLUMNS = 3


def cast(array: Any, dtype: Any) -> Any:
    """Return the array (numpy or torch) in another dtype, itself if it is in it."""
    if isinstance(array, np.ndarray):
        return array.astype(dtype, copy=False)
    return array.to(dtype)


def constants(values: np.ndarray, like: Any, xp: Any) -> Any:
    """Return small float64 constants next to ``like`` (same library, same device)."""
    if xp is np:
        return values
    return xp.as_tensor(np.ascontiguousarray(values), device=like.device)


def nonzero(mask: Any, xp: Any) -> tuple[Any, ...]:
    """Return the positions where ``mask`` holds, one array for each axis."""
    return np.nonzero(mask) if xp is np else xp.nonzero(mask, as_tuple=True)


class Left(NamedTuple):
    """Rows ready to be multiplied with the columns of the centres."""

    points: Any  # [x, |x|^2, 1], centred and scaled
    squares: Any
    largest: float


class DistanceTile:
    """Tiles of a kernel of the scaled squared distance, over dense points."""

    def __init__(
        self, kernel: DistanceKernel, Z: Any, dtype: Any, xp: Any, functions: Any
    ) -> None:
        self.kernel, self.dtype, self.xp = kernel, dtype, xp
        self.functions = functions
        self.fold = float(kernel.fold)
        n_features = Z.shape[1]
        self.direct = kernel.rough and n_features <= FEW_COLUMNS
        self.spares = 1 if self.direct else 0
        self.width = n_features + 2
        Z64 = cast(Z, xp.float64)
        scale = np.broadcast_to(kernel.scale_of(n_features), n_features)
        self.scale = constants(np.array(scale), Z, xp)
        self.center = Z64.mean(0)
        self._Z = Z
        self._right: dict[Any, Any] = {}
        self._points: dict[Any, Any] = {}
        if not self.direct:
            self.right(dtype)
            if kernel.rough:
                self.points(dtype)

    def points(self, dtype: Any) -> Any:
        """Return the centred and scaled centres, where single pairs are looked at."""
        if dtype not in self._points:
            scaled = (cast(self._Z, self.xp.float64) - self.center) * self.scale
            self._points[dtype] = self._settled(cast(scaled, dtype))
        return self._points[dtype]

    def right(self, dtype: Any) -> Any:
        """Return the columns ``fold * [-2z, 1, |z|^2]``, made once for each dtype."""
        if dtype not in self._right:
            xp = self.xp
            scaled = (cast(self._Z, xp.float64) - self.center) * self.scale
            squares = (scaled * scaled).sum(1)
            check_reach(float(squares.max()))
            m, d = scaled.shape
            right = xp.empty((d + 2, m), dtype=dtype, **_on(scaled, xp))
            right[:-2] = cast(-2.0 * self.fold * scaled.T, dtype)
            right[-2] = self.fold
            right[-1] = cast(self.fold * squares, dtype)
            self._right[dtype] = self._settled(right)
        return self._right[dtype]

    def _settled(self, array: Any) -> Any:
        """Wait until an array on a GPU is there: another stream may read it next."""
        if self.xp is not np and array.is_cuda:
            self.xp.cuda.current_stream(array.device).synchronize()
        return array

    def rows(self, X: Any) -> Any:
        """Return what a block of rows needs for all its tiles."""
        xp = self.xp
        if self.direct:
            return cast(X, self.dtype), None, None
        left = self._left(X, self.dtype)
        if self.dtype == xp.float64 or left.largest <= FAR:
            return left, None, None
        far = nonzero(left.squares > FAR, xp)[0]
        # These are done in float64 alone.
        left.points[far] = 0.0
        left.squares[far] = 0.0
        return left, far, self._left(X[far], xp.float64)

    def _left(self, X: Any, dtype: Any) -> Left:
        xp = self.xp
        # Subtract in float64: the mean is no float32 number, and far data would lose.
        with np.errstate(over="ignore"):
            scaled = cast((cast(X, xp.float64) - self.center) * self.scale, dtype)
            squares = (scaled * scaled).sum(1)
        largest = float(squares.max())
        check_reach(largest)
        points = xp.empty((X.shape[0], X.shape[1] + 2), dtype=dtype, **_on(scaled, xp))
        points[:, :-2] = scaled
        points[:, -2] = squares
        points[:, -1] = 1.0
        return Left(points, squares, largest)

    def fill(self, rows: Any, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        left, far, far_left = rows
        if self.direct:
            self._differences(left, columns, out, spare[0])
            self.kernel.profile_in_place(out, self.functions)
            return
        self._expand(left, columns, out)
        if far is None:
            return
        step = self._at_once(out.shape[1])
        for start in range(0, len(far), step):
            part = slice(start, start + step)
            some = Left(far_left.points[part], far_left.squares[part], far_left.largest)
            shape = (len(some.points), out.shape[1])
            exact = self.xp.empty(shape, dtype=self.xp.float64, **_on(out, self.xp))
            self._expand(some, columns, exact)
            out[far[part]] = cast(exact, self.dtype)

    def _expand(self, left: Left, columns: slice, out: Any) -> None:
        """Make the kernel's values from one matrix product."""
        xp, dtype = self.xp, left.points.dtype
        xp.matmul(left.points, self.right(dtype)[:, columns], out=out)
        if self.kernel.rough or (dtype == xp.float64 and left.largest > LARGE):
            self._repair(left, columns, out)
        self.kernel.profile_in_place(out, self.functions)

    def _differences(self, X: Any, columns: slice, out: Any, spare: Any) -> None:
        """Sum squared differences of the points as they came: these are exact."""
        Z = cast(self._Z[columns], self.dtype)
        out[...] = 0.0
        for k in range(X.shape[1]):
            self.xp.subtract(X[:, k, None], Z[None, :, k], out=spare)
            spare *= float(self.scale[k])
            spare *= spare
            out += spare
        if self.fold != 1.0:
            out *= self.fold

    def _repair(self, left: Left, columns: slice, out: Any) -> None:
        """Recompute the distances of near pairs from differences."""
        points = self.points(left.points.dtype)[columns]
        bound = (self.fold * NEAR) * left.squares[:, None]
        rows = self._at_once(out.shape[1])
        for first in range(0, out.shape[0], rows):
            part = slice(first, first + rows)
            near = out[part] < bound[part]
            if self.fold < 0:
                near = out[part] > bound[part]
            if not bool(near.any()):
                continue
            i, j = nonzero(near, self.xp)
            i += first
            step = self._at_once(points.shape[1])
            for start in range(0, len(i), step):
                a, b = i[start : start + step], j[start : start + step]
                gaps = left.points[a, :-2] - points[b]
                out[a, b] = self.fold * (gaps * gaps).sum(1)

    def _at_once(self, numbers: int) -> int:
        """Return how many rows of some numbers to work at a time."""
        many = REMADE if self.xp is np else REMADE_ON_DEVICE
        return max(1, many // numbers)


class DotTile:
    """Tiles of a kernel of the scaled inner product, over dense points."""

    spares = 0

    def __init__(
        self, kernel: DotKernel, Z: Any, dtype: Any, xp: Any, functions: Any
    ) -> None:
        self.kernel, self.dtype, self.xp = kernel, dtype, xp
        self.functions = functions
        scale = np.broadcast_to(kernel.scale_of(Z.shape[1]), Z.shape[1])
        scale = constants(np.array(scale) ** 2, Z, xp)
        self.right = cast(cast(Z, xp.float64) * scale, dtype).T
        self.width = Z.shape[1]

    def rows(self, X: Any) -> Any:
        """Return what a block of rows needs for all its tiles."""
        return cast(X, self.dtype)

    def fill(self, rows: Any, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        self.xp.matmul(rows, self.right[:, columns], out=out)
        if self.kernel.fold != 1.0:
            out *= self.kernel.fold
        self.kernel.profile_in_place(out, self.functions)


class OwnTile:
    """Tiles of a kernel that only knows how to evaluate itself (or is precomputed)."""

    spares = 0
    width = 0

    def __init__(self, kernel: Kernel, Z: Any, dtype: Any, xp: Any) -> None:
        self.kernel, self.xp = kernel, xp
        self.Z = Z if kernel.precomputed else self._wide(Z)

    def rows(self, X: Any) -> Any:
        """Return what a block of rows needs for all its tiles."""
        return X if self.kernel.precomputed else self._wide(X)

    def fill(self, rows: Any, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        values = self.kernel.evaluate(rows, self.Z[columns])
        if sparse.issparse(rows):
            values = constants(np.asarray(values), out, self.xp)
        out[...] = values

    def _wide(self, points: Any) -> Any:
        """Return points in float64, as kernels are promised them."""
        if sparse.issparse(points):
            return points.astype(np.float64)
        return cast(points, self.xp.float64)


class ScaledTile:
    """A positive multiple of another tile."""

    def __init__(self, factor: float, base: Any) -> None:
        self.factor, self.base = factor, base
        self.spares, self.width = base.spares, base.width

    def rows(self, X: Any) -> Any:
        """Return what a block of rows needs for all its tiles."""
        return self.base.rows(X)

    def fill(self, rows: Any, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        self.base.fill(rows, columns, out, spare)
        out *= self.factor


class PairTile:
    """The sum or the product of two tiles; the second is made in a spare tile."""

    def __init__(self, left: Any, right: Any, multiply: bool) -> None:
        self.left, self.right, self.multiply = left, right, multiply
        self.spares = max(left.spares, 1 + right.spares)
        self.width = left.width + right.width

    def rows(self, X: Any) -> Any:
        """Return what a block of rows needs for all its tiles."""
        return self.left.rows(X), self.right.rows(X)

    def fill(self, rows: Any, columns: slice, out: Any, spare: list[Any]) -> None:
        """Overwrite ``out`` with the kernel between the rows and some columns."""
        self.left.fill(rows[0], columns, out, spare)
        self.right.fill(rows[1], columns, spare[0], spare[1:])
        if self.multiply:
            out *= spare[0]
        else:
            out += spare[0]


def make_tile(
    kernel: Kernel,
    Z: Any,
    dtype: Any,
    xp: Any,
    device: Any = None,
    functions: Any = None,
) -> Any:
    """Return the object that fills tiles k(rows, Z) of ``dtype``, for any kernel.

    The device matters to sparse centres alone: dense ones lie on it. ``functions`` is
    the module whose elementwise functions make values of statistics, by default ``xp``.
    """
    functions = xp if functions is None else functions
    if isinstance(kernel, Sum | Product):
        left = make_tile(kernel.left, Z, dtype, xp, device, functions)
        right = make_tile(kernel.right, Z, dtype, xp, device, functions)
        return PairTile(left, right, isinstance(kernel, Product))
    if isinstance(kernel, Scaled):
        base = make_tile(kernel.base, Z, dtype, xp, device, functions)
        return ScaledTile(kernel.factor, base)
    if sparse.issparse(Z) and isinstance(kernel, DistanceKernel | DotKernel):
        if xp is np:
            return SparseTile(kernel, Z, functions)
        return DeviceSparseTile(kernel, Z, functions, device)
    if isinstance(kernel, DistanceKernel):
        return DistanceTile(kernel, Z, dtype, xp, functions)
    if isinstance(kernel, DotKernel):
        return DotTile(kernel, Z, dtype, xp, functions)
    return OwnTile(kernel, Z, dtype, xp)


def _on(like: Any, xp: Any) -> dict[str, Any]:
    return {} if xp is np else {"device": like.device}


def tile_width(kernel: Kernel, Z: Any) -> int:
    """Return how many numbers a prepared centre holds, without preparing any."""
    if isinstance(kernel, Sum | Product):
        return tile_width(kernel.left, Z) + tile_width(kernel.right, Z)
    if isinstance(kernel, Scaled):
        return tile_width(kernel.base, Z)
    if sparse.issparse(Z):
        return len(np.unique(Z.indices))
    return Z.shape[1] + 2 if Z.ndim == 2 else 1


__all__ = ["make_tile", "tile_width"]
