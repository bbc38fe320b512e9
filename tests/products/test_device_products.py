"""The engine of the devices, driven on torch's CPU device: chunks, workers, budgets."""

import numpy as np
import pytest
from scipy import sparse

from tiercel import kernels as k
from tiercel import products

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")

KERNELS = [
    k.Linear(2.0),
    k.Polynomial(2, offset=1.0, length_scale=3.0),
    k.Gaussian(1.5),
    k.Laplacian(2.0),
    k.Matern(1.5, 2.0),
    0.5 * k.Gaussian(2.0) + k.Linear(3.0),
    k.Gaussian(2.0) * k.Laplacian(3.0),
]


def on_devices(kernel, X, Z, count, **options):
    """Return an operator that works on ``count`` torch devices, all of them the CPU."""
    op = products.KernelOperator(kernel, X, Z, **options)
    op.devices = [torch.device("cpu")] * count
    return op


def error(result, exact):
    return np.linalg.norm(np.asarray(result) - exact) / np.linalg.norm(exact)


def problem(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 5)).astype(dtype)
    Z = np.vstack([X[:100], rng.standard_normal((37, 5))]).astype(dtype)
    return X, Z, rng.random((137, 2)).astype(dtype), rng.random(900), rng.random(900)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_chunks_and_workers_change_nothing(kernel, workers, kind, dtype):
    X, Z, V, U, w = problem(dtype)
    K = kernel(X.astype(float), Z.astype(float))
    A, B = (X, Z) if kind == "numpy" else map(torch.from_numpy, (X, Z))
    op = on_devices(kernel, A, B, workers, device_memory="700kB")
    tolerance = 5e-6 if dtype == "float32" else 1e-12
    assert error(op.product(V), K @ V) < tolerance
    assert error(op.cross_product(U), K.T @ U) < tolerance
    assert error(op.gram_product(V, w), K.T @ (w[:, None] * (K @ V))) < 2 * tolerance
    op.device_memory = 10**8
    G, cross = op.gram(w, U)
    assert error(G, K.T @ (w[:, None] * K)) < 1e-12
    assert error(cross, K.T @ (w * U)) < 1e-6
    assert error(op.matrix(), K) < tolerance


def test_sparse_rows_are_multiplied_on_the_device():
    X = sparse.random(300, 2000, 0.01, format="csr", random_state=0)
    Z = X[:40]
    V = np.ones((40, 2))
    for kernel in (k.Gaussian(2.0), k.Laplacian(2.0) + k.Linear()):
        K = kernel(X.toarray(), Z.toarray())
        op = on_devices(kernel, X, Z, 2, device_memory="100MB")
        assert error(op.product(V), K @ V) < 1e-13
        assert error(op.cross_product(K @ V), K.T @ (K @ V)) < 1e-13


def test_a_kept_matrix_is_made_once():
    X, Z, V, U, _ = problem("float64")
    K = k.Gaussian(2.0)(X, Z)
    op = on_devices(k.Gaussian(2.0), X, Z, 2, keep=True, device_memory="1GB")
    assert error(op.product(V), K @ V) < 1e-13
    kept = dict(op._on_devices.prepared)
    assert sum(part.shape[0] for part in kept.values()) == 900
    assert error(op.gram_product(V), K.T @ (K @ V)) < 1e-13
    assert error(op.cross_product(U), K.T @ U) < 1e-13
    assert all(op._on_devices.prepared[i] is kept[i] for i in kept)


def test_rows_on_disk_go_through_in_blocks(tmp_path):
    X, Z, V, U, w = problem("float32")
    np.save(tmp_path / "rows.npy", X)
    K = k.Gaussian(2.0)(X.astype(float), Z.astype(float))
    rows = products.open_rows(tmp_path / "rows.npy")
    op = on_devices(k.Gaussian(2.0), rows, Z, 2, device_memory="700kB")
    assert error(op.product(V), K @ V) < 5e-6
    assert error(op.gram_product(V, w), K.T @ (w[:, None] * (K @ V))) < 1e-5
    assert error(op.cross_product(U), K.T @ U) < 5e-6


def test_a_small_budget_names_what_would_do():
    X, Z, V, _, _ = problem("float64")
    op = on_devices(k.Gaussian(2.0), X, Z, 1, device_memory="10kB")
    with pytest.raises(products.BudgetError, match="would do"):
        op.product(V)
