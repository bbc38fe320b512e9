"""HDF5 datasets and zarr arrays, which are stored in chunks of rows and columns.

A chunk is unpacked whole, even for one of its rows. So reads are cut where chunks end,
and the strip of chunks that a block ends in is kept for the block that follows: a pass
unpacks every chunk once, whatever the size of the blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import numpy as np

from tiercel.products._readers.stored import StoredRows

#: Bytes to read at once: several chunks where chunks are small.
STRIP_BYTES = 4 * 2**20

#: A strip larger than this isn't kept: memory goes before time.
LARGEST_STRIP_BYTES = 64 * 2**20


class ChunkedRows(StoredRows):
    """Rows of an h5py dataset or a zarr array.

    Parameters
    ----------
    array
        The dataset or array.
    name, options
        See :class:`StoredRows`.

    Examples
    --------
    >>> import h5py
    >>> with h5py.File("example", "w", driver="core", backing_store=False) as file:
    ...     data = file.create_dataset("x", data=np.eye(5), chunks=(2, 5))
    ...     ChunkedRows(data, "x", columns=[1, 3]).read(1, 4)
    array([[1., 0.],
           [0., 0.],
           [0., 1.]])
    """

    def __init__(self, array: Any, name: str, **options: Any) -> None:
        stored = np.dtype(array.dtype)
        super().__init__(name, array.shape, stored, **options)
        _refuse_pickles(array, name)
        self._array, self._stored = array, stored.newbyteorder("=")
        low, high = 0, self._width
        if self._columns is not None:
            # Chunks outside of the columns' range need not be touched.
            low, high = int(self._columns.min()), int(self._columns.max()) + 1
        self._range = slice(low, high)
        row_bytes = (high - low) * stored.itemsize
        self._strip_rows = _strip_rows(array, row_bytes)
        # A strip, or a row of chunks, and what the library unpacks it from.
        height = self._strip_rows or _chunk_rows(array)
        self.held_bytes = 2 * min(height, self.shape[0]) * row_bytes
        self._last: tuple[int, np.ndarray] | None = None
        # HDF5 fills and converts our arrays itself; booleans it takes for an enum.
        self._direct = (
            hasattr(array, "read_direct")
            and stored.kind in "fiu"
            and self._columns is None
        )

    def _fill(self, start: int, out: np.ndarray) -> None:
        if self._strip_rows is None:
            self._load(start, out)
            return
        stop = start + len(out)
        row = start
        while row < stop:
            first = row - row % self._strip_rows
            last = min(first + self._strip_rows, self.shape[0])
            end = min(last, stop)
            part = out[row - start : end - start]
            if len(part) == last - first:
                self._load(first, part)
            else:
                part[...] = self._strip(first, last)[row - first : end - first]
            row = end

    def _strip(self, first: int, last: int) -> np.ndarray:
        """Return a strip, the one that was read last if it is that."""
        known = self._last  # read once: another thread may change it
        if known is not None and known[0] == first:
            return known[1]
        self._last = known = None  # not two at a time
        strip = np.empty((last - first, self.shape[1]), self._stored)
        self._load(first, strip)
        self._last = (first, strip)
        return strip

    def _load(self, start: int, out: np.ndarray) -> None:
        rows = slice(start, start + len(out))
        if self._array.ndim == 1:
            if self._direct:
                self._array.read_direct(out.reshape(-1), rows)
            else:
                out[...] = np.asarray(self._array[rows])[:, None]
        elif self._direct:
            self._array.read_direct(out, rows)
        else:
            found = np.asarray(self._array[rows, self._range])
            if self._columns is not None:
                found = found[:, self._columns - self._range.start]
            out[...] = found


def open_hdf5(path: str, key: str | None, **options: Any) -> ChunkedRows:
    """Return the rows of a dataset in an HDF5 file."""
    h5py = import_module("h5py")
    with ExitStack() as resources:
        file = resources.enter_context(h5py.File(path, "r"))
        found: list[str] = []

        def note(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                found.append(name)

        def look_up(name: str) -> Any:
            item = file.get(name)
            return item if isinstance(item, h5py.Dataset) else None

        file.visititems(note)
        array, key = _choose(key, found, look_up, path)
        rows = ChunkedRows(array, f"{path}[{key}]", **options)
        return rows.owning(resources.pop_all())


def open_zarr(path: str, key: str | None, **options: Any) -> ChunkedRows:
    """Return the rows of a zarr array, or of one in a zarr group."""
    zarr = import_module("zarr")
    try:
        node = zarr.open(os.fspath(path), mode="r")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a readable zarr directory: {error}") from error
    if isinstance(node, zarr.Array):
        if key is not None:
            raise ValueError(f"{path} is a single array; leave key= out")
        return ChunkedRows(node, path, **options)
    members = dict(node.members(max_depth=None))
    arrays = {n: item for n, item in members.items() if isinstance(item, zarr.Array)}
    array, key = _choose(key, list(arrays), arrays.get, path)
    return ChunkedRows(array, f"{path}[{key}]", **options)


def _choose(
    key: str | None, found: list[str], look_up: Callable[[str], Any], path: str
) -> tuple[Any, str]:
    """Return the array that ``key`` names, or the only one that was found."""
    if key is None:
        if len(found) != 1:
            raise ValueError(f"choose an array of {path} with key=; it holds {found}")
        key = found[0]
    array = look_up(key.strip("/"))
    if array is None:
        raise ValueError(f"{path} has no array {key!r}; it holds {found}")
    return array, key


def _strip_rows(array: Any, row_bytes: int) -> int | None:
    """Return how many rows to read at a time; None if chunks don't matter."""
    chunk_rows = _chunk_rows(array)
    chunk_bytes = chunk_rows * row_bytes
    if chunk_rows == 0 or chunk_bytes > LARGEST_STRIP_BYTES:
        return None
    return chunk_rows * max(1, STRIP_BYTES // chunk_bytes)


def _chunk_rows(array: Any) -> int:
    """Return the rows of a chunk; 0 if the array has none.

    With shards, chunks are parts of one file that can be read on their own.
    """
    chunks = getattr(array, "chunks", None)
    return 0 if chunks is None else max(1, int(chunks[0]))


def _refuse_pickles(array: Any, name: str) -> None:
    """Refuse a zarr array whose chunks pass through pickle on their way out."""
    metadata = getattr(array, "metadata", None)
    codecs = [
        *(getattr(metadata, "codecs", None) or ()),
        *(getattr(metadata, "filters", None) or ()),
        getattr(metadata, "compressor", None),
    ]
    for codec in codecs:
        known = f"{type(codec).__name__} {getattr(codec, 'codec_id', '')}"
        if "pickle" in known.lower():
            raise TypeError(
                f"{name} is stored as pickles, and reading it would run code from the "
                "file, which is never done; store it as numbers"
            )
