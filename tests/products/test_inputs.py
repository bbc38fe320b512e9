"""What may come in, in every form; what may not is named before work starts."""

import numpy as np
import pytest
from dense_oracle import (
    KERNELS,
    TOLERANCE,
    check_all,
    check_operator,
    error,
    problem,
)
from scipy import sparse

from tiercel import kernels as k
from tiercel import products


def as_torch(X, Z, *others):
    torch = pytest.importorskip("torch")
    return [torch.from_numpy(a) for a in (X, Z, *others)]


def as_csr(X, Z, *others):
    return [sparse.csr_array(X), sparse.csr_array(Z), *others]


def as_csc(X, Z, *others):
    return [sparse.csc_matrix(X), sparse.csc_matrix(Z), *others]


def as_memmap(folder):
    def convert(X, Z, *others):
        X.tofile(folder / "rows")
        return [np.memmap(folder / "rows", X.dtype, "r", shape=X.shape), Z, *others]

    return convert


def as_generated(X, Z, *others):
    return [products.GeneratedRows(lambda a, b: X[a:b], X.shape, X.dtype), Z, *others]


FORMS = {"torch": as_torch, "csr": as_csr, "csc": as_csc, "rows": as_generated}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("form", [*FORMS, "memmap"])
def test_every_kernel_and_form_of_rows(form, name, dtype, tmp_path):
    X, Z, V, U, w = problem(dtype, n=230, m=40)
    if form in ("csr", "csc"):
        Z = np.where(Z > 0, Z, 0)
        X = np.where(X > 0, X, 0)
        X[:20], X[30], Z[5] = Z[:20], 0.0, 0.0
    K = KERNELS[name](X.astype(float), Z.astype(float))
    convert = as_memmap(tmp_path) if form == "memmap" else FORMS[form]
    A, B, V, U, w = convert(X, Z, V, U, w)
    op = products.KernelOperator(KERNELS[name], A, B, memory="400kB")
    check_operator(op, K, V, U, w, TOLERANCE[dtype])
    assert type(op.product(V)) is type(op.matrix()) is type(op.gram()) is type(V)
    assert op.product(V).dtype == op.gram_product(V, w).dtype == V.dtype


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "backwards": lambda a: a[::-1].copy()[::-1],
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "list": lambda a: a.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.filterwarnings("error")
def test_every_layout_of_arrays(layout):
    arrays = problem("float64", n=90, m=20)
    X, Z, V, U, w = arrays
    K = k.Gaussian(2.0)(X, Z)
    X, Z, V, U, w = (layout(a) for a in arrays)
    op = products.KernelOperator(k.Gaussian(2.0), X, Z)
    assert error(op.product(V), K @ arrays[2]) < 1e-14
    assert error(op.cross_product(U), K.T @ arrays[3]) < 1e-14
    exact = K.T @ (arrays[4][:, None] * (K @ arrays[2]))
    assert error(op.gram_product(V, w), exact) < 1e-14


@pytest.mark.parametrize("dtype", ["f2", "i1", "u8", "i8", "?", "g"])
def test_other_numbers_become_floats(dtype):
    X, Z, V, _, _ = problem("float64", n=90, m=20)
    X, Z = np.abs(3.0 * X).astype(dtype), np.abs(3.0 * Z).astype(dtype)
    wide = np.float32 if dtype == "f2" else np.float64
    K = k.Laplacian(2.0)(X.astype(wide), Z.astype(wide))
    for rows in (X, products.GeneratedRows(lambda a, b: X[a:b], X.shape, X.dtype)):
        op = products.KernelOperator(k.Laplacian(2.0), rows, Z)
        assert op.dtype == wide
        assert error(op.product(V), K @ V) < (1e-6 if wide is np.float32 else 1e-14)


def test_whole_numbers_in_rows_are_not_rounded_to_float32():
    X = np.array([[2**24 + 1], [2**24]])
    rows = products.GeneratedRows(lambda a, b: X[a:b], X.shape, X.dtype)
    op = products.KernelOperator(k.Gaussian(1.0), rows, np.float32([[2**24]]))
    assert op.dtype == np.float64
    assert error(op.product(np.ones(1)), np.exp([-0.5, 0.0])) < 1e-15


def test_tables_of_pandas_and_polars():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, Z, V, _, w = problem("float64", n=90, m=20)
    exact = products.gram_product(k.Gaussian(2.0), X, Z, V, w)
    for table, column in (
        (pandas.DataFrame, pandas.Series),
        (polars.DataFrame, polars.Series),
    ):
        found = products.gram_product(
            k.Gaussian(2.0), table(X), table(Z), table(V), column(w)
        )
        assert error(found, exact) < 1e-14


