"""Products on one device by plain torch tiles: any kernel, any dtype, no Triton.

Tiles are large (they need not fit in a cache, only in the budget) and every step is a
torch operation. This is the path for float64, for kernels without a fused form, and for
machines without Triton; it also runs on torch's CPU device, which is how it is tested
where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from tiercel import _arrays
from tiercel.products.ordered import Shared
from tiercel.products.tiles import cast, make_tile

#: Terms that float32 may add up in one go. Where they are alike their rounding errors
#: lean to one side, and grow with their number.
SHORT = 512


class TorchTiles:
    """Multiply with k(rows, Z) for rows that lie on the device.

    Parameters
    ----------
    kernel, Z, device
        The kernel, the centres as a tensor on the device (or sparse), and the device.
    dtype : torch.dtype
        The dtype of the tiles.
    tile_rows : int
        Rows of a tile; its columns are all the centres.
    """

    def __init__(
        self, kernel: Any, Z: Any, device: Any, dtype: Any, tile_rows: int
    ) -> None:
        import torch

        self.torch, self.device, self.dtype = torch, device, dtype
        self.tile_rows, self.m = tile_rows, Z.shape[0]
        self.tile = make_tile(kernel, Z, dtype, torch, device)

    def cut(self, tile_rows: int) -> TorchTiles:
        """Return the same with tiles of another height; the centres are shared."""
        other = copy(self)
        other.tile_rows = tile_rows
        return other

    def prepare(self, X: Any) -> Any:
        """Return what products with the rows X need; here nothing."""
        return X

    def product(self, X: Any, V: Any) -> Any:
        """Return k(X, Z) V."""
        V = cast(V, self.dtype)
        out = V.new_empty(X.shape[0], V.shape[1])
        for rows, K in self.tiles(X):
            out[rows] = times(K, V)
        return out

    def cross_product(self, X: Any, U: Any) -> Any:
        """Return k(X, Z)' U in float64."""
        total = self._zeros(U.shape[1])
        for rows, K in self.tiles(X):
            add_transposed(total, K, cast(U[rows], self.dtype))
        return total

    def gram_product(self, X: Any, V: Any, weights: Any) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) V in float64, tiles made once."""
        V = cast(V, self.dtype)
        total = self._zeros(V.shape[1])
        for rows, K in self.tiles(X):
            W = times(K, V)
            if weights is not None:
                W *= cast(weights[rows], self.dtype)[:, None]
            add_transposed(total, K, W)
        return total

    def matrix(self, X: Any, out: Any) -> Any:
        """Write k(X, Z) into ``out``, which may lie on another device."""
        for rows, K in self.tiles(X):
            out[rows] = K
        return out

    def add_gram(
        self, X: Any, weights: Any, G: Any, targets: Any, cross: Any, width: int
    ) -> None:
        """Add to the upper block half of K' diag(weights) K, and to K' weights targets.

        Torch has no symmetric rank-k product; blocks of columns save half the work.
        """
        for rows, K in self.tiles(X):
            if weights is not None:
                K *= weights[rows].sqrt()[:, None]
            if targets is not None:
                right = targets[rows]
                if weights is not None:
                    right = right * weights[rows].sqrt()[:, None]
                cross.addmm_(K.T, right)
            for start in range(0, self.m, width):
                stop = min(start + width, self.m)
                G[:stop, start:stop].addmm_(K[:, :stop].T, K[:, start:stop])

    def tiles(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Yield (rows, k(X[rows], Z)); the tile is overwritten by the next."""
        size = min(self.tile_rows, X.shape[0]) * self.m
        buffers = [
            self.torch.empty(size, dtype=self.dtype, device=self.device)
            for _ in range(1 + self.tile.spares)
        ]
        for start in range(0, X.shape[0], self.tile_rows):
            rows = slice(start, min(start + self.tile_rows, X.shape[0]))
            count = rows.stop - start
            K, *spare = [b[: count * self.m].view(count, self.m) for b in buffers]
            self.tile.fill(self.tile.rows(X[rows]), slice(0, self.m), K, spare)
            yield rows, K

    def _zeros(self, outputs: int) -> Any:
        shape, dtype = (self.m, outputs), self.torch.float64
        return self.torch.zeros(shape, dtype=dtype, device=self.device)


class KeptTiles:
    """The same verbs over kernel matrices that were kept: ``prepare`` returns them."""

    def __init__(self, maker: TorchTiles) -> None:
        self.maker = maker

    def prepare(self, X: Any) -> Any:
        """Return k(X, Z), to be kept by the caller."""
        make = self.maker
        shape = (X.shape[0], make.m)
        out = make.torch.empty(shape, dtype=make.dtype, device=make.device)
        return make.matrix(X, out)

    def product(self, K: Any, V: Any) -> Any:
        """Return K V."""
        return times(K, cast(V, K.dtype))

    def cross_product(self, K: Any, U: Any) -> Any:
        """Return K' U in float64."""
        total = K.new_zeros(K.shape[1], U.shape[1], dtype=self.maker.torch.float64)
        add_transposed(total, K, cast(U, K.dtype))
        return total

    def gram_product(self, K: Any, V: Any, weights: Any) -> Any:
        """Return K' diag(weights) K V in float64."""
        W = self.product(K, V)
        if weights is not None:
            W *= cast(weights, K.dtype)[:, None]
        return self.cross_product(K, W)


def times(K: Any, V: Any) -> Any:
    """Return K V, float32 in short sums: rounding in long ones may lean to one side."""
    if K.dtype.itemsize == 8:
        return K @ V
    out = K[:, :SHORT] @ V[:SHORT]
    for start in range(SHORT, K.shape[1], SHORT):
        out += K[:, start : start + SHORT] @ V[start : start + SHORT]
    return out


def add_transposed(total: Any, K: Any, U: Any) -> None:
    """Add K' U to a total in float64, float32 in short sums."""
    step = len(K) if K.dtype.itemsize == 8 else SHORT
    for start in range(0, len(K), step):
        total += K[start : start + step].T @ U[start : start + step]


def _no_tf32() -> Callable[[], object]:
    import torch

    matmul = torch.backends.cuda.matmul
    name: str = "allow_tf32"
    exact: bool | str = False
    try:
        before = matmul.allow_tf32
    except RuntimeError:  # the caller uses the names that came with torch 2.9
        name, exact = "fp32_precision", "ieee"
        before = matmul.fp32_precision
    setattr(matmul, name, exact)
    return lambda: setattr(matmul, name, before)


#: Products of float32 matrices on GPUs are in float32, whatever torch was told: a
#: distance made of tf32 products would be good for nothing.
full_float32 = Shared(_no_tf32)


def as_tensor(array: Any, device: Any = None) -> Any:
    """Return a numpy array or a tensor as a tensor, on a device.

    Arrays that torch would not take, or not without a warning, are copied.
    """
    import torch

    if not _arrays.is_torch(array):
        backwards = any(step < 0 for step in array.strides)
        if backwards or not array.flags.writeable:
            array = np.array(array, order="C")
    return torch.as_tensor(array, device=device)


def mirror_upper(G: Any, step: int = 1024) -> Any:
    """Copy the upper half of a square matrix to its lower half, in place."""
    for a in range(0, len(G), step):
        b = a + step
        G[b:, a:b] = G[a:b, b:].T
        block = G[a:b, a:b]
        block[...] = block.triu() + block.triu(1).T
    return G
