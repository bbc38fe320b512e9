"""Every file format gives the stored rows, and damaged files give clear errors."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiercel.products.files import open_rows
from tiercel.products.rows import as_rows, is_rows, prefetched

X = np.random.default_rng(0).normal(size=(1003, 5))


# Formats whose library is missing are skipped by those who ask for it here.


def need_h5py():
    return pytest.importorskip("h5py")


def need_zarr():
    return pytest.importorskip("zarr")


def need_arrow():
    return pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


def save_npy(path, array):
    np.save(path, array)


def save_npy_fortran(path, array):
    np.save(path, np.asfortranarray(array))


def save_npz(path, array):
    np.savez(path, table=array)


def save_npz_compressed(path, array):
    np.savez_compressed(path, table=array)


def save_npz_lzma(path, array):
    np.save(path.with_suffix(".npy"), array)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.write(path.with_suffix(".npy"), "table.npy")


def save_hdf5(path, array):
    with need_h5py().File(path, "w") as file:
        file["table"] = array


def save_hdf5_chunked(path, array):
    chunks = (64, 2)[: array.ndim]
    with need_h5py().File(path, "w") as file:
        file.create_dataset("table", data=array, chunks=chunks, compression="gzip")


def save_zarr(path, array):
    stored = need_zarr().create_array(
        path, shape=array.shape, chunks=(64, 2)[: array.ndim], dtype=array.dtype
    )
    stored[...] = array


def save_zarr_v2(path, array):
    group = need_zarr().open_group(path, mode="w", zarr_format=2)
    stored = group.create_array(
        "table", shape=array.shape, chunks=(100, 5)[: array.ndim], dtype=array.dtype
    )
    stored[...] = array


def save_parquet(path, array):
    pa, pq = need_arrow()
    columns = array.reshape(len(array), -1).T
    table = pa.table({f"c{j}": np.ascontiguousarray(c) for j, c in enumerate(columns)})
    pq.write_table(table, path, row_group_size=150)


SAVERS = {
    "npy": (save_npy, ".npy"),
    "npy-fortran": (save_npy_fortran, ".npy"),
    "npz": (save_npz, ".npz"),
    "npz-deflate": (save_npz_compressed, ".npz"),
    "npz-lzma": (save_npz_lzma, ".npz"),
    "hdf5": (save_hdf5, ".h5"),
    "hdf5-chunked": (save_hdf5_chunked, ".hdf5"),
    "zarr": (save_zarr, ".zarr"),
    "zarr-v2": (save_zarr_v2, ".zarr"),
    "parquet": (save_parquet, ".parquet"),
}
every_format = pytest.mark.parametrize("format", SAVERS)


class Saved(dict):
    """The files with the matrix X, by format; each is made when first asked for."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __missing__(self, format):
        save, suffix = SAVERS[format]
        path = self.folder / f"{format}{suffix}"
        save(path, X)
        self[format] = path
        return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Saved(tmp_path_factory.mktemp("saved"))


def joined(rows, block_rows, **options):
    blocks = [block.copy() for _, _, block in prefetched(rows, block_rows, **options)]
    return np.concatenate(blocks)


# Every format gives the same rows.


@every_format
@pytest.mark.parametrize("block_rows", [7, 64, 101, 2000])
def test_blocks_of_a_file_are_the_rows(saved, format, block_rows):
    with open_rows(saved[format]) as rows:
        assert rows.shape == X.shape
        assert rows.dtype == X.dtype
        assert is_rows(rows)
        for _ in range(2):  # a second pass begins at the start again
            np.testing.assert_array_equal(joined(rows, block_rows), X)


@every_format
@settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    ranges=st.lists(st.tuples(st.integers(0, 1003), st.integers(0, 1003)), max_size=6)
)
def test_ranges_in_any_order(saved, format, ranges):
    with open_rows(saved[format]) as rows:
        for start, stop in map(sorted, ranges):
            np.testing.assert_array_equal(rows.read(start, stop), X[start:stop])


@every_format
@pytest.mark.parametrize("columns", [[4, 1], [2], -1, slice(1, 4), np.array([0, 0, 3])])
def test_columns_are_chosen_in_order(saved, format, columns):
    with open_rows(saved[format], columns=columns) as rows:
        expected = X[:, np.atleast_1d(np.arange(5)[columns])]
        assert rows.shape == expected.shape
        np.testing.assert_array_equal(joined(rows, 97), expected)


