"""Products against dense float64 algebra: kernels, inputs, dtypes, budgets."""

import re

import numpy as np
import pytest
from dense_oracle import KERNELS, TOLERANCE, check_all, error, problem
from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel import kernels as k
from tiercel import products
from tiercel.products.planner import Problem, plan_cpu


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_equals_dense_float64(name, dtype):
    X, Z, V, U, w = problem(dtype)
    check_all(KERNELS[name], X, Z, V, U, w, TOLERANCE[dtype], threads=2)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 40])
@pytest.mark.parametrize("kernel", [k.Gaussian(3.0), k.Laplacian(3.0), k.Matern(1.5)])
def test_any_number_of_columns(kernel, d):
    X, Z, V, U, w = problem("float32", d=d)
    check_all(kernel, X, Z, V, U, w, TOLERANCE["float32"])


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern32", "cauchy"])
def test_data_shifted_by_a_thousand_lose_nothing_in_float32(name):
    X, Z, V, U, w = problem("float32", shift=1000.0)
    check_all(KERNELS[name], X, Z, V, U, w, TOLERANCE["float32"])


@pytest.mark.parametrize("d", [2, 6])
def test_clusters_far_apart_stay_float32_grade(d):
    """Distances within a far cluster drown in its norm unless they are done wider."""
    X, Z, V, U, w = problem("float32", d=d)
    X[::2] += 3000.0
    Z[::2] += 3000.0
    for kernel in (k.Gaussian(2.0), k.Laplacian(2.0)):
        # Squared norms of 3e6 leave 2**-53 * 3e6 of a float64 distance, in both.
        check_all(kernel, X, Z, V, U, w, TOLERANCE["float32"], gram_tolerance=1e-9)


def test_precision_highest_is_float64_inside():
    X, Z, V, _, _ = problem("float32")
    kernel = k.Gaussian(1.0)
    exact = kernel(X.astype(float), Z.astype(float)) @ V.astype(float)
    result = products.product(kernel, X, Z, V.astype(float), precision="highest")
    assert error(result, exact) < 1e-14


