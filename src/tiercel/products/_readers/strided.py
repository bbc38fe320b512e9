"""Numbers at regular distances in a file: ``.npy``, mapped arrays and their views.

They are read with plain reads at an offset, not through a mapping. Pages of a mapping
that have been touched count as this process's memory for as long as the system pleases,
so a pass through a large mapped array looks like, and in a container is punished as,
using all of it. A read goes to a buffer of ours, of a size that we chose.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tiercel.products._readers.stored import STRIP_BYTES, StoredRows
from tiercel.products.rows import check_dtype, check_shape

#: Bytes between two rows that it is quicker to read than to jump over.
LARGEST_GAP = 2**16


class ByteSource(Protocol):
    """Bytes that can be read at any offset."""

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill ``view`` with the bytes from ``offset`` on."""


class PlainFile:
    """A file that several threads may read at once.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "example"
    >>> _ = path.write_bytes(b"0123456789")
    >>> with PlainFile(path) as file:
    ...     view = memoryview(bytearray(3))
    ...     file.read_into(4, view)
    ...     print(file.size, bytes(view))
    10 b'456'
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        # Closes the file when nobody holds it any more, without a warning: rows that
        # were made of a mapped array have no owner who would close them.
        self._closing = weakref.finalize(self, os.close, self._number)
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Number of bytes in the file now."""
        return os.fstat(self._number).st_size

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill ``view`` with the bytes from ``offset`` on."""
        while len(view):
            if not self._closing.alive:
                raise ValueError(f"{self.path} is closed")
            count = self._read_some(offset, view)
            if count == 0:
                raise OSError(
                    f"{self.path} ends at byte {offset}, where {len(view)} more "
                    "were expected; was it cut short?"
                )
            offset, view = offset + count, view[count:]

    def _read_some(self, offset: int, view: memoryview) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._number, [view], offset)
        # Windows has one position for each file, so readers take turns.
        with self._lock:
            os.lseek(self._number, offset, os.SEEK_SET)
            found = os.read(self._number, len(view))
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Close the file."""
        self._closing()

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class StridedRows(StoredRows):
    """Rows of a matrix whose entry (i, j) stands at offset + i step[0] + j step[1].

    Parameters
    ----------
    source
        The bytes.
    offset
        Where entry (0, 0) stands.
    steps
        Bytes from one row to the next, and from one column to the next.
    name, shape, stored, options
        See :class:`StoredRows`.
    """

    def __init__(
        self,
        source: ByteSource,
        offset: int,
        steps: tuple[int, int],
        name: str,
        shape: Any,
        stored: np.dtype[Any],
        **options: Any,
    ) -> None:
        super().__init__(name, shape, stored, **options)
        self._source, self._offset, self._steps = source, offset, steps
        self._stored = stored
        # Bytes from the first number of a row to the end of its last.
        self._extent = (self._width - 1) * steps[1] + stored.itemsize

    def _fill(self, start: int, out: np.ndarray) -> None:
        packed = self._steps == (self._width * out.itemsize, out.itemsize)
        if self._columns is None and self._stored == out.dtype and packed:
            self._source.read_into(self._place(start), _as_bytes(out))
        elif self._extent <= self._steps[0]:
            self._fill_by_rows(start, out)
        else:
            self._fill_by_columns(start, out)

    def _fill_by_rows(self, start: int, out: np.ndarray) -> None:
        """Read all from the first row to the last, and keep the columns asked for."""
        step = self._steps[0]
        height = max(1, STRIP_BYTES // step)
        if step - self._extent > LARGEST_GAP:
            height = 1
        buffer = np.empty((min(height, len(out)) - 1) * step + self._extent, np.uint8)
        for a in range(0, len(out), height):
            count = min(height, len(out) - a)
            used = buffer[: (count - 1) * step + self._extent]
            self._source.read_into(self._place(start + a), used.data)
            strip = np.ndarray((count, self._width), self._stored, used, 0, self._steps)
            out[a : a + count] = (
                strip if self._columns is None else strip[:, self._columns]
            )

    def _fill_by_columns(self, start: int, out: np.ndarray) -> None:
        """Read one column after the other (Fortran order)."""
        step = self._steps[0]
        height = max(1, STRIP_BYTES // step)
        itemsize = self._stored.itemsize
        buffer = np.empty((min(height, len(out)) - 1) * step + itemsize, np.uint8)
        columns = range(self._width) if self._columns is None else self._columns
        for a in range(0, len(out), height):
            count = min(height, len(out) - a)
            used = buffer[: (count - 1) * step + itemsize]
            part = np.ndarray(count, self._stored, used, 0, step)
            for j, column in enumerate(columns):
                self._source.read_into(self._place(start + a, int(column)), used.data)
                out[a : a + count, j] = part

    def _place(self, row: int, column: int = 0) -> int:
        return self._offset + row * self._steps[0] + column * self._steps[1]


class SlicedRows(StoredRows):
    """Rows of an array in memory, or of a mapping that only the array itself can read.

    Parameters
    ----------
    array
        One or two dimensions.
    name
        Its name for error messages.
    """

    def __init__(self, array: np.ndarray, name: str) -> None:
        super().__init__(name, array.shape, array.dtype)
        self._array = array.reshape(self.shape)

    def _fill(self, start: int, out: np.ndarray) -> None:
        out[...] = self._array[start : start + len(out)]


def rows_of_array(array: np.ndarray, name: str) -> StoredRows:
    """Return the rows of an array, read from its file where it is mapped from one."""
    check_shape(array.shape, name)
    check_dtype(array.dtype, name)
    found = _place_in_file(array)
    if found is not None:
        path, offset = found
        along, across = (*array.strides, array.itemsize)[:2]
        with ExitStack() as resources:
            file = resources.enter_context(PlainFile(path))
            rows = StridedRows(
                file, offset, (along, across), name, array.shape, array.dtype
            )
            if _same_ends(rows, array):
                return rows.owning(resources.pop_all())
    return SlicedRows(array, name)


def _place_in_file(array: np.ndarray) -> tuple[Path, int] | None:
    """Return the file of a mapped array, and where in it the first entry stands."""
    mapping = getattr(array, "_mmap", None)
    if not isinstance(array, np.memmap) or not isinstance(mapping, mmap.mmap):
        return None
    # Copy-on-write mappings ("c") may hold changes that the file doesn't have.
    if array.filename is None or array.mode == "c" or min(array.strides) <= 0:
        return None
    # A view keeps the offset of the array it was cut from, so the offset is found from
    # the addresses. A mapping begins at a multiple of the system's granularity.
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    within = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    path = Path(array.filename)
    if not path.is_file():
        return None
    return path, begin + within


def _same_ends(rows: StridedRows, array: np.ndarray) -> bool:
    """Tell whether the file still is what was mapped.

    Saving under the same name can put another file there, while the mapping keeps the
    old one alive.
    """
    n = len(array)
    try:
        return all(
            rows.read(i, i + 1).tobytes() == array[i : i + 1].tobytes()
            for i in (0, n - 1)
        )
    except OSError:
        return False


def _as_bytes(out: np.ndarray) -> memoryview:
    return out.reshape(-1).view(np.uint8).data