@every_format
def test_columns_that_are_not_there(saved, format):
    for columns in ([5], -6):
        with pytest.raises(ValueError, match="has 5 columns"):
            open_rows(saved[format], columns=columns)
    with pytest.raises(ValueError, match="no columns"):
        open_rows(saved[format], columns=[])
    with pytest.raises(TypeError, match="numbers or names"):
        open_rows(saved[format], columns=[True, False])
    with pytest.raises(ValueError, match=r"no names|no column 'weight'"):
        open_rows(saved[format], columns=["weight"])


@every_format
def test_dtype_is_converted_while_reading(saved, format):
    with open_rows(saved[format], dtype=np.float32) as rows:
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(joined(rows, 90), X.astype(np.float32))
    with pytest.raises(TypeError, match="int64 can't keep"):
        open_rows(saved[format], dtype=np.int64)


@every_format
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "u4", "i8", "?"])
def test_stored_dtypes(tmp_path, format, dtype):
    save, suffix = SAVERS[format]
    array = (50 * np.abs(X[:200])).astype(dtype)
    save(tmp_path / f"t{suffix}", array)
    with open_rows(tmp_path / f"t{suffix}") as rows:
        assert rows.dtype == array.dtype
        np.testing.assert_array_equal(rows.read(3, 200), array[3:])
        np.testing.assert_array_equal(joined(rows, 33), array.astype(float))


@pytest.mark.parametrize("format", [f for f in SAVERS if f != "parquet"])
def test_the_other_byte_order(tmp_path, format):
    save, suffix = SAVERS[format]
    save(tmp_path / f"t{suffix}", X.astype(">f4"))
    with open_rows(tmp_path / f"t{suffix}") as rows:
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(joined(rows, 130), X.astype("f4"))


@every_format
def test_one_dimension_is_a_single_column(tmp_path, format):
    save, suffix = SAVERS[format]
    save(tmp_path / f"t{suffix}", X[:, 2])
    with open_rows(tmp_path / f"t{suffix}") as rows:
        assert rows.shape == (1003, 1)
        np.testing.assert_array_equal(joined(rows, 150), X[:, 2:3])


