"""One sweep of an iterative solver on the processor, and what it is made of."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.environment import cores
from benchmarks.harness import Benchmark, Contestant
from tiercel import products
from tiercel.kernels import Gaussian

CENTERS, ROWS, TILE = 1500, 60_000, 512


@dataclass
class Data:
    X: np.ndarray
    Z: np.ndarray
    v: np.ndarray
    kernel: Gaussian
    answer: np.ndarray


def prepare(d: int) -> Data:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, d)).astype(np.float32)
    Z, v = X[:CENTERS].copy(), rng.standard_normal((CENTERS, 1)).astype(np.float32)
    kernel = Gaussian(d**0.5)
    exact = np.zeros((CENTERS, 1))
    for start in range(0, ROWS, 10_000):
        K = kernel(X[start : start + 10_000].astype(float), Z.astype(float))
        exact += K.T @ (K @ v)
    return Data(X, Z, v, kernel, exact)


def tiercel(data: Data) -> Any:
    return products.gram_product(data.kernel, data.X, data.Z, data.v)


def plain_numpy(data: Data) -> np.ndarray:
    """The expression that one writes down, in blocks of 10,000 rows."""
    X, Z, v, scale = data.X, data.Z, data.v, float(data.kernel.length_scale)
    total = np.zeros_like(v)
    for start in range(0, len(X), 10_000):
        x = X[start : start + 10_000]
        squares = (x**2).sum(1)[:, None] + (Z**2).sum(1) - 2 * x @ Z.T
        K = np.exp(-squares / np.float32(2 * scale**2))
        total += K.T @ (K @ v)
    return total


def torch_blocks(data: Data) -> np.ndarray:
    """The same in torch, whose elementwise functions use all cores."""
    import torch

    X, Z, v = map(torch.from_numpy, (data.X, data.Z, data.v))
    total, scale = torch.zeros_like(v), 2.0 * float(data.kernel.length_scale) ** 2
    for x in X.split(10_000):
        K = torch.exp(torch.cdist(x, Z).square_().div_(-scale))
        total += K.T @ (K @ v)
    return total.numpy()


def scikit_learn(data: Data) -> np.ndarray:
    from sklearn.metrics.pairwise import rbf_kernel

    total, gamma = np.zeros_like(data.v), 0.5 / float(data.kernel.length_scale) ** 2
    for start in range(0, len(data.X), 10_000):
        K = rbf_kernel(data.X[start : start + 10_000], data.Z, gamma=gamma)
        total += K.T @ (K @ data.v)
    return total


def keops(data: Data) -> np.ndarray:
    from pykeops.numpy import LazyTensor

    x, z = LazyTensor(data.X[:, None, :]), LazyTensor(data.Z[None, :, :])
    scale = 2.0 * float(data.kernel.length_scale) ** 2
    K = (-((x - z) ** 2).sum(-1) / scale).exp()
    return K.T @ (K @ data.v)


def parts_alone(data: Data) -> np.ndarray:
    """The matrix products and the exponentials of all tiles, and nothing else."""
    left = np.ones((TILE, data.X.shape[1] + 2), np.float32)
    right = np.full((data.X.shape[1] + 2, CENTERS), -0.01, np.float32)
    tiles = -(-ROWS // TILE)

    def share(core: int) -> None:
        tile = np.empty((TILE, CENTERS), np.float32)
        exponents = np.full((TILE, CENTERS), -1.0, np.float32)
        for _ in range(core, tiles, cores()):
            np.matmul(left, right, out=tile)
            np.exp(exponents, out=tile)

    with threadpool_limits(1), ThreadPoolExecutor(cores()) as pool:
        list(pool.map(share, range(cores())))
    return data.answer


BENCHMARK = Benchmark(
    title="K'Kv on the processor",
    sentence=(
        "`gram_product` of a Gaussian, float32, "
        f"{ROWS:,} rows and {CENTERS:,} centers, one output: Tiercel, the same "
        "expression in blocks of 10,000 rows in numpy, torch and scikit-learn, KeOps "
        "(compiled beforehand), and what numpy takes for the matrix products and the "
        "exponentials of all tiles alone."
    ),
    cases=[{"d": d} for d in (8, 20, 32, 128)],
    prepare=prepare,
    contestants={
        "tiercel": Contestant(tiercel),
        "numpy, blocks of 10,000": Contestant(plain_numpy),
        "torch, blocks of 10,000": Contestant(torch_blocks, needs=("torch",)),
        "scikit-learn, blocks of 10,000": Contestant(scikit_learn),
        "KeOps": Contestant(keops, needs=("pykeops",)),
        "matrix products and exponentials alone": Contestant(parts_alone),
    },
    baseline="tiercel",
    reference=lambda data: data.answer,
    tolerance=5e-6,
    columns=lambda case, seconds: {
        "10⁹ entries/s": round(ROWS * CENTERS / seconds / 1e9, 3)
    },
)
