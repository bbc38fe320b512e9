"""Which block sizes are fastest on this GPU: what ``fused/configs.py`` is written from.

    python -m benchmarks.sweep_fused --d 16 64 --outputs 1 16 --out sweep.jsonl

Worker processes compile every candidate first, on a small problem, and check its
answer; then the survivors are timed one after another. The last table shows the
fastest few of each kind, and how fast the first choice of ``configs.py`` is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tiercel.products.fused import (
    Config,
    apply,
    candidates,
    fitting_scale,
    gaussian,
    prepare,
)
from tiercel.products.fused.split import padded_depth

CENTERS = 2**14
HOPPER = (9, 0)


@dataclass(frozen=True)
class Task:
    """One candidate: how many columns and outputs, norms folded out or not."""

    d: int
    outputs: int
    fold: bool
    config: Config


Block = tuple[int, int, int]  # rows, columns, warps


def grid(variant: str, blocks: Sequence[Block], stages: Sequence[int]) -> list[Config]:
    """Return configurations of all these blocks with all these numbers of stages."""
    return [Config(variant, *block, s) for block in blocks for s in stages]


def configurations(d: int, outputs: int) -> Iterator[Config]:
    """Yield what might be fastest for a number of columns and outputs."""
    if d > 128:
        yield from grid("looped", [(128, 128, 8), (128, 64, 8), (64, 64, 4)], (2, 3))
        return
    if d <= 8 and outputs == 1:
        blocks = [(128, 32, 4), (128, 16, 4), (256, 16, 4), (64, 32, 4), (128, 64, 8)]
        yield from grid("small", blocks, (2,))
    # Where 128 registers hold everything, more programs share a multiprocessor.
    light = d <= (64 if outputs == 1 else 32) and outputs <= 32
    blocks = [(128, 64, 8), (64, 64, 4), *([(256, 64, 16)] if light else [])]
    for config in grid("hopper", blocks, (2, 3, 4)):
        capped = replace(config, registers=128 if light and config.warps < 16 else None)
        yield from (config, capped)
        if light:
            yield replace(capped, mixed=True)
    if d <= 64:
        yield from grid("hopper", [(128, 64, 4)], (2, 3))
    blocks = [(128, 64, 4), (128, 64, 8), (64, 64, 4), (128, 128, 8)]
    yield from grid("resident", blocks, (2, 3))


def tasks(columns: list[int], outputs: list[int]) -> list[Task]:
    """Return all candidates, with the norms in the sum for the first few only."""
    found = []
    for d, count in itertools.product(columns, outputs):
        every = list(dict.fromkeys(configurations(d, count)))
        chosen = first_choice(d, count)
        if chosen not in every:
            every.append(chosen)
        found += [Task(d, count, d <= 128, config) for config in every]
        if d <= 128:
            found.append(Task(d, count, False, chosen))
    return found


def first_choice(d: int, outputs: int) -> Config:
    """Return what the table of configurations says."""
    import torch

    hopper = torch.cuda.get_device_capability() == HOPPER
    return candidates(padded_depth(d), d, outputs, 1, hopper, d <= 8)[0]


def rows(d: int) -> int:
    """Fewer rows where there are many columns."""
    return 2 ** (20 if d <= 128 else 18 if d <= 512 else 16)


class Problem:
    """Normal points on the device, split, with a length scale of sqrt(d)."""

    def __init__(self, n: int, d: int, outputs: int, fold: bool) -> None:
        import torch

        random = torch.Generator("cuda").manual_seed(0)
        scale = math.sqrt(math.log2(math.e) / d)
        X, Z, V = (
            torch.randn(*shape, generator=random, device="cuda")
            for shape in ((n, d), (CENTERS, d), (CENTERS, outputs))
        )
        self.X, self.Z, self.V = X.mul_(scale), Z.mul_(scale), V
        unit = 1.0 if fold else fitting_scale(float(X.abs().max()))
        self.split = [prepare(X, unit)], [prepare(Z, unit)]

    def run(self, config: Config) -> Any:
        return apply(gaussian(), *self.split, self.V, config=config)

    def error(self, result: Any) -> float:
        """Return the error of the first and last rows against float64."""
        import torch

        ends = torch.cat([torch.arange(300), torch.arange(-300, 0)]).cuda()
        x, z = self.X[ends].double(), self.Z.double()
        half = 0.5 * (x * x).sum(1)[:, None] + 0.5 * (z * z).sum(1)
        exact = torch.exp2(x @ z.T - half) @ self.V.double()
        return float((result[ends].double() - exact).norm() / exact.norm())


def tried(task: Task) -> float | str:
    """Compile a candidate and return its error on a small problem, or what failed."""
    try:
        problem = Problem(4096, task.d, task.outputs, task.fold)
        return problem.error(problem.run(task.config))
    except Exception as failure:
        return " ".join(f"{type(failure).__name__}: {failure}".split())[:100]


def compiled(every: list[Task], processes: int, seconds: float) -> list[float | str]:
    """Try all candidates in processes of their own; they share the compiled code."""
    stop = time.monotonic() + seconds
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        runs = [pool.apply_async(tried, (task,)) for task in every]
        for run in runs:
            run.wait(max(0.0, stop - time.monotonic()))
        # The pool ends here, with whatever hangs.
        return [run.get() if run.ready() else "too late" for run in runs]


def median_seconds(run: Callable[[], Any], repeat: int) -> float:
    """Return the median time of a call by the device's own clock."""
    import torch

    for _ in range(2):
        run()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeat + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in itertools.pairwise(marks)]
    return statistics.median(times) / 1e3


