"""What a product allocates beside its inputs and its result, against what it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Contestant
from tiercel import products
from tiercel.kernels import Gaussian

ROWS, CENTERS, COLUMNS = 500_000, 2_000, 20


def prepare(budget: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    return X, X[:CENTERS].copy(), np.ones(CENTERS, np.float32), budget


def run(operation: str) -> Callable[[Any], Any]:
    def work(data: Any) -> Any:
        X, Z, v, budget = data
        verb = getattr(products, operation)
        result = verb(Gaussian(4.0), X, Z, v, memory=budget)
        return result[:CENTERS] / np.linalg.norm(result[:CENTERS])

    return work


BENCHMARK = Benchmark(
    title="Memory is a contract",
    sentence=(
        f"Gaussian, float32, {ROWS:,} rows, {CENTERS:,} centers, {COLUMNS} columns: "
        "the kernel matrix would take 4 GB. Working memory is the peak resident memory "
        "of a fresh process less what it held before."
    ),
    cases=[{"budget": budget} for budget in ("64MB", "256MB", "1GB")],
    prepare=prepare,
    contestants={
        "gram_product": Contestant(run("gram_product")),
        "product": Contestant(run("product")),
    },
    baseline="gram_product",
    reference=lambda data: np.ones(1),
    error=lambda answer, reference: float(not np.isfinite(answer).all()),
    tolerance=0.0,
    processes=True,
    repeat=3,
)
