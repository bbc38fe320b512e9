"""Every value that may stand in a model comes back: type, bits, order in memory."""

from __future__ import annotations

import math
import string
import subprocess
import sys
import tempfile
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from holders import OWN, Holder, round_trip, same
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

from tiercel.io import load, save

DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    npst.unicode_string_dtypes(endianness="?", max_len=5),
)
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)  # surrogates too
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**5000),
    st.floats(),
    TEXTS,
    st.binary(max_size=5),
    st.slices(5),
)


def hashable(value):
    return not isinstance(value, slice) and value == value  # NaN is no key to compare


VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(
            st.one_of(LEAVES.filter(hashable), TEXTS, st.tuples(TEXTS, st.booleans())),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(VALUES)
def test_plain_values_come_back(value):
    with tempfile.TemporaryDirectory() as folder:
        assert same(round_trip(value, folder), value)


@settings(max_examples=80)
@given(st.data(), DTYPES, SHAPES)
def test_arrays_come_back_with_their_bits_and_their_order(data, dtype, shape):
    array = data.draw(npst.arrays(dtype, shape))
    layout = data.draw(st.sampled_from(["C", "F", "every second", "backwards"]))
    if layout == "F":
        array = np.asfortranarray(array)
    elif layout == "every second" and array.ndim:
        array = np.repeat(array, 2, axis=-1)[..., ::2]
    elif layout == "backwards" and array.ndim:
        array = array[(slice(None, None, -1),) * array.ndim]
    with tempfile.TemporaryDirectory() as folder:
        found = round_trip(array, folder)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.f_contiguous >= array.flags.f_contiguous
    assert found.flags.c_contiguous or array.flags.f_contiguous
    assert found.flags.writeable


@given(npst.arrays(npst.scalar_dtypes().filter(lambda d: d.kind in "biuf"), ()))
def test_numpy_scalars_keep_their_type(array):
    if array.dtype.itemsize > 8:
        return
    with tempfile.TemporaryDirectory() as folder:
        value = array.astype(array.dtype.newbyteorder("="))[()]
        assert same(round_trip(value, folder), value)


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        math.inf,
        5e-324,
        0.1,
        2**53 + 1,
        -(2**64),
        np.str_("Ärger"),
        np.array([np.nan, -0.0, np.inf, -np.inf]),
        np.array(["cat", "dog"]),
        np.array(["cat", 3, None, 2.5, True, (1, "a"), np.nan], dtype=object),
        np.array([["a", "b", "c"], [1, 2, 3]], dtype=object, order="F"),
        np.array([], dtype=object),
        {3, "a"},
        frozenset({(1, 2)}),
        np.dtype(np.float32),
        np.dtype(">i2"),
        np.dtype("U7"),
        np.float64,
        np.bool_,
        int,
        object,
        {1.5: "a", None: "b", True: "c", (1, "x"): "d", b"k": "e", np.int8(3): "f"},
    ],
)
def test_particular_values_come_back(value, tmp_path):
    assert same(round_trip(value, tmp_path), value)


def test_an_array_of_arrays_of_unequal_length_comes_back(tmp_path):
    value = np.empty(2, dtype=object)
    value[:] = [np.arange(3.0), np.arange(2)]
    assert same(round_trip(value, tmp_path), value)


def test_a_large_strided_array_is_written_in_blocks(tmp_path):
    array = np.random.default_rng(0).standard_normal((700, 601))[:, ::-2].T
    assert same(round_trip(array, tmp_path), np.ascontiguousarray(array))


def test_memory_maps_come_back_as_arrays(tmp_path):
    on_disk = np.memmap(tmp_path / "a", dtype=np.float32, shape=(3,), mode="w+")
    on_disk[:] = [1, 2, 3]
    found = round_trip(on_disk, tmp_path)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, [1, 2, 3])


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_matrix", "csc_array"])
def test_sparse_matrices_stay_sparse(kind, tmp_path):
    dense = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]], dtype=np.float32)
    found = round_trip(getattr(sparse, kind)(dense), tmp_path)
    assert type(found).__name__ == kind
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), dense)


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_a_generator_goes_on_where_it_was(name, tmp_path):
    rng = np.random.Generator(getattr(np.random, name)(7))
    rng.spawn(1)
    rng.integers(10, size=3, dtype=np.int32)  # an odd number: half a word is left over
    found = round_trip(rng, tmp_path)
    child, expected_child = found.spawn(1)[0], rng.spawn(1)[0]
    for a, b in ((found, rng), (child, expected_child)):
        assert type(a.bit_generator) is type(b.bit_generator)
        np.testing.assert_array_equal(
            a.integers(10, size=3, dtype=np.int32),
            b.integers(10, size=3, dtype=np.int32),
        )
        np.testing.assert_array_equal(a.standard_normal(700), b.standard_normal(700))


def test_a_random_state_goes_on_where_it_was(tmp_path):
    rng = np.random.RandomState(7)
    rng.standard_normal(3)  # an odd number: the second of a pair is left over
    found = round_trip(rng, tmp_path)
    np.testing.assert_array_equal(found.standard_normal(700), rng.standard_normal(700))


