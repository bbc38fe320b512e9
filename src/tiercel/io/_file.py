"""The file itself: a safetensors header that holds a document, and arrays behind it.

Written here, not by the safetensors package, for three reasons: arrays go to disk
without a copy of the model in memory, the checksum covers every byte of the file, and
reading and checking happen through one open file, which nobody can exchange in between.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from io import BufferedReader
from math import prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np

FORMAT = 1
LARGEST_HEADER = 100_000_000  # bytes; what other readers of safetensors accept
BLOCK = 1 << 20  # bytes that are copied, hashed and written at a time

UNSIGNED = "0" * 64  # stands in the place of the checksum while that is computed
START = '{"__metadata__":{"tiercel_format":"%d","sha256":"%s"'
MAGIC = re.compile(
    rb'.{8}\{"__metadata__":\{"tiercel_format":"(\d{1,9})","sha256":"(.{64})"', re.S
)

DTYPES = {
    "BOOL": np.dtype("?"),
    **{f"{kind}{8 * size}": np.dtype(f"<{kind.lower()}{size}")
       for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Entry(NamedTuple):
    """What the header says of one array, checked."""

    dtype: np.dtype
    shape: tuple[int, ...]


class Header(NamedTuple):
    """What stands before the arrays; only its structure has been checked."""

    format: int
    document: str
    entries: dict[str, Entry]
    checksum: str
    unsigned: bytes  # the bytes of the header as they were hashed


# --- writing -------------------------------------------------------------------------


def write(file: BinaryIO, document: str, arrays: dict[str, np.ndarray]) -> None:
    """Write a model into an empty file.

    Every block is hashed as it is written: the checksum is that of the file even when
    somebody changes an array in the meantime.
    """
    # The widest items first keep every array aligned.
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    header = _header(document, arrays)
    digest = hashlib.sha256(header)
    file.write(header)
    for array in arrays.values():
        for block in _blocks(array):
            digest.update(block)
            file.write(block)
    file.seek(8 + (START % (FORMAT, UNSIGNED)).index(UNSIGNED))
    file.write(digest.hexdigest().encode())


def _header(document: str, arrays: dict[str, np.ndarray]) -> bytes:
    metadata = {
        "tiercel_format": str(FORMAT),
        "sha256": UNSIGNED,
        "document": document,
    }
    entries: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        entries[name] = {
            "dtype": NAMES[array.dtype.newbyteorder("<")],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER:
        raise ValueError(
            f"the model holds {len(text):,} bytes outside its arrays, but a file takes "
            f"{LARGEST_HEADER:,}; keep long lists and tables of objects as numpy arrays"
        )
    return len(text).to_bytes(8, "little") + text


def _blocks(array: np.ndarray) -> Iterator[bytes]:
    """Yield the bytes of ``array``, of any layout, row-major and little-endian."""
    pieces: Any = np.nditer(
        array,
        ["external_loop", "buffered", "zerosize_ok"],
        order="C",
        op_dtypes=[array.dtype.newbyteorder("<")],
        casting="equiv",
        buffersize=BLOCK // array.itemsize,
    )
    for piece in pieces:
        yield piece.tobytes()


# --- reading -------------------------------------------------------------------------


def read_header(file: BufferedReader) -> Header:
    """Read what stands before the arrays; raise ValueError where it cannot be right.

    The header promises sizes; each is compared with the size of the file before
    anything is allocated.
    """
    size = os.fstat(file.fileno()).st_size
    start = file.read(len(START % (10**9, UNSIGNED)) + 8)
    known = MAGIC.match(start)
    if known is None:
        raise ValueError(
            "it was not written by tiercel.save, or its first bytes are lost"
        )
    if int(known[1]) > FORMAT:
        raise ValueError(
            f"it has format {int(known[1])}, of a newer Tiercel; this one reads "
            f"formats up to {FORMAT}: upgrade Tiercel"
        )
    length = int.from_bytes(start[:8], "little")
    if length > min(size - 8, LARGEST_HEADER):
        raise ValueError(
            f"it is truncated or damaged: {length:,} bytes of header in {size:,} bytes"
        )
    file.seek(0)
    raw = file.read(8 + length)
    where = slice(*known.span(2))
    unsigned = raw[: where.start] + UNSIGNED.encode() + raw[where.stop :]
    contents = parse(raw[8:].decode("ascii", "replace"))
    document = _member(contents.pop("__metadata__"), "document", str)
    entries = _entries(contents, size - len(raw))
    checksum = known[2].decode("ascii", "replace")
    return Header(int(known[1]), document, entries, checksum, unsigned)


def read_arrays(file: BufferedReader, header: Header) -> dict[str, np.ndarray]:
    """Read what follows the header; raise ValueError unless the checksum agrees."""
    digest = hashlib.sha256(header.unsigned)
    arrays = {}
    for name, (dtype, shape) in header.entries.items():
        array = np.empty(shape, dtype)
        if array.size:
            buffer = array.reshape(-1).view(np.uint8).data
            if file.readinto(buffer) != array.nbytes:
                raise ValueError("it is truncated: it became shorter as it was read")
            digest.update(buffer)
            if dtype == np.bool_ and array.view(np.uint8).max() > 1:
                raise ValueError(f"it is damaged: {name} is neither true nor false")
        arrays[name] = array.astype(dtype.newbyteorder("="), copy=False)
    if digest.hexdigest() != header.checksum:
        raise ValueError("it is damaged: its checksum does not agree; take a backup")
    return arrays


def checksum_agrees(file: BufferedReader, header: Header) -> bool:
    """Tell whether what follows the header is what was written, without keeping it."""
    digest = hashlib.sha256(header.unsigned)
    while block := file.read(BLOCK):
        digest.update(block)
    return digest.hexdigest() == header.checksum


def parse(text: str) -> dict[str, Any]:
    """Return the JSON object in ``text``; raise ValueError where there is none."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        found = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is damaged: its JSON cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("it is damaged: its JSON is no object")
    return found


def _entries(contents: dict[str, Any], available: int) -> dict[str, Entry]:
    """Return the arrays in the order of the file, which they must fill exactly."""
    entries = {}
    end = 0
    for name, fields in contents.items():
        dtype = DTYPES.get(_member(fields, "dtype", str))
        shape = _member(fields, "shape", list)
        if dtype is None or len(shape) > 64 or not all(map(_is_length, shape)):
            raise ValueError(f"it is damaged: {name} has no known dtype or shape")
        start, end = end, end + prod(shape) * dtype.itemsize
        if _member(fields, "data_offsets", list) != [start, end]:
            raise ValueError(f"it is damaged: {name} does not lie where it should")
        entries[name] = Entry(dtype, tuple(shape))
    if end != available:
        raise ValueError(
            f"it is truncated or damaged: its arrays take {end:,} bytes, not "
            f"{available:,}"
        )
    return entries


def _is_length(n: Any) -> bool:
    return type(n) is int and 0 <= n < 2**63


def _member(fields: Any, name: str, kind: type) -> Any:
    found = fields.get(name) if isinstance(fields, dict) else None
    if type(found) is not kind:
        raise ValueError(f"it is damaged: its header has no proper {name}")
    return found