def measured(
    every: list[Task], outcomes: list[float | str], repeat: int, stop: float
) -> Iterator[dict[str, Any]]:
    """Yield a row for each candidate, with its rate if its answer was right."""
    problem, known = None, None
    for task, outcome in zip(every, outcomes, strict=True):
        row = {**asdict(task), "name": str(task.config)}
        if isinstance(outcome, str) or not outcome < 1e-5:
            yield {**row, "skipped": str(outcome)}
            continue
        if time.monotonic() > stop:
            yield {**row, "skipped": "no time left"}
            continue
        if known != (task.d, task.outputs, task.fold):
            problem, known = None, (task.d, task.outputs, task.fold)
            problem = Problem(rows(task.d), *known)
        assert problem is not None
        run = partial(problem.run, task.config)
        seconds, error = median_seconds(run, repeat), problem.error(run())
        rate = rows(task.d) * CENTERS / seconds
        yield {**row, "seconds": seconds, "rate": rate, "error": error}


def report(found: list[dict[str, Any]], top: int) -> None:
    """Print the fastest few of each kind, the table's choice, and what was skipped."""
    for (d, outputs), group in itertools.groupby(
        found, lambda row: (row["d"], row["outputs"])
    ):
        mine = list(group)
        done = sorted((r for r in mine if "rate" in r), key=lambda r: -r["rate"])
        chosen = str(first_choice(d, outputs))
        print(f"d={d} outputs={outputs}: 10^12 entries/s, error")
        for place, r in enumerate(done):
            if place < top or r["name"] == chosen:
                star = " <- configs.py" if r["name"] == chosen else ""
                fold = "" if r["fold"] else " norms in"
                rate = r["rate"] / 1e12
                print(f"  {rate:6.3f} {r['error']:.1e} {r['name']}{fold}{star}")
        reasons = {r["skipped"] for r in mine if "skipped" in r}
        for reason in sorted(reasons):
            count = sum(r.get("skipped") == reason for r in mine)
            print(f"  {count} skipped: {reason[:70]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--d", type=int, nargs="+", default=[3, 8, 16, 32, 64, 128])
    parser.add_argument(
        "--outputs", type=int, nargs="+", default=[1, 16], choices=[1, 16, 32, 64]
    )
    parser.add_argument("--seconds", type=float, default=480, help="end by then")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--top", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("sweep.jsonl"))
    chosen = parser.parse_args()
    stop = time.monotonic() + chosen.seconds

    import torch

    if not torch.cuda.is_available():
        sys.exit("this sweep needs a CUDA device")
    every = tasks(chosen.d, chosen.outputs)
    outcomes = compiled(every, chosen.processes, 0.5 * chosen.seconds)
    found = []
    with chosen.out.open("w", encoding="utf-8") as sink:
        for row in measured(every, outcomes, chosen.repeat, stop):
            found.append(row)
            sink.write(json.dumps(row) + "\n")
            sink.flush()
    report(found, chosen.top)


if __name__ == "__main__":
    main()
