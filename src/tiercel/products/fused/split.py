"""Points prepared for the tensor cores: every coordinate as a sum of two half floats.

``x * scale = high + low`` with ``high = fp16(x * scale)`` and ``low`` what is left of
it, again in half precision. Three products of halves, summed in float32, then give a
scalar product at float32 grade: ``x . c = (high.high' + high.low' + low.high') /
(scale * scale')``; what is dropped, ``low.low'``, is 2**-22 of the whole.

The layout is made for the machine: 64 points form one contiguous *tile* (first all
their high parts, then all their low parts, in chunks of at most 64 coordinates), so
that one bulk copy brings a tile to shared memory whatever the number of points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TILE = 64
"""Points in one tile."""

PAD = 256
"""Points are padded with zeros to a multiple of this, so no kernel needs a mask."""

SMALL = 8
"""Up to this many coordinates the points are kept in float32 beside the halves."""


@dataclass(frozen=True)
class Operand:
    """Points split for one group of a kernel.

    Attributes
    ----------
    tiles : tensor of shape (n_padded / 64, 2, chunks, 64, chunk), float16
        High and low parts, tile after tile.
    squares : tensor of shape (n_padded,), float32
        Squared norm of every point, before scaling by ``scale``; 0 where padded.
    points : tensor of shape (d, n_padded), float32, or None
        The points themselves, one coordinate after another, kept for small ``d``.
    n, d : int
        Shape of the points that were given.
    scale : float
        Power of two by which the points were multiplied before rounding.
    reach : float
        Largest norm among the points.
    """

    tiles: Any
    squares: Any
    points: Any
    n: int
    d: int
    scale: float
    reach: float

    @property
    def n_padded(self) -> int:
        """Return the number of points including padding."""
        return self.squares.shape[0]

    @property
    def depth(self) -> int:
        """Return the number of coordinates including padding."""
        return self.tiles.shape[2] * self.tiles.shape[4]


def padded_depth(d: int) -> int:
    """Return ``d`` rounded up to 16, 32 or a multiple of 64 (128 before 192).

    Examples
    --------
    >>> [padded_depth(d) for d in (3, 17, 40, 100, 129)]
    [16, 32, 64, 128, 192]
    """
    for depth in (16, 32):
        if d <= depth:
            return depth
    return -(-d // 64) * 64


def fitting_scale(largest: float) -> float:
    """Return the power of two that brings ``largest`` to between 2**11 and 2**12.

    There the low parts are exact to 2**-25 without a scale of their own.

    Examples
    --------
    >>> fitting_scale(1.0), fitting_scale(3000.0)
    (2048.0, 1.0)
    """
    import math

    if not (largest > 0.0 and math.isfinite(largest)):
        return 1.0
    return 2.0 ** min(12 - math.frexp(largest)[1], 100)


def prepare(
    points: Any,
    scale: float = 1.0,
    *,
    small: int = SMALL,
    seen: Callable[[slice], Any] | None = None,
) -> Operand:
    """Split ``points`` for the fused kernels; plain torch, on any device.

    Parameters
    ----------
    points : tensor of shape (n, d), float32
        Points, centred and divided by the length scale by the caller.
    scale : float, default=1.0
        Power of two to multiply by before rounding. Both sides of a product may
        have their own.
    small : int, default=8
        Up to this ``d`` the points are kept in float32 beside the halves.
    seen : callable, default=None
        Called with a slice of rows where points are to be centred and scaled on the
        way; returns these rows in float32.

    Returns
    -------
    Operand

    Examples
    --------
    >>> import torch
    >>> operand = prepare(torch.tensor([[3.0, 4.0]]))
    >>> operand.tiles.shape, operand.squares[0].item(), operand.reach
    (torch.Size([4, 2, 1, 64, 16]), 25.0, 5.0)
    """
    import torch

    if points.ndim != 2 or (seen is None and points.dtype != torch.float32):
        raise TypeError(
            f"points must be a float32 matrix, not {points.dtype} with shape "
            f"{tuple(points.shape)}"
        )
    n, d = points.shape
    if n == 0 or d == 0:
        raise ValueError(f"points must not be empty, but their shape is {n} x {d}")
    depth, rows = padded_depth(d), -(-n // PAD) * PAD
    chunk = min(depth, 64)
    device = points.device
    shape = (rows // TILE, 2, depth // chunk, TILE, chunk)
    tiles = torch.zeros(shape, dtype=torch.float16, device=device)
    squares = torch.zeros(rows, dtype=torch.float32, device=device)
    kept = torch.zeros((d, rows), device=device) if d <= small else None
    for at in pieces(n, depth):
        block = points[at] if seen is None else seen(at)
        squares[at] = block.double().square().sum(1).float()
        if kept is not None:
            kept[:, at] = block.T
        last = -(-at.stop // TILE)
        flat = torch.zeros((last * TILE - at.start, depth), device=device)
        flat[: at.stop - at.start, :d] = block * scale
        high = flat.half()
        low = (flat - high.float()).half()
        target = tiles[at.start // TILE : last]
        for part, half in enumerate((high, low)):
            halves = half.view(-1, TILE, depth // chunk, chunk)
            target[:, part] = halves.transpose(1, 2)
    reach = float(squares.max().sqrt())
    return Operand(tiles, squares, kept, n, d, float(scale), reach)


def pieces(n: int, width: int) -> list[slice]:
    """Return ``n`` rows in pieces of some 2**20 numbers, as :func:`prepare` does.

    Examples
    --------
    >>> pieces(1000, 4096)
    [slice(0, 256, None), ..., slice(768, 1000, None)]
    """
    step = max(PAD, (1 << 20) // width // PAD * PAD)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
