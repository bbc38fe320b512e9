"""Rows that are not in memory: what a source must offer, and reading it ahead.

A source of rows has a shape, a dtype and ``read(start, stop)``. Arrays mapped from
disk, HDF5 datasets, zarr arrays and Parquet files become one through :func:`as_rows`,
files through :func:`tiercel.products.files.open_rows`, functions through
:class:`GeneratedRows`.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike

from tiercel._arrays import FLOATS, all_finite

Block = tuple[int, int, np.ndarray]


@runtime_checkable
class Rows(Protocol):
    """A matrix that is read some rows at a time.

    ``read(start, stop)`` returns rows start to stop-1 as a C-contiguous array that the
    source doesn't touch again: the next rows are read, on another thread, while these
    are worked on. A source that would rather fill arrays than make them offers, in
    addition, ``read_into(start, out)``, which fills ``out``, of any float dtype, with
    the rows from ``start`` on.

    Examples
    --------
    >>> class Powers:
    ...     shape = (1000, 2)
    ...     dtype = np.dtype(np.float64)
    ...     def read(self, start, stop):
    ...         i = np.arange(start, stop, dtype=self.dtype)
    ...         return np.stack([i, i**2], axis=1)
    >>> isinstance(Powers(), Rows)
    True
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that ``read`` returns."""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows ``start`` to ``stop - 1``."""


