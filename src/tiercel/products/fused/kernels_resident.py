"""Resident rows, portable: depth up to 128, any entry, one or two groups.

A program keeps the halves of its rows and goes through the columns tile by tile;
several programs share a multiprocessor, and while one waits for its tensor products
another takes exponentials.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _at(points, ks, D: tl.constexpr):
    # Where coordinate k of a point lies within the high parts (see split.Operand).
    K: tl.constexpr = D if D < 64 else 64
    return (
        (points // 64) * (128 * D) + (points % 64) * K + (ks // K) * (64 * K) + ks % K
    )


@triton.jit
def _dot(high, low, Z, BN: tl.constexpr, D: tl.constexpr, EXACT: tl.constexpr):
    at = _at(tl.arange(0, BN)[None, :], tl.arange(0, D)[:, None], D)
    column_high = tl.load(Z + at)
    if EXACT:
        # Small terms first: they are rounded at their own size, not at the sum's.
        acc = tl.dot(high, tl.load(Z + 64 * D + at), out_dtype=tl.float32)
        acc = tl.dot(low, column_high, acc)
        return tl.dot(high, column_high, acc)
    else:
        return tl.dot(high, column_high, out_dtype=tl.float32)


@triton.jit(do_not_specialize=["tiles_in_all", "tiles_per_split"])
def resident(
    X0,
    A0,
    Z0,
    B0,
    scale0,
    X1,
    A1,
    Z1,
    B1,
    scale1,
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
    FOLD: tl.constexpr,
    EXACT: tl.constexpr,
    LIFT: tl.constexpr,
    T: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D0: tl.constexpr,
    D1: tl.constexpr,
):
    """Write ``out[split, i, :] = sum_j entry(x_i, c_j) V[j, :]``; T = 1, 16, 32 or 64.

    For T = 1, V is a float32 vector; otherwise halves in tiles (see launch.weights).
    """
    row0 = tl.program_id(0) * BM
    first = tl.program_id(1) * tiles_per_split
    tiles = tl.minimum(tiles_in_all - first, tiles_per_split)
    rows = tl.arange(0, BM)
    columns = tl.arange(0, BN)
    X0 += (row0 // 64).to(tl.int64) * (128 * D0)
    at = _at(rows[:, None], tl.arange(0, D0)[None, :], D0)
    high0 = tl.load(X0 + at)
    low0 = tl.load(X0 + 64 * D0 + at)
    a0 = tl.load(A0 + row0 + rows)[:, None]
    Z0 += first.to(tl.int64) * (128 * D0)
    B0 += first * 64
    if G == 2:
        X1 += (row0 // 64).to(tl.int64) * (128 * D1)
        at = _at(rows[:, None], tl.arange(0, D1)[None, :], D1)
        high1 = tl.load(X1 + at)
        low1 = tl.load(X1 + 64 * D1 + at)
        a1 = tl.load(A1 + row0 + rows)[:, None]
        Z1 += first.to(tl.int64) * (128 * D1)
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
        u0 = _dot(high0, low0, Z0, BN, D0, EXACT)
        if FOLD:
            p = tl.exp2(u0)
        else:
            u0 = u0 * scale0
            b0 = tl.load(B0 + columns)[None, :]
            if G == 2:
                u1 = _dot(high1, low1, Z1, BN, D1, EXACT) * scale1
                b1 = tl.load(B1 + columns)[None, :]
                p = ENTRY(u0, a0, b0, u1, a1, b1, p0, p1, p2, p3, p4, p5, p6, p7)
                Z1 += BN * 2 * D1
                B1 += BN
            else:
                p = ENTRY(u0, a0, b0, u0, a0, b0, p0, p1, p2, p3, p4, p5, p6, p7)
        Z0 += BN * 2 * D0
        B0 += BN
        if T == 1:
            # Only within each thread (columns 8 apart): lanes are added up at the end.
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
            # A fresh accumulator per tile: long sums in the tensor cores lose digits.
            part = tl.dot(p_high, v_low, out_dtype=tl.float32)
            part = tl.dot(p_low, v_high, part)
            total += tl.dot(p_high, v_high, part)
            V += BN * 2 * T
    out += tl.program_id(1).to(tl.int64) * stride_split
    if T == 1:
        result = tl.sum(total, 1)
        if FOLD:
            result *= tl.exp2(tl.load(A0 + row0 + rows))
        tl.store(out + row0 + rows, result)
    else:
        if FOLD:
            total *= tl.exp2(a0)
        at_out = (row0 + rows).to(tl.int64)[:, None] * T + outputs[None, :]
        tl.store(out + at_out, total)
