"""Sparse points give dense results, whatever the number of their columns."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from tiercel import kernels as k
from tiercel import products
from tiercel.products import sparse_loops
from tiercel.products.tiles import make_tile

KERNELS = [
    k.Linear(2.0),
    k.Polynomial(2, offset=1.0),
    k.Gaussian(1.5),
    k.Laplacian(2.0),
    k.Matern(1.5, 2.0),
    k.RationalQuadratic(1.5, 2.0),
    0.5 * k.Gaussian(2.0) + k.Linear(3.0),
]


def points(dtype, d=3000):
    X = sparse.random(400, d, 0.01, format="csr", dtype=dtype, random_state=0)
    Z = sparse.random(30, d, 0.01, format="csr", dtype=dtype, random_state=1)
    return X, sparse.vstack([X[:50], Z]).tocsr()


def error(result, exact):
    return np.linalg.norm(result - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_sparse_equals_dense(kernel, dtype):
    X, Z = points(dtype)
    tolerance = 5e-6 if dtype == "float32" else 1e-12
    rng = np.random.default_rng(0)
    V, U, w = rng.random((80, 2)), rng.random((400, 2)), rng.random(400)
    K = kernel(X.toarray().astype(float), Z.toarray().astype(float))
    op = products.KernelOperator(kernel, X, Z.tocsc(), threads=2)
    assert error(op.product(V), K @ V) < tolerance
    assert error(op.cross_product(U), K.T @ U) < tolerance
    exact = K.T @ (w[:, None] * (K @ V))
    assert error(op.gram_product(V, w), exact) < 2 * tolerance
    assert error(op.gram(w), K.T @ (w[:, None] * K)) < 1e-12
    assert error(op.matrix(), K) < tolerance


def test_per_column_scales():
    X, Z = points("float64")
    kernel = k.Gaussian(np.linspace(0.5, 2.0, X.shape[1]))
    V = np.ones(80)
    exact = kernel(X.toarray(), Z.toarray()) @ V
    assert error(products.product(kernel, X, Z, V), exact) < 1e-13


def test_text_counts_of_sixty_five_million_columns():
    """Only the columns that the centres use are ever looked at twice."""
    X, Z = points("float64")
    rng = np.random.default_rng(0)
    d = 65_000_000
    places = np.sort(rng.choice(d, X.shape[1], replace=False))
    wide = []
    for A in (X, Z):
        shape = (A.shape[0], d)
        wide.append(sparse.csr_matrix((A.data, places[A.indices], A.indptr), shape))
    V = np.ones((80, 1))
    for kernel in (k.Gaussian(1.5), k.Linear()):
        narrow = products.product(kernel, X, Z, V)
        result = products.product(kernel, *wide, V, memory="100MB")
        assert np.array_equal(result, narrow)


def test_centers_without_entries():
    X, _ = points("float64")
    Z = sparse.csr_matrix((3, X.shape[1]))
    exact = k.Gaussian(1.0)(X.toarray(), Z.toarray()) @ np.ones(3)
    assert error(products.product(k.Gaussian(1.0), X, Z, np.ones(3)), exact) < 1e-14


def test_kernels_that_take_no_sparse_points_say_so():
    class Overlap(k.Kernel):
        def evaluate(self, X, Z):
            return X @ Z.T

    X, Z = points("float64")
    with pytest.raises(TypeError, match="Overlap does not take sparse"):
        products.product(Overlap(), X, Z, np.ones(80))
    with pytest.raises(TypeError, match="both be sparse"):
        products.product(k.Gaussian(), X, Z.toarray(), np.ones(80))


@pytest.mark.parametrize("kernel", [k.Gaussian(1.5), k.Laplacian(2.0), k.Linear()])
def test_tiles_of_some_of_the_centers(kernel):
    X = sparse.random(300, 5000, 0.01, random_state=0)
    shared = np.ones((300, 1))  # a column that all centres have is stored as a full row
    X = sparse.hstack([X, shared]).tocsr()
    tile = make_tile(kernel, X[:290], np.float64, np)
    out = np.empty((300, 90))
    tile.fill(tile.rows(X), slice(200, 290), out, [])
    assert error(out, kernel(X.toarray(), X[200:290].toarray())) < 1e-14


def test_the_table_of_places_finds_every_column_and_no_other():
    rng = np.random.default_rng(0)
    columns = np.unique(rng.integers(0, 10**8, 3000))
    table = sparse_loops.places_of(columns)
    assert np.array_equal(np.sort(table.columns[table.columns >= 0]), columns)
    others = np.setdiff1d(rng.integers(0, 10**8, 3000), columns)
    indices = np.concatenate([columns, others])
    X = sparse.csr_matrix((np.ones(len(indices)), indices, [0, len(indices)]))
    ends, outside = np.zeros(2, np.int64), np.empty(1)
    places, values = np.empty(X.nnz, np.int32), np.empty(X.nnz)
    rows = X.indptr, X.indices, X.data, np.full(1, 2.0)
    sparse_loops.compress(*rows, *table, ends, places, values, np.empty(1), outside)
    assert np.array_equal(places[: ends[1]], np.arange(len(columns)))
    assert (values[: ends[1]] == 2.0).all()
    assert outside[0] == 4.0 * len(others)


def unsorted(dtype, indices):
    """CSR rows with repeated and unsorted entries, explicit zeros and empty rows."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 30, 300)
    counts[::10] = 0
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(indices)
    columns = rng.integers(0, 40, ends[-1]).astype(indices)
    values = rng.standard_normal(ends[-1]).astype(dtype)
    values[::7] = 0.0
    X = sparse.csr_array((values, columns, ends), shape=(300, 40))
    assert not X.has_canonical_format
    return X


