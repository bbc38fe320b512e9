"""What a row says of the machine it was measured on, and how memory is read there."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "triton")


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def hardware(gpu: bool) -> dict[str, Any]:
    """Describe processor, usable cores, memory, BLAS and, if asked, the GPU."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
    except OSError:
        cpuinfo = ""
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.M)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found: dict[str, Any] = {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "cores": cores(),
        "memory_gb": round(total / 1e9),
        "blas": blas(),
    }
    if gpu:
        import torch

        found["gpu"] = torch.cuda.get_device_name()
    return found


def blas() -> str:
    """Name the BLAS that numpy uses, and the processor whose instructions it takes."""
    import numpy.linalg  # noqa: F401, it loads the library
    from threadpoolctl import threadpool_info

    found = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    names = [f"{lib['internal_api']} for {lib.get('architecture')}" for lib in found]
    return names[0] if names else "unknown BLAS"


def versions(*more: str) -> dict[str, str]:
    """Return the installed versions of Python and the packages that may matter."""
    found = {"python": platform.python_version()}
    for package in dict.fromkeys((*PACKAGES, *more)):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """Return the short commit of the source, with a + where files were changed."""
    try:
        head, changes = (
            subprocess.run(
                ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    # Rows written by this very run are no change of the source.
    rows = "benchmarks/results/"
    changed = any(rows not in line for line in changes.splitlines())
    return head + "+" * changed


def resident() -> tuple[int, int]:
    """Return this process's resident memory now and at its peak, in bytes.

    ``getrusage`` comes second: on Linux its peak starts from that of the process that
    started this one, which may have held much more.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        status = ""
    now, peak = (
        re.search(rf"^{name}:\s+(\d+)", status, re.M) for name in ("VmRSS", "VmHWM")
    )
    if now and peak:
        return 1024 * int(now[1]), 1024 * int(peak[1])
    unit = 1 if sys.platform == "darwin" else 1024
    most = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most, most


def forget_peak() -> None:
    """Start the peak of :func:`resident` anew, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
