"""Threads whose sums do not depend on the threads.

Floating-point addition is not associative: adding partial results as threads finish
would make a model depend on the day's scheduling. Work is cut into pieces that do not
depend on the number of threads, and the pieces are added in their order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class Shared:
    """A setting of the whole process that operations want while they last.

    Operations may overlap, from several threads of the caller: the first one in makes
    the setting, and the last one out restores what was there before.

    Parameters
    ----------
    make
        Makes the setting, and returns the function that undoes it.
    """

    def __init__(self, make: Callable[[], Callable[[], object]]) -> None:
        self._make = make
        self._undo: Callable[[], object] = make
        self._lock, self._holders = threading.Lock(), 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Return a context in which the setting holds."""
        with self._lock:
            if self._holders == 0:
                self._undo = self._make()
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    self._undo()


def _one_blas_thread() -> Callable[[], object]:
    limits = _controller().limit(limits=1, user_api="blas")
    return limits.restore_original_limits


_blas = Shared(_one_blas_thread)


def single_threaded_blas() -> AbstractContextManager[None]:
    """Return a context in which each BLAS call stays on the thread that makes it."""
    return _blas.held()


def ordered_map(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], threads: int
) -> Generator[Result, None, None]:
    """Yield ``work(piece)`` in the order of the pieces, a few of them under way.

    At most ``2 * threads`` results wait at a time, so memory does not grow with the
    number of pieces. With one thread nothing is started. Use it within
    ``contextlib.closing`` where the loop over it may fail: an exception keeps the
    frames that it came through, and so a generator that is not closed its threads.

    Examples
    --------
    >>> list(ordered_map(abs, [-1, -2, 3], threads=2))
    [1, 2, 3]
    """
    if threads == 1:
        yield from map(work, pieces)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="tiercel") as pool:
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, piece))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
