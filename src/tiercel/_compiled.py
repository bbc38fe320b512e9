"""Compile a loop the first time it runs, so that importing stays free of numba."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
        return _kept_on_disk(numba.njit(**options)(_with_dispatchers(loop)))

    @wraps(loop)
    def run(*arguments: Any) -> Any:
        return build()(*arguments)

    def entry(*arguments: Any) -> Loop:
        from numba import typeof

        compile = getattr(build(), "compile", None)
        if compile is None:  # NUMBA_DISABLE_JIT is set
            return build()
        machine_code = compile(tuple(map(typeof, arguments)))

        # Behind a plain function, so that what walks over the attributes of a model
        # (River's report of its memory, say) does not wander off into the compiler.
        def call(*values: Any) -> Any:
            return machine_code(*values)

        return call

    run.dispatcher, run.entry = build, entry  # type: ignore[attr-defined]
    return run


def _kept_on_disk(dispatcher: Any) -> Any:
    """Let numba keep machine code on disk, and go on whatever state the disk is in.

    As numba has it, a full disk or a file that a power cut has damaged is an error at
    every first call.
    """
    from numba.core.caching import FunctionCache

    class Cache(FunctionCache):
        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # unpickling damaged files raises almost anything
                with suppress(OSError):
                    self.flush()
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError, EOFError):
                super().save_overload(sig, data)

    with suppress(RuntimeError, AttributeError):  # no directory, no compiler
        dispatcher._cache = Cache(dispatcher.py_func)
    return dispatcher


def _with_dispatchers(loop: Any) -> Any:
    """Return ``loop`` with the compiled loops that it calls in a form for numba."""
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
