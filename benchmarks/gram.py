"""The matrix of a direct solver: K'K in float64, in one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.harness import Benchmark, Contestant
from tiercel import products
from tiercel.kernels import Gaussian

ROWS, COLUMNS, BLOCK = 40_000, 20, 10_000


@dataclass
class Data:
    X: np.ndarray
    Z: np.ndarray
    kernel: Gaussian


def prepare(centers: int) -> Data:
    X = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    return Data(X, X[:centers].copy(), Gaussian(COLUMNS**0.5))


def tiercel(data: Data) -> np.ndarray:
    return products.gram(data.kernel, data.X, data.Z)


def plain_numpy(data: Data) -> np.ndarray:
    """The expression that one writes down; numpy makes half of a matrix K'K."""
    X, Z = data.X.astype(float), data.Z.astype(float)
    total = np.zeros((len(Z), len(Z)))
    for start in range(0, len(X), BLOCK):
        x = X[start : start + BLOCK]
        squares = (x**2).sum(1)[:, None] + (Z**2).sum(1) - 2 * x @ Z.T
        K = np.exp(-squares / (2.0 * float(data.kernel.length_scale) ** 2))
        total += K.T @ K
    return total


BENCHMARK = Benchmark(
    title="K'K in float64 on the processor",
    sentence=(
        f"`gram` of a Gaussian over {ROWS:,} float32 rows of {COLUMNS} columns, and "
        f"the plain numpy expression in float64, in blocks of {BLOCK:,} rows."
    ),
    cases=[{"centers": m} for m in (500, 1500, 4000)],
    prepare=prepare,
    contestants={
        "tiercel": Contestant(tiercel),
        "numpy, blocks of 10,000": Contestant(plain_numpy),
    },
    baseline="tiercel",
    reference=plain_numpy,
    tolerance=1e-12,
    columns=lambda case, seconds: {
        "GFLOP/s": round(ROWS * case["centers"] ** 2 / seconds / 1e9, 1)
    },
    repeat=3,
)
