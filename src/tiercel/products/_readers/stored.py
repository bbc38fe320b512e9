"""What all readers share: column selection, range checks, closing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from tiercel.products.rows import check_dtype, check_range, check_shape

#: Bytes that are read at a time where they can't go straight to their place: enough
#: for the disk, little beside a block.
STRIP_BYTES = 2**20

Columns = int | str | slice | Sequence[int | str]


class StoredRows:
    """A source of rows; readers add ``_fill(start, out)``.

    ``held_bytes`` is about what a reader, or the library below it, keeps in memory
    while it reads, beside the blocks that it fills.

    Parameters
    ----------
    name
        Name of the source for error messages.
    shape
        Stored shape, with one or two dimensions.
    stored
        Stored dtype.
    columns
        Columns to read, in this order; by default all.
    dtype
        Type of the numbers that are returned, by default the stored one.
    names
        Names of the stored columns, where they have names.
    """

    held_bytes = 0

    def __init__(
        self,
        name: str,
        shape: Any,
        stored: np.dtype[Any],
        *,
        columns: Columns | None = None,
        dtype: DTypeLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.dtype = check_dtype(stored, name)
        if dtype is not None:
            self.dtype = check_dtype(np.dtype(dtype), "dtype")
            if not np.can_cast(stored, self.dtype, "same_kind"):
                raise TypeError(f"{name} holds {stored}, which {self.dtype} can't keep")
        n, self._width = check_shape(shape, name)
        # Which stored columns to read: None stands for all, so that they need no copy.
        self._columns = None
        if columns is not None:
            self._columns = select_columns(columns, self._width, names, name)
            names = names and [names[j] for j in self._columns]
        self.names = None if names is None else tuple(names)
        self.shape = (n, self._width if self._columns is None else len(self._columns))
        self._resources = ExitStack()
        self._closed = False

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows ``start`` to ``stop - 1`` as a new array."""
        check_range(start, stop, self.shape[0])
        out = np.empty((stop - start, self.shape[1]), self.dtype)
        self.read_into(start, out)
        return out

    def read_into(self, start: int, out: np.ndarray) -> None:
        """Fill ``out``, a C-contiguous matrix, with the rows from ``start`` on."""
        if self._closed:
            raise ValueError(f"{self.name} is closed")
        if out.shape != (len(out), self.shape[1]) or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be C-contiguous with {self.shape[1]} columns; "
                f"its shape is {out.shape}"
            )
        check_range(start, start + len(out), self.shape[0])
        if len(out):
            self._fill(start, out)

    def _fill(self, start: int, out: np.ndarray) -> None:
        raise NotImplementedError

    def owning(self, resources: ExitStack) -> Self:
        """Return these rows, which from now on close ``resources`` with themselves."""
        self._resources.callback(resources.close)
        return self

    def close(self) -> None:
        """Close the file. Rows can't be read afterwards."""
        self._closed = True
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        n, d = self.shape
        return f"<{type(self).__name__} {self.name!r}: {n} x {d}, {self.dtype}>"


class ForwardReader(Protocol):
    """Something that can only be read onwards."""

    @property
    def place(self) -> int:
        """What comes next: a byte, or a row."""

    def close(self) -> None:
        """Stop reading."""


R = TypeVar("R", bound=ForwardReader)


class ForwardReaders(Generic[R]):
    """The forward readers that are open on one source, each used by one at a time.

    A pass through the source goes on with the reader that its last block left behind.
    Several passes at once, each over its own part, don't throw one another back to
    the start, as they would with a single reader.

    Parameters
    ----------
    open_at
        Returns a new reader that can be moved forward to the place it is given.
    limit
        Number of idle readers to keep.
    """

    def __init__(self, open_at: Callable[[int], R], limit: int = 4) -> None:
        self._open_at, self._limit = open_at, limit
        self._idle: list[R] = []
        self._lock = threading.Lock()

    @contextmanager
    def at(self, place: int, earliest: int = 0) -> Iterator[R]:
        """Lend the reader that is nearest before ``place``.

        One that hasn't come to ``earliest`` is no nearer than a new one.
        """
        with self._lock:
            usable = [r for r in self._idle if earliest <= r.place <= place]
            reader = max(usable, key=lambda r: r.place, default=None)
            if reader is not None:
                self._idle.remove(reader)
        if reader is None:
            reader = self._open_at(place)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        with self._lock:
            self._idle.append(reader)
            oldest = self._idle.pop(0) if len(self._idle) > self._limit else None
        if oldest is not None:
            oldest.close()

    def close(self) -> None:
        """Close the idle readers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()


def select_columns(
    columns: Columns, width: int, names: Sequence[str] | None, source: str
) -> np.ndarray:
    """Return the numbers of the chosen columns."""
    if isinstance(columns, slice):
        chosen = list(range(width)[columns])
    else:
        single = isinstance(columns, str) or np.ndim(columns) == 0
        chosen = [
            _find(column, width, names, source)
            for column in ([columns] if single else columns)  # type: ignore[union-attr]
        ]
    if not chosen:
        raise ValueError(f"no columns of {source} are chosen")
    return np.array(chosen)


def _find(column: Any, width: int, names: Sequence[str] | None, source: str) -> int:
    """Return the number of one column that is given by number or name."""
    if isinstance(column, str):
        if names is None:
            raise ValueError(
                f"the columns of {source} have no names; choose them by number"
            )
        if column not in names:
            raise ValueError(
                f"{source} has no column {column!r}; its columns are {list(names)}"
            )
        return list(names).index(column)
    if isinstance(column, bool | np.bool_) or not isinstance(column, int | np.integer):
        raise TypeError(f"columns are numbers or names, not {column!r}")
    if not -width <= column < width:
        raise ValueError(f"{source} has {width} columns, so there is no {column}")
    return int(column) % width
