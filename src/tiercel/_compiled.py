"""Compile a loop the first time it runs, so that importing stays free of numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, update_wrapper, wraps
from types import FunctionType
from typing import Any

Loop = Callable[..., Any]


def compiled(loop: Loop | None = None, *, contract: bool = False) -> Any:
    """Compile ``loop`` with numba at its first call, for each dtype it meets.

    The machine code is kept on disk where there is a place for it, the interpreter
    lock is released while it runs, and sums are not reordered: the same numbers on
    every machine. With ``contract`` a product and a sum may become one operation with
    one rounding where the processor has it. The Python function stays within reach as
    ``__wrapped__``. ``entry(*arguments)`` returns the machine code for arguments of
    these types, compiled if it must be: a call of it does not look at types any more,
    which saves a microsecond, and the caller answers for them.

    A compiled loop may call other compiled loops of its own module; those of other
    modules it may not, as the code on disk is only renewed when its own file changes.
    """
    if loop is None:
        return lambda loop: compiled(loop, contract=contract)

    @cache
    def build() -> Loop:
        import numba

        options = {"nogil": True, "error_model": "numpy"}
        options["fastmath"] = {"contract"} if contract else False
        source = _with_dispatchers(loop)
        try:
            return numba.njit(cache=True, **options)(source)
        except RuntimeError:  # no directory that numba may write to
            return numba.njit(**options)(source)

    @wraps(loop)
    def run(*arguments: Any) -> Any:
        return build()(*arguments)

    def entry(*arguments: Any) -> Loop:
        from numba import typeof

        types = tuple(map(typeof, arguments))
        build().compile(types)
        return build().overloads[types].entry_point

    run.dispatcher, run.entry = build, entry  # type: ignore[attr-defined]
    return run


def _with_dispatchers(loop: Any) -> Any:
    """Return ``loop`` with the compiled loops that it calls in a form numba can call."""
    called = {
        name: loop.__globals__[name].dispatcher()
        for name in loop.__code__.co_names
        if hasattr(loop.__globals__.get(name), "dispatcher")
    }
    if not called:
        return loop
    scope = {**loop.__globals__, **called}
    copy = FunctionType(
        loop.__code__, scope, loop.__name__, loop.__defaults__, loop.__closure__
    )
    return update_wrapper(copy, loop)
