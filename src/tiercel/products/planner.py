"""One planner for all memory: from a budget to tiles, threads and passes.

Everything that is allocated beside the inputs and the result is counted here, and
nothing else decides a size. A :class:`Plan` prints what it decided.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from tiercel.products.budget import format_bytes
from tiercel.products.precision import REMADE

#: A tile should stay in a core's share of the cache.
TILE_BYTES = 3 * 2**20
MIN_TILE_ROWS, MAX_TILE_ROWS = 16, 512
MIN_TILE_COLUMNS = 256

#: Tiles of one piece: enough to make the hand-over to a thread cheap.
PIECE_TILES = 16

#: Rows of a Gram matrix that one thread adds to at a time.
PANEL = 256

#: Rows read at a time from disk: long sequential reads.
READ_BYTES = 32 * 2**20

#: Threads that tiles are cut for: were it those at work, a small budget would make
#: the tiles, and with them the rounding, depend on the machine.
NOMINAL_THREADS = 16

#: Below this many kernel entries threads cost more than they bring.
SMALL = 2**20


class BudgetError(ValueError):
    """The memory budget is below what the smallest tiles need."""


@dataclass(frozen=True)
class Problem:
    """The sizes that decide a plan."""

    operation: str
    n: int
    m: int
    d: int
    outputs: int
    itemsize: int
    width: int  # numbers that a prepared centre holds
    row_bytes: int  # of the data as they are
    spares: int = 0  # tile-sized arrays beside the tile
    from_disk: bool = False
    slices_copy: bool = False  # as those of sparse rows do
    held: int = 0  # bytes that a source of rows needs for itself


@dataclass(frozen=True)
class Plan:
    """How a product is cut up, and what that needs; ``print(plan)`` explains it."""

    problem: Problem
    device: str
    method: str
    threads: int
    tile_rows: int
    tile_columns: int
    block_rows: int
    evaluations: int
    peak: int
    budget: int

    @property
    def piece_rows(self) -> int:
        """Rows that one thread works through before it adds its sum to the total."""
        rows = PIECE_TILES * self.tile_rows
        fair = -(-self.problem.n // (64 * self.tile_rows)) * self.tile_rows
        return max(self.tile_rows, min(rows, fair))

    def __str__(self) -> str:
        p = self.problem
        blocks = -(-p.n // self.block_rows)
        lines = [
            f"{p.operation} with k(X, Z): {p.n:,} x {p.m:,} entries, {p.d:,} columns, "
            f"{p.outputs} outputs, float{8 * p.itemsize}",
            f"  on {self.device}, {self.method}; every entry is computed "
            f"{'once' if self.evaluations == 1 else 'twice'}",
            f"  tiles of {self.tile_rows:,} x {self.tile_columns:,}, "
            f"{self.threads} at a time",
        ]
        if p.from_disk:
            lines.append(
                f"  {blocks:,} blocks of {self.block_rows:,} rows, read ahead from disk"
            )
        lines.append(
            f"  working memory {format_bytes(self.peak)} "
            f"of a budget of {format_bytes(self.budget)}"
        )
        return "\n".join(lines)


def cpu_threads() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def plan_cpu(problem: Problem, budget: int, threads: int | None = None) -> Plan:
    """Choose tiles for the processor, as large as cache and budget allow."""
    p = problem
    rows = min(max(TILE_BYTES // (p.m * p.itemsize), 64), MAX_TILE_ROWS)
    rows = max(1, min(rows, p.n))
    columns = p.m
    if p.operation in ("product", "matrix"):
        # No second use of the row: let the tile be square enough for the cache.
        columns = min(p.m, max(MIN_TILE_COLUMNS, TILE_BYTES // (rows * p.itemsize)))
    block = p.n
    if p.from_disk:
        block = max(rows, min(p.n, READ_BYTES // p.row_bytes))
    plan = _cpu(p, budget, NOMINAL_THREADS, rows, columns, block)
    while plan.peak > budget:
        smaller = _shrink(plan)
        if smaller is None:
            raise BudgetError(
                f"a memory budget of {format_bytes(budget)} is too small for "
                f"{p.operation} with {p.m:,} centers and {p.d:,} columns; "
                f"{format_bytes(plan.peak, enough=True)} would do"
            )
        plan = smaller
    if threads is None:
        threads = cpu_threads() if p.n * p.m > SMALL else 1
    sizes = plan.tile_rows, plan.tile_columns, plan.block_rows
    fitting = (_cpu(p, budget, t, *sizes) for t in range(threads, 0, -1))
    return next(plan for plan in fitting if plan.peak <= budget)


def _shrink(plan: Plan) -> Plan | None:
    """Return the next smaller plan: what costs least speed goes first."""
    p = plan.problem
    threads, rows = plan.threads, plan.tile_rows
    columns, block = plan.tile_columns, plan.block_rows
    if p.from_disk and block > max(rows, 4096):
        block = max(rows, block // 2)
    elif rows > 64:
        rows = max(64, rows // 2)
    elif columns > 4 * MIN_TILE_COLUMNS and p.operation != "gram":
        columns = max(4 * MIN_TILE_COLUMNS, columns // 2)
    elif threads > 1:
        threads = 1
    elif rows > MIN_TILE_ROWS:
        rows = max(MIN_TILE_ROWS, rows // 2)
    elif columns > MIN_TILE_COLUMNS and p.operation != "gram":
        columns = max(MIN_TILE_COLUMNS, columns // 2)
    elif p.from_disk and block > rows:
        block = max(rows, block // 2)
    else:
        return None
    return _cpu(p, plan.budget, threads, rows, columns, block)


def _cpu(
    p: Problem, budget: int, threads: int, rows: int, columns: int, block: int
) -> Plan:
    accumulates = p.operation in ("cross_product", "gram_product")
    twice = p.operation == "gram_product" and columns < p.m
    tile = rows * columns * p.itemsize * (1 + p.spares)
    left = 5 * rows * p.row_bytes  # scaled rows
    if p.itemsize == 4:
        # Rows far from the centre are worked in float64, all of them by way of it.
        tile += min(rows * columns, max(REMADE, columns)) * 12
        left = 8 * rows * p.row_bytes
    right = p.width * p.m * (p.itemsize + 16)
    vectors = p.m * p.outputs * p.itemsize + rows * p.outputs * 8 * threads
    sums = (2 * threads + 2) * p.m * p.outputs * 8 if accumulates else 0
    read = 3 * block * p.row_bytes + p.held if p.from_disk else 0
    peak = threads * (tile + left) + right + vectors + sums + read
    if p.operation == "gram":
        # The Gram matrix is made of tall blocks, several tiles high, and of panels.
        peak += gram_rows(rows, p.n) * p.m * 8
        peak += threads * min(PANEL, p.m) * p.m * 8
    plan = Plan(
        problem=p,
        device="cpu",
        method="tiles recomputed in every product",
        threads=threads,
        tile_rows=rows,
        tile_columns=columns,
        block_rows=block,
        evaluations=2 if twice else 1,
        peak=peak,
        budget=budget,
    )
    if p.slices_copy:
        copies = gram_rows(rows, p.n) if p.operation == "gram" else plan.piece_rows
        plan = replace(plan, peak=peak + threads * copies * p.row_bytes)
    return plan


def gram_rows(tile_rows: int, n: int) -> int:
    """Return the height of the blocks whose Gram matrices are added up."""
    return min(n, 16 * tile_rows)


def stored(plan: Plan) -> Plan:
    """Return the plan of products with a kernel matrix that is kept."""
    p = plan.problem
    return replace(
        plan,
        method="kernel matrix kept in memory",
        peak=plan.peak + p.n * p.m * p.itemsize,
    )
