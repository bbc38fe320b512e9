"""The engine of the devices, driven on torch's CPU device: chunks, workers, budgets."""

import re

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
    assert error(cross, K.T @ (w * U)) < 1e-12
    made = op.matrix()
    assert error(made, K) < tolerance
    assert type(G) is type(made) is type(A)
    assert str(made.dtype).endswith(dtype)


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


def test_a_kept_matrix_that_is_cut_anew():
    """With more outputs chunks are smaller: what was kept of the others must go."""
    X, Z, _, _, w = problem("float64")
    K = k.Gaussian(2.0)(X, Z)
    op = on_devices(k.Gaussian(2.0), X, Z, 1, keep=True, device_memory="2.4MB")
    cuts = set()
    for outputs in (1, 60, 1, 100):
        V = np.random.default_rng(outputs).random((137, outputs))
        cuts.add(op.plan("gram_product", outputs).block_rows)
        assert error(op.product(V), K @ V) < 1e-13
        exact = K.T @ (w[:, None] * (K @ V))
        assert error(op.gram_product(V, w), exact) < 1e-13
    assert len(cuts) > 1


@pytest.mark.filterwarnings("error")
def test_arrays_that_torch_does_not_take_as_they_are():
    X, Z, V, U, w = problem("float64")
    exact = k.Gaussian(2.0)(X, Z)
    backwards = on_devices(k.Gaussian(2.0), X[::-1], Z[::-1], 2, device_memory="1GB")
    K = exact[::-1, ::-1]
    assert error(backwards.product(V[::-1]), K @ V[::-1]) < 1e-13
    assert error(backwards.cross_product(U[::-1]), K.T @ U[::-1]) < 1e-13
    assert error(backwards.gram(w[::-1]), K.T @ (w[::-1, None] * K)) < 1e-13
    for array in (X, Z, V):
        array.setflags(write=False)
    locked = on_devices(k.Gaussian(2.0), X, Z, 2, device_memory="1GB")
    assert error(locked.product(V), exact @ V) < 1e-13


@pytest.mark.parametrize("verb", ["product", "cross_product", "gram_product"])
@pytest.mark.parametrize("keep", [False, True])
def test_long_sums_of_equal_terms_keep_their_digits(verb, keep):
    """In one float32 sum over all rows the error is fifty times as large."""
    rng = np.random.default_rng(0)
    X, Z = rng.random((100_000, 3), np.float32), rng.random((50, 3), np.float32)
    V = np.ones(100_000 if verb == "cross_product" else 50, np.float32)
    kernel = k.Gaussian(1000.0)
    op = on_devices(kernel, X, Z, 1, keep=keep, device_memory="1GB")
    exact = products.KernelOperator(kernel, X.astype(float), Z.astype(float))
    expected = getattr(exact, verb)(V.astype(float))
    assert error(getattr(op, verb)(V), expected) < 5e-6


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [("allow_tf32", True, False), ("fp32_precision", "tf32", "ieee")],
)
def test_tf32_is_switched_off_while_float32_is_promised(name, on, off):
    X, Z, V, _, _ = problem("float32")
    matmul, seen = torch.backends.cuda.matmul, []
    if name == "fp32_precision" and not hasattr(matmul, name):
        pytest.skip("this torch has one name for the switch")
    before = getattr(matmul, name)
    try:
        setattr(matmul, name, on)
        op = on_devices(k.Gaussian(2.0), X, Z, 1, device_memory="1GB")
        op.callback = lambda done, rows: seen.append(getattr(matmul, name))
        op.product(V), op.gram(), op.matrix()
        assert set(seen) == {off}
        assert getattr(matmul, name) == on
    finally:
        setattr(matmul, name, before)


def test_the_callback_sees_every_row_go_by():
    X, Z, V, U, _ = problem("float64")
    seen = []
    op = on_devices(
        k.Gaussian(), X, Z, 2, device_memory="700kB",
        callback=lambda *a: seen.append(a),
    )  # fmt: skip
    for work in (
        lambda: op.product(V), lambda: op.cross_product(U), op.gram, op.matrix
    ):  # fmt: skip
        seen.clear()
        work()
        rows = [done for done, _ in seen]
        assert rows == sorted(set(rows))
        assert seen[-1] == (900, 900)


def test_rows_on_disk_stay_within_the_host_budget():
    rows = products.GeneratedRows(lambda a, b: np.ones((b - a, 50)), (10**6, 50))
    Z = np.ones((10, 50))
    op = on_devices(k.Gaussian(), rows, Z, 1, memory="20MB", device_memory="1GB")
    plan = op.plan("product")
    copies = 2 + 3 * plan.threads  # being read, waiting, and on their way
    assert 15e6 < copies * plan.block_rows * 50 * 8 <= 20e6


@pytest.mark.parametrize(
    ("operation", "outputs"), [("product", 3), ("gram_product", 1), ("gram", 2)]
)
def test_the_budget_named_by_the_error_is_enough(operation, outputs):
    X, Z, _, _, _ = problem("float32")
    op = on_devices(k.Laplacian(2.0), X, Z, 1, device_memory="10kB")
    with pytest.raises(products.BudgetError, match="would do") as caught:
        op.plan(operation, outputs)
    named = re.search(r"; (\S+ .?B) would do", str(caught.value))[1]
    op = on_devices(k.Laplacian(2.0), X, Z, 1, device_memory=named)
    assert op.plan(operation, outputs).peak <= products.parse_bytes(named)
