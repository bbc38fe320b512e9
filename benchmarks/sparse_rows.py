"""Sparse rows with millions of columns, like counts of words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from benchmarks.harness import Benchmark, Contestant
from tiercel import products
from tiercel.kernels import Gaussian

ROWS, CENTERS, FILLED, BLOCK = 20_000, 500, 100, 2_000


@dataclass
class Data:
    X: sparse.csr_array
    Z: sparse.csr_array
    v: np.ndarray
    kernel: Gaussian


def prepare(columns: int) -> Data:
    """Rows of about 100 entries; small column numbers are frequent, as words are."""
    rng = np.random.default_rng(0)
    spread = np.exp(rng.uniform(0, np.log(columns), ROWS * FILLED))
    indices = np.minimum(spread.astype(np.int64), columns - 1)
    starts = np.arange(0, ROWS * FILLED + 1, FILLED)
    values = rng.random(ROWS * FILLED, dtype=np.float32) / FILLED**0.5
    X = sparse.csr_array((values, indices, starts), shape=(ROWS, columns))
    X.sum_duplicates()
    v = rng.standard_normal((CENTERS, 1)).astype(np.float32)
    return Data(X, X[:CENTERS], v, Gaussian(1.0))


def tiercel(data: Data) -> np.ndarray:
    return products.gram_product(data.kernel, data.X, data.Z, data.v)


def in_blocks(data: Data, kernel: object) -> np.ndarray:
    total = np.zeros((CENTERS, 1))
    for start in range(0, ROWS, BLOCK):
        K = kernel(data.X[start : start + BLOCK], data.Z)  # type: ignore[operator]
        total += K.T @ (K @ data.v)
    return total


def scikit_learn(data: Data) -> np.ndarray:
    from sklearn.metrics.pairwise import rbf_kernel

    return in_blocks(data, lambda X, Z: rbf_kernel(X, Z, gamma=0.5))


BENCHMARK = Benchmark(
    title="Sparse rows",
    sentence=(
        f"`gram_product` of a Gaussian, float32 CSR, {ROWS:,} rows of about {FILLED} "
        f"entries, {CENTERS} centers: Tiercel, and scikit-learn's kernel in blocks of "
        f"{BLOCK:,} rows."
    ),
    cases=[{"columns": d} for d in (10_000, 1_000_000, 65_000_000)],
    prepare=prepare,
    contestants={
        "tiercel": Contestant(tiercel),
        "scikit-learn": Contestant(scikit_learn),
    },
    baseline="tiercel",
    reference=lambda data: in_blocks(data, data.kernel),
    tolerance=5e-6,
    repeat=3,
)
