"""Rows of any depth: the coordinates of a tile pass by in chunks of 64.

One program forms a block of scalar products chunk by chunk, as in a matrix product,
then applies the entry and reduces it: the block is never written.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _long_dot(X, Z, D, BM: tl.constexpr, BN: tl.constexpr, EXACT: tl.constexpr):
    # A point's chunk c lies 64 * 64 halves after its chunk c - 1; tiles are 128 * D.
    ks = tl.arange(0, 64)
    rows = tl.arange(0, BM)[:, None]
    columns = tl.arange(0, BN)[None, :]
    px = X + ((rows // 64) * (128 * D) + (rows % 64) * 64 + ks[None, :])
    pz = Z + ((columns // 64) * (128 * D) + (columns % 64) * 64 + ks[:, None])
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, D, 64):
        high = tl.load(px)
        column_high = tl.load(pz)
        # A fresh accumulator per chunk: long sums in the tensor cores lose digits.
        if EXACT:
            low = tl.load(px + 64 * D)
            column_low = tl.load(pz + 64 * D)
            part = tl.dot(high, column_low, out_dtype=tl.float32)
            part = tl.dot(low, column_high, part)
            acc += tl.dot(high, column_high, part)
        else:
            acc += tl.dot(high, column_high, out_dtype=tl.float32)
        px += 64 * 64
        pz += 64 * 64
    return acc


@triton.jit(do_not_specialize=["tiles_in_all", "tiles_per_split"])
def looped(
    X0,
    A0,
    Z0,
    B0,
    scale0,
    D0,
    X1,
    A1,
    Z1,
    B1,
    scale1,
    D1,
    V,
    out,
    lift,
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
    G: tl.constexpr,
    EXACT: tl.constexpr,
    LIFT: tl.constexpr,
    T: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Write ``out[split, i, :] = sum_j entry(x_i, c_j) V[j, :]``.

    Same arguments as ``kernels_resident.resident``, with the depths D0 and D1
    (multiples of 64) at run time.
    """
    row0 = tl.program_id(0) * BM
    first = tl.program_id(1) * tiles_per_split
    tiles = tl.minimum(tiles_in_all - first, tiles_per_split)
    rows = tl.arange(0, BM)
    columns = tl.arange(0, BN)
    X0 += (row0 // 64).to(tl.int64) * (128 * D0)
    Z0 += first.to(tl.int64) * (128 * D0)
    a0 = tl.load(A0 + row0 + rows)[:, None]
    B0 += first * 64
    if G == 2:
        X1 += (row0 // 64).to(tl.int64) * (128 * D1)
        Z1 += first.to(tl.int64) * (128 * D1)
        a1 = tl.load(A1 + row0 + rows)[:, None]
        B1 += first * 64
    if T == 1:
        V += first * 64
        total = tl.zeros([BM, 8], tl.float32)
    else:
        V += first.to(tl.int64) * (128 * T)
        outputs = tl.arange(0, T)
        at_v = (
            (columns // 64)[:, None] * (128 * T)
            + outputs[None, :] * 64
            + (columns % 64)[:, None]
        )
        total = tl.zeros([BM, T], tl.float32)
    for _ in range(0, tiles * 64, BN):
        u0 = _long_dot(X0, Z0, D0, BM, BN, EXACT) * scale0
        b0 = tl.load(B0 + columns)[None, :]
        if G == 2:
            u1 = _long_dot(X1, Z1, D1, BM, BN, EXACT) * scale1
            b1 = tl.load(B1 + columns)[None, :]
            p = ENTRY(u0, a0, b0, u1, a1, b1, p0, p1, p2, p3, p4, p5, p6, p7)
            Z1 += (BN * 2) * D1
            B1 += BN
        else:
            p = ENTRY(u0, a0, b0, u0, a0, b0, p0, p1, p2, p3, p4, p5, p6, p7)
        Z0 += (BN * 2) * D0
        B0 += BN
        if T == 1:
            p = p * tl.load(V + columns)[None, :]
            total += tl.sum(tl.reshape(p, [BM, BN // 8, 8]), 1)
            V += BN
        else:
            if LIFT:
                p = p * lift
            p_high = p.to(tl.float16)
            p_low = (p - p_high.to(tl.float32)).to(tl.float16)
            v_high = tl.load(V + at_v)
            v_low = tl.load(V + 64 * T + at_v)
            part = tl.dot(p_high, v_low, out_dtype=tl.float32)
            part = tl.dot(p_low, v_high, part)
            total += tl.dot(p_high, v_high, part)
            V += BN * 2 * T
    out += tl.program_id(1).to(tl.int64) * stride_split
    if T == 1:
        tl.store(out + row0 + rows, tl.sum(total, 1))
    else:
        at_out = (row0 + rows).to(tl.int64)[:, None] * T + outputs[None, :]
        tl.store(out + at_out, total)
