"""The planner's half for GPUs: chunks of rows, tiles, and when to keep the matrix."""

from __future__ import annotations

from dataclasses import dataclass

from tiercel.products.budget import format_bytes
from tiercel.products.fused.launch import padded_outputs
from tiercel.products.fused.split import SMALL, padded_depth
from tiercel.products.planner import BudgetError, Plan, Problem

#: Rows sent at a time: long enough for the bus, short enough to overlap.
SEND_BYTES = 64 * 2**20

#: A tile of plain torch operations; larger ones run no faster.
TORCH_TILE_BYTES = 2**30

#: A tile of torch operations beside the fused kernels, for rows worked in float64.
FAR_TILE_BYTES = 2**26

#: What splitting rows for the fused kernels takes, piece by piece, at most.
SPLITTING_BYTES = 64 * 10**6

#: Rates aimed at on an H200; only the ratio of stored to recomputed entries matters.
STORED_ENTRIES = 1.0e12
FUSED_ENTRIES, FUSED_FLOPS = 3.0e12, 6.0e14
TORCH_ENTRIES, TORCH_FLOPS = 8.0e10, 4.0e13


@dataclass(frozen=True)
class Method:
    """How entries come to be on the device."""

    fused: bool
    stored: bool
    resident: bool
    workers: int  # at a time on one device

    def __str__(self) -> str:
        if self.stored:
            return "kernel matrix kept in device memory"
        how = "fused kernels" if self.fused else "torch tiles"
        return f"{how}, entries recomputed in every product"


def recomputed_rate(problem: Problem, fused: bool) -> float:
    """Return the expected kernel entries per second when they are made again."""
    p = problem
    if fused:
        # Three half-precision products for each column, three more for each output.
        flops = 6.0 * (p.d + (p.outputs if p.outputs > 1 else 0))
        return 1.0 / (1.0 / FUSED_ENTRIES + flops / FUSED_FLOPS)
    return 1.0 / (1.0 / TORCH_ENTRIES + 2.0 * (p.d + p.outputs) / TORCH_FLOPS)


def stored_rate(problem: Problem) -> float:
    """Return the expected entries per second when they are read from memory."""
    flops = 2.0 * problem.outputs
    return 1.0 / (4.0 / (problem.itemsize * STORED_ENTRIES) + flops / TORCH_FLOPS)


def plan_device(
    problem: Problem, method: Method, devices: list[str], budget: int, host: int
) -> Plan:
    """Cut the rows into chunks, and chunks into tiles, for a budget on each device.

    Rows from disk lie on the host while they wait, within the ``host`` budget.
    """
    p = problem
    threads = method.workers * len(devices)
    chunk = p.n
    if not method.resident:
        fair = max(1024, -(-p.n // (2 * threads)))
        chunk = min(p.n, fair, max(SEND_BYTES // p.row_bytes, 4096))
    if p.from_disk:
        chunk = max(1, min(chunk, host // (_copies(threads) * p.row_bytes)))
    tile = _first_tile(p, method, chunk)
    peak = _peak(p, method, chunk, tile, len(devices))
    while peak > budget:
        if not method.fused and tile > 64:
            tile = max(64, tile // 2)
        elif chunk > 1024:
            chunk = max(1024, chunk // 2)
        elif chunk > 64:
            chunk = max(64, chunk // 2)
        elif tile > 1:
            tile //= 2
        else:
            raise BudgetError(
                f"a device budget of {format_bytes(budget)} is too small for "
                f"{p.operation} with {p.m:,} centers and {p.d:,} columns; "
                f"{format_bytes(peak, enough=True)} would do"
            )
        tile = min(tile, chunk)
        peak = _peak(p, method, chunk, tile, len(devices))
    return Plan(
        problem=p,
        device=", ".join(devices),
        method=str(method),
        threads=threads,
        tile_rows=tile,
        tile_columns=min(p.m, 4096) if p.operation == "gram" else p.m,
        block_rows=chunk,
        evaluations=2 if method.fused and p.operation == "gram_product" else 1,
        peak=peak,
        budget=budget,
    )


def _copies(threads: int) -> int:
    """Return how many chunks from disk are on the host: read, waiting, being sent."""
    return 2 + 2 * threads + threads


def _first_tile(p: Problem, method: Method, chunk: int) -> int:
    if method.fused:
        return max(1, min(chunk, FAR_TILE_BYTES // (8 * p.m)))
    return max(1, min(chunk, TORCH_TILE_BYTES // (p.m * p.itemsize)))


def _peak(p: Problem, method: Method, chunk: int, tile: int, n_devices: int) -> int:
    """Return the bytes that one device holds beside inputs and result."""
    workers = method.workers
    sent = 0 if method.resident else chunk * (p.row_bytes + 8 * p.outputs)
    centers = p.m * (p.width * (p.itemsize + 16) + min(p.d, p.width) * p.itemsize)
    vectors = p.m * p.outputs * (p.itemsize + 8)
    if p.operation in ("cross_product", "gram_product"):
        # The total, what the workers are at, and what waits to be added in its turn.
        vectors += (1 + workers + 2 * workers * n_devices) * p.m * p.outputs * 8
    if method.fused:
        rows = p.n if method.resident else workers * chunk
        work = rows * _prepared_bytes(p) + min(rows * p.d * 64, SPLITTING_BYTES)
        # Outputs are padded on the device, and summed in float64 where cut in parts.
        results = chunk * (4 * padded_outputs(p.outputs) + 12 * p.outputs)
        work += workers * (results + 3 * tile * p.m * 8)
    else:
        # Rows far from the centre are worked in float64 beside the tile, and cast.
        layers = 1 + p.spares + (3 if p.itemsize == 4 else 0)
        prepared = (8 if p.itemsize == 4 else 5) * p.row_bytes
        work = workers * tile * (p.m * layers * p.itemsize + prepared)
        work += workers * chunk * p.outputs * 8
    if p.operation == "gram":
        work += 8 * p.m * p.m
    kept = -(-p.n // n_devices) * p.m * p.itemsize if method.stored else 0
    return workers * sent + centers + vectors + work + kept


def _prepared_bytes(p: Problem) -> int:
    """Return what a row takes once it is split in halves, for every leaf's scales."""
    leaves = max(1, round(p.width / (p.d + 2)))
    points = 4 * p.d if p.d <= SMALL else 0
    return leaves * (4 * padded_depth(p.d) + points + 8)
