"""Rows from a file against the same rows in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Contestant
from tiercel import products
from tiercel.kernels import Gaussian

ROWS, COLUMNS, CENTERS = 5_000_000, 20, 500


def prepare(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "rows.npy"
    np.save(path, X)
    v = rng.standard_normal((CENTERS, 1)).astype(np.float32)
    return {"X": X, "path": path, "Z": X[:CENTERS].copy(), "v": v, "folder": folder}


def run(data: dict[str, Any]) -> Any:
    return products.gram_product(Gaussian(4.0), data["X"], data["Z"], data["v"])


def mapped(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "X": np.load(data["path"], mmap_mode="r")}


def opened(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "X": products.open_rows(data["path"])}


def reference(data: dict[str, Any]) -> np.ndarray:
    kernel, total = Gaussian(4.0), np.zeros((CENTERS, 1))
    for start in range(0, len(data["X"]), 100_000):
        K = kernel(data["X"][start : start + 100_000].astype(float), data["Z"])
        total += K.T @ (K @ data["v"])
    return total


BENCHMARK = Benchmark(
    title="Rows from disk",
    sentence=(
        f"`gram_product` of a Gaussian with {CENTERS} centers over {COLUMNS} float32 "
        "columns: the rows in memory, as a memory map, and read with `open_rows` (the "
        "file was written just before, so it may still be in the page cache)."
    ),
    cases=[{"rows": ROWS}],
    prepare=prepare,
    contestants={
        "in memory": Contestant(run),
        "memory map": Contestant(run, setup=mapped),
        "open_rows": Contestant(run, setup=opened),
    },
    baseline="in memory",
    reference=reference,
    tolerance=5e-6,
    repeat=3,
)
