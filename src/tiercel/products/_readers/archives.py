"""``.npy`` headers, and the arrays inside ``.npz`` archives, compressed or not.

Nothing that a file says about its sizes is believed before it has been compared with
the file's own, and nothing is ever unpickled.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.lib import format as npy

from tiercel.products._readers.stored import STRIP_BYTES, ForwardReaders
from tiercel.products._readers.strided import ByteSource, PlainFile, StridedRows
from tiercel.products.rows import check_dtype

#: numpy refuses headers longer than 10,000 bytes, because they may be made to harm.
_HEADER_BYTES = 16384

_LOCAL_HEADER = struct.Struct("<4s22xHH")


def open_npy(path: str, **options: Any) -> StridedRows:
    """Return the rows of a ``.npy`` file."""
    with ExitStack() as resources:
        file = resources.enter_context(PlainFile(path))
        rows = _rows_of_npy(file, 0, file.size, path, **options)
        return rows.owning(resources.pop_all())


def open_npz(path: str, key: str | None, **options: Any) -> StridedRows:
    """Return the rows of one array in a ``.npz`` archive."""
    with ExitStack() as resources:
        try:
            archive = resources.enter_context(zipfile.ZipFile(path))
        except zipfile.BadZipFile as error:
            raise ValueError(
                f"{path} is not a readable .npz archive: {error}"
            ) from None
        member = _member(archive, path, key)
        name = f"{path}[{member.filename.removesuffix('.npy')}]"
        if member.flag_bits & 1:
            raise ValueError(f"{name} is encrypted; store it without a password")
        source: ByteSource
        if member.compress_type == zipfile.ZIP_STORED:
            source = resources.enter_context(PlainFile(path))
            offset = _stored_offset(source, member, name)
        else:
            source, offset = CompressedBytes(archive, member, name), 0
            resources.callback(source.close)
        rows = _rows_of_npy(source, offset, member.file_size, name, **options)
        return rows.owning(resources.pop_all())


def _rows_of_npy(
    source: ByteSource, offset: int, size: int, name: str, **options: Any
) -> StridedRows:
    """Return the rows of the ``size`` bytes from ``offset`` on, a whole .npy file."""
    shape, fortran, dtype, header = _read_header(source, offset, size, name)
    check_dtype(dtype, name)
    if len(shape) not in (1, 2) or min(shape, default=0) < 1:
        raise ValueError(
            f"{name} has shape {shape}; one or two dimensions are needed, not empty"
        )
    # In Python's own integers, which don't overflow.
    needed = header + math.prod(shape) * dtype.itemsize
    if needed > size:
        raise ValueError(
            f"{name} is damaged or cut short: its header promises {shape} numbers of "
            f"type {dtype}, which take {needed} bytes, but there are {size}"
        )
    n, width = (*shape, 1)[:2]
    steps = (width * dtype.itemsize, dtype.itemsize)
    if fortran and width > 1:
        if isinstance(source, CompressedBytes):
            raise ValueError(
                f"{name} is compressed and in Fortran order, so its rows can't be read "
                "one after the other; save it in C order, or with np.savez"
            )
        steps = (dtype.itemsize, n * dtype.itemsize)
    return StridedRows(source, offset + header, steps, name, shape, dtype, **options)


def _read_header(
    source: ByteSource, offset: int, size: int, name: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and dtype, and how many bytes the header takes."""
    begin = bytearray(min(size, _HEADER_BYTES))
    source.read_into(offset, memoryview(begin))
    stream = io.BytesIO(begin)
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            header = npy.read_array_header_1_0(stream)
        elif version == (2, 0):
            header = npy.read_array_header_2_0(stream)
        else:
            # Version 3 came for the names of fields, which rows of numbers don't have.
            raise ValueError(f"version {version} of the format is not supported")
    except Exception as error:  # a header made to harm may end in any of them
        raise ValueError(f"{name} is not a readable .npy array: {error}") from None
    return *header, stream.tell()


def _member(archive: zipfile.ZipFile, path: str, key: str | None) -> zipfile.ZipInfo:
    keys = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
    if key is None:
        if len(keys) != 1:
            raise ValueError(f"choose an array of {path} with key=; it holds {keys}")
        key = keys[0]
    if key not in keys:
        raise ValueError(f"{path} has no array {key!r}; it holds {keys}")
    return archive.getinfo(f"{key}.npy")


def _stored_offset(file: PlainFile, member: zipfile.ZipInfo, name: str) -> int:
    """Return where the bytes of a member begin that is stored uncompressed."""
    local = bytearray(_LOCAL_HEADER.size)
    file.read_into(member.header_offset, memoryview(local))
    mark, name_length, extra_length = _LOCAL_HEADER.unpack(local)
    offset = member.header_offset + len(local) + name_length + extra_length
    if (
        mark != b"PK\x03\x04"
        or member.file_size != member.compress_size
        or offset + member.file_size > file.size
    ):
        raise ValueError(f"{name} is damaged: its entry in the archive is wrong")
    return offset


class CompressedBytes:
    """The bytes of a compressed member, which can only be unpacked from the start.

    Passes go forward; one that starts again, starts unpacking again.
    """

    def __init__(
        self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str
    ) -> None:
        self._name = name
        self._streams = ForwardReaders(lambda place: _MemberStream(archive, member))
        self.close = self._streams.close

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill ``view`` with the unpacked bytes from ``offset`` on."""
        try:
            with self._streams.at(offset) as stream:
                stream.read_into(offset, view)
        except Exception as error:  # each way of compressing has errors of its own
            raise OSError(f"{self._name} can't be unpacked: {error}") from error


class _MemberStream:
    def __init__(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        self._stream: Any = archive.open(member)
        self.close = self._stream.close

    @property
    def place(self) -> int:
        return self._stream.tell()

    def read_into(self, offset: int, view: memoryview) -> None:
        self._stream.seek(offset)
        while len(view):
            # In pieces, because each is unpacked to memory of its own first.
            count = self._stream.readinto(view[:STRIP_BYTES])
            if count == 0:
                raise EOFError("it ends before its last number")
            view = view[count:]
