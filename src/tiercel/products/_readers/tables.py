"""Parquet files and pyarrow tables: numbers stored column by column."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tiercel.products._readers.stored import (
    Columns,
    ForwardReaders,
    StoredRows,
    select_columns,
)

#: What pyarrow may hold of a column: pages, and the dictionaries that they point into,
#: packed and unpacked.
COLUMN_BYTES = 4 * 2**20

#: Bytes that are decoded at a time. Row groups may be of any size, even the file's, so
#: they are decoded in batches.
BATCH_BYTES = 2 * 2**20


class ParquetRows(StoredRows):
    """Rows of a Parquet file.

    Passes go forward through batches of rows. One that begins further on starts with
    the row group that holds its first row.

    Parameters
    ----------
    file
        A ``pyarrow.parquet.ParquetFile``.
    name, columns, dtype
        See :class:`StoredRows`.
    """

    def __init__(
        self,
        file: Any,
        name: str,
        columns: Columns | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        schema, metadata = file.schema_arrow, file.metadata
        groups = [
            metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)
        ]
        if sum(groups) != metadata.num_rows or min(groups, default=0) < 0:
            raise ValueError(
                f"{name} is damaged: the sizes of its row groups are wrong"
            )
        options = _table_options(schema, name, columns)
        super().__init__(
            name,
            (sum(groups), len(schema.names)),
            dtype=dtype,
            columns=columns,
            **options,
        )
        self._file = file
        self._names = self.names or ()
        _refuse_counted_nulls(metadata, self._names, name)
        # One reader is in the file at a time; pyarrow decodes columns in parallel.
        self._lock = threading.Lock()
        self._begins = np.concatenate([[0], np.cumsum(groups)[:-1]])
        row_bytes = 8 * len(self._names)
        self._batch_rows = max(1, min(65536, BATCH_BYTES // row_bytes))
        self.held_bytes = _held_bytes(metadata, self._names)
        self._readers = ForwardReaders(self._open_at)
        self._resources.callback(self._readers.close)

    def _fill(self, start: int, out: np.ndarray) -> None:
        group = self._group(start)
        with self._readers.at(start, int(self._begins[group])) as reader:
            reader.skip(start - reader.place)
            reader.fill(out)

    def _group(self, row: int) -> int:
        # Empty groups begin where the next one does: the last of them holds the row.
        return int(np.searchsorted(self._begins, row, side="right")) - 1

    def _open_at(self, row: int) -> _BatchReader:
        group = self._group(row)
        batches = self._file.iter_batches(
            batch_size=self._batch_rows,
            row_groups=range(group, len(self._begins)),
            columns=list(dict.fromkeys(self._names)),
        )
        return _BatchReader(
            batches, int(self._begins[group]), self._names, self.name, self._lock
        )


class _BatchReader:
    """Batches one after the other, cut up or joined as rows are asked for."""

    def __init__(
        self,
        batches: Any,
        place: int,
        names: Sequence[str],
        source: str,
        lock: threading.Lock,
    ) -> None:
        self.place = place
        self._batches, self._batch = batches, None
        self._names, self._source, self._lock = names, source, lock

    def skip(self, rows: int) -> None:
        """Go past some rows."""
        while rows:
            rows -= len(self._next(rows))

    def fill(self, out: np.ndarray) -> None:
        """Fill ``out`` with the next rows."""
        done = 0
        while done < len(out):
            first = self.place
            part = self._next(len(out) - done)
            for j, name in enumerate(self._names):
                column = part.column(name)
                _refuse_nulls(column, name, self._source, first, first + len(part))
                out[done : done + len(part), j] = _numbers(column)
            done += len(part)

    def _next(self, limit: int) -> Any:
        """Return the next rows that are in one batch, at most ``limit``."""
        while self._batch is None or not len(self._batch):
            self._batch = None  # not two at a time
            with self._lock:
                self._batch = next(self._batches, None)
            if self._batch is None:
                raise OSError(f"{self._source} is damaged: it ends at row {self.place}")
        part = self._batch.slice(0, limit)
        self._batch = self._batch.slice(len(part))
        self.place += len(part)
        return part

    def close(self) -> None:
        """Let go of the file and of the batch."""
        self._batches, self._batch = iter(()), None


class TableRows(StoredRows):
    """Rows of a pyarrow table.

    Parameters
    ----------
    table
        A ``pyarrow.Table``; its columns are in memory, or mapped from a file.
    name
        Its name for error messages.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})
    >>> rows = TableRows(table, "table")
    >>> rows.names, rows.read(1, 3)
    (('a', 'b'), array([[2. , 1.5],
           [3. , 2.5]]))
    """

    def __init__(self, table: Any, name: str) -> None:
        super().__init__(name, table.shape, **_table_options(table.schema, name, None))
        for column, label in zip(table.columns, table.column_names, strict=True):
            _refuse_nulls(column, label, name, 0, self.shape[0])
        self._columns_of_table = table.columns

    def _fill(self, start: int, out: np.ndarray) -> None:
        for j, column in enumerate(self._columns_of_table):
            done = 0
            for chunk in column.slice(start, len(out)).chunks:
                out[done : done + len(chunk), j] = _numbers(chunk)
                done += len(chunk)


def open_parquet(
    path: str, columns: Columns | None, dtype: DTypeLike | None
) -> ParquetRows:
    """Return the rows of a Parquet file."""
    pyarrow = import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")
    with ExitStack() as resources:
        try:
            # Columns are read through small buffers. Reading row groups ahead, which
            # pyarrow does on its own accord, would hold whole groups in memory.
            file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**18)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(
                f"{path} is not a readable Parquet file: {error}"
            ) from None
        resources.callback(file.close)
        rows = ParquetRows(file, path, columns, dtype)
        return rows.owning(resources.pop_all())


def rows_of_table(X: Any, name: str) -> StoredRows:
    """Return the rows of a pyarrow table or of an open Parquet file."""
    if hasattr(X, "iter_batches"):
        return ParquetRows(X, name)
    return TableRows(X, name)


def _table_options(schema: Any, name: str, columns: Columns | None) -> dict[str, Any]:
    """Return dtype and names of a table whose chosen columns are all numbers."""
    names = list(schema.names)
    if len(set(names)) != len(names):
        raise ValueError(f"{name} has several columns of the same name: {names}")
    chosen: Any = range(len(names))
    if columns is not None:
        chosen = select_columns(columns, len(names), names, name)
    kinds = {names[j]: schema.field(int(j)).type for j in chosen}
    types = import_module("pyarrow").types
    others = [
        f"{label} ({kind})"
        for label, kind in kinds.items()
        if not (
            types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        )
    ]
    if others:
        raise TypeError(
            f"{name} has columns that aren't numbers: {', '.join(others)}; choose "
            "others with open_rows(path, columns=[...]), or encode them"
        )
    stored = np.result_type(*(kind.to_pandas_dtype() for kind in kinds.values()))
    return {"stored": stored, "names": names}


def _held_bytes(metadata: Any, names: Sequence[str]) -> int:
    """Return about what is in memory of the columns while they are decoded."""
    largest: dict[str, int] = {}
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            name, size = column.path_in_schema, 4 * column.total_uncompressed_size
            if name in names:
                largest[name] = max(largest.get(name, 0), min(size, COLUMN_BYTES))
    return sum(largest.values())


def _refuse_counted_nulls(metadata: Any, names: Sequence[str], source: str) -> None:
    """Refuse missing values that the file's own statistics tell of, before reading."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            if column.path_in_schema not in names:
                continue
            counts = column.statistics
            if counts is not None and counts.has_null_count and counts.null_count:
                raise _null_error(column.path_in_schema, source, f"in row group {i}")


def _refuse_nulls(column: Any, name: str, source: str, start: int, stop: int) -> None:
    if column.null_count:
        raise _null_error(name, source, f"in rows {start} to {stop}")


def _null_error(column: str, source: str, where: str) -> ValueError:
    return ValueError(
        f"column {column!r} of {source} has missing values {where}; "
        "fill them, or drop their rows"
    )


def _numbers(column: Any) -> np.ndarray:
    # Booleans are stored as bits; everything else is used where it stands.
    return column.to_numpy(zero_copy_only=False)
