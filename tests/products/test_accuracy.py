"""Digits: far and wide data, coinciding points, against long double differences."""

import numpy as np
import pytest
from dense_oracle import TOLERANCE, check_operator, error, problem
from scipy import sparse

from tiercel import kernels as k
from tiercel import products

KERNELS = {
    "gaussian": k.Gaussian,
    "laplacian": k.Laplacian,
    "matern12": lambda length_scale: k.Matern(0.5, length_scale),
    "matern32": lambda length_scale: k.Matern(1.5, length_scale),
    "matern52": lambda length_scale: k.Matern(2.5, length_scale),
    "cauchy": k.Cauchy,
    "rational_quadratic": lambda length_scale: k.RationalQuadratic(1.5, length_scale),
    "almost gaussian": lambda length_scale: k.RationalQuadratic(1e4, length_scale),
}

every_kernel = pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_engine = pytest.mark.parametrize("engine", ["numpy", "torch"])


def exact_matrix(kernel, X, Z):
    """Return k(X, Z) from differences in long double, which no cancellation harms."""
    scale = np.broadcast_to(kernel.length_scale, X.shape[1]).astype(np.longdouble)
    x, z = X.astype(np.longdouble) / scale, Z.astype(np.longdouble) / scale
    t = sum((x[:, j, None] - z[None, :, j]) ** 2 for j in range(X.shape[1]))
    return kernel.profile(t, np).astype(np.float64)


def check(kernel, X, Z, engine, **options):
    """Assert that all verbs are as exact as the dtype promises."""
    rng = np.random.default_rng(1)
    V, U = rng.standard_normal((len(Z), 2)), rng.standard_normal((len(X), 2))
    op = operator(kernel, X, Z, engine)
    K = exact_matrix(kernel, X, Z)
    tolerance = TOLERANCE[str(X.dtype)]
    check_operator(op, K, V, U, rng.random(len(X)), tolerance, **options)


def operator(kernel, X, Z, engine):
    if engine == "sparse":
        X, Z = sparse.csr_array(X), sparse.csr_array(Z)
    op = products.KernelOperator(kernel, X, Z, device_memory="100MB")
    if engine == "torch":
        op.devices = [pytest.importorskip("torch").device("cpu")]
    return op


@every_kernel
@every_dtype
@every_engine
@pytest.mark.parametrize("shift", [1e3, 1e6])
def test_data_far_from_the_origin_lose_nothing(make, dtype, engine, shift):
    X, Z, _, _, _ = problem(dtype, n=200, m=50, shift=shift)
    check(make(2.0), X, Z, engine)


@every_kernel
@every_dtype
@every_engine
def test_columns_of_all_scales(make, dtype, engine):
    scales = np.array([1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4])
    X, Z, _, _, _ = problem("float64", n=200, m=50)
    X, Z = ((A * scales + 30.0 * scales).astype(dtype) for A in (X, Z))
    check(make(2.0 * scales), X, Z, engine)


@every_dtype
@every_engine
@pytest.mark.parametrize("unit", [1e-15, 1e15])
def test_any_unit_of_length_does(dtype, engine, unit):
    X, Z, _, _, _ = problem("float64", n=200, m=50)
    X, Z = ((unit * A).astype(dtype) for A in (X, Z))
    check(k.Laplacian(2.0 * unit), X, Z, engine)


@every_dtype
@pytest.mark.parametrize("engine", ["numpy", "torch", "sparse"])
@pytest.mark.parametrize("kernel", [k.Laplacian(0.1), k.Matern(0.5, 0.1)], ids=str)
@pytest.mark.parametrize("d", [2, 6, 40])
def test_rough_kernels_are_one_where_points_coincide(kernel, d, engine, dtype):
    shift = 0.0 if engine == "sparse" else 1000.0
    X = problem(dtype, n=90, d=d, shift=shift)[0]
    X[50:60], X[70:] = X[:10], X[70]
    K = np.asarray(operator(kernel, X, X[:80], engine).matrix())
    equal = (X[:, None] == X[None, :80]).all(-1)
    assert (K[equal] == 1.0).all()
    assert (K[~equal] < 1.0).all()


