"""Kernel operators on a CUDA device, against float64 on the same device."""

from __future__ import annotations

import numpy as np
import pytest

from tiercel import kernels as k
from tiercel.products import KernelOperator, open_rows

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.cuda

DEVICE = "cuda"
KERNELS = [
    k.Gaussian(2.0),
    k.Laplacian(2.0),
    k.Matern(1.5, 2.0),
    k.RationalQuadratic(0.7, 2.0),
    k.Polynomial(2, offset=1.0, length_scale=2.0),
    k.Gaussian(2.0) + 0.5 * k.Linear(2.0),
    k.Gaussian(2.0) * k.Laplacian(3.0),
    k.Gaussian(2.0) * k.Linear(2.0),
]


def points(rows, d, seed=0):
    """Return points of norm about 2 in float32, on the host."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((rows, d)) * 2.0 / d**0.5).astype(np.float32)


def weights(rows, outputs, seed=9):
    return np.random.default_rng(seed).standard_normal((rows, outputs), np.float32)


def dense(kernel, X, Z):
    """Return the kernel matrix in float64 on the device."""
    return KernelOperator(
        kernel, *(torch.tensor(P, device=DEVICE).double() for P in (X, Z))
    ).matrix()


def host(array):
    return array.double().cpu().numpy() if hasattr(array, "cpu") else array


def error(result, exact):
    result, exact = host(result), host(exact)
    return np.linalg.norm(result - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("d", [3, 20, 150])
@pytest.mark.parametrize("outputs", [1, 5])
def test_tensors_on_the_device(kernel, d, outputs):
    X, Z = points(3001, d), points(700, d, 1)
    Z[:200] = X[:200]
    V, U = weights(700, outputs), weights(3001, outputs)
    K = dense(kernel, X, Z)
    op = KernelOperator(kernel, *(torch.tensor(P, device=DEVICE) for P in (X, Z)))
    V64, U64 = (torch.tensor(W, device=DEVICE).double() for W in (V, U))
    result = op.product(V64.float())
    assert result.device.type == DEVICE
    assert result.dtype == torch.float32
    bound = 5e-6 if kernel is KERNELS[1] else 2e-6  # near pairs of a kink
    assert error(result, K @ V64) < bound
    assert error(op.cross_product(U64.float()), K.T @ U64) < bound
    assert error(op.gram_product(V64.float()), K.T @ (K @ V64)) < bound


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=str)
def test_arrays_travel_in_chunks(kernel, tmp_path):
    X, Z, V = points(150_001, 10), points(500, 10, 1), weights(500, 2)
    K = dense(kernel, X, Z)
    exact = K @ torch.tensor(V, device=DEVICE).double()
    op = KernelOperator(kernel, X, Z, device=DEVICE, device_memory="300MB")
    assert op.plan("product", 2).block_rows < len(X)
    result = op.product(V)
    assert isinstance(result, np.ndarray)
    assert error(result, exact) < 5e-6
    assert error(op.gram_product(V), K.T @ exact) < 5e-6
    np.save(tmp_path / "rows.npy", X)
    with open_rows(tmp_path / "rows.npy") as rows:
        op = KernelOperator(kernel, rows, Z, device=DEVICE, device_memory="300MB")
        assert error(op.gram_product(V), K.T @ exact) < 5e-6


def test_a_million_rows_to_the_last():
    X, Z, V = points(1_000_003, 30), points(4096, 30, 1), weights(4096, 1)
    op = KernelOperator(
        k.Gaussian(2.0), *(torch.tensor(P, device=DEVICE) for P in (X, Z))
    )
    result = op.product(torch.tensor(V, device=DEVICE))
    assert torch.isfinite(result).all()
    for part in (slice(0, 999), slice(-999, None)):
        exact = dense(k.Gaussian(2.0), X[part], Z).cpu().numpy() @ V.astype(float)
        assert error(result[part], exact) < 2e-6
    U = torch.tensor(weights(1_000_003, 3), device=DEVICE)
    total = op.cross_product(U)
    exact = dense(k.Gaussian(2.0), X, Z[:100]).T @ U.double()
    assert error(total[:100], exact) < 2e-6


def test_precisions():
    X, Z, V = points(2000, 20), points(300, 20, 1), weights(300, 1)
    V64 = torch.tensor(V, device=DEVICE).double()
    exact = dense(k.Gaussian(2.0), X, Z) @ V64
    on_device = [torch.tensor(P, device=DEVICE) for P in (X, Z)]
    fast = KernelOperator(k.Gaussian(2.0), *on_device, precision="fast")
    assert 1e-6 < error(fast.product(V64.float()), exact) < 2e-3
    highest = KernelOperator(k.Gaussian(2.0), *on_device, precision="highest")
    assert error(highest.product(V64), exact) < 1e-12
    wide = KernelOperator(k.Gaussian(2.0), *(P.double() for P in on_device))
    assert error(wide.product(V64), exact) < 1e-12


def test_a_kept_matrix_gives_the_same():
    X, Z, V = points(5000, 20), points(300, 20, 1), weights(300, 2)
    K = dense(k.Gaussian(2.0), X, Z)
    exact = K.T @ (K @ torch.tensor(V, device=DEVICE).double())
    for keep in (False, True):
        op = KernelOperator(k.Gaussian(2.0), X, Z, device=DEVICE, keep=keep)
        assert error(op.gram_product(V), exact) < 2e-6
        assert error(op.gram_product(V), exact) < 2e-6


@pytest.mark.parametrize("outputs", [1, 40])
@pytest.mark.parametrize("resident", [False, True])
def test_the_device_budget_is_kept(resident, outputs):
    X, Z, V = points(400_000, 20), points(4000, 20, 1), weights(4000, outputs)
    if resident:
        X, Z, V = (torch.tensor(P, device=DEVICE) for P in (X, Z, V))
    op = KernelOperator(k.Gaussian(2.0), X, Z, device=DEVICE, device_memory="700MB")
    for operation in ("product", "gram_product"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = getattr(op, operation)(V)
        own = result.numel() * 4 if resident else 0
        peak = torch.cuda.max_memory_allocated() - before - own
        assert peak <= 700e6