@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_repeated_entries_count_as_their_sum(kernel, dtype, indices):
    X = unsorted(dtype, indices)
    before = X.indices.copy(), X.data.copy()
    dense = X.toarray().astype(float)
    exact = kernel(dense, dense[:90])
    op = products.KernelOperator(kernel, X, X[:90], threads=2)
    tolerance = 5e-6 if dtype == "float32" else 1e-13
    assert error(op.matrix(), exact) < tolerance
    assert error(op.gram_product(np.ones(90)), exact.T @ exact.sum(1)) < tolerance
    assert np.array_equal(before[0], X.indices)  # the caller's matrix is untouched
    assert np.array_equal(before[1], X.data)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("unit", [1e3, 1e6, 1e12])
def test_large_norms_leave_equal_points_equal(unit, dtype, on_device):
    """Cancellation leaves distances of either sign, and exponentials without end."""
    X, Z = points(dtype)
    X, Z = X * unit, Z * unit
    expected = (X.toarray()[:, None] == Z.toarray()).all(-1).astype(float)
    for kernel in (k.Gaussian(1.0), k.Matern(2.5), k.Laplacian(), k.Cauchy(0.01)):
        op = products.KernelOperator(kernel, X, Z, device_memory="1GB")
        if on_device:
            op.devices = [pytest.importorskip("torch").device("cpu")]
        assert np.abs(np.asarray(op.matrix()) - expected).max() < 1e-6


def test_points_beyond_reason_are_refused():
    X, Z = points("float64")
    with pytest.raises(ValueError, match="length scales away; rescale"):
        products.matrix(k.Gaussian(1.0), X * 1e40, Z * 1e40)
    assert np.isfinite(products.matrix(k.Linear(), X * 1e40, Z * 1e40)).all()


@pytest.mark.parametrize("kernel", [k.Gaussian(1.0), k.Laplacian(1.0), k.Linear()])
def test_memory_does_not_grow_with_the_columns(kernel):
    """Of 65,000,000 columns: the centres alone, made dense, would take 150 GB."""
    rng = np.random.default_rng(0)
    n, m, d = 3000, 300, 65_000_000
    columns = np.sort(rng.integers(0, d, (n, 100)), axis=1)
    parts = rng.random(n * 100), columns.ravel(), 100 * np.arange(n + 1)
    X = sparse.csr_array(parts, shape=(n, d))
    op = products.KernelOperator(kernel, X, X[:m], threads=2)
    op.product(np.ones(m))  # loads and compiles
    tracemalloc.start()
    op = products.KernelOperator(kernel, X, X[:m], threads=2)
    result = op.gram_product(np.ones(m))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.shape == (m,)
    assert op.plan("gram_product").peak / 4 < peak < op.plan("gram_product").peak < 30e6
