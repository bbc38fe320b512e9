"""From rows to tables that read well both as markdown and as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.harness import Benchmark, Row
from benchmarks.reproduction import Reproduction

TIMINGS = """\
# Benchmarks

Written by `python -m benchmarks table` from the rows in `benchmarks/results/`; do not
edit by hand. All contestants of a case ran in one sitting on the same data, taking
turns; seconds are medians, with the fastest and the slowest run in brackets. *speed*
is how many times as fast as the contestant marked with a star. An answer whose error
is above the table's bound gets no time, only its error. Where times are in µs per call,
each of many short calls was timed by itself: the median over all of them stands before
the brackets, their 1st and 99th percentiles in them, and the longest call beside them.

Results of papers, measured again, stand in [REPRODUCTIONS.md](REPRODUCTIONS.md).
"""

REPRODUCTIONS = """\
# Reproductions

Written by `python -m benchmarks table` from the rows in `benchmarks/results/`; do not
edit by hand. Each table measures anew what a paper reports, with the paper's figures
beside ours; ± is one standard deviation over repetitions. *measured in* is the time
that all rows of a case took together.

Speed and memory stand in [README.md](README.md).
"""


def short(value: Any, digits: int = 3) -> str:
    """Write a number with as many digits as it is worth, a pair as mean ± std."""
    if isinstance(value, (list, tuple)):
        mean, std = value
        return f"{short(mean, 4)} ± {short(std, 2)}"
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if 10 ** min(digits, 3) <= abs(value) + 0.5 < 1e4:
        return f"{value:,.0f}"
    if 1e-3 <= abs(value) < 1e4 or value == 0:
        return f"{value:.{digits}g}"
    return f"{value:.{digits - 2}e}"


def size(count: int) -> str:
    """Write a number of bytes in MB."""
    return f"{count / 1e6:,.0f} MB"


def time(row: Row, scale: float) -> str:
    """Write the median and the spread, or why there are none."""
    if "seconds" not in row:
        return row["status"]
    middle, *spread = (
        short(scale * row[key]) for key in ("seconds", "fastest", "slowest")
    )
    return f"{middle} [{', '.join(spread)}]"


def timing_cells(row: Row, per_call: bool) -> list[dict[str, str]]:
    """Return a row's cells by column: the case's, the common ones, memory, its own."""
    star = " *" * (row["contestant"] == row["baseline"])
    memory = {
        "peak": "peak_memory",
        "working": "working_memory",
        "GPU": "device_memory",
    }
    taken = {"seconds": time(row, 1)}
    if per_call:
        worst = short(1e6 * row["worst"]) if "worst" in row else ""
        taken = {"µs per call": time(row, 1e6), "worst, µs": worst}
    return [
        {
            "contestant": row["contestant"] + star,
            **taken,
            "speed": short(row.get("speed", "")),
            "error": f"{row['error']:.1e}" if "error" in row else "",
        },
        {title: size(row[key]) for title, key in memory.items() if key in row},
    ]


def reproduction_cells(row: Row) -> list[dict[str, str]]:
    """Return the cells that come after a reproduction's own columns."""
    status = {} if row["status"] == "ok" else {"status": row["status"]}
    taken = {"measured in": f"{short(row['seconds'])} s"} if "seconds" in row else {}
    return [status, taken]


def cells(rows: list[Row]) -> list[list[dict[str, str]]]:
    """Return each row's cells in groups, so that a column keeps its group's place."""
    per_call = any("worst" in row for row in rows)
    several = len(sittings(rows)) > 1
    found = []
    for row in rows:
        case = {name: short(value) for name, value in row["case"].items()}
        own = {name: short(value) for name, value in row.get("columns", {}).items()}
        if "contestant" in row:
            groups = [case, *timing_cells(row, per_call), own]
        else:
            groups = [case, own, *reproduction_cells(row)]
        when = {"measured": f"{row['date']}, {row['commit']}"} if several else {}
        found.append([*groups, when])
    return found


def table(rows: list[Row]) -> str:
    """Return one benchmark's rows as a table, its columns padded to equal width."""
    found = cells(rows)
    groups = zip(*found, strict=True)
    names = list(dict.fromkeys(n for group in groups for part in group for n in part))
    merged = [
        {n: text for part in parts for n, text in part.items()} for parts in found
    ]
    lines = [names, *([row.get(name, "") for name in names] for row in merged)]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines
    )


def page(
    results: list[list[Row]],
    declared: Mapping[str, Benchmark | Reproduction],
    preface: str = TIMINGS,
) -> str:
    """Return a whole page: each benchmark, and below it each machine's table."""
    parts = [preface]
    for name, benchmark in declared.items():
        measured = [rows for rows in results if rows and rows[0]["benchmark"] == name]
        if not measured:
            continue
        parts.append(f"## {benchmark.title}\n\n{benchmark.sentence}\n")
        for rows in measured:
            for alike in same_setup(rows):
                parts.append(f"{origin(alike)}\n\n{table(alike)}\n")
    if len(parts) == 1:
        parts.append("Nothing has been measured yet.\n")
    return "\n".join(parts)


def same_setup(rows: list[Row]) -> list[list[Row]]:
    """Part the rows of a machine by the versions that were installed."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(setup(row), []).append(row)
    return list(groups.values())


def sittings(rows: list[Row]) -> set[tuple[str, str]]:
    """Return the dates and commits at which rows were measured."""
    return {(row["date"], row["commit"]) for row in rows}


def setup(row: Row) -> str:
    """Say where and with what a row was measured."""
    machine = row["hardware"]
    parts = [f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB"]
    parts += [machine[key] for key in ("blas", "gpu") if key in machine]
    parts += [f"{name} {version}" for name, version in row["versions"].items()]
    return ", ".join(parts)


def origin(rows: list[Row]) -> str:
    """Say when, where and how the rows of a table were measured."""
    command = f"`python -m benchmarks run {rows[0]['benchmark']}`"
    found = sittings(rows)
    if len(found) > 1:  # the table has a column for it
        when = f"{len(found)} sittings"
    else:
        ((date, commit),) = found
        when = f"{date}, commit {commit}"
    return f"{when}, {command}  \n{setup(rows[0])}"