@every_format
def test_several_passes_at_once(saved, format):
    found = {}
    with open_rows(saved[format]) as rows:

        def work(start):
            found[start] = joined(rows, 11, start=start, stop=min(start + 400, 1003))

        threads = [threading.Thread(target=work, args=(s,)) for s in (0, 300, 600)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for start in (0, 300, 600):
        np.testing.assert_array_equal(found[start], X[start : start + 400])


@every_format
def test_missing_values_are_located(tmp_path, format):
    save, suffix = SAVERS[format]
    array = X.copy()
    array[777, 3] = np.nan
    save(tmp_path / f"t{suffix}", array)
    with (
        open_rows(tmp_path / f"t{suffix}") as rows,
        pytest.raises(ValueError, match="row 777, column 3"),
    ):
        joined(rows, 50)


@every_format
def test_closed_rows_are_not_read(saved, format):
    rows = open_rows(saved[format])
    rows.read(0, 1)
    rows.close()
    rows.close()
    with pytest.raises(ValueError, match="is closed"):
        rows.read(0, 1)


@every_format
def test_ranges_beyond_the_end_are_refused(saved, format):
    with open_rows(saved[format]) as rows:
        for start, stop in ((-1, 3), (5, 4), (1000, 1004)):
            with pytest.raises(ValueError, match="not within 0 to 1003"):
                rows.read(start, stop)
        with pytest.raises(ValueError, match="C-contiguous with 5 columns"):
            rows.read_into(0, np.empty((3, 4)))


# Which array of a file.


def test_the_array_is_named_by_key(tmp_path):
    h5py, zarr = need_h5py(), need_zarr()
    np.savez(tmp_path / "t.npz", a=X, b=X[:, 0])
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["deep/a"], file["b"] = X, X[:, 0]
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    for name, array in (("deep/a", X), ("b", X[:, 0])):
        group.create_array(name, shape=array.shape, dtype=array.dtype)[...] = array
    for suffix, key in ((".npz", "a"), (".h5", "deep/a"), (".zarr", "deep/a")):
        with open_rows(tmp_path / f"t{suffix}", key=key) as rows:
            np.testing.assert_array_equal(rows.read(0, 9), X[:9])
        with pytest.raises(ValueError, match=f"with key=; it holds .*'{key}'"):
            open_rows(tmp_path / f"t{suffix}")
        with pytest.raises(ValueError, match="has no array 'c'; it holds"):
            open_rows(tmp_path / f"t{suffix}", key="c")


def test_files_with_one_table_take_no_key(saved):
    for format in ("npy", "parquet", "zarr"):
        with pytest.raises(ValueError, match="leave key= out"):
            open_rows(saved[format], key="table")


def test_unknown_and_missing_files(tmp_path):
    with pytest.raises(ValueError, match=r"\.npy, \.npz.*format"):
        open_rows(tmp_path / "table.csv")
    for suffix in (".npy", ".npz", ".h5", ".parquet", ".zarr"):
        with pytest.raises(FileNotFoundError, match="there is no"):
            open_rows(tmp_path / f"t{suffix}")


@pytest.mark.parametrize(
    ("format", "library"), [("hdf5", "h5py"), ("zarr", "zarr"), ("parquet", "pyarrow")]
)
def test_missing_libraries_are_named(saved, monkeypatch, format, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"needs {library}.*tiercel\[tables\]"):
        open_rows(saved[format])


# Arrays and tables that are open already.


def test_open_datasets_are_rows(saved):
    h5py, zarr = need_h5py(), need_zarr()
    with h5py.File(saved["hdf5-chunked"]) as file:
        assert is_rows(file["table"])
        np.testing.assert_array_equal(joined(file["table"], 99), X)
        with pytest.raises(TypeError, match="choose a dataset"):
            as_rows(file)
    array = zarr.open(saved["zarr"], mode="r")
    assert is_rows(array)
    np.testing.assert_array_equal(joined(array, 99), X)


def test_open_tables_are_rows(saved):
    pa, pq = need_arrow()
    table = pa.concat_tables([pq.read_table(saved["parquet"])] * 2)
    assert is_rows(table)
    np.testing.assert_array_equal(joined(table, 99), np.concatenate([X, X]))
    with pq.ParquetFile(saved["parquet"]) as file:
        assert is_rows(file)
        assert as_rows(file).names == ("c0", "c1", "c2", "c3", "c4")
        np.testing.assert_array_equal(joined(file, 99), X)


# Tables.


def test_columns_of_tables_have_names(saved):
    with open_rows(saved["parquet"], columns=["c3", 0, "c3"]) as rows:
        assert rows.names == ("c3", "c0", "c3")
        np.testing.assert_array_equal(joined(rows, 99), X[:, [3, 0, 3]])


def test_numbers_of_several_types_become_the_type_that_holds_all(tmp_path):
    pa, pq = need_arrow()
    columns = {"a": np.arange(9, dtype="i1"), "b": np.arange(9, dtype="f4")}
    pq.write_table(
        pa.table(columns | {"c": np.arange(9) % 2 == 0}), tmp_path / "t.parquet"
    )
    with open_rows(tmp_path / "t.parquet") as rows:
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(
            rows.read(6, 9), [[6, 6, 1], [7, 7, 0], [8, 8, 1]]
        )


def test_columns_that_are_not_numbers(tmp_path):
    pa, pq = need_arrow()
    table = pa.table({"a": [1.0, 2.0], "label": ["x", "y"], "nested": [[1], [2]]})
    pq.write_table(table, tmp_path / "t.parquet")
    for open_it in (lambda: open_rows(tmp_path / "t.parquet"), lambda: as_rows(table)):
        with pytest.raises(TypeError, match=r"label \(string\), nested .*columns="):
            open_it()
    with open_rows(tmp_path / "t.parquet", columns=["a"]) as rows:
        np.testing.assert_array_equal(rows.read(0, 2), [[1.0], [2.0]])


@pytest.mark.parametrize("statistics", [True, False])
def test_missing_values_of_tables(tmp_path, statistics):
    pa, pq = need_arrow()
    table = pa.table({"a": [1.0] * 50, "b": [1.0] * 40 + [None] * 10})
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=statistics)
    with pytest.raises(ValueError, match=r"column 'b' .*missing values in row"):
        joined(open_rows(tmp_path / "t.parquet"), 7)
    with pytest.raises(ValueError, match="column 'b' of X has missing values"):
        as_rows(table)
    with open_rows(tmp_path / "t.parquet", columns="a") as rows:
        assert joined(rows, 7).sum() == 50


def test_row_groups_of_any_size(tmp_path):
    pa, pq = need_arrow()
    schema = pa.table({"a": [0]}).schema
    with pq.ParquetWriter(tmp_path / "t.parquet", schema) as writer:
        for a, b in ((0, 1), (1, 1), (1, 90), (90, 90), (90, 100)):
            writer.write_table(pa.table({"a": np.arange(a, b)}))
    with open_rows(tmp_path / "t.parquet") as rows:
        for block_rows in (1, 8, 100):
            found = joined(rows, block_rows)
            np.testing.assert_array_equal(found[:, 0], np.arange(100))


