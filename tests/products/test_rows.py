"""Rows are the same whatever holds them and however they are cut into blocks."""

from __future__ import annotations

import os
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel.products.rows import GeneratedRows, Rows, as_rows, is_rows, prefetched

X = np.random.default_rng(0).normal(size=(137, 5))


class Reading:
    """A source of rows as a user may write it."""

    def __init__(self, array, fail_at=None):
        self.shape, self.dtype = array.shape, array.dtype
        self.array, self.fail_at = array, fail_at

    def read(self, start, stop):
        if self.fail_at is not None and start <= self.fail_at < stop:
            raise KeyError("lost")
        return self.array[start:stop].copy()


class Filling(Reading):
    """The same, filling arrays it is given; notes which ones."""

    def __init__(self, array):
        super().__init__(array)
        self.seen = []

    def read_into(self, start, out):
        self.seen.append(out.ctypes.data)
        out[...] = self.array[start : start + len(out)]


def joined(rows, block_rows, **options):
    blocks = [(a, b, x.copy()) for a, b, x in prefetched(rows, block_rows, **options)]
    for a, b, x in blocks:
        assert x.shape[0] == b - a
        assert x.flags.c_contiguous
    for (_, end, _), (begin, _, _) in pairwise(blocks):
        assert begin == end
    return np.concatenate([x for _, _, x in blocks])


def readers():
    return [t for t in threading.enumerate() if t.name.startswith("tiercel-rows")]


def mapped(tmp_path, array=X):
    path = tmp_path / "mapped"
    array.tofile(path)
    return np.memmap(path, array.dtype, "r+", shape=array.shape)


@pytest.mark.parametrize("source", [Reading, Filling, as_rows])
@settings(deadline=None, max_examples=40)
@given(
    block_rows=st.integers(1, 200),
    depth=st.integers(1, 4),
    ends=st.lists(st.integers(0, len(X)), min_size=2, max_size=2, unique=True),
)
def test_any_blocks_of_any_range_are_the_rows(source, block_rows, depth, ends):
    start, stop = sorted(ends)
    options = {"depth": depth, "start": start, "stop": stop}
    found = joined(source(X), block_rows, **options)
    np.testing.assert_array_equal(found, X[start:stop])


def test_an_empty_range_has_no_blocks():
    assert list(prefetched(X, 10, start=20, stop=20)) == []


def test_arrays_are_used_again():
    source = Filling(X)
    assert len(list(prefetched(source, 10, depth=3))) == 14
    assert len(set(source.seen)) == 3


def test_blocks_alive_stay_within_depth():
    begun = []

    class Counting(Reading):
        def read(self, start, stop):
            begun.append(start)
            return super().read(start, stop)

    for handed, _ in enumerate(prefetched(Counting(X), 10, depth=2), start=1):
        time.sleep(0.01)  # long enough to read too far, if that could happen
        assert len(begun) <= handed + 1


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("f2", "f4"),
        ("f4", "f4"),
        (">f4", "f4"),
        ("f8", "f8"),
        (">f8", "f8"),
        ("i1", "f8"),
        ("u8", "f8"),
        ("?", "f8"),
    ],
)
def test_numbers_become_floats(stored, read):
    array = (10 * np.abs(X)).astype(stored)
    found = joined(Reading(array), 30)
    assert found.dtype == np.dtype(read)
    np.testing.assert_array_equal(found, array.astype(read))


def test_dtype_can_be_chosen():
    found = joined(Filling(X), 30, dtype=np.float32)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, X.astype(np.float32))
    with pytest.raises(ValueError, match="float32 or float64"):
        prefetched(X, 10, dtype=np.int64)


@pytest.mark.parametrize("dtype", [complex, object, "U3", "M8[s]"])
def test_other_dtypes_are_refused_at_once(dtype):
    with pytest.raises(TypeError, match=r"complex|objects|numbers are needed"):
        prefetched(Reading(np.zeros((3, 2)).astype(dtype)), 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("source", [Reading, Filling])
def test_the_first_bad_value_is_located(source, bad):
    array = X.copy()
    array[73, 2], array[74, 0] = bad, bad
    with pytest.raises(ValueError, match=r"rows 70 to 80 .* row 73, column 2"):
        list(prefetched(source(array), 10))
    assert readers() == []


def test_values_too_large_for_the_dtype_are_located():
    array = X.copy()
    array[3, 1] = 1e300
    with pytest.raises(ValueError, match=r"infinite in float32.*row 3, column 1"):
        list(prefetched(Filling(array), 10, dtype=np.float32))


def test_errors_of_the_source_come_through_and_name_the_rows():
    blocks = prefetched(Reading(X, fail_at=45), 10)
    assert [next(blocks)[0] for _ in range(4)] == [0, 10, 20, 30]
    with pytest.raises(KeyError, match="lost") as caught:
        next(blocks)
    assert caught.value.__notes__ == ["while rows 40 to 50 were read"]
    assert readers() == []


def test_blocks_of_the_wrong_shape_are_refused():
    source = Reading(X)
    source.shape = (137, 4)
    with pytest.raises(ValueError, match=r"gave shape \(10, 5\), where \(10, 4\)"):
        next(prefetched(source, 10))


def test_stopping_early_ends_the_thread():
    blocks = prefetched(X, 10)
    next(blocks)
    assert len(readers()) == 1
    blocks.close()
    assert readers() == []
    for _ in prefetched(X, 10):
        break
    assert readers() == []  # the dropped generator was closed
    never_begun = prefetched(X, 10)
    del never_begun
    assert readers() == []


def test_closing_waits_for_the_read_that_is_under_way():
    reading, go_on = threading.Event(), threading.Event()

    class Slow(Reading):
        def read(self, start, stop):
            if start:
                reading.set()
                go_on.wait(10)
            return super().read(start, stop)

    blocks = prefetched(Slow(X), 10, depth=4)
    next(blocks)
    assert reading.wait(10)
    threading.Timer(0.05, go_on.set).start()
    blocks.close()
    assert readers() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_rows": 0}, "positive"),
        ({"block_rows": 5, "depth": 0}, "positive"),
        ({"block_rows": 5, "start": -1}, "not within 0 to 137"),
        ({"block_rows": 5, "stop": 138}, "not within"),
        ({"block_rows": 5, "start": 9, "stop": 8}, "not within"),
    ],
)
def test_impossible_requests_are_refused_before_reading(options, message):
    with pytest.raises(ValueError, match=message):
        prefetched(Reading(X, fail_at=0), **options)


