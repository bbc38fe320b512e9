"""The benchmarks' command: ``python -m benchmarks {list,run,suite,table}``."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.reproduction import Reproduction
from benchmarks.table import REPRODUCTIONS, TIMINGS, page, short, table

HERE = Path(__file__).parent
PAGES = {
    "README.md": (harness.Benchmark, TIMINGS),
    "REPRODUCTIONS.md": (Reproduction, REPRODUCTIONS),
}

Declared = harness.Benchmark | Reproduction


def declared() -> dict[str, Declared]:
    """Return the benchmarks of this folder by name."""
    return {
        path.stem: harness.load(f"benchmarks.{path.stem}")
        for path in sorted(HERE.glob("*.py"))
        if re.search(r"^BENCHMARK = ", path.read_text(encoding="utf-8"), re.M)
    }


def has_cuda() -> bool:
    """Tell whether torch is installed and finds a CUDA device."""
    if not importlib.util.find_spec("torch"):
        return False
    import torch

    return torch.cuda.is_available()


def select(benchmark: Declared, only: list[str]) -> list[dict[str, Any]]:
    """Return the cases that have one of the wanted values at each key in ``only``."""
    wanted: dict[str, set[str]] = {}
    for pair in only:
        key, _, value = pair.partition("=")
        wanted.setdefault(key, set()).add(value)
    return [
        case
        for case in benchmark.cases
        if all(key in case and str(case[key]) in wanted[key] for key in wanted)
    ]


def measure(
    benchmarks: Mapping[str, Declared],
    out: Path,
    repeat: int | None,
    only: list[str],
) -> bool:
    """Run benchmarks, write their rows and show them; tell whether all went well.

    Rows are written after each case: a long run that is broken off keeps what it has.
    """
    good, shown = True, []
    for name, benchmark in benchmarks.items():
        rows = []
        for case in select(benchmark, only):
            print(f"== {name} {case_text(case)}", file=sys.stderr, flush=True)
            try:
                found = harness.run(f"benchmarks.{name}", repeat, [case])
            except Exception:  # the others are still worth their time
                traceback.print_exc()
                good = False
                continue
            print("\n".join(map(progress, found)), file=sys.stderr, flush=True)
            path = harness.write(found, out, benchmark.cases)
            rows += found
        good &= not any(row["status"].startswith("failed") for row in rows)
        shown += [f"{name} ({path})\n{table(rows)}"] if rows else []
    print("\n\n".join(["", *shown]))
    return good


def case_text(case: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in case.items())


def progress(row: harness.Row) -> str:
    """Say in one line what became of a row."""
    parts = [row["contestant"]] if "contestant" in row else []
    columns = row.get("columns", {}).items()
    parts += [f"{name} {short(value)}" for name, value in columns]
    parts += [f"{short(row['seconds'])} s"] if "seconds" in row else []
    parts += [row["status"]] if row["status"] != "ok" else []
    return "   " + ", ".join(parts)


def write_pages(out: Path, benchmarks: Mapping[str, Declared]) -> None:
    """Write the page of the timings and that of the reproductions."""
    results = harness.read(out)
    for file, (kind, preface) in PAGES.items():
        shown = {name: b for name, b in benchmarks.items() if isinstance(b, kind)}
        text = page(results, shown, preface)
        (HERE / file).write_text(text, encoding="utf-8")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the benchmarks")
    run = commands.add_parser("run", help="run one benchmark")
    run.add_argument("name")
    run.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="run these cases alone and keep the rows of the others (repeatable)",
    )
    suite = commands.add_parser("suite", help="run all benchmarks of one kind")
    suite.add_argument("kind", choices=["cpu", "gpu", "reproduce"])
    suite.set_defaults(only=[])
    for command in (run, suite):
        command.add_argument(
            "--repeat", type=int, metavar="N", help="timed runs of each"
        )
    commands.add_parser("table", help=f"rewrite {' and '.join(PAGES)} from the rows")
    for command in commands.choices.values():
        command.add_argument(
            "--out", type=Path, default=HERE / "results", metavar="DIR"
        )
    return parser


def wanted(
    parser: argparse.ArgumentParser,
    chosen: argparse.Namespace,
    benchmarks: Mapping[str, Declared],
) -> dict[str, Declared]:
    """Return the benchmarks to run, or leave with what is wrong with the request."""
    if chosen.command == "suite":
        found = {n: b for n, b in benchmarks.items() if b.suite == chosen.kind}
    elif chosen.name in benchmarks:
        found = {chosen.name: benchmarks[chosen.name]}
        if not select(found[chosen.name], chosen.only):
            cases = "; ".join(map(case_text, found[chosen.name].cases))
            parser.error(f"no case has {' '.join(chosen.only)}; there are: {cases}")
    else:
        known = ", ".join(benchmarks)
        parser.error(f"no benchmark {chosen.name!r}; there are: {known}")
    suites = {benchmark.suite for benchmark in found.values()}
    if chosen.repeat is not None and chosen.repeat < 1:
        parser.error("--repeat must be at least 1")
    if chosen.repeat is not None and "reproduce" in suites:
        parser.error("a reproduction sets its own repetitions: leave out --repeat")
    if "gpu" in suites and not has_cuda():
        parser.error("these benchmarks need torch and a CUDA device")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = arguments_parser()
    chosen = parser.parse_args(arguments)
    benchmarks = declared()
    if chosen.command == "list":
        for name, benchmark in benchmarks.items():
            print(f"{name:24} {benchmark.suite:9}  {benchmark.title}")
        return 0
    if chosen.command == "table":
        write_pages(chosen.out, benchmarks)
        return 0
    found = wanted(parser, chosen, benchmarks)
    return 0 if measure(found, chosen.out, chosen.repeat, chosen.only) else 1


if __name__ == "__main__":
    sys.exit(main())