def test_nullable_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    X, Z, V, _, _ = problem("float64", n=90, m=20)
    table = pandas.DataFrame(X).convert_dtypes()
    exact = k.Gaussian(2.0)(X, Z) @ V
    assert error(products.product(k.Gaussian(2.0), table, Z, V), exact) < 1e-14
    table.iloc[3, 2] = pandas.NA
    with pytest.raises(ValueError, match="NaN"):
        products.product(k.Gaussian(2.0), table, Z, V)


def test_masks_and_sparse_tensors_are_not_passed_over():
    torch = pytest.importorskip("torch")
    X, Z, V, _, _ = problem("float64", n=90, m=20)
    with pytest.raises(ValueError, match="masked entries"):
        products.product(k.Gaussian(), np.ma.masked_array(X, X > 1.0), Z, V)
    with pytest.raises(TypeError, match="sparse tensor"):
        products.product(k.Gaussian(), torch.from_numpy(X).to_sparse_coo(), Z, V)


def test_float32_in_the_other_byte_order_stays_float32():
    X, Z, V, _, _ = problem("float32", n=90, m=20)
    op = products.KernelOperator(k.Gaussian(), X.astype(X.dtype.newbyteorder()), Z)
    assert op.dtype == np.float32
    assert np.array_equal(op.product(V), products.product(k.Gaussian(), X, Z, V))


def test_numpy_and_torch_may_meet():
    torch = pytest.importorskip("torch")
    X, Z, V, U, w = problem("float64", n=90, m=20)
    tX, tZ, tV, tw = map(torch.from_numpy, (X, Z, V, w))
    exact = products.gram_product(k.Gaussian(2.0), X, Z, V, w)
    for A, B, vectors, weights in (
        (tX, Z, V, w), (X, tZ, V, tw), (tX, tZ, V, tw), (X, Z, tV, w)
    ):  # fmt: skip
        found = products.gram_product(k.Gaussian(2.0), A, B, vectors, weights)
        assert type(found) is type(vectors)
        assert np.array_equal(np.asarray(found), exact)
    G, cross = products.gram(k.Gaussian(2.0), tX, tZ, tw, U)
    assert torch.is_tensor(G)
    assert isinstance(cross, np.ndarray)


def test_no_outputs_give_empty_results():
    X, Z, V, U, w = problem("float32", n=90, m=20, outputs=0)
    op = products.KernelOperator(k.Gaussian(2.0), X, Z)
    assert op.product(V).shape == (90, 0)
    assert op.cross_product(U).shape == op.gram_product(V, w).shape == (20, 0)
    assert op.gram(w, U)[1].shape == (20, 0)


def test_one_point_one_center_one_column():
    x = np.array([[3.0]])
    check_all(k.Laplacian(2.0), x, x + 2.0, x, x, np.ones(1), 1e-15)


def test_without_centers_the_rows_are_the_centers():
    X = problem("float64")[0][:60]
    K = k.Gaussian(2.0)(X)
    assert error(products.matrix(k.Gaussian(2.0), X), K) < 1e-14
    assert error(products.matrix(k.Gaussian(2.0), sparse.csr_array(X)), K) < 1e-14


def test_centers_may_come_from_a_file(tmp_path):
    X, Z, V, _, _ = problem("float64")
    np.save(tmp_path / "centers.npy", Z)
    exact = products.product(k.Gaussian(2.0), X, Z, V)
    with products.open_rows(tmp_path / "centers.npy") as rows:
        assert np.array_equal(products.product(k.Gaussian(2.0), X, rows, V), exact)


def test_precomputed_kernels_take_positions():
    rng = np.random.default_rng(0)
    K, v = rng.random((50, 20)), rng.standard_normal(3)
    chosen, kernel = [3, 5, 7], k.Precomputed()
    assert error(products.product(kernel, K, chosen, v), K[:, chosen] @ v) < 1e-15
    assert error(products.gram(kernel, K, None), K.T @ K) < 1e-14
    both = 2.0 * kernel + kernel * kernel
    exact = (2.0 * K + K**2)[:, chosen]
    assert error(products.product(both, K, chosen, v), exact @ v) < 1e-15
    rows = products.GeneratedRows(lambda a, b: K[a:b], K.shape)
    assert error(products.product(kernel, rows, chosen, v), K[:, chosen] @ v) < 1e-15
    short = products.KernelOperator(kernel, K.astype("f4"), np.array(chosen, "i1"))
    assert short.dtype == np.float32
    torch = pytest.importorskip("torch")
    assert torch.is_tensor(products.matrix(kernel, torch.from_numpy(K), chosen))