# Files that are damaged or made to harm.


def header(shape, descr="<f8", order=False, data=b""):
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}"
    text += " " * (117 - len(text)) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def pack(path, data, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("table.npy", data)


def write(folder, kind, data):
    """Write bytes as a .npy file, or as a member of an archive."""
    if kind == "npy":
        (folder / "t.npy").write_bytes(data)
        return folder / "t.npy"
    method = zipfile.ZIP_STORED if kind == "npz" else zipfile.ZIP_DEFLATED
    pack(folder / "t.npz", data, method)
    return folder / "t.npz"


every_container = pytest.mark.parametrize("kind", ["npy", "npz", "npz-deflate"])


@every_container
@pytest.mark.parametrize("shape", [(10**12, 5), (2**61, 8), (1001, 1), (2**62, 2**62)])
def test_sizes_that_are_not_there_are_refused(tmp_path, kind, shape):
    path = write(tmp_path, kind, header(shape, data=bytes(8000)))
    with pytest.raises(ValueError, match=r"cut short.*promises"):
        open_rows(path)


@every_container
@pytest.mark.parametrize("shape", [(), (0, 3), (-1, 5), (2, 2, 2), (3, 0)])
def test_unfit_shapes_are_refused(tmp_path, kind, shape):
    with pytest.raises(ValueError, match="shape"):
        open_rows(write(tmp_path, kind, header(shape, data=bytes(8000))))


@every_container
def test_objects_are_refused_and_pickles_not_run(tmp_path, kind):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    trap = pickle.dumps(np.array([[Trap()]], dtype=object))
    with pytest.raises(TypeError, match="Python objects"):
        open_rows(write(tmp_path, kind, header((1, 1), "|O", data=trap)))
    with pytest.raises(ValueError, match=r"not a readable \.npy"):
        open_rows(write(tmp_path, kind, trap))
    assert not (tmp_path / "sprung").exists()


@every_container
@pytest.mark.parametrize("descr", ["<c16", "<U4", "<M8[s]", "|V8", "|S3"])
def test_what_is_not_real_numbers_is_refused(tmp_path, kind, descr):
    with pytest.raises(TypeError, match=r"complex|numbers are needed"):
        open_rows(write(tmp_path, kind, header((1, 1), descr, data=bytes(100))))


def test_records_are_refused(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros(3, [("a", "f8"), ("b", "i4")]))
    with pytest.raises(TypeError, match="numbers are needed"):
        open_rows(tmp_path / "t.npy")


@every_container
@settings(deadline=None, max_examples=60)
@given(
    place=st.integers(0, 127),
    junk=st.binary(min_size=1, max_size=8),
    length=st.integers(0, 1000),
)
def test_no_header_does_harm(tmp_path_factory, kind, place, junk, length):
    good = header((100, 1), data=bytes(800))
    data = (good[:place] + junk + good[place + len(junk) :])[:length]
    path = write(tmp_path_factory.mktemp("junk"), kind, data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = open_rows(path)
    except (ValueError, TypeError):
        return
    with rows:
        n, d = rows.shape
        assert n * d * rows.dtype.itemsize <= 1000
        rows.read(0, n)


def test_a_file_cut_while_it_is_read(tmp_path):
    np.save(tmp_path / "t.npy", X)
    with open_rows(tmp_path / "t.npy") as rows:
        with open(tmp_path / "t.npy", "r+b") as file:
            file.truncate(128 + 40 * 550)  # in the middle of 1003 rows
        with pytest.raises(OSError, match="cut short") as caught:
            joined(rows, 100)
    assert caught.value.__notes__ == ["while rows 500 to 600 were read"]


def test_a_compressed_array_that_is_damaged(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", X)
    data = bytearray((tmp_path / "t.npz").read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "t.npz").write_bytes(data)
    with pytest.raises(OSError, match="can't be unpacked"):
        joined(open_rows(tmp_path / "t.npz"), 100)


def test_a_compressed_array_that_is_shorter_than_declared(tmp_path):
    data = header((1000, 1), data=bytes(4000))
    pack(tmp_path / "t.npz", data, zipfile.ZIP_DEFLATED)
    archive = bytearray((tmp_path / "t.npz").read_bytes())
    true, false = len(data).to_bytes(4, "little"), (8128).to_bytes(4, "little")
    (tmp_path / "t.npz").write_bytes(bytes(archive).replace(true, false))
    with pytest.raises(OSError, match="can't be unpacked"):
        joined(open_rows(tmp_path / "t.npz"), 100)


def test_a_stored_array_whose_entry_lies(tmp_path):
    data = header((1000, 1), data=bytes(4000))
    pack(tmp_path / "t.npz", data)
    archive = bytearray((tmp_path / "t.npz").read_bytes())
    true, false = len(data).to_bytes(4, "little"), (8128).to_bytes(4, "little")
    (tmp_path / "t.npz").write_bytes(bytes(archive).replace(true, false))
    with pytest.raises(ValueError, match="damaged"):
        open_rows(tmp_path / "t.npz")


def test_an_archive_that_unpacks_to_far_more_is_unpacked_block_by_block(tmp_path):
    rows = 10**7
    with (
        zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("table.npy", "w") as member,
    ):
        member.write(header((rows, 1)))
        for _ in range(80):
            member.write(bytes(10**6))
    assert (tmp_path / "t.npz").stat().st_size < 10**5
    tracemalloc.start()
    with open_rows(tmp_path / "t.npz") as source:
        assert not any(block.any() for _, _, block in prefetched(source, 10**5))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_compressed_columns_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", np.asfortranarray(X))
    with pytest.raises(ValueError, match="Fortran order"):
        open_rows(tmp_path / "t.npz")


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet"])
def test_other_files_under_a_known_name(tmp_path, suffix):
    need_h5py(), need_arrow()
    (tmp_path / f"t{suffix}").write_bytes(b"not what the name says" * 100)
    with pytest.raises((ValueError, OSError), match="t"):
        open_rows(tmp_path / f"t{suffix}")


def test_a_folder_that_is_no_zarr(tmp_path):
    need_zarr()
    (tmp_path / "t.zarr").mkdir()
    with pytest.raises(ValueError, match="not a readable zarr"):
        open_rows(tmp_path / "t.zarr")


def test_zarr_filters_that_unpickle_are_refused(tmp_path):
    folder = tmp_path / "t.zarr"
    shape = (4, 2)
    need_zarr().create_array(
        folder, shape=shape, chunks=shape, dtype="f8", zarr_format=2
    )
    text = (folder / ".zarray").read_text()
    assert '"filters": null' in text
    text = text.replace('"filters": null', '"filters": [{"id": "pickle"}]')
    (folder / ".zarray").write_text(text)
    with pytest.raises((TypeError, ValueError), match="pickle"):
        open_rows(folder)


def test_hdf5_objects_and_nothing_are_refused(tmp_path):
    with need_h5py().File(tmp_path / "t.h5", "w") as file:
        file["text"] = ["a", "b"]
        file["nothing"] = need_h5py().Empty("f8")
    with pytest.raises(TypeError, match="objects"):
        open_rows(tmp_path / "t.h5", key="text")
    with pytest.raises(ValueError, match="two dimensions"):
        open_rows(tmp_path / "t.h5", key="nothing")


# Memory: passes through 200 MB in blocks of 8 MB.

GROWTH = r"""
import re, sys
from pathlib import Path
import numpy as np
from tiercel.products.files import open_rows
from tiercel.products.rows import prefetched

kind, path = sys.argv[1:]

def peak():
    # Not getrusage: its peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])

def total(rows, block_rows):
    return sum(float(b[:, 0].sum()) for _, _, b in prefetched(rows, block_rows))

n = 10**6
M = np.memmap(path, np.float64, "r", offset=128, shape=(n, 25))
if kind == "memmap":
    rows = M
elif kind == "touched pages":
    rows = np.asarray(M)
else:
    rows = open_rows(path)
total(np.ones((1000, 25)), 100)  # imports and threads
before = peak()
for _ in range(2):
    assert total(rows, 40_000) == n * (n - 1) / 2
print(peak() - before)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "t.npy"
    array = np.lib.format.open_memmap(path, "w+", np.float64, (10**6, 25))
    array[:, 0] = np.arange(10**6)
    array.flush()
    return path


def growth(kind, path):
    script = subprocess.run(
        [sys.executable, "-c", GROWTH, kind, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert script.returncode == 0, script.stderr
    return int(script.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
@pytest.mark.parametrize("kind", ["npy", "memmap"])
def test_memory_stays_within_the_blocks(large, kind):
    assert growth(kind, large) < 40e6


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
def test_memory_would_be_seen_to_grow(large):
    assert growth("touched pages", large) > 190e6
