"""The benchmarks' command: ``python -m benchmarks {list,run,suite,table}``."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import traceback
from pathlib import Path

from benchmarks import harness
from benchmarks.table import page, table

HERE = Path(__file__).parent


def declared() -> dict[str, harness.Benchmark]:
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


def measure(names: list[str], out: Path, repeat: int | None) -> bool:
    """Run benchmarks, write their rows and show them; tell whether all went well."""
    good, shown = True, []
    for name in names:
        print(f"== {name}", file=sys.stderr)
        try:
            rows = harness.run(f"benchmarks.{name}", repeat)
        except Exception:  # the other benchmarks are still worth their time
            traceback.print_exc()
            good = False
            continue
        good &= not any(row["status"].startswith("failed") for row in rows)
        path = harness.write(rows, out)
        shown.append(f"{name} ({path})\n{table(rows)}")
    print("\n\n".join(["", *shown]))
    return good


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name the benchmarks")
    run = commands.add_parser("run", help="run one benchmark")
    run.add_argument("name")
    suite = commands.add_parser("suite", help="run all benchmarks for a CPU or a GPU")
    suite.add_argument("kind", choices=["cpu", "gpu"])
    for command in (run, suite):
        command.add_argument(
            "--repeat", type=int, metavar="N", help="timed runs of each"
        )
    commands.add_parser("table", help="rewrite benchmarks/README.md from the rows")
    for command in commands.choices.values():
        command.add_argument(
            "--out", type=Path, default=HERE / "results", metavar="DIR"
        )
    chosen = parser.parse_args(arguments)

    benchmarks = declared()
    if chosen.command == "list":
        for name, benchmark in benchmarks.items():
            print(f"{name:24} {benchmark.suite}  {benchmark.title}")
        return 0
    if chosen.command == "table":
        text = page(harness.read(chosen.out), benchmarks)
        (HERE / "README.md").write_text(text, encoding="utf-8")
        return 0
    if chosen.command == "run" and chosen.name not in benchmarks:
        parser.error(
            f"no benchmark {chosen.name!r}; there are: {', '.join(benchmarks)}"
        )
    if chosen.repeat is not None and chosen.repeat < 1:
        parser.error("--repeat must be at least 1")
    if chosen.command == "run":
        names = [chosen.name]
    else:
        names = [name for name, b in benchmarks.items() if b.suite == chosen.kind]
    if any(benchmarks[name].suite == "gpu" for name in names) and not has_cuda():
        parser.error("these benchmarks need torch and a CUDA device")
    return 0 if measure(names, chosen.out, chosen.repeat) else 1


if __name__ == "__main__":
    sys.exit(main())