class GeneratedRows:
    """Rows that a function makes whenever they are read; nothing is stored.

    Parameters
    ----------
    function
        Takes ``(start, stop)`` and returns these rows. It must return the same rows
        in every pass and for every cut into blocks.
    shape
        Number of rows and of columns.
    dtype
        Type of the numbers: what the function returns is converted to it.

    Examples
    --------
    >>> def waves(start, stop):
    ...     t = np.arange(start, stop)
    ...     return np.stack([np.sin(t), np.cos(t)], axis=1)
    >>> rows = GeneratedRows(waves, shape=(10**9, 2))
    >>> rows.read(0, 2)
    array([[0.        , 1.        ],
           [0.84147098, 0.54030231]])
    """

    def __init__(
        self,
        function: Callable[[int, int], Any],
        shape: tuple[int, int],
        dtype: DTypeLike = np.float64,
    ) -> None:
        if not callable(function):
            raise TypeError("function must be callable as function(start, stop)")
        self.function = function
        self.shape = check_shape(shape, "GeneratedRows")
        self.dtype = check_dtype(np.dtype(dtype), "GeneratedRows")

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows ``start`` to ``stop - 1``."""
        check_range(start, stop, self.shape[0])
        block = np.asarray(self.function(start, stop))
        expected = (stop - start, self.shape[1])
        if block.shape != expected:
            raise ValueError(
                f"the function returned shape {block.shape} for rows {start} to "
                f"{stop}, where {expected} was expected"
            )
        check_dtype(block.dtype, "what the function returned")
        return np.ascontiguousarray(block, dtype=self.dtype)


def is_rows(X: Any) -> bool:
    """Tell whether ``X`` should be read block by block rather than used as an array.

    Examples
    --------
    >>> is_rows(np.zeros((3, 2)))
    False
    >>> is_rows(GeneratedRows(lambda a, b: np.zeros((b - a, 2)), (3, 2)))
    True
    """
    if isinstance(X, np.ndarray):
        # Results of arithmetic with a mapped array are of its class, yet in memory.
        return isinstance(X, np.memmap) and getattr(X, "_mmap", None) is not None
    return _library_of(X) is not None or _reads(X)


def as_rows(X: Any, name: str = "X") -> Rows:
    """Return ``X`` as a source of rows, without reading it.

    Parameters
    ----------
    X
        A mapped or ordinary numpy array, an h5py dataset, a zarr array, a pyarrow
        table or Parquet file, or an object with ``shape``, ``dtype`` and ``read``.
        One dimension counts as a single column.
    name
        What ``X`` is called in error messages.

    Examples
    --------
    >>> as_rows(np.arange(6.0).reshape(3, 2)).read(1, 3)
    array([[2., 3.],
           [4., 5.]])
    """
    # The readers build on this module; they are imported when there is one to make.
    if isinstance(X, np.ndarray):
        from tiercel.products._readers.strided import rows_of_array

        return rows_of_array(X, name)
    library = _library_of(X)
    if library in ("h5py", "zarr"):
        from tiercel.products._readers.chunked import ChunkedRows

        return ChunkedRows(X, name)
    if library == "pyarrow":
        from tiercel.products._readers.tables import rows_of_table

        return rows_of_table(X, name)
    if not _reads(X):
        raise TypeError(
            f"{name} is a {type(X).__name__}, which can't be read row by row; open "
            "files with open_rows(path), choose a dataset in a group, or pass an "
            "object with shape (rows, columns), dtype and read(start, stop)"
        )
    check_shape(X.shape, name)
    check_dtype(np.dtype(X.dtype), name)
    return X


def prefetched(
    rows: Any,
    block_rows: int,
    *,
    depth: int = 2,
    start: int = 0,
    stop: int | None = None,
    dtype: DTypeLike | None = None,
) -> Generator[Block, None, None]:
    """Yield ``(start, stop, block)`` in order, reading ahead on another thread.

    Blocks are checked: numbers only, as float32 or float64, and finite. A block is
    yours until you ask for the next one; then its memory is filled anew, so copy what
    you want to keep. Sources with ``read_into`` are read into ``depth`` arrays that
    are used again and again; of other sources ``depth`` blocks are alive, and one more
    for the moment in which you let go of the last.

    The thread ends with the last block, and when the generator is closed or dropped.

    Parameters
    ----------
    rows
        Whatever :func:`as_rows` takes.
    block_rows
        Rows in a block; the last may have fewer.
    depth
        Number of blocks: the one you hold and those being read.
    start, stop
        The range of rows to read, by default all.
    dtype
        float32 or float64; by default float32 where the source has half or single
        precision, float64 otherwise.

    Examples
    --------
    >>> X = np.arange(10.0).reshape(5, 2)
    >>> [(a, b, float(block.sum())) for a, b, block in prefetched(X, 2)]
    [(0, 2, 6.0), (2, 4, 22.0), (4, 5, 17.0)]
    """
    rows = as_rows(rows, "rows")
    stop = rows.shape[0] if stop is None else stop
    start, stop = operator.index(start), operator.index(stop)
    check_range(start, stop, rows.shape[0])
    block_rows, depth = operator.index(block_rows), operator.index(depth)
    if block_rows < 1 or depth < 1:
        raise ValueError(
            f"block_rows and depth must be positive, not {block_rows} and {depth}"
        )
    kind = float_dtype(rows.dtype) if dtype is None else np.dtype(dtype)
    if kind not in FLOATS:
        raise ValueError(f"dtype must be float32 or float64, not {kind}")
    return _read_ahead(rows, start, stop, block_rows, depth, kind)


def _read_ahead(
    rows: Rows, start: int, stop: int, height: int, depth: int, dtype: np.dtype[Any]
) -> Generator[Block, None, None]:
    starts = iter(range(start, stop, height))
    pending: deque[tuple[int, int, np.ndarray | None, Future[np.ndarray]]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="tiercel-rows")

    def begin(buffer: np.ndarray | None) -> None:
        a = next(starts, None)
        if a is not None:
            b = min(a + height, stop)
            future = pool.submit(_read, rows, a, b, buffer, dtype)
            pending.append((a, b, buffer, future))

    try:
        for _ in range(min(depth, -(-(stop - start) // height))):
            size = (min(height, stop - start), rows.shape[1])
            begin(np.empty(size, dtype) if hasattr(rows, "read_into") else None)
        while pending:
            a, b, buffer, future = pending.popleft()
            yield a, b, future.result()
            del future  # with it goes a block that can't be used again
            begin(buffer)
    finally:
        # Waits for a read that is under way; those behind it never begin.
        pool.shutdown(wait=True, cancel_futures=True)


def _read(
    rows: Any, start: int, stop: int, buffer: np.ndarray | None, dtype: np.dtype[Any]
) -> np.ndarray:
    """Return the checked rows; an error that the source raises names them."""
    try:
        # Numbers too large for the dtype become infinite, and are reported as such.
        with np.errstate(over="ignore"):
            if buffer is not None:
                block = buffer[: stop - start]
                rows.read_into(start, block)
            else:
                raw = np.asarray(rows.read(start, stop))
                check_dtype(raw.dtype, "the block that was read")
                block = np.ascontiguousarray(raw, dtype=dtype)
    except Exception as error:
        error.add_note(f"while rows {start} to {stop} were read")
        raise
    if block.shape != (stop - start, rows.shape[1]):
        raise ValueError(
            f"reading rows {start} to {stop} gave shape {block.shape}, where "
            f"{(stop - start, rows.shape[1])} was expected"
        )
    if not all_finite(block):
        row, column = np.argwhere(~np.isfinite(block))[0]
        raise ValueError(
            f"rows {start} to {stop} hold NaN or values that are infinite in {dtype}; "
            f"the first is in row {start + row}, column {column}; impute or drop them"
        )
    return block


def check_shape(shape: Any, name: str) -> tuple[int, int]:
    """Return ``shape`` as (rows, columns), one dimension being a single column."""
    shape = tuple(operator.index(size) for size in shape or ())
    if len(shape) == 1:
        shape = (*shape, 1)
    if len(shape) != 2:
        raise ValueError(
            f"{name} must have two dimensions (rows, columns), not {len(shape)}"
        )
    if min(shape) < 1:
        raise ValueError(f"{name} is empty: its shape is {shape}")
    return shape[0], shape[1]


def check_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Return ``dtype`` in this machine's byte order; refuse what isn't real numbers."""
    if dtype.kind == "c":
        raise TypeError(f"{name} is complex; split it into real and imaginary parts")
    if dtype.kind == "O":
        raise TypeError(
            f"{name} holds Python objects, which are never read from files; "
            "store it as numbers"
        )
    if dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {dtype}, but numbers are needed")
    return dtype.newbyteorder("=")


def check_range(start: int, stop: int, n: int) -> None:
    """Refuse a range that isn't within n rows."""
    if not 0 <= start <= stop <= n:
        raise ValueError(f"rows {start} to {stop} are not within 0 to {n}")


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to compute in: as ``tiercel._arrays.check_float`` chooses."""
    check_dtype(dtype, "rows")
    single = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if single else np.float64)


def _library_of(X: Any) -> str | None:
    """Return the library whose out-of-core array ``X`` is, without importing any."""
    for kind in type(X).__mro__:
        library = kind.__module__.partition(".")[0]
        if (library, kind.__name__) in _SOURCES:
            return library
    return None


_SOURCES = {
    ("h5py", "Dataset"),
    ("zarr", "Array"),
    ("pyarrow", "Table"),
    ("pyarrow", "ParquetFile"),
}


def _reads(X: Any) -> bool:
    shape = getattr(X, "shape", None)
    return (
        callable(getattr(X, "read", None))
        and hasattr(X, "dtype")
        and isinstance(shape, tuple)
        and len(shape) == 2
    )