@pytest.mark.parametrize(
    ("Z", "exception", "message"),
    [
        ([20], ValueError, r"0 \.\.\. 19"),
        ([-1], ValueError, r"0 \.\.\. 19"),
        ([], TypeError, "integer positions"),
        ([1.0], TypeError, "integer positions"),
        ([[1, 2]], TypeError, r"integer positions.*\(1, 2\)"),
    ],
)
def test_positions_are_checked(Z, exception, message):
    with pytest.raises(exception, match=message):
        products.matrix(k.Precomputed(), np.ones((50, 20)), Z)


BAD = {
    "NaN": (lambda X, Z, V: (X * np.nan, Z, V), ValueError, "NaN or infinite"),
    "infinite": (lambda X, Z, V: (X, Z / 0.0, V), ValueError, "NaN or infinite"),
    "columns": (lambda X, Z, V: (X, Z[:, 1:], V), ValueError, "6 columns but Z has 5"),
    "complex": (lambda X, Z, V: (X * 1j, Z, V), TypeError, "complex"),
    "object": (lambda X, Z, V: (X.astype(object), Z, V), TypeError, "dtype object"),
    "text": (lambda X, Z, V: (X.astype(str), Z, V), TypeError, "dtype <U"),
    "empty": (lambda X, Z, V: (X[:0], Z, V), ValueError, "empty"),
    "no columns": (lambda X, Z, V: (X[:, :0], Z, V), ValueError, "empty"),
    "no centers": (lambda X, Z, V: (X, Z[:0], V), ValueError, "Z is empty"),
    "one dimension": (lambda X, Z, V: (X[:, 0], Z, V), ValueError, "two dimensions"),
    "path": (lambda X, Z, V: ("rows.npy", Z, V), TypeError, "open_rows"),
    "nothing": (lambda X, Z, V: (None, Z, V), ValueError, "X must have two dim"),
    "rows alone": (
        lambda X, Z, V: (products.GeneratedRows(None.__eq__, X.shape), None, V),
        ValueError,
        "need centers: pass Z",
    ),
    "sparse and dense": (
        lambda X, Z, V: (sparse.csr_array(X), Z, V),
        TypeError,
        "both be sparse",
    ),
    "vector length": (lambda X, Z, V: (X, Z, V[1:]), ValueError, "129 rows"),
    "vector NaN": (lambda X, Z, V: (X, Z, V * np.inf), ValueError, "V holds NaN"),
    "vector complex": (lambda X, Z, V: (X, Z, V * 1j), TypeError, "V is complex"),
    "cube": (lambda X, Z, V: (X, Z, V[..., None]), ValueError, "one or two dimensions"),
    "no vector": (lambda X, Z, V: (X, Z, None), ValueError, "not 0"),
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
        ({"device": "gpu"}, "name 'cpu'"),
        ({"device": ["cpu", "meta"]}, "CUDA"),
        ({"memory": "much"}, "much"),
        ({"memory": 1000}, "would do"),
    ],
)
def test_bad_options_are_refused(options, message):
    X, Z, V, _, _ = problem("float64")
    with pytest.raises(ValueError, match=message):
        products.product(k.Gaussian(), X, Z, V, **options)


@pytest.mark.parametrize(
    "option", [{"threads": "2"}, {"threads": 1.5}, {"callback": 1}]
)
def test_options_of_the_wrong_type_are_refused(option):
    X, Z, V, _, _ = problem("float64")
    with pytest.raises(TypeError, match=r"callable|integer"):
        products.product(k.Gaussian(), X, Z, V, **option)


@pytest.mark.parametrize("device", ["cpu", "cpu:0", [], ["cpu", "cpu"]])
def test_the_processor_by_any_name(device):
    X, Z, V, _, _ = problem("float64")
    found = products.product(k.Gaussian(), X, Z, V, device=device)
    assert np.array_equal(found, products.product(k.Gaussian(), X, Z, V))


def test_plans_are_of_known_operations():
    X, Z, _, _, _ = problem("float64")
    with pytest.raises(ValueError, match="operation must be one of"):
        products.plan(k.Gaussian(), X, Z, operation="multiply")
    with pytest.raises(ValueError, match="n_outputs must not be negative"):
        products.plan(k.Gaussian(), X, Z, n_outputs=-1)


def test_weights_are_checked():
    X, Z, V, _, w = problem("float64")
    with pytest.raises(ValueError, match="weights has 699 rows"):
        products.gram_product(k.Gaussian(), X, Z, V, w[1:])
    with pytest.raises(ValueError, match="weights must have one dimension"):
        products.gram_product(k.Gaussian(), X, Z, V, w[:, None])
    with pytest.raises(ValueError, match="weights holds NaN"):
        products.gram(k.Gaussian(), X, Z, w * np.nan)
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