@settings(deadline=None, max_examples=30)
@given(
    memory=st.integers(500_000, 50_000_000),
    threads=st.integers(1, 3),
    n=st.integers(1, 400),
    m=st.integers(1, 600),
    outputs=st.integers(1, 4),
)
def test_any_budget_gives_the_same_answer(memory, threads, n, m, outputs):
    X, Z, V, U, w = problem("float64", n=n, m=m, outputs=outputs)
    kernel = k.Gaussian(2.0) + k.Linear(2.0)
    K = kernel(X, Z)
    op = products.KernelOperator(kernel, X, Z, memory=memory, threads=threads)
    assert np.allclose(op.product(V), K @ V, rtol=1e-11, atol=1e-11)
    assert np.allclose(op.cross_product(U), K.T @ U, rtol=1e-11, atol=1e-11)
    exact = K.T @ (w[:, None] * (K @ V))
    assert np.allclose(op.gram_product(V, w), exact, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("memory", [None, "4MB", "1.5MB"])
@pytest.mark.parametrize("n", [3000, 20_000])
def test_the_result_does_not_depend_on_the_threads(n, memory):
    X, Z, V, U, w = problem("float32", n=n)
    results = []
    for threads in (1, 2, 3, 7):
        op = products.KernelOperator(
            k.Laplacian(2.0), X, Z, threads=threads, memory=memory
        )
        verbs = op.product(V), op.cross_product(U), op.gram_product(V, w)
        results.append([*verbs, op.gram(w) if memory is None else None])
    for result in results[1:]:
        for found, first in zip(result, results[0], strict=True):
            assert np.array_equal(found, first)


@pytest.mark.parametrize(
    "operation", ["product", "cross_product", "gram_product", "gram", "matrix"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", [k.Gaussian(2.0), k.Matern(1.5) * k.Laplacian()])
@pytest.mark.parametrize("from_disk", [False, True])
def test_the_budget_named_by_the_error_is_enough(operation, dtype, kernel, from_disk):
    X, Z, _, _, _ = problem(dtype, n=3000)
    rows = products.GeneratedRows(lambda a, b: X[a:b], X.shape, X.dtype)
    points = (rows if from_disk else X), Z
    with pytest.raises(products.BudgetError, match="would do") as caught:
        products.plan(kernel, *points, 3, operation, memory="10kB")
    named = re.search(r"; (\S+ .?B) would do", str(caught.value))[1]
    plan = products.plan(kernel, *points, 3, operation, memory=named)
    assert plan.peak <= products.parse_bytes(named)


@settings(deadline=None, max_examples=200)
@given(
    memory=st.integers(10_000, 10**9),
    n=st.integers(1, 10**8),
    m=st.integers(1, 10**5),
    threads=st.integers(1, 64),
    from_disk=st.booleans(),
)
def test_any_plan_stays_within_its_budget(memory, n, m, threads, from_disk):
    problem = Problem(
        "gram_product", n, m, d=10, outputs=3, itemsize=4, width=12,
        row_bytes=40, from_disk=from_disk, held=1000,
    )  # fmt: skip
    try:
        plan = plan_cpu(problem, memory, threads)
    except products.BudgetError:
        return
    assert plan.peak <= memory
    assert 1 <= plan.threads <= threads
    alone = plan_cpu(problem, memory, threads=1)
    sizes = alone.tile_rows, alone.tile_columns, alone.block_rows
    assert (plan.tile_rows, plan.tile_columns, plan.block_rows) == sizes


def test_the_callback_sees_every_row_go_by():
    X, Z, V, U, _ = problem("float32", n=5000)
    seen = []
    op = products.KernelOperator(
        k.Gaussian(), X, Z, callback=lambda *a: seen.append(a), threads=2
    )
    for operation, vectors in ((op.product, V), (op.cross_product, U), (op.gram, None)):
        seen.clear()
        operation(vectors)
        rows = [done for done, _ in seen]
        assert rows == sorted(set(rows))
        assert seen[-1] == (5000, 5000)


@pytest.mark.parametrize("keep", [True, "auto"])
def test_a_kept_matrix_gives_the_same_products(keep):
    X, Z, V, U, w = problem("float64")
    check_all(k.Gaussian(2.0), X, Z, V, U, w, 1e-13, keep=keep, memory="1GB")
    plan = products.plan(k.Gaussian(2.0), X, Z, keep=keep, memory="1GB")
    assert "kept" in plan.method


def test_keep_names_a_budget_that_does():
    X, Z, V, _, _ = problem("float64", n=20_000, m=400)
    kernel = k.Gaussian(2.0)
    with pytest.raises(products.BudgetError, match="keep=True needs 6") as caught:
        products.product(kernel, X, Z, V, keep=True, memory="20MB")
    named = re.search(r"needs (\S+ .B)", str(caught.value))[1]
    result = products.product(kernel, X, Z, V, keep=True, memory=named)
    assert error(result, kernel(X, Z) @ V) < 1e-13


def test_a_kernel_that_only_evaluates_itself():
    class Overlap(k.Kernel):
        def evaluate(self, X, Z):
            return np.minimum(X[:, None], Z[None]).sum(-1)

    X, Z, V, U, w = problem("float64")
    X, Z = np.abs(X), np.abs(Z)
    check_all(2.0 * Overlap(), X, Z, V, U, w, 1e-13)


def test_one_vector_in_one_vector_out_and_the_dtype_stays():
    X, Z, V, U, _ = problem("float32")
    op = products.KernelOperator(k.Gaussian(), X, Z)
    assert op.product(V[:, 0]).shape == (700,)
    assert op.product(V).dtype == np.float32
    assert op.product(V.astype(np.float64)).dtype == np.float64
    assert op.cross_product(U[:, 0]).shape == (130,)


def test_torch_in_torch_out():
    torch = pytest.importorskip("torch")
    X, Z, V, U, _ = problem("float32")
    tensors = [torch.from_numpy(a) for a in (X, Z, V, U)]
    op = products.KernelOperator(k.Gaussian(2.0), *tensors[:2])
    product, cross = op.product(tensors[2]), op.cross_product(tensors[3])
    assert product.dtype == torch.float32
    ours = products.KernelOperator(k.Gaussian(2.0), X, Z)
    assert np.array_equal(product.numpy(), ours.product(V))
    assert np.array_equal(cross.numpy(), ours.cross_product(U))
    assert torch.is_tensor(op.gram())
    assert torch.is_tensor(op.matrix())
    with pytest.raises(ValueError, match="detach"):
        op.product(tensors[2].requires_grad_())
