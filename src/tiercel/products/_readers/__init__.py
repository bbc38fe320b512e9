"""The readers behind ``as_rows`` and ``open_rows``, one module for each way to store.

``stored``
    What all readers share: column selection, range checks, closing.
``strided``
    Numbers at regular distances in a file: ``.npy``, mapped arrays and their views.
``archives``
    The arrays inside ``.npz`` archives, compressed or not.
``chunked``
    HDF5 datasets and zarr arrays.
``tables``
    Parquet files and pyarrow tables.
"""