def test_what_was_shared_is_shared_again(tmp_path):
    rng, array, inner = np.random.default_rng(0), np.arange(3.0), Holder()
    first, second = Holder((rng, array)), Holder((rng, array))
    first.inner_ = second.inner_ = inner
    save(Holder([first, second]), tmp_path / "m")
    first, second = load(tmp_path / "m", classes=OWN).value
    assert first.value[0] is second.value[0]
    assert first.value[1] is second.value[1]
    assert first.inner_ is second.inner_


def test_parts_made_on_the_spot_are_not_mixed_up(tmp_path):
    places = set()

    def parts(self):  # nobody else keeps the part: a later one may lie in its place
        some = [Holder(self.value) for _ in range(1000)]
        part = next((each for each in some if id(each) in places), some[0])
        places.add(id(part))
        return {"part_": part}

    made = type("Made", (Holder,), {"_saved_state": parts})
    save(Holder([made(i) for i in range(20)]), tmp_path / "m")
    found = load(tmp_path / "m", classes=[Holder, made]).value
    assert [model.part_.value for model in found] == list(range(20))


def test_tensors_come_back_as_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    start = torch.arange(6.0).reshape(2, 3)
    for name in ("float16", "bfloat16", "float32", "float64", "int64", "uint8", "bool"):
        tensor = start.to(getattr(torch, name)).T
        found = round_trip(tensor, tmp_path)
        assert found.dtype == tensor.dtype
        assert found.stride() == tensor.stride()
        assert torch.equal(found, tensor)
    assert round_trip(torch.tensor(1.5), tmp_path).item() == 1.5
    assert round_trip(start.requires_grad_(), tmp_path).shape == (2, 3)
    negated = torch.conj(torch.tensor([1 + 2j])).imag  # a view that flips the sign
    assert round_trip(negated, tmp_path).tolist() == [-2.0]


def test_torch_is_imported_for_tensors_only(tmp_path):
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import numpy as np, tiercel.io as io, tiercel.kernels as k\n"
        f"path = {str(tmp_path / 'm')!r}\n"
        "io.save(2.0 * k.Gaussian(np.ones(2)), path)\n"
        "io.load(path), io.describe(path)\n"
        "print(*{'torch', 'numba', 'safetensors', 'pickle5'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: x, "functions cannot be saved"),
        (len, "functions cannot be saved"),
        (np.exp, "functions cannot be saved"),
        (string, "classes and modules cannot be saved"),
        (Holder, "classes and modules cannot be saved"),
        (iter([]), "a builtins.list_iterator cannot be saved"),
        (1j, "a builtins.complex cannot be saved"),
        (Pair(1, 2), "Pair cannot be saved"),
        (OrderedDict(a=1), "a collections.OrderedDict cannot be saved"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray cannot be saved"),
        (np.array([1j]), "arrays of dtype complex128 cannot be saved"),
        (np.zeros(1, [("a", int)]), "arrays of dtype .* cannot be saved"),
        (np.array(["2020-01-01"], "M8[D]"), "arrays of dtype .* cannot be saved"),
        (np.datetime64("2020-01-01"), "a numpy.datetime64 cannot be saved"),
        (np.dtype([("a", int)]), "cannot be saved"),
        (sparse.coo_array(np.eye(2)), "coo_array cannot be saved"),
        (np.array([print], dtype=object), "functions cannot be saved"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_what_cannot_be_saved_is_named_and_nothing_is_written(value, message, tmp_path):
    with pytest.raises(TypeError, match=rf"model\.value\['deep'\]\[1\].*{message}"):
        save(Holder({"deep": [0, value]}), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("torch_value", ["nn.Parameter", "sparse", "complex", "dtype"])
def test_what_is_no_plain_tensor_is_refused(torch_value, tmp_path):
    torch = pytest.importorskip("torch")
    value = {
        "nn.Parameter": lambda: torch.nn.Parameter(torch.zeros(1)),
        "sparse": lambda: torch.eye(2).to_sparse(),
        "complex": lambda: torch.zeros(1, dtype=torch.complex64),
        "dtype": lambda: torch.float32,
    }[torch_value]()
    with pytest.raises(TypeError, match=r"model\.value: .* cannot be saved"):
        save(Holder(value), tmp_path / "m")


def test_cycles_are_named(tmp_path):
    ring = [1]
    ring.append({"again": ring})
    with pytest.raises(ValueError, match=r"model\.value\[1\]\['again'\] leads back"):
        save(Holder(ring), tmp_path / "m")
    outer = Holder()
    outer.value = Holder(outer)
    with pytest.raises(ValueError, match=r"model\.value\.value leads back to itself"):
        save(outer, tmp_path / "m")


def test_depth_has_a_limit_that_is_told(tmp_path):
    fine, deep = [np.float32(0.5), np.arange(2, dtype=">i4")], []
    for _ in range(63):
        fine, deep = [fine], {0: deep}
    assert same(round_trip(fine, tmp_path), fine)
    assert round_trip(deep, tmp_path) == deep
    deep = [[deep]]
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        save(Holder(deep), tmp_path / "m")
    chain = Holder()
    for _ in range(2000):
        chain = Holder(chain)
    with pytest.raises(ValueError, match="objects in objects, too deep to save"):
        save(chain, tmp_path / "m")