def test_generated_rows():
    rows = GeneratedRows(lambda a, b: X[a:b], X.shape, np.float32)
    assert is_rows(rows)
    assert isinstance(rows, Rows)
    np.testing.assert_array_equal(joined(rows, 31), X.astype(np.float32))
    with pytest.raises(ValueError, match=r"shape \(3, 5\) for rows 0 to 2"):
        GeneratedRows(lambda a, b: X[:3], X.shape).read(0, 2)
    with pytest.raises(TypeError, match="callable"):
        GeneratedRows(X, X.shape)
    with pytest.raises(ValueError, match="empty"):
        GeneratedRows(lambda a, b: X[a:b], (0, 5))


# What counts as rows, and mapped arrays in all their views.


def test_arrays_in_memory_are_not_rows(tmp_path):
    torch = pytest.importorskip("torch")
    M = mapped(tmp_path)
    for array in (X, [[1.0]], torch.zeros(2, 2), None, "x.npy", M + 1, M[[0, 1]]):
        assert not is_rows(array)
    for rows in (M, M[10:], Reading(X)):
        assert is_rows(rows)


@pytest.mark.parametrize("thing", ["x.npy", [[1.0]], None, {"a": 1}])
def test_what_cannot_be_read_by_rows_is_refused(thing):
    with pytest.raises(TypeError, match="open_rows"):
        as_rows(thing)


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros((2, 2, 2)), ValueError),
        (np.zeros((0, 3)), ValueError),
        (np.zeros((3, 3), complex), TypeError),
        (np.array([[None]]), TypeError),
    ],
)
def test_unfit_arrays_are_refused(array, error):
    with pytest.raises(error, match="sample"):
        as_rows(array, "sample")


VIEWS = {
    "whole": lambda M: M,
    "rows": lambda M: M[11:100],
    "columns": lambda M: M[:, 1:4],
    "last column": lambda M: M[:, -1],
    "every second": lambda M: M[3::2, ::2],
    "transposed": lambda M: M.T,
    "part transposed": lambda M: M[5:60:3, 1:].T,
    "single row": lambda M: M[7:8],
    "backwards": lambda M: M[::-1],
    "flat": lambda M: M.reshape(-1)[7:],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f4", "i2"])
def test_views_of_mapped_arrays_are_read_from_the_right_place(tmp_path, view, dtype):
    array = (100 * X).astype(dtype)
    M = view(mapped(tmp_path, array))
    rows = as_rows(M)
    expected = np.asarray(M).reshape(len(M), -1)
    assert rows.shape == expected.shape
    np.testing.assert_array_equal(joined(rows, 17), expected)
    np.testing.assert_array_equal(rows.read(1, len(M)), expected[1:])


@settings(deadline=None, max_examples=30)
@given(offset=st.integers(0, 9000), first=st.integers(0, 100))
def test_any_offset_of_a_mapping(tmp_path_factory, offset, first):
    path = tmp_path_factory.mktemp("offset") / "mapped"
    path.write_bytes(bytes(offset) + X.tobytes())
    M = np.memmap(path, X.dtype, "r", offset=offset, shape=X.shape)[first:]
    rows = as_rows(M)
    assert type(rows).__name__ == "StridedRows"
    np.testing.assert_array_equal(joined(rows, 40), X[first:])


def test_changes_to_a_mapping_are_seen(tmp_path):
    M = mapped(tmp_path)
    rows = as_rows(M)
    M[50:60] = 7.0
    np.testing.assert_array_equal(rows.read(49, 61), np.asarray(M[49:61]))


def test_private_changes_are_seen(tmp_path):
    path = tmp_path / "private"
    X.tofile(path)
    M = np.memmap(path, X.dtype, "c", shape=X.shape)
    M[50:60] = 7.0
    np.testing.assert_array_equal(joined(M, 20), np.asarray(M))


def test_a_file_replaced_since_it_was_mapped_is_not_read(tmp_path):
    M = mapped(tmp_path)
    np.zeros_like(X).tofile(tmp_path / "other")
    (tmp_path / "other").rename(tmp_path / "mapped")
    np.testing.assert_array_equal(joined(M, 20), X)
    (tmp_path / "mapped").unlink()
    np.testing.assert_array_equal(joined(M, 20), X)


def test_systems_without_reads_at_an_offset(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "preadv", raising=False)
    np.testing.assert_array_equal(joined(mapped(tmp_path)[3:, :4], 20), X[3:, :4])


def test_wide_gaps_between_rows_are_jumped_over(tmp_path):
    array = np.arange(12 * 20_000, dtype=float).reshape(12, 20_000)
    M = mapped(tmp_path, array)
    np.testing.assert_array_equal(joined(M[::2, 100:103], 4), array[::2, 100:103])
