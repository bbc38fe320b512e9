"""Resident rows on Hopper: tensor cores and exponentials kept busy at the same time.

Every warpgroup holds its rows' halves in registers and two accumulators of 64 columns.
While the tensor cores fill one of them, the other goes through the elementwise function
and is summed up; then they change places. Tiles of columns come two at a time through
a ring in shared memory, each pair with one bulk copy (two where a tile is 128 deep).

The overlap has to be defended against the compiler, which is free to move arithmetic
across the start and the end of an asynchronous product. Before it: a wait on a barrier
that has already been passed ends a basic block, and code does not move up across that.
After it: ``_settled`` makes a side effect depend on the sums, so that they cannot be
put off until the accumulator is wanted for the next product.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Sizes change from call to call: one compiled kernel serves them all.
_SIZES = ["turns_in_all", "turns_per_split"]

# Three exponentials on the special-function unit and one on the multiply-add units:
# 2**x = 2**n 2**f with n the nearest integer (magic constant 1.5 * 2**23) and a
# polynomial of degree 5 in f, the minimax one on [-1/2, 1/2] (relative error 2e-7).
_MIXED_EXP2 = gl.constexpr(
    """{
    .reg .f32 t, r, f, p;
    .reg .b32 i, j;
    ex2.approx.ftz.f32 $0, $4;
    ex2.approx.ftz.f32 $1, $5;
    ex2.approx.ftz.f32 $2, $6;
    add.rn.f32 t, $7, 0f4B400000;
    add.rn.f32 r, t, 0fCB400000;
    sub.rn.f32 f, $7, r;
    fma.rn.f32 p, f, 0f3AAE0473, 0f3C1E8629;
    fma.rn.f32 p, p, f, 0f3D635B72;
    fma.rn.f32 p, p, f, 0f3E75FC8C;
    fma.rn.f32 p, p, f, 0f3F317214;
    fma.rn.f32 p, p, f, 0f3F800001;
    mov.b32 i, t;
    mov.b32 j, p;
    shl.b32 i, i, 23;
    add.s32 j, i, j;
    mov.b32 $3, j;
    }"""
)

# A statement with a side effect (that never happens: no sum has all bits set), which
# neither compiler moves, and which needs the four sums.
_SETTLED = gl.constexpr(
    """{
    .reg .pred never;
    .reg .b32 s, t;
    and.b32 s, $4, $5;
    and.b32 t, $6, $7;
    and.b32 s, s, t;
    setp.eq.s32 never, s, -1;
    @never nanosleep.u32 20;
    mov.b32 $0, $4;
    mov.b32 $1, $5;
    mov.b32 $2, $6;
    mov.b32 $3, $7;
    }"""
)


@gluon.jit
def _ring(desc, D: gl.constexpr, S: gl.constexpr):
    # Shared memory for S turns: as tiles (high, low, high, low), as boxes to copy to,
    # and the barriers that say when a turn has come.
    BOX: gl.constexpr = desc.block_type.shape[0]
    K: gl.constexpr = desc.block_type.shape[1]
    tiles = gl.allocate_shared_memory(gl.float16, [S * 4, 64, D], desc.layout)
    boxes = tiles._reinterpret(
        gl.float16, [S * 256 * D // (BOX * K), BOX, K], desc.layout
    )
    bars = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
    for q in gl.static_range(S):
        mbarrier.init(bars.index(q), count=1)
    fence_async_shared()
    return tiles, boxes, bars


@gluon.jit
def _refill(
    desc, bars, boxes, first, turn, turns, S: gl.constexpr, MORE: gl.constexpr = 0
):
    # Turn t brings two tiles into slot t % S; MORE bytes come by somebody else's copy.
    BOX: gl.constexpr = desc.block_type.shape[0]
    NB: gl.constexpr = boxes.shape[0] // S
    slot = turn % S
    bar = bars.index(slot)
    wanted = turn < turns
    mbarrier.expect(bar, NB * desc.block_type.nbytes + MORE, pred=wanted)
    for q in gl.static_range(NB):
        tma.async_copy_global_to_shared(
            desc,
            [((first + turn) * NB + q) * BOX, 0],
            bar,
            boxes.index(slot * NB + q),
            pred=wanted,
        )


@gluon.jit
def _rows(
    X, A, row0, K: gl.constexpr, D: gl.constexpr, BM: gl.constexpr, L: gl.constexpr
):
    # The halves of a program's rows as left operands, and their norms.
    AL: gl.constexpr = gl.DotOperandLayout(0, L, 2)
    rows = gl.arange(0, BM, layout=gl.SliceLayout(1, AL))[:, None]
    ks = gl.arange(0, D, layout=gl.SliceLayout(0, AL))[None, :]
    X += (row0 // 64).to(gl.int64) * (128 * D)
    at = (rows // 64) * (128 * D) + (rows % 64) * K + (ks // K) * (64 * K) + ks % K
    a = gl.load(A + row0 + gl.arange(0, BM, layout=gl.SliceLayout(1, L)))
    return gl.load(X + at), gl.load(X + at + 64 * D), a[:, None]


@gluon.jit
def _dot(high, low, tiles, first, acc, EXACT: gl.constexpr):
    # Small terms first: they are rounded at their own size, not at the sum's.
    column_high = tiles.index(first).permute((1, 0))
    if EXACT:
        column_low = tiles.index(first + 1).permute((1, 0))
        acc = warpgroup_mma(high, column_low, acc, use_acc=False, is_async=True)
        acc = warpgroup_mma(low, column_high, acc, is_async=True)
        acc = warpgroup_mma(high, column_high, acc, is_async=True)
    else:
        acc = warpgroup_mma(high, column_high, acc, use_acc=False, is_async=True)
    return acc


@gluon.jit
def _exp2(x, MIXED: gl.constexpr):
    if MIXED:
        return gl.inline_asm_elementwise(
            _MIXED_EXP2,
            "=f,=f,=f,=f,f,f,f,f",
            [x],
            dtype=gl.float32,
            is_pure=True,
            pack=4,
        )
    else:
        return gl.exp2(x)


@gluon.jit
def _values(
    acc,
    tile,
    a,
    B,
    scale,
    p,
    ENTRY: gl.constexpr,
    FOLD: gl.constexpr,
    MIXED: gl.constexpr,
    L: gl.constexpr,
):
    if FOLD:
        return _exp2(acc, MIXED)
    else:
        columns = tile * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, L))
        b = gl.load(B + columns)[None, :]
        u = acc * scale
        return ENTRY(u, a, b, u, a, b, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7])


@gluon.jit
def _row_sums(p, V, tile, total, BM: gl.constexpr, L: gl.constexpr):
    # Only within each thread (columns 8 apart): lanes are added up once, at the end.
    v = gl.load(V + tile * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, L)))
    total += gl.sum(gl.reshape(p * v[None, :], [BM, 8, 8]), 1)
    return gl.inline_asm_elementwise(
        _SETTLED,
        "=r,=r,=r,=r,r,r,r,r",
        [total],
        dtype=gl.float32,
        is_pure=False,
        pack=4,
    )


@gluon.jit(do_not_specialize=_SIZES)
def one_output(
    X,
    A,
    desc,
    B,
    V,
    out,
    scale,
    turns_in_all,
    turns_per_split,
    stride_split,
    p0,
    p1,
    p2,
    p3,
    p4,
    p5,
    p6,
    p7,
    ENTRY: gl.constexpr,
    FOLD: gl.constexpr,
    EXACT: gl.constexpr,
    MIXED: gl.constexpr,
    BM: gl.constexpr,
    D: gl.constexpr,
    S: gl.constexpr,
    W: gl.constexpr,
):
    """Write ``out[split, i] = sum_j entry(x_i, c_j) V[j]`` for a split's columns."""
    L: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [W, 1], [16, 64, 16])
    row0 = gl.program_id(0) * BM
    first = gl.program_id(1) * turns_per_split
    turns = gl.minimum(turns_in_all - first, turns_per_split)
    V += first * 128
    B += first * 128
    p = (p0, p1, p2, p3, p4, p5, p6, p7)

    tiles, boxes, bars = _ring(desc, D, S)
    for q in gl.static_range(S):
        _refill(desc, bars, boxes, first, q, turns, S)
    high, low, a = _rows(X, A, row0, desc.block_type.shape[1], D, BM, L)

    acc0 = gl.zeros([BM, 64], gl.float32, layout=L)
    acc1 = acc0
    total = gl.sum(gl.reshape(acc0, [BM, 8, 8]), 1)
    mbarrier.wait(bars.index(0), 0)
    busy = _dot(high, low, tiles, 0, acc0, EXACT)
    acc0 = warpgroup_mma_wait(0, [busy])
    for t in range(turns):
        now = t % S
        busy = _dot(high, low, tiles, now * 4 + 2, acc1, EXACT)
        mbarrier.wait(bars.index(now), (t // S) & 1)  # passed before: for the compiler
        k = _values(acc0, 2 * t, a, B, scale, p, ENTRY, FOLD, MIXED, L)
        total = _row_sums(k, V, 2 * t, total, BM, L)
        acc1 = warpgroup_mma_wait(0, [busy])

        later = (t + 1) % S
        there = bars.index(later)
        phase = ((t + 1) // S) & 1
        more = t + 1 < turns
        mbarrier.wait(there, phase, pred=more)
        busy = _dot(high, low, tiles, later * 4, acc0, EXACT)
        _refill(desc, bars, boxes, first, t + S, turns, S)
        mbarrier.wait(there, phase, pred=more)
        k = _values(acc1, 2 * t + 1, a, B, scale, p, ENTRY, FOLD, MIXED, L)
        total = _row_sums(k, V, 2 * t + 1, total, BM, L)
        acc0 = warpgroup_mma_wait(0, [busy])

    result = gl.sum(total, 1)
    OL: gl.constexpr = gl.BlockedLayout([1], [32], [W], [0])
    result = gl.convert_layout(result, OL)
    at_rows = row0 + gl.arange(0, BM, layout=OL)
    if FOLD:
        result *= gl.exp2(gl.load(A + at_rows))
    out += gl.program_id(1).to(gl.int64) * stride_split
    gl.store(out + at_rows, result)


@gluon.jit
def _halves(p, lift, LIFT: gl.constexpr, L: gl.constexpr):
    # The entries as two half-precision operands of the second product.
    if LIFT:
        p = p * lift
    high = p.to(gl.float16)
    low = (p - high.to(gl.float32)).to(gl.float16)
    return gl.convert_layout(high, L), gl.convert_layout(low, L)


@gluon.jit
def _weighted(halves, weights, tile, acc):
    # A fresh accumulator per tile: long sums inside the tensor cores lose digits.
    high, low = halves
    v_high = weights.index(2 * tile).permute((1, 0))
    v_low = weights.index(2 * tile + 1).permute((1, 0))
    acc = warpgroup_mma(high, v_low, acc, use_acc=False, is_async=True)
    acc = warpgroup_mma(low, v_high, acc, is_async=True)
    return warpgroup_mma(high, v_high, acc, is_async=True)


@gluon.jit
def _refill_both(
    desc, v_desc, bars, boxes, v_boxes, first, turn, turns, S: gl.constexpr
):
    _refill(desc, bars, boxes, first, turn, turns, S, v_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(
        v_desc,
        [(first + turn) * v_desc.block_type.shape[0], 0],
        bars.index(turn % S),
        v_boxes.index(turn % S),
        pred=turn < turns,
    )


@gluon.jit(do_not_specialize=_SIZES)
def many_outputs(
    X,
    A,
    desc,
    B,
    v_desc,
    out,
    scale,
    lift,
    turns_in_all,
    turns_per_split,
    stride_split,
    p0,
    p1,
    p2,
    p3,
    p4,
    p5,
    p6,
    p7,
    ENTRY: gl.constexpr,
    FOLD: gl.constexpr,
    EXACT: gl.constexpr,
    MIXED: gl.constexpr,
    LIFT: gl.constexpr,
    T: gl.constexpr,
    BM: gl.constexpr,
    D: gl.constexpr,
    S: gl.constexpr,
    W: gl.constexpr,
):
    """Write ``out[split, i, :] = sum_j entry(x_i, c_j) V[j, :]``, T = 16, 32 or 64.

    Entries are multiplied by ``lift`` (a power of two) before they are split in halves.
    """
    L: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [W, 1], [16, 64, 16])
    OL: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [W, 1], [16, T, 16])
    PL: gl.constexpr = gl.DotOperandLayout(0, OL, 2)
    row0 = gl.program_id(0) * BM
    first = gl.program_id(1) * turns_per_split
    turns = gl.minimum(turns_in_all - first, turns_per_split)
    B += first * 128
    p = (p0, p1, p2, p3, p4, p5, p6, p7)

    tiles, boxes, bars = _ring(desc, D, S)
    weights = gl.allocate_shared_memory(gl.float16, [S * 4, T, 64], v_desc.layout)
    v_boxes = weights._reinterpret(gl.float16, [S, 4 * T, 64], v_desc.layout)
    for q in gl.static_range(S):
        _refill_both(desc, v_desc, bars, boxes, v_boxes, first, q, turns, S)
    high, low, a = _rows(X, A, row0, desc.block_type.shape[1], D, BM, L)

    acc0 = gl.zeros([BM, 64], gl.float32, layout=L)
    acc1 = acc0
    part = gl.zeros([BM, T], gl.float32, layout=OL)
    total = part
    mbarrier.wait(bars.index(0), 0)
    busy = _dot(high, low, tiles, 0, acc0, EXACT)
    acc0 = warpgroup_mma_wait(0, [busy])
    for t in range(turns):
        now = t % S
        here = bars.index(now)
        phase = (t // S) & 1
        busy = _dot(high, low, tiles, now * 4 + 2, acc1, EXACT)
        mbarrier.wait(here, phase)  # passed before: for the compiler
        k = _values(acc0, 2 * t, a, B, scale, p, ENTRY, FOLD, MIXED, L)
        halves = _halves(k, lift, LIFT, PL)
        busy_part = _weighted(halves, weights, now * 2, part)
        acc1, part = warpgroup_mma_wait(0, [busy, busy_part])
        total += part

        later = (t + 1) % S
        mbarrier.wait(bars.index(later), ((t + 1) // S) & 1, pred=t + 1 < turns)
        busy = _dot(high, low, tiles, later * 4, acc0, EXACT)
        mbarrier.wait(here, phase)  # the same
        k = _values(acc1, 2 * t + 1, a, B, scale, p, ENTRY, FOLD, MIXED, L)
        halves = _halves(k, lift, LIFT, PL)
        busy_part = _weighted(halves, weights, now * 2 + 1, part)
        acc0, part = warpgroup_mma_wait(0, [busy, busy_part])
        total += part
        _refill_both(desc, v_desc, bars, boxes, v_boxes, first, t + S, turns, S)

    SL: gl.constexpr = gl.BlockedLayout([1, 4], [32 * 4 // T, T // 4], [W, 1], [1, 0])
    total = gl.convert_layout(total, SL)
    at_rows = row0 + gl.arange(0, BM, layout=gl.SliceLayout(1, SL))
    columns = gl.arange(0, T, layout=gl.SliceLayout(0, SL))
    if FOLD:
        total *= gl.exp2(gl.load(A + at_rows))[:, None]
    out += gl.program_id(1).to(gl.int64) * stride_split
    gl.store(out + at_rows.to(gl.int64)[:, None] * T + columns[None, :], total)
