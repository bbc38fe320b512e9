"""Products against dense float64 algebra: kernels, inputs, dtypes, budgets."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel import kernels as k
from tiercel import products

KERNELS = {
    "linear": k.Linear(2.0),
    "polynomial": k.Polynomial(3, offset=0.5, length_scale=2.0),
    "gaussian": k.Gaussian(1.7),
    "gaussian_scales": k.Gaussian(np.array([1.0, 2.0, 1.5, 3.0, 1.2, 2.5])),
    "laplacian": k.Laplacian(2.0),
    "matern12": k.Matern(0.5, 2.0),
    "matern32": k.Matern(1.5, 2.0),
    "matern52": k.Matern(2.5, 2.0),
    "rational_quadratic": k.RationalQuadratic(1.5, 2.0),
    "cauchy": k.Cauchy(2.0),
    "sum": 0.5 * k.Gaussian(2.0) + k.Linear(3.0),
    "product": k.Gaussian(3.0) * k.Laplacian(np.arange(1.0, 7.0)) + k.Cauchy(),
}
#: Relative error in norm. float32: entries of distance kernels carry an absolute error
#: of about 2**-24 times the scaled squared norm, at most 32 (products.precision.FAR).
TOLERANCE = {"float32": 5e-6, "float64": 3e-13}


def error(result, exact):
    return np.linalg.norm(np.asarray(result) - exact) / np.linalg.norm(exact)


def problem(dtype, n=700, m=130, d=6, outputs=3, shift=0.0, seed=0):
    """Points of which some rows are centres (distance zero), vectors and weights."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) + shift).astype(dtype)
    Z = rng.standard_normal((m, d)) + shift
    Z[: m // 2] = X[np.arange(m // 2) % n]
    V = rng.standard_normal((m, outputs))
    U = rng.standard_normal((n, outputs))
    return X, Z.astype(dtype), V.astype(dtype), U.astype(dtype), rng.random(n)


def check_all(kernel, X, Z, V, U, w, tolerance, gram_tolerance=3e-13, **options):
    K = kernel(X.astype(np.float64), Z.astype(np.float64))
    V64, U64 = V.astype(np.float64), U.astype(np.float64)
    op = products.KernelOperator(kernel, X, Z, **options)
    assert error(op.product(V), K @ V64) < tolerance
    assert error(op.cross_product(U), K.T @ U64) < tolerance
    assert error(op.gram_product(V), K.T @ (K @ V64)) < 2 * tolerance
    weighted = K.T @ (w[:, None] * (K @ V64))
    assert error(op.gram_product(V, w), weighted) < 2 * tolerance
    assert error(op.matrix(), K) < tolerance
    G, cross = op.gram(w, U)
    assert G.dtype == np.float64
    assert error(G, K.T @ (w[:, None] * K)) < gram_tolerance
    assert error(cross, K.T @ (w[:, None] * U64)) < 1e-6
    assert np.array_equal(G, G.T)


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


def test_the_result_does_not_depend_on_the_threads():
    X, Z, V, _, _ = problem("float32", n=20_000)
    results = [
        products.gram_product(k.Gaussian(2.0), X, Z, V, threads=t) for t in (1, 2, 3)
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


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


def test_precomputed_kernels_take_positions():
    rng = np.random.default_rng(0)
    K = rng.random((50, 20))
    v = rng.standard_normal(3)
    kernel = k.Precomputed()
    assert np.allclose(products.product(kernel, K, [3, 5, 7], v), K[:, [3, 5, 7]] @ v)
    assert np.allclose(products.gram(kernel, K, None), K.T @ K)
    with pytest.raises(ValueError, match=r"0 \.\.\. 19"):
        products.product(kernel, K, [20], np.ones(1))


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


BAD = {
    "NaN": (lambda X, Z, V: (X * np.nan, Z, V), ValueError, "NaN or infinite"),
    "infinite": (lambda X, Z, V: (X, Z / 0.0, V), ValueError, "NaN or infinite"),
    "columns": (lambda X, Z, V: (X, Z[:, 1:], V), ValueError, "6 columns but Z has 5"),
    "complex": (lambda X, Z, V: (X * 1j, Z, V), TypeError, "complex"),
    "object": (lambda X, Z, V: (X.astype(object), Z, V), TypeError, "dtype object"),
    "empty": (lambda X, Z, V: (X[:0], Z, V), ValueError, "empty"),
    "one dimension": (lambda X, Z, V: (X[:, 0], Z, V), ValueError, "two dimensions"),
    "vector length": (lambda X, Z, V: (X, Z, V[1:]), ValueError, "129 rows"),
    "vector NaN": (lambda X, Z, V: (X, Z, V * np.inf), ValueError, "V holds NaN"),
    "cube": (lambda X, Z, V: (X, Z, V[..., None]), ValueError, "one or two dimensions"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_before_work_starts(name):
    spoil, exception, message = BAD[name]
    X, Z, V, _, _ = problem("float64")
    with pytest.raises(exception, match=message):
        products.product(k.Gaussian(), *spoil(X, Z, V))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.ones(5), np.zeros(6), "wide"])
def test_bad_length_scales_are_refused(scale):
    X, Z, V, _, _ = problem("float64")
    with pytest.raises(ValueError, match="length_scale"):
        products.product(k.Gaussian(scale), X, Z, V)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "double"}, "precision"),
        ({"keep": "yes"}, "keep"),
        ({"threads": 0}, "threads"),
        ({"memory": "much"}, "much"),
        ({"memory": 1000}, "would do"),
    ],
)
def test_bad_options_are_refused(options, message):
    X, Z, V, _, _ = problem("float64")
    with pytest.raises(ValueError, match=message):
        products.product(k.Gaussian(), X, Z, V, **options)


def test_weights_are_checked():
    X, Z, V, _, w = problem("float64")
    with pytest.raises(ValueError, match="weights has 699 rows"):
        products.gram_product(k.Gaussian(), X, Z, V, w[1:])
    with pytest.raises(ValueError, match="negative"):
        products.gram(k.Gaussian(), X, Z, -w)
    signed = products.gram_product(k.Gaussian(), X, Z, V, -w)
    assert np.allclose(signed, -products.gram_product(k.Gaussian(), X, Z, V, w))


def test_a_kernel_is_asked_for():
    X, Z, V, _, _ = problem("float64")
    with pytest.raises(TypeError, match="tiercel kernel"):
        products.product("gaussian", X, Z, V)


def test_no_cuda_is_said_clearly():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    X, Z, V, _, _ = problem("float64")
    with pytest.raises(RuntimeError, match="no CUDA device"):
        products.product(k.Gaussian(), X, Z, V, device="cuda")
