"""A bar for work that takes long: how far, how long still."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class ProgressBar:
    """Callback that draws how much of a known amount is done.

    Any function of ``(done, total)`` can stand in its place. Where nobody watches (the
    stream is a file or a pipe) only the finished bar is drawn.

    Parameters
    ----------
    label : str
        What is being done.
    stream : file, default=None
        Where to draw; standard error by default.
    every : float, default=0.1
        Seconds between two drawings.

    Examples
    --------
    >>> import sys
    >>> bar = ProgressBar("rows", stream=sys.stdout, every=0.0)
    >>> bar(5, 5, note="error 0.1")  # doctest: +ELLIPSIS
    <BLANKLINE>
    rows [####################] 100 %, ... s, error 0.1
    """

    width = 20

    def __init__(
        self, label: str, stream: TextIO | None = None, every: float = 0.1
    ) -> None:
        self.label, self.stream, self.every = label, stream or sys.stderr, every
        self.started = time.monotonic()
        self.drawn = float("-inf")

    def __call__(self, done: float, total: float, note: str = "") -> None:
        """Draw the bar for ``done`` out of ``total``, not more often than asked."""
        now = time.monotonic()
        watched = now - self.drawn >= self.every and self.stream.isatty()
        if done < total and not watched:
            return
        self.drawn = now
        share, spent = done / total, now - self.started
        filled = "#" * round(self.width * share)
        if done < total:
            left = spent * (1.0 / share - 1.0) if share else float("nan")
            tail, end = f"{left:.1f} s left", ""
        else:
            tail, end = f"{spent:.1f} s", "\n"
        parts = [f"{100 * share:.0f} %", tail, *([note] if note else [])]
        line = f"{self.label} [{filled:<{self.width}}] {', '.join(parts)}"
        self.stream.write(f"\r{line:<78}".rstrip(" " if end else "") + end)
        self.stream.flush()
