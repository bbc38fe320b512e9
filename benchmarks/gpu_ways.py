"""Ways to multiply on a GPU: recomputed, kept, in float64, with rows on the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import fused_product
from benchmarks.fused_product import Data
from benchmarks.harness import Benchmark, Contestant

CENTERS, ROWS = 2**13, 2**20

Multiply = Callable[[], Any]


def prepare(d: int, outputs: int, device: str = "cuda") -> Data:
    import torch

    random = torch.Generator(device).manual_seed(0)
    X, Z, V = (
        torch.randn(*shape, generator=random, device=device)
        for shape in ((ROWS, d), (CENTERS, d), (CENTERS, outputs))
    )
    return Data("gram_product", "auto", X, Z, V)


def operator(data: Data, X: Any = None, **options: Any) -> Multiply:
    """Return a sweep of an iterative solver over one operator."""
    from tiercel.kernels import Gaussian
    from tiercel.products import KernelOperator

    rows = data.X if X is None else X
    K = KernelOperator(Gaussian(data.length_scale), rows, data.Z, **options)
    return partial(K.gram_product, data.V)


def anew(data: Data) -> Any:
    return operator(data)()


def rows_on_the_host(data: Data) -> Multiply:
    return operator(data, data.X.cpu().numpy(), device=data.X.device)


def reference(data: Data) -> np.ndarray:
    return fused_product.blocks(data, "float64").cpu().numpy()


def now(multiply: Multiply) -> Any:
    return multiply()


BENCHMARK = Benchmark(
    title="Ways to multiply on a GPU",
    sentence=(
        f"`gram_product` of a Gaussian over {ROWS:,} rows and {CENTERS:,} centers in "
        "float32: entries recomputed from points that were prepared once, or in every "
        "run, or that come from the host's memory; the matrix kept in device memory; "
        "and everything in float64."
    ),
    cases=[{"d": d, "outputs": outputs} for d in (32, 512) for outputs in (1, 16)],
    prepare=prepare,
    contestants={
        "recomputed": Contestant(now, setup=operator),
        "recomputed, points prepared in every run": Contestant(anew),
        "recomputed, rows on the host": Contestant(now, setup=rows_on_the_host),
        "kept": Contestant(now, setup=partial(operator, keep=True)),
        "float64": Contestant(now, setup=partial(operator, precision="highest")),
    },
    baseline="recomputed",
    reference=reference,
    tolerance=2e-6,
    columns=lambda case, seconds: {
        "10¹² entries/s": round(ROWS * CENTERS / seconds / 1e12, 3)
    },
    suite="gpu",
    repeat=3,
)
