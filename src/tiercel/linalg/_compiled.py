"""Compile a loop the first time it runs, so that importing stays free of numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``loop`` with numba at its first call, for each dtype it meets.

    The machine code is kept on disk where there is a place for it, the interpreter
    lock is released while it runs, and sums are not reordered: the same numbers on
    every machine. The Python function stays within reach as ``__wrapped__``.
    """

    @cache
    def build() -> Callable[..., Any]:
        import numba

        try:
            return numba.njit(cache=True, nogil=True)(loop)
        except RuntimeError:  # no directory that numba may write to
            return numba.njit(nogil=True)(loop)

    @wraps(loop)
    def run(*arguments: Any) -> Any:
        return build()(*arguments)

    return run
