"""How a documented result is declared and measured again, beside what was printed."""

from __future__ import annotations

import importlib.util
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks import datasets

Row = dict[str, Any]


@dataclass(frozen=True)
class Reproduction:
    """One table or claim of a paper, measured here, with the paper's figures beside it.

    ``measure(**case)`` returns the columns of the case's row, or a list of such dicts
    where a case has several rows (one per method, say). A column holds a number, a
    text, None for an empty cell, or a pair (mean, standard deviation) that is printed
    as ``mean ± std``; the figures in print are columns like any other. ``needs`` names
    packages and ``data`` data sets (a function of the case, where each case has its
    own): where one is absent, the row says so and nothing is measured.
    """

    title: str
    sentence: str
    cases: Sequence[dict[str, Any]]
    measure: Callable[..., dict[str, Any] | list[dict[str, Any]]]
    needs: tuple[str, ...] = ()
    data: tuple[str, ...] | Callable[..., tuple[str, ...]] = ()

    suite: ClassVar[str] = "reproduce"

    def __post_init__(self) -> None:
        for field in ("needs", "data"):
            if isinstance(getattr(self, field), str):
                raise ValueError(f"{field} is a tuple of names, as in ('river',)")

    def rows(self, case: dict[str, Any]) -> list[Row]:
        """Measure a case; its first row also says how many seconds that took."""
        status = self.absent(case)
        if status:
            return [{"case": case, "status": status}]
        start = time.perf_counter()
        try:
            found = self.measure(**case)
            several = found if isinstance(found, list) else [found]
            rows = [columns(row) for row in several]
            if not rows:
                raise ValueError("nothing was measured")
        except Exception as problem:  # the other cases are still worth their time
            traceback.print_exc()
            return [{"case": case, "status": failure(problem)}]
        seconds = time.perf_counter() - start
        made: list[Row] = [
            {"case": case, "status": "ok", "columns": row} for row in rows
        ]
        made[0]["seconds"] = seconds
        return made

    def absent(self, case: dict[str, Any]) -> str:
        """Name the packages or the data sets that a case lacks; '' if it has all."""
        packages = [p for p in self.needs if not importlib.util.find_spec(p)]
        if packages:
            return f"not installed: {', '.join(packages)}"
        names = self.data(**case) if callable(self.data) else self.data
        missing = [name for name in names if not datasets.available(name)]
        return f"data absent: {', '.join(missing)}" if missing else ""


def mean_std(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and the sample standard deviation of two or more repetitions."""
    found = np.fromiter(values, float)
    if len(found) < 2:
        raise ValueError("a standard deviation needs two repetitions or more")
    return float(found.mean()), float(found.std(ddof=1))


def failure(problem: Exception) -> str:
    """Return the status of what raised an exception, on one short line."""
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    return f"failed: {text[:120]}"


def columns(row: Any) -> dict[str, Any]:
    """Return a measured row with plain Python values, as JSON can hold them."""
    if not isinstance(row, dict):
        raise TypeError(f"measure returns dicts of columns, not {row!r}")
    return {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return [float(part) for part in value]
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "biuf":
        raise TypeError(f"a column is a number, a text or (mean, std), not {value!r}")
    return number.item()
