"""From rows to tables that read well both as markdown and as plain text."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Benchmark, Row

PREFACE = """\
# Benchmarks

Written by `python -m benchmarks table` from the rows in `benchmarks/results/`; do not
edit by hand. All contestants of a table ran in one sitting on the same data, taking
turns; seconds are medians, with the fastest and the slowest run in brackets. *speed*
is how many times as fast as the contestant marked with a star. An answer whose error
is above the table's bound gets no time, only its error.
"""


def short(value: Any) -> str:
    """Write a number with as many digits as it is worth, anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.1e}"


def size(count: int) -> str:
    """Write a number of bytes in MB."""
    return f"{count / 1e6:,.0f} MB"


def time(row: Row) -> str:
    """Write the median and the spread, or why there are none."""
    if "seconds" not in row:
        return row["status"]
    return " ".join(
        [short(row["seconds"]), f"[{short(row['fastest'])}, {short(row['slowest'])}]"]
    )


def cells(row: Row) -> list[dict[str, str]]:
    """Return a row's cells by column: the case's, the common ones, memory, its own."""
    star = " *" * (row["contestant"] == row["baseline"])
    memory = {
        "peak": "peak_memory",
        "working": "working_memory",
        "GPU": "device_memory",
    }
    return [
        {name: short(value) for name, value in row["case"].items()},
        {
            "contestant": row["contestant"] + star,
            "seconds": time(row),
            "speed": short(row.get("speed", "")),
            "error": f"{row['error']:.1e}" if "error" in row else "",
        },
        {title: size(row[key]) for title, key in memory.items() if key in row},
        {name: short(value) for name, value in row.get("columns", {}).items()},
    ]


def table(rows: list[Row]) -> str:
    """Return one benchmark's rows as a table, its columns padded to equal width."""
    found = [cells(row) for row in rows]
    groups = zip(*found, strict=True)  # a column keeps its group's place
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


def page(results: list[list[Row]], benchmarks: dict[str, Benchmark]) -> str:
    """Return the whole page: each benchmark, and below it each machine's table."""
    parts = [PREFACE]
    for name, benchmark in benchmarks.items():
        measured = [rows for rows in results if rows and rows[0]["benchmark"] == name]
        if not measured:
            continue
        parts.append(f"## {benchmark.title}\n\n{benchmark.sentence}\n")
        parts += [f"{origin(rows[0])}\n\n{table(rows)}\n" for rows in measured]
    if len(parts) == 1:
        parts.append("Nothing has been measured yet.\n")
    return "\n".join(parts)


def origin(row: Row) -> str:
    """Say when, where and how a row was measured."""
    machine = row["hardware"]
    parts = [f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB"]
    parts += [machine[key] for key in ("blas", "gpu") if key in machine]
    parts += [f"{name} {version}" for name, version in row["versions"].items()]
    return (
        f"{row['date']}, commit {row['commit']}, "
        f"`python -m benchmarks run {row['benchmark']}`  \n" + ", ".join(parts)
    )
