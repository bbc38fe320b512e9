"""What all tests share: how they behave side by side, and without a GPU."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Compiling and loading make the first example slow; no test is about time.
settings.register_profile("tiercel", deadline=None, print_blob=True)
settings.load_profile("tiercel")


def pytest_configure(config: pytest.Config) -> None:
    """Share the cores between test processes; without a GPU, interpret Triton.

    Both are read from the environment when the libraries are loaded, so they are
    settled before any test is collected.
    """
    if not has_cuda():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    if getattr(config.option, "numprocesses", None):
        for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``cuda`` on a machine that has no CUDA device."""
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if marked and not has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def has_cuda() -> bool:
    """Tell whether torch is installed and finds a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
