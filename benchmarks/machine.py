"""What this machine's processor can do at best: the roofline for kernel products."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.environment import cores
from benchmarks.harness import Benchmark, Contestant
from tiercel.products.elementwise import exp_float32, exp_float64

CENTERS = 1500
BLOCK = 256  # rows of a tile, so that it stays in the cache


@dataclass
class Data:
    """Blocks of rows, the centers, and the exponents of one block."""

    blocks: list[np.ndarray]
    centers: np.ndarray
    exponents: np.ndarray

    @property
    def last(self) -> np.ndarray:
        """The block that the first thread comes to last; its tile is the answer."""
        return self.blocks[:: cores()][-1]


def prepare(rows: int, d: int, dtype: str) -> Data:
    random = np.random.default_rng(0)
    points = random.uniform(0, 1, (rows, d)).astype(dtype)
    centers = -random.uniform(0, 4 / d, (d, CENTERS)).astype(dtype)
    data = Data(np.split(points, rows // BLOCK), centers, np.empty(0))
    data.exponents = data.last @ centers
    return data


def sweep(data: Data, work: Callable[[np.ndarray, np.ndarray], Any]) -> np.ndarray:
    """Call ``work(block, tile)`` for all blocks, in one thread per core."""

    def share(core: int) -> np.ndarray:
        tile = np.empty((BLOCK, CENTERS), data.centers.dtype)
        for block in data.blocks[core :: cores()]:
            work(block, tile)
        return tile

    with threadpool_limits(1), ThreadPoolExecutor(cores()) as pool:
        return next(pool.map(share, range(cores())))


def product(data: Data) -> np.ndarray:
    tile = sweep(data, lambda block, tile: np.matmul(block, data.centers, out=tile))
    return np.exp(tile)  # one tile of many, so that all answers are the same


def exponential(data: Data) -> np.ndarray:
    return sweep(data, lambda _, tile: np.exp(data.exponents, out=tile))


def compiled_exponential(data: Data) -> np.ndarray:
    loops = {"float32": exp_float32, "float64": exp_float64}
    loop = loops[data.centers.dtype.name]

    def work(_: np.ndarray, tile: np.ndarray) -> None:
        tile[...] = data.exponents
        loop(tile.reshape(-1))

    return sweep(data, work)


def both(data: Data) -> np.ndarray:
    def work(block: np.ndarray, tile: np.ndarray) -> None:
        np.matmul(block, data.centers, out=tile)
        np.exp(tile, out=tile)

    return sweep(data, work)


def reference(data: Data) -> np.ndarray:
    return np.exp(data.last.astype(float) @ data.centers.astype(float))


BENCHMARK = Benchmark(
    title="What the machine can do",
    sentence=(
        "A kernel's tile costs one matrix product and one exponential per entry. Here "
        f"numpy does each alone, and one after the other, over tiles of {BLOCK} rows "
        f"and {CENTERS:,} columns, one thread per core with a BLAS of one thread each; "
        "beside them the exponential that Tiercel compiles for the machine, which "
        "works in place and is timed with the copy that this needs."
    ),
    cases=[
        *({"rows": 2**16, "d": d, "dtype": "float32"} for d in (8, 20, 32, 128)),
        {"rows": 2**16, "d": 20, "dtype": "float64"},
    ],
    prepare=prepare,
    contestants={
        "both": Contestant(both),
        "matrix product": Contestant(product),
        "exponential": Contestant(exponential),
        "exponential, compiled": Contestant(compiled_exponential, needs=("numba",)),
    },
    baseline="both",
    reference=reference,
    tolerance=lambda rows, d, dtype: 8 * float(np.finfo(dtype).eps),
    columns=lambda case, seconds: {
        "10⁹ entries/s": case["rows"] * CENTERS / seconds / 1e9
    },
)
