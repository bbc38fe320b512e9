"""Threads whose sums do not depend on the threads.

Floating-point addition is not associative: adding partial results as threads finish
would make a model depend on the day's scheduling. Work is cut into pieces that do not
depend on the number of threads, and the pieces are added in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded_blas() -> Any:
    """Return a context in which each BLAS call stays on the thread that makes it."""
    return _controller().limit(limits=1, user_api="blas")


def ordered_map(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], threads: int
) -> Iterator[Result]:
    """Yield ``work(piece)`` in the order of the pieces, a few of them under way.

    At most ``2 * threads`` results wait at a time, so memory does not grow with the
    number of pieces. With one thread nothing is started.

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
