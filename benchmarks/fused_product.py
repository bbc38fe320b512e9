"""Products on a GPU: kernel entries made, used and forgotten on the chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Contestant, relative_error

CENTERS, BLOCK, CHECKED = 2**14, 2**14, 2**11

#: What the chip can do at most (an H200): exponentials, and half-precision products.
EXPONENTIALS, HALF_FLOPS = 4.1e12, 1.0e15

TOLERANCE = {"auto": 2e-6, "fast": 5e-3}


@dataclass
class Data:
    operation: str
    precision: str
    X: Any
    Z: Any
    V: Any

    @property
    def length_scale(self) -> float:
        return float(self.X.shape[1]) ** 0.5


def rows(d: int) -> int:
    """Fewer rows where there are many columns: a run should not take seconds."""
    return 2 ** (20 if d <= 128 else 18 if d <= 512 else 16)


def prepare(
    operation: str, d: int, outputs: int, precision: str, device: str = "cuda"
) -> Data:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    random = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, generator=random, device=device)

    X, Z, V = normal(rows(d), d), normal(CENTERS, d), normal(CENTERS, outputs)
    return Data(operation, precision, X, Z, V)


def operator(data: Data) -> tuple[Callable[[Any], Any], Any]:
    """Check and prepare the points once, as iterative solvers do."""
    from tiercel.kernels import Gaussian
    from tiercel.products import KernelOperator

    kernel = Gaussian(data.length_scale)
    K = KernelOperator(kernel, data.X, data.Z, precision=data.precision)
    return getattr(K, data.operation), data.V


def blocks(data: Data, dtype: str = "float32", first: int | None = None) -> Any:
    """Return the same with a kernel matrix of some rows at a time, in plain torch."""
    import torch

    kind = getattr(torch, dtype)
    Z, V = data.Z.to(kind), data.V.to(kind)
    half = 0.5 * (Z * Z).sum(1)
    total, made = torch.zeros_like(V), []
    # In float64 a block takes twice the memory.
    for X in data.X[:first].split(BLOCK // (1 if dtype == "float32" else 2)):
        x = X.to(kind)
        tile = x @ Z.T
        tile -= half
        tile -= 0.5 * (x * x).sum(1)[:, None]
        tile /= data.length_scale**2
        part = tile.exp_() @ V
        if data.operation == "product":
            made.append(part)
        else:
            total += tile.T @ part
    return torch.cat(made) if made else total


def reference(data: Data) -> np.ndarray:
    first = CHECKED if data.operation == "product" else None
    return blocks(data, "float64", first).cpu().numpy()


def error(answer: np.ndarray, reference: np.ndarray) -> float:
    """Return the error of the rows that the reference has."""
    return relative_error(answer[: len(reference)], reference)


def limit(operation: str, d: int, outputs: int, precision: str) -> float:
    """Return the entries per second at which a unit of the chip is always busy.

    At float32 grade a scalar product costs three of halves; many outputs are made by
    the tensor cores as well. Every entry is made twice in a ``gram_product``.
    """
    products = 3 if precision == "auto" else 1
    halves = 2 * products * (d + (outputs if outputs > 1 else 0))
    rate = min(EXPONENTIALS, HALF_FLOPS / halves)
    return rate / (2 if operation == "gram_product" else 1)


def columns(case: dict[str, Any], seconds: float) -> dict[str, Any]:
    rate, most = rows(case["d"]) * CENTERS / seconds, limit(**case)
    return {
        "10¹² entries/s": round(rate / 1e12, 3),
        "limit": round(most / 1e12, 3),
        "reached": f"{rate / most:.0%}",
    }


def case(
    d: int, outputs: int = 1, operation: str = "product", precision: str = "auto"
) -> dict[str, Any]:
    return {
        "operation": operation,
        "d": d,
        "outputs": outputs,
        "precision": precision,
    }


BENCHMARK = Benchmark(
    title="Products on a GPU",
    sentence=(
        "A Gaussian of float32 points on the device, with "
        f"{CENTERS:,} centers and {rows(16):,} rows (fewer beyond 128 columns); "
        "Tiercel with the points prepared beforehand, and tiles of plain torch in "
        f"blocks of {BLOCK:,} rows. *limit* is where the chip's exponential unit "
        "(4.1·10¹²/s) or its half-precision tensor cores (10¹⁵/s) would be busy all "
        "the time, for a kernel matrix that is made once in a product and twice in a "
        "`gram_product`; reading the points takes less than either."
    ),
    cases=[
        *(case(d) for d in (3, 8, 16, 32, 64, 128, 512, 2048)),
        *(case(d, outputs=16) for d in (3, 8, 16, 32, 64, 128, 512, 2048)),
        *(case(d, operation="gram_product") for d in (16, 32, 64, 128)),
        *(case(d, precision="fast") for d in (16, 32, 64, 128)),
    ],
    prepare=prepare,
    contestants={
        "tiercel": Contestant(lambda work: work[0](work[1]), setup=operator),
        "torch, blocks": Contestant(blocks),
    },
    baseline="tiercel",
    reference=reference,
    error=error,
    tolerance=lambda precision, **_: TOLERANCE[precision],
    columns=columns,
    suite="gpu",
    repeat=5,
)
