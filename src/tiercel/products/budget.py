"""How much memory may be used: reading budgets, and finding out what is free."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from numbers import Real
from pathlib import Path
from typing import Any

#: Share of the free memory that is used when the caller names no budget. The other
#: half is for the caller's own arrays, and for other programs that grow meanwhile.
DEFAULT_SHARE = 0.5

#: What a system that says nothing about its memory is taken to have free.
ASSUMED_FREE = 2 * 10**9

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 10 ** (3 * i) for i, letter in enumerate("kmgtp", start=1)}
_UNITS |= {f"{letter}ib": 2 ** (10 * i) for i, letter in enumerate("kmgtp", start=1)}

_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", re.I)


def parse_bytes(amount: str | float) -> int:
    """Return an amount of memory in bytes.

    Parameters
    ----------
    amount
        A number of bytes, or text such as ``"4GB"``, ``"512 MB"`` or ``"1.5GiB"``,
        where 1 GB is 10**9 bytes and 1 GiB is 2**30.

    Examples
    --------
    >>> parse_bytes("1.5 GB"), parse_bytes("1GiB"), parse_bytes(4e9)
    (1500000000, 1073741824, 4000000000)
    """
    if isinstance(amount, str):
        found = _AMOUNT.fullmatch(amount)
        if found is None or found[2].lower() not in _UNITS:
            raise ValueError(
                f"{amount!r} is not an amount of memory; write for example "
                "'512 MB', '4GB' or '1.5GiB'"
            )
        size = float(found[1]) * _UNITS[found[2].lower()]
    elif isinstance(amount, Real) and not isinstance(amount, bool):
        size = float(amount)
    else:
        raise TypeError(
            "an amount of memory is a number of bytes or text such as '4GB', "
            f"not {type(amount).__name__}"
        )
    if not math.isfinite(size) or round(size) < 1:
        raise ValueError(
            f"an amount of memory must be finite and at least one byte, not {amount!r}"
        )
    return round(size)


def format_bytes(n: float, enough: bool = False) -> str:
    """Return a number of bytes as text for people; with ``enough`` no less than it.

    Examples
    --------
    >>> format_bytes(512), format_bytes(32 * 2**20), format_bytes(4e9)
    ('512 B', '33.6 MB', '4 GB')
    >>> format_bytes(1_234_567), format_bytes(1_234_567, enough=True)
    ('1.23 MB', '1.24 MB')
    """
    size, unit = float(n), "B"
    for larger in ("KB", "MB", "GB", "TB", "PB"):
        # 999.5 would be rounded up to four digits.
        if abs(size) < 999.5:
            break
        size, unit = size / 1000, larger
    text = f"{size:.3g}" if abs(size) < 999.5 else f"{size:.0f}"
    if enough and float(text) < size:
        step = 10.0 ** (math.floor(math.log10(size)) - 2)
        text = f"{size + step:.3g}" if size + step < 999.5 else f"{size + step:.0f}"
    return f"{text} {unit}"


def free_memory() -> int:
    """Return how many bytes this process may still use.

    The least of what the system calls available and what each control group (the
    limits of containers and batch systems) leaves. Cached file pages count as free:
    the system gives them up when memory is asked for.

    Examples
    --------
    >>> free_memory() > 0
    True
    """
    return _free_memory(Path("/"))


def default_budget() -> int:
    """Return the budget of a call that names none: half of the free memory.

    Examples
    --------
    >>> 0 < default_budget() < 2**50
    True
    """
    return max(1, int(DEFAULT_SHARE * free_memory()))


def device_free_memory(device: Any = "cuda") -> int:
    """Return how many bytes of a CUDA device this process may still use.

    What torch has reserved there but doesn't use at the moment counts as free.

    Parameters
    ----------
    device
        A CUDA device as torch names it, such as ``"cuda"`` or ``"cuda:1"``.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "memory of CUDA devices is known through torch; install it with: "
            "pip install tiercel[gpu]"
        ) from error
    if torch.device(device).type != "cuda":
        raise ValueError(f"{device} is no CUDA device; see free_memory() for the host")
    if not torch.cuda.is_available():
        raise RuntimeError(f"torch finds no CUDA device, so {device} has no memory")
    free, _ = torch.cuda.mem_get_info(device)
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + idle)


def _free_memory(root: Path) -> int:
    """Return the free memory according to the system files below ``root``."""
    available = _available(root / "proc/meminfo")
    system = _free_pages() if available is None else available
    return max(0, min([system, *_group_limits(root)]))


def _available(meminfo: Path) -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(meminfo), re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def _free_pages() -> int:
    """Return the free memory where there is no Linux to ask."""
    for pages, share in (("SC_AVPHYS_PAGES", 1.0), ("SC_PHYS_PAGES", 0.5)):
        try:
            return int(share * os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, ValueError, OSError):  # not known to this system
            continue
    return ASSUMED_FREE


def _group_limits(root: Path) -> Iterator[int]:
    """Yield what each limited control group around this process leaves to it."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            top, total = root / "sys/fs/cgroup", ""
            limit_file, used_file = "memory.max", "memory.current"
        elif "memory" in controllers.split(","):  # version 1
            top, total = root / "sys/fs/cgroup/memory", "total_"
            limit_file, used_file = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # A limit may sit on any group that holds ours. Inside a container the path
        # may be the host's: what doesn't exist here is passed over.
        names = [name for name in path.split("/") if name not in ("", "..")]
        for depth in range(len(names) + 1):
            group = top.joinpath(*names[:depth])
            limit, used = _text(group / limit_file), _text(group / used_file)
            if limit.strip().isdigit() and used.strip().isdigit():
                cached = _cached(group / "memory.stat", total)
                yield int(limit) - int(used) + cached


def _cached(stat: Path, total: str) -> int:
    """Return the bytes of file pages in a group's use, which it can give up.

    Without them a long read from disk would look like memory that runs out.
    """
    found = re.findall(rf"^{total}(?:in)?active_file (\d+)$", _text(stat), re.MULTILINE)
    return sum(map(int, found))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