@pytest.mark.parametrize("engine", ["numpy", "torch", "sparse"])
@pytest.mark.parametrize("gap", [1e-12, 1e-9, 1e-6, 1e-3])
def test_rough_kernels_tell_points_that_almost_coincide(engine, gap):
    X = problem("float64", n=60)[0]
    Z = X * (1.0 + gap)
    K = np.asarray(operator(k.Laplacian(1.0), X, Z, engine).matrix())
    exact = exact_matrix(k.Laplacian(1.0), X, Z)
    assert np.abs((1.0 - K) - (1.0 - exact)).max() < 1e-15 + 1e-12 * gap


def test_float32_far_from_the_other_points_is_worked_in_float64():
    X, Z, V, _, _ = problem("float32", n=200, m=50)
    X[::20] *= 1e3
    Z[::20] = X[:60:20]
    exact = exact_matrix(k.Gaussian(2.0), X, Z)
    for engine in ("numpy", "torch"):
        op = operator(k.Gaussian(2.0), X, Z, engine)
        assert error(op.product(V), exact @ V) < 1e-6


@every_kernel
@every_dtype
@every_engine
def test_clusters_and_outliers_lose_nothing(make, dtype, engine):
    """Distances within a far cluster drown in its norm, in float64 too."""
    X, Z, _, _, _ = problem(dtype, n=200, m=50)
    X[::2] += 3000.0
    Z[::2] += 3000.0
    X[::50] *= 10.0
    Z[::30] *= 10.0
    check(make(2.0), X, Z, engine)


@every_kernel
@every_dtype
@every_engine
@pytest.mark.parametrize("unit", [1e6, 1e9, 1e14])
@pytest.mark.filterwarnings("error")
def test_points_far_apart_are_strangers_and_equal_ones_equal(make, dtype, engine, unit):
    """Rounding would leave distances below zero, and exponentials without end."""
    X, Z, _, _, _ = problem(dtype, n=200, m=50)
    X, Z = unit * X, unit * Z
    K = np.asarray(operator(make(1.0), X, Z, engine).matrix())
    equal = (X[:, None] == Z[None]).all(-1)
    assert (K[equal] == 1.0).all()
    assert K[~equal].max() < 1e-8


@every_dtype
@every_engine
def test_points_beyond_reason_are_refused(dtype, engine):
    X, Z, _, _, _ = problem(dtype, n=200, m=50)
    op = operator(k.Gaussian(1.0), 1e18 * X, 1e18 * Z, engine)
    with pytest.raises(ValueError, match="length scales away; rescale"):
        op.matrix()
    op = operator(k.Gaussian(1.0), 1e18 * X, Z, engine)
    with pytest.raises(ValueError, match="length scales away; rescale"):
        op.matrix()


class Overlap(k.Kernel):
    """A kernel that evaluates itself, dense or sparse."""

    takes_sparse = True

    def evaluate(self, X, Z):
        assert str(X.dtype).endswith("float64")
        assert str(Z.dtype).endswith("float64")
        overlap = X @ Z.T
        return overlap.toarray() if sparse.issparse(overlap) else overlap


@every_dtype
@pytest.mark.parametrize("engine", ["numpy", "torch", "sparse"])
def test_kernels_evaluate_themselves_in_float64(dtype, engine):
    X, Z, _, _, _ = problem(dtype, n=200, m=50)
    exact = X.astype(float) @ Z.T.astype(float)
    op = operator(0.5 * Overlap() + k.Linear(), X, Z, engine)
    assert error(op.matrix(), 1.5 * exact) < (1e-7 if dtype == "float32" else 1e-15)
    assert error(op.gram(), 2.25 * exact.T @ exact) < 1e-14
