"""Compile a loop the first time it runs, so that importing stays free of numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

Loop = Callable[..., Any]


def compiled(loop: Loop | None = None, *, contract: bool = False) -> Any:
    """Compile ``loop`` with numba at its first call, for each dtype it meets.

    The machine code is kept on disk where there is a place for it, the interpreter
    lock is released while it runs, and sums are not reordered: the same numbers on
    every machine. With ``contract`` a product and a sum may become one operation with
    one rounding where the processor has it. The Python function stays within reach as
    ``__wrapped__``.
    """
    if loop is None:
        return lambda loop: compiled(loop, contract=contract)

    @cache
    def build() -> Loop:
        import numba

        options = {"nogil": True, "error_model": "numpy"}
        options["fastmath"] = {"contract"} if contract else False
        try:
            return numba.njit(cache=True, **options)(loop)
        except RuntimeError:  # no directory that numba may write to
            return numba.njit(**options)(loop)

    @wraps(loop)
    def run(*arguments: Any) -> Any:
        return build()(*arguments)

    return run
