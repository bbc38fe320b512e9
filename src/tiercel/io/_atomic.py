"""Put a file in the place of another one in a single step, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that ``path`` stands for, links followed; refuse what is none."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file in it")
    if target.exists() and not target.is_file():
        raise ValueError(f"{target} is no regular file, so it will not be replaced")
    return target


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``target`` once it is safely on disk.

    Until then the old file stays as it is; after an error the new one is removed. The
    permission bits of the old file pass to the new one.
    """
    # Beside the target, because only a file of the same file system can replace it.
    temporary = target.with_name(f".tiercel-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                os.chmod(temporary, target.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Have the new name survive a power cut, where the system can promise that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
