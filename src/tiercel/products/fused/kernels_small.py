"""Points of few coordinates: differences squared and summed on the arithmetic units.

Exact in float32 whatever the spread of the points, which matters to kernels with a kink
at zero; one output.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tiles_in_all", "tiles_per_split"])
def small(
    X,
    Z,
    V,
    out,
    stride_x,
    stride_z,
    tiles_in_all,
    tiles_per_split,
    stride_split,
    p0,
    p1,
    p2,
    p3,
    p4,
    p5,
    p6,
    p7,
    ENTRY: tl.constexpr,
    DISTANCE: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Write ``out[split, i] = sum_j entry(x_i, c_j) V[j]``.

    The entry gets the squared distance as ``a0`` with DISTANCE, else the scalar product
    as ``u0``; the others are zero.
    """
    row0 = tl.program_id(0) * BM
    first = tl.program_id(1) * tiles_per_split
    tiles = tl.minimum(tiles_in_all - first, tiles_per_split)
    rows = row0 + tl.arange(0, BM)
    columns = first * 64 + tl.arange(0, BN)
    x0 = tl.load(X + rows)[:, None]
    if D > 1:
        x1 = tl.load(X + stride_x + rows)[:, None]
    if D > 2:
        x2 = tl.load(X + 2 * stride_x + rows)[:, None]
    if D > 3:
        x3 = tl.load(X + 3 * stride_x + rows)[:, None]
    if D > 4:
        x4 = tl.load(X + 4 * stride_x + rows)[:, None]
    if D > 5:
        x5 = tl.load(X + 5 * stride_x + rows)[:, None]
    if D > 6:
        x6 = tl.load(X + 6 * stride_x + rows)[:, None]
    if D > 7:
        x7 = tl.load(X + 7 * stride_x + rows)[:, None]
    total = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, tiles * 64, BN):
        s = _term(x0, Z, columns, DISTANCE)
        if D > 1:
            s += _term(x1, Z + stride_z, columns, DISTANCE)
        if D > 2:
            s += _term(x2, Z + 2 * stride_z, columns, DISTANCE)
        if D > 3:
            s += _term(x3, Z + 3 * stride_z, columns, DISTANCE)
        if D > 4:
            s += _term(x4, Z + 4 * stride_z, columns, DISTANCE)
        if D > 5:
            s += _term(x5, Z + 5 * stride_z, columns, DISTANCE)
        if D > 6:
            s += _term(x6, Z + 6 * stride_z, columns, DISTANCE)
        if D > 7:
            s += _term(x7, Z + 7 * stride_z, columns, DISTANCE)
        if DISTANCE:
            p = ENTRY(0.0, s, 0.0, 0.0, 0.0, 0.0, p0, p1, p2, p3, p4, p5, p6, p7)
        else:
            p = ENTRY(s, 0.0, 0.0, 0.0, 0.0, 0.0, p0, p1, p2, p3, p4, p5, p6, p7)
        total += p * tl.load(V + columns)[None, :]
        columns += BN
    out += tl.program_id(1).to(tl.int64) * stride_split
    tl.store(out + rows, tl.sum(total, 1))


@triton.jit
def _term(x, Z, columns, DISTANCE: tl.constexpr):
    z = tl.load(Z + columns)[None, :]
    if DISTANCE:
        return (x - z) * (x - z)
    else:
        return x * z
