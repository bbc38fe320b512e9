"""Resident rows on Hopper: tensor cores and exponentials kept busy at the same time.

Every warpgroup holds its rows' halves in registers and two accumulators of 64 columns.
While the tensor cores fill one of them, the other goes through the elementwise function
and is summed up; then they change places. Tiles of columns come two at a time through
a ring in shared memory, each with one bulk copy.

The compiler is free to move arithmetic across the start of an asynchronous product,
and would do all exponentials before it: the overlap would be lost. A wait on a barrier
that has already been passed ends a basic block, and code does not move across that;
such a wait stands on either side of every epilogue (``fence``).
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
def _refill(desc, bars, boxes, first, turn, turns, S: gl.constexpr, NB: gl.constexpr):
    # Turn t brings two tiles, as NB boxes, into slot t % S.
    slot = turn % S
    bar = bars.index(slot)
    wanted = turn < turns
    rows: gl.constexpr = desc.block_type.shape[0]
    mbarrier.expect(bar, NB * desc.block_type.nbytes, pred=wanted)
    for q in gl.static_range(NB):
        tma.async_copy_global_to_shared(
            desc,
            [((first + turn) * NB + q) * rows, 0],
            bar,
            boxes.index(slot * NB + q),
            pred=wanted,
        )


@gluon.jit
def _values(
    acc,
    scale,
    a,
    B,
    tile,
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
    MIXED: gl.constexpr,
    L: gl.constexpr,
):
    if FOLD:
        return _exp2(acc, MIXED)
    else:
        b = gl.load(B + gl.arange(0, 64, layout=gl.SliceLayout(0, L)) + tile * 64)[
            None, :
        ]
        u = acc * scale
        return ENTRY(u, a, b, u, a, b, p0, p1, p2, p3, p4, p5, p6, p7)


@gluon.jit
def _row_sums(p, V, tile, total, BM: gl.constexpr, L: gl.constexpr):
    # Only within each thread (columns 8 apart): lanes are added up once, at the end.
    v = gl.load(V + gl.arange(0, 64, layout=gl.SliceLayout(0, L)) + tile * 64)
    return total + gl.sum(gl.reshape(p * v[None, :], [BM, 8, 8]), 1)


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
    """Write ``out[split, i] = sum_j entry(x_i, c_j) V[j]`` for the columns of a split."""
    L: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [W, 1], [16, 64, 16])
    AL: gl.constexpr = gl.DotOperandLayout(0, L, 2)
    K: gl.constexpr = desc.block_type.shape[1]
    NB: gl.constexpr = 4 * 64 * D // (K * desc.block_type.shape[0])
    row0 = gl.program_id(0) * BM
    first = gl.program_id(1) * turns_per_split
    turns = gl.minimum(turns_in_all - first, turns_per_split)
    V += first * 128
    B += first * 128

    tiles = gl.allocate_shared_memory(gl.float16, [S * 4, 64, D], desc.layout)
    boxes = tiles._reinterpret(
        gl.float16, [S * NB] + desc.block_type.shape, desc.layout
    )
    bars = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
    for q in gl.static_range(S):
        mbarrier.init(bars.index(q), count=1)
    fence_async_shared()
    for q in gl.static_range(S):
        _refill(desc, bars, boxes, first, q, turns, S, NB)

    rows = gl.arange(0, BM, layout=gl.SliceLayout(1, AL))[:, None]
    ks = gl.arange(0, D, layout=gl.SliceLayout(0, AL))[None, :]
    X += (row0 // 64).to(gl.int64) * (128 * D)
    at = (rows // 64) * (128 * D) + (rows % 64) * K + (ks // K) * (64 * K) + ks % K
    high = gl.load(X + at)
    low = gl.load(X + at + 64 * D)
    a = gl.load(A + row0 + gl.arange(0, BM, layout=gl.SliceLayout(1, L)))[:, None]

    acc0 = gl.zeros([BM, 64], gl.float32, layout=L)
    acc1 = acc0
    total = gl.sum(gl.reshape(acc0, [BM, 8, 8]), 1)
    mbarrier.wait(bars.index(0), 0)
    busy = _dot(high, low, tiles, 0, acc0, EXACT)
    acc0 = warpgroup_mma_wait(0, [busy])
    for t in range(turns):
        now = t % S
        here = bars.index(now)
        phase = (t // S) & 1
        busy = _dot(high, low, tiles, now * 4 + 2, acc1, EXACT)
        mbarrier.wait(here, phase)  # passed before: a fence for the compiler
        p = _values(
            acc0,
            scale,
            a,
            B,
            2 * t,
            p0,
            p1,
            p2,
            p3,
            p4,
            p5,
            p6,
            p7,
            ENTRY,
            FOLD,
            MIXED,
            L,
        )
        total = _row_sums(p, V, 2 * t, total, BM, L)
        mbarrier.wait(here, phase)
        acc1 = warpgroup_mma_wait(0, [busy])
        later = (t + 1) % S
        there = bars.index(later)
        phase = ((t + 1) // S) & 1
        more = t + 1 < turns
        mbarrier.wait(there, phase, pred=more)
        busy = _dot(high, low, tiles, later * 4, acc0, EXACT)
        _refill(desc, bars, boxes, first, t + S, turns, S, NB)
        mbarrier.wait(there, phase, pred=more)
        p = _values(
            acc1,
            scale,
            a,
            B,
            2 * t + 1,
            p0,
            p1,
            p2,
            p3,
            p4,
            p5,
            p6,
            p7,
            ENTRY,
            FOLD,
            MIXED,
            L,
        )
        total = _row_sums(p, V, 2 * t + 1, total, BM, L)
        mbarrier.wait(there, phase, pred=more)
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
def _halves(p, L: gl.constexpr):
    # The entries as two half-precision operands of the second product.
    high = p.to(gl.float16)
    low = (p - high.to(gl.float32)).to(gl.float16)
    return gl.convert_layout(high, L), gl.convert_layout(low, L)


@gluon.jit
def _weighted(high, low, weights, tile, acc, T: gl.constexpr):
    # A fresh accumulator per tile: long sums inside the tensor cores lose digits.
    if T <= 16:  # high and low parts of the weights side by side, in one product
        v = weights.index(tile).permute((1, 0))
        acc = warpgroup_mma(low, v, acc, use_acc=False, is_async=True)
        acc = warpgroup_mma(high, v, acc, is_async=True)
    else:
        v_high = weights.index(2 * tile).permute((1, 0))
        v_low = weights.index(2 * tile + 1).permute((1, 0))
        acc = warpgroup_mma(high, v_low, acc, use_acc=False, is_async=True)
        acc = warpgroup_mma(low, v_high, acc, is_async=True)
        acc = warpgroup_mma(high, v_high, acc, is_async=True)
    return acc


@gluon.jit
def _refill_both(
    desc,
    v_desc,
    bars,
    boxes,
    v_boxes,
    first,
    turn,
    turns,
    S: gl.constexpr,
    NB: gl.constexpr,
):
    slot = turn % S
    bar = bars.index(slot)
    wanted = turn < turns
    rows: gl.constexpr = desc.block_type.shape[0]
    nbytes: gl.constexpr = NB * desc.block_type.nbytes + v_desc.block_type.nbytes
    mbarrier.expect(bar, nbytes, pred=wanted)
    for q in gl.static_range(NB):
        tma.async_copy_global_to_shared(
            desc,
            [((first + turn) * NB + q) * rows, 0],
            bar,
            boxes.index(slot * NB + q),
            pred=wanted,
        )
    tma.async_copy_global_to_shared(
        v_desc,
        [(first + turn) * v_desc.block_type.shape[0], 0],
        bar,
        v_boxes.index(slot),
        pred=wanted,
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
    AL: gl.constexpr = gl.DotOperandLayout(0, L, 2)
    WIDE: gl.constexpr = 2 * T if T <= 16 else T
    OL: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [W, 1], [16, WIDE, 16])
    PL: gl.constexpr = gl.DotOperandLayout(0, OL, 2)
    K: gl.constexpr = desc.block_type.shape[1]
    NB: gl.constexpr = 4 * 64 * D // (K * desc.block_type.shape[0])
    row0 = gl.program_id(0) * BM
    first = gl.program_id(1) * turns_per_split
    turns = gl.minimum(turns_in_all - first, turns_per_split)
    B += first * 128

    tiles = gl.allocate_shared_memory(gl.float16, [S * 4, 64, D], desc.layout)
    boxes = tiles._reinterpret(
        gl.float16, [S * NB] + desc.block_type.shape, desc.layout
    )
    NV: gl.constexpr = S * 4 * T // WIDE
    weights = gl.allocate_shared_memory(gl.float16, [NV, WIDE, 64], v_desc.layout)
    v_boxes = weights._reinterpret(
        gl.float16, [S] + v_desc.block_type.shape, v_desc.layout
    )
    bars = gl.allocate_shared_memory(gl.int64, [S, 1], mbarrier.MBarrierLayout())
    for q in gl.static_range(S):
        mbarrier.init(bars.index(q), count=1)
    fence_async_shared()
    for q in gl.static_range(S):
        _refill_both(desc, v_desc, bars, boxes, v_boxes, first, q, turns, S, NB)

    rows = gl.arange(0, BM, layout=gl.SliceLayout(1, AL))[:, None]
    ks = gl.arange(0, D, layout=gl.SliceLayout(0, AL))[None, :]
    X += (row0 // 64).to(gl.int64) * (128 * D)
    at = (rows // 64) * (128 * D) + (rows % 64) * K + (ks // K) * (64 * K) + ks % K
    high = gl.load(X + at)
    low = gl.load(X + at + 64 * D)
    a = gl.load(A + row0 + gl.arange(0, BM, layout=gl.SliceLayout(1, L)))[:, None]

    acc0 = gl.zeros([BM, 64], gl.float32, layout=L)
    acc1 = acc0
    part = gl.zeros([BM, WIDE], gl.float32, layout=OL)
    total = part
    mbarrier.wait(bars.index(0), 0)
    busy = _dot(high, low, tiles, 0, acc0, EXACT)
    acc0 = warpgroup_mma_wait(0, [busy])
    for t in range(turns):
        now = t % S
        here = bars.index(now)
        phase = (t // S) & 1
        busy = _dot(high, low, tiles, now * 4 + 2, acc1, EXACT)
        mbarrier.wait(here, phase)  # passed before: a fence for the compiler
        p = _values(
            acc0,
            scale,
            a,
            B,
            2 * t,
            p0,
            p1,
            p2,
            p3,
            p4,
            p5,
            p6,
            p7,
            ENTRY,
            FOLD,
            MIXED,
            L,
        )
        if LIFT:
            p = p * lift
        p_high, p_low = _halves(p, PL)
        mbarrier.wait(here, phase)
        busy_part = _weighted(p_high, p_low, weights, now * 2, part, T)
        acc1, part = warpgroup_mma_wait(0, [busy, busy_part])
        total += part
        later = (t + 1) % S
        there = bars.index(later)
        later_phase = ((t + 1) // S) & 1
        more = t + 1 < turns
        mbarrier.wait(there, later_phase, pred=more)
        busy = _dot(high, low, tiles, later * 4, acc0, EXACT)
        mbarrier.wait(here, phase)
        p = _values(
            acc1,
            scale,
            a,
            B,
            2 * t + 1,
            p0,
            p1,
            p2,
            p3,
            p4,
            p5,
            p6,
            p7,
            ENTRY,
            FOLD,
            MIXED,
            L,
        )
        if LIFT:
            p = p * lift
        p_high, p_low = _halves(p, PL)
        mbarrier.wait(here, phase)
        busy_part = _weighted(p_high, p_low, weights, now * 2 + 1, part, T)
        acc0, part = warpgroup_mma_wait(0, [busy, busy_part])
        total += part
        _refill_both(desc, v_desc, bars, boxes, v_boxes, first, t + S, turns, S, NB)

    if T <= 16:
        total = gl.reshape(total, [BM, 2, T])
        total = gl.sum(total, 1)
    SL: gl.constexpr = gl.BlockedLayout([1, 4], [32 * 4 // T, T // 4], [W, 1], [1, 0])
    total = gl.convert_layout(total, SL)
    at_rows = row0 + gl.arange(0, BM, layout=gl.SliceLayout(1, SL))
    columns = gl.arange(0, T, layout=gl.SliceLayout(0, SL))
    if FOLD:
        total *= gl.exp2(gl.load(A + at_rows))[:, None]
    out += gl.program_id(1).to(gl.int64) * stride_split
    gl.store(out + at_rows.to(gl.int64)[:, None] * T + columns[None, :], total)
