"""Opening files whose rows are read block by block."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from numpy.typing import DTypeLike

from tiercel.products._readers.stored import Columns, StoredRows

_FORMATS = {
    ".npy": "npy",
    ".npz": "npz",
    ".h5": "h5py",
    ".hdf5": "h5py",
    ".parquet": "pyarrow",
    ".zarr": "zarr",
}


def open_rows(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    columns: Columns | None = None,
    dtype: DTypeLike | None = None,
) -> StoredRows:
    """Open a file as a source of rows, without reading them.

    The end of the name tells the format: ``.npy``, ``.npz``, ``.h5`` or ``.hdf5``,
    ``.parquet``, ``.zarr`` (a directory). A matrix has a sample in every row; an array
    with one dimension is read as a single column. Files are not trusted: the sizes
    they declare are compared with what is there, and nothing is ever unpickled.

    Beyond the blocks, ``.npy`` and uncompressed ``.npz`` files need next to no memory;
    the libraries that unpack the other formats hold some chunks or pages of their own.

    Parameters
    ----------
    path
        The file.
    key
        Which array to read, where the file has several: the name in a ``.npz``
        archive, the path in an HDF5 file or zarr group.
    columns
        Which columns to read, in this order: numbers, a slice or, in Parquet files,
        names. By default all.
    dtype
        Type of the numbers that are read. By default the stored one, and in Parquet
        files the smallest that holds all columns.

    Returns
    -------
    rows
        A source with ``shape``, ``dtype``, ``read(start, stop)``, ``close()`` and,
        where columns have names, ``names``. It is a context manager.

    See Also
    --------
    tiercel.products.rows.prefetched : Read the rows ahead, in checked blocks.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "table.npy"
    >>> np.save(path, np.arange(12.0).reshape(4, 3))
    >>> with open_rows(path, columns=[0, 2]) as rows:
    ...     print(rows.shape)
    ...     print(rows.read(1, 3))
    (4, 2)
    [[3. 5.]
     [6. 8.]]
    >>> folder.cleanup()
    """
    suffix = Path(path).suffix.lower()
    kind = _FORMATS.get(suffix)
    if kind is None:
        raise ValueError(
            f"{os.fspath(path)} ends in none of {', '.join(_FORMATS)}, "
            "which tell the format"
        )
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no {os.fspath(path)}")
    if key is not None and kind in ("npy", "pyarrow"):
        raise ValueError(f"{suffix} files hold one table; leave key= out")
    name = os.fspath(path)
    if kind in ("npy", "npz"):
        from tiercel.products._readers import archives

        if kind == "npy":
            return archives.open_npy(name, columns=columns, dtype=dtype)
        return archives.open_npz(name, key, columns=columns, dtype=dtype)
    _need(kind, suffix)
    if kind == "pyarrow":
        from tiercel.products._readers.tables import open_parquet

        return open_parquet(name, columns, dtype)
    from tiercel.products._readers import chunked

    opener = chunked.open_hdf5 if kind == "h5py" else chunked.open_zarr
    return opener(name, key, columns=columns, dtype=dtype)


def _need(library: str, suffix: str) -> None:
    try:
        present = find_spec(library) is not None
    except ValueError:  # it is marked as missing
        present = False
    if not present:
        raise ImportError(
            f"reading {suffix} files needs {library}; "
            "install it with: pip install tiercel[tables]"
        )
