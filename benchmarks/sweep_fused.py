"""Fused GPU products: every candidate configuration, checked and timed in one run.

Worker processes first compile and check each candidate on a small problem (they share
the compiler's cache; one that hangs or fails is dropped), then this process times the
survivors. The table comes last; ``--out`` gets every row as a JSON line.

    PYTHONPATH=src python benchmarks/sweep_fused.py --out rows.jsonl --budget 330
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import queue
import statistics
import sys
import time
from pathlib import Path

from tiercel.products.fused import Config, apply, fitting_scale, gaussian, prepare

COLUMNS = 1 << 14
DEPTHS = (3, 8, 16, 32, 64, 128, 512, 2048)
TARGETS = {16: 3.0e12, 32: 2.5e12, 64: 1.6e12, 128: 0.8e12}


def hopper(rows, warps, stages, mixed=False, cap=None):
    return Config("hopper", rows, 64, warps, stages, mixed, cap)


def resident(rows, columns, warps, stages):
    return Config("resident", rows, columns, warps, stages)


def candidates(d: int, outputs: int) -> list[tuple[Config, bool]]:
    """Return (configuration, whether to fold the norms out) to try."""
    if d > 128:
        sizes = [(128, 128, 8, 3), (128, 128, 8, 2), (64, 128, 4, 3), (64, 64, 4, 4)]
        sizes += [(128, 256, 8, 2)] if outputs == 1 else []
        return [(Config("looped", *size), False) for size in sizes]
    if outputs > 1:
        return _many(d)
    found: list[tuple[Config, bool]] = []
    if d <= 8:
        for rows, columns, warps in (
            (128, 32, 4),
            (128, 16, 4),
            (256, 16, 4),
            (64, 32, 4),
        ):
            found.append((Config("small", rows, columns, warps, 2), True))
        found.append((Config("small", 128, 16, 4, 2), False))
    if d <= 32:
        found += [(hopper(64, 4, s, mixed), True) for s in (2, 4) for mixed in (0, 1)]
        found += [(hopper(128, 8, 4, mixed), True) for mixed in (0, 1)]
        found += [(hopper(128, 4, 4), True), (hopper(256, 16, 4), True)]
        found += [(hopper(64, 4, 4), False), (hopper(128, 8, 4), False)]
        found += [(resident(128, 64, 4, s), True) for s in (2, 3)]
        found += [(resident(64, 64, 4, 3), True), (resident(64, 128, 4, 3), True)]
        found += [(resident(128, 128, 8, 3), True), (resident(128, 64, 4, 3), False)]
    elif d <= 64:
        found += [(hopper(64, 4, s), True) for s in (2, 3)]
        found += [(hopper(128, 8, s), True) for s in (2, 3, 4)]
        found += [(hopper(128, 8, 3, True), True), (hopper(256, 16, 3), True)]
        found += [(hopper(64, 4, 2, False, 128), True)]
        found += [(hopper(128, 8, 3, False, 128), True), (hopper(128, 4, 3), True)]
        found += [(hopper(128, 8, 3), False), (hopper(256, 8, 3), True)]
        found += [(resident(128, 64, 4, 3), True), (resident(128, 64, 4, 2), True)]
        found += [(resident(128, 128, 8, 2), True), (resident(128, 128, 8, 3), True)]
        found += [(resident(256, 64, 8, 2), True), (resident(128, 64, 4, 3), False)]
    else:
        found += [(hopper(128, 8, s), True) for s in (2, 3)]
        found += [(hopper(64, 4, s), True) for s in (2, 3)]
        found += [(hopper(128, 8, 3), False)]
        found += [(resident(128, 64, 8, 2), True), (resident(128, 64, 4, 2), True)]
        found += [(resident(128, 128, 8, 2), True), (resident(256, 64, 8, 2), True)]
        found += [(resident(64, 64, 4, 2), True), (resident(64, 64, 4, 1), True)]
    return found


def _many(d: int) -> list[tuple[Config, bool]]:
    found = []
    shapes = [(64, 4, 2), (64, 4, 3), (128, 8, 2), (128, 8, 3)]
    for rows, warps, stages in shapes:
        if d <= 64 or stages <= 2:
            found.append((hopper(rows, warps, stages), True))
    found.append((hopper(128, 8, 2), False))
    found += [(hopper(128, 8, 2, True), True)] if d <= 64 else []
    found += [(resident(128, 64, 4, 2), True), (resident(128, 64, 8, 2), True)]
    found += [(resident(64, 64, 4, 2), True), (resident(128, 64, 8, 2), False)]
    found += [(resident(128, 128, 8, 2), True)]
    return found


def problem(n: int, d: int, outputs: int, fold: bool, device: str, seed: int = 0):
    """Return operands and weights: normal points, length scale sqrt(d)."""
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=device)

    alpha = math.sqrt(math.log2(math.e)) / math.sqrt(d)
    points, centers = normal(n, d) * alpha, normal(COLUMNS, d) * alpha
    largest = float(max(points.abs().max(), centers.abs().max()))
    scale = 1.0 if fold else fitting_scale(largest)
    operands = prepare(points, scale), prepare(centers, scale)
    return points, centers, *operands, normal(COLUMNS, outputs)


def relative_error(result, points, centers, weights, rows: int = 512) -> float:
    """Return the error of the first and last rows against float64."""
    import torch

    pick = torch.cat([torch.arange(rows), torch.arange(-rows, 0)]).to(points.device)
    x, c = points[pick].double(), centers.double()
    exact = (
        torch.exp2(
            -0.5 * torch.cdist(x, c, compute_mode="donot_use_mm_for_euclid_dist") ** 2
        )
        if x.shape[1] <= 8
        else torch.exp2(
            x @ c.T - 0.5 * (x * x).sum(1)[:, None] - 0.5 * (c * c).sum(1)[None, :]
        )
    )
    exact = exact @ weights.double()
    return float((result[pick].double() - exact).norm() / exact.norm())


def work(tasks, results) -> None:
    """Compile and check tasks taken from a queue, until it is empty."""
    kept: dict = {}
    while True:
        try:
            index, d, outputs, fields, fold = tasks.get(timeout=2)
        except queue.Empty:
            return
        results.put((index, "start", None))
        try:
            key = (d, outputs, fold)
            if key not in kept:
                kept.clear()
                kept[key] = problem(4096, d, outputs, fold, "cuda", seed=1)
            points, centers, x, c, weights = kept[key]
            result = apply(gaussian(), [x], [c], weights, config=Config(*fields))
            results.put((index, "ok", relative_error(result, points, centers, weights)))
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            results.put((index, "failed", text))
            if "CUDA" in text or "cuda" in text:
                return


def compile_all(tasks: list, processes: int, limit: float, patience: float = 45.0):
    """Return {index: error or text} of every task, from workers that may die."""
    context = multiprocessing.get_context("spawn")
    todo, results = context.Queue(), context.Queue()
    for task in tasks:
        todo.put(task)
    owners: dict[int, float] = {}
    outcome: dict[int, object] = {}
    workers = [
        context.Process(target=work, args=(todo, results)) for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    stop = time.monotonic() + limit
    while len(outcome) < len(tasks) and time.monotonic() < stop:
        try:
            index, state, value = results.get(timeout=1)
        except queue.Empty:
            hung = [
                i for i, since in owners.items() if time.monotonic() - since > patience
            ]
            for i in hung:
                outcome[i] = "hung"
                del owners[i]
            alive = sum(worker.is_alive() for worker in workers)
            if alive <= len(hung) and todo.empty() and not owners:
                break
            if alive < processes // 2 and not todo.empty():
                workers.append(context.Process(target=work, args=(todo, results)))
                workers[-1].start()
            continue
        if state == "start":
            owners[index] = time.monotonic()
        else:
            owners.pop(index, None)
            outcome[index] = value
    for worker in workers:
        if worker.is_alive():
            worker.kill()
    return outcome


def timed(function, repeats: int) -> float:
    """Return the median seconds of ``function(i)`` by device events."""
    import torch

    for i in range(2):
        function(i)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for i in range(repeats):
        function(i)
        marks[i + 1].record()
    torch.cuda.synchronize()
    pairs = zip(marks, marks[1:], strict=False)
    return statistics.median(a.elapsed_time(b) for a, b in pairs) / 1e3


def plain_torch(points, centers, weights, block: int = 1 << 14):
    """Return the same product by float32 tiles of plain torch."""
    import torch

    half = 0.5 * (centers * centers).sum(1)[None, :]
    out = []
    for part in points.split(block):
        tile = part @ centers.T
        tile -= half
        tile -= 0.5 * (part * part).sum(1)[:, None]
        out.append(tile.exp2_() @ weights)
    return torch.cat(out)


def rows_for(d: int) -> int:
    return 1 << (20 if d <= 128 else 18 if d <= 512 else 16)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--d", type=int, nargs="*", default=list(DEPTHS))
    parser.add_argument("--T", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--budget", type=float, default=330.0)
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--top", type=int, default=6)
    parser.add_argument("--out", default="sweep_fused.jsonl")
    options = parser.parse_args()
    began = time.monotonic()

    import torch

    if not torch.cuda.is_available():
        sys.exit("this sweep needs a CUDA device")
    tasks = []
    for d in options.d:
        for outputs in options.T:
            for config, fold in candidates(d, outputs):
                fields = (
                    config.variant,
                    config.rows,
                    config.columns,
                    config.warps,
                    config.stages,
                    bool(config.mixed),
                    config.registers,
                )
                tasks.append((len(tasks), d, outputs, fields, fold))
    outcome = compile_all(tasks, options.processes, 0.6 * options.budget)
    compiled = time.monotonic() - began

    rows: list[dict] = []
    sink = Path(options.out).open("w")
    name = torch.cuda.get_device_name()
    last = None
    for index, d, outputs, fields, fold in tasks:
        config, error = Config(*fields), outcome.get(index, "not reached")
        row = {
            "d": d,
            "T": outputs,
            "config": str(config),
            "fold": fold,
            "device": name,
        }
        bad = not isinstance(error, float) or not error < 1e-4
        if bad or time.monotonic() - began > options.budget:
            row["skipped"] = str(error) if bad else "budget"
        else:
            n = rows_for(d)
            if last != (d, outputs, fold):
                data, last = None, (d, outputs, fold)
                data = problem(n, d, outputs, fold, "cuda")
                points, centers, x, c, weights = data
                turn = [weights, weights.roll(1, 0), -weights]
                kept = {}
            try:
                kept["y"] = apply(gaussian(), [x], [c], weights, config=config)
                row["error"] = relative_error(kept["y"], points, centers, weights)
                seconds = timed(
                    lambda i, x=x, c=c, turn=turn, config=config: apply(
                        gaussian(), [x], [c], turn[i % 3], config=config
                    ),
                    options.repeats,
                )
                row["seconds"], row["rate"] = seconds, n * COLUMNS / seconds
            except Exception as failure:
                row["skipped"] = f"{type(failure).__name__}: {failure}"[:160]
        rows.append(row)
        sink.write(json.dumps(row) + "\n")
        sink.flush()
    for d in options.d:
        if time.monotonic() - began > options.budget:
            break
        data = None
        n = rows_for(d) // 8
        points, centers, _, _, weights = problem(n, d, 1, True, "cuda")
        torch.backends.cuda.matmul.allow_tf32 = False
        seconds = timed(lambda i, *a: plain_torch(points, centers, weights), 5)
        row = {
            "d": d,
            "T": 1,
            "config": "plain torch",
            "fold": False,
            "device": name,
            "seconds": seconds,
            "rate": n * COLUMNS / seconds,
            "error": relative_error(
                plain_torch(points, centers, weights), points, centers, weights
            ),
        }
        rows.append(row)
        sink.write(json.dumps(row) + "\n")
    sink.close()
    report(rows, options, compiled, time.monotonic() - began)


def report(rows: list[dict], options, compiled: float, total: float) -> None:
    """Print the fastest few of every (d, T), and what was skipped."""
    print(f"compiled in {compiled:.0f} s, all in {total:.0f} s; 1e12 entries/s (error)")
    for d in options.d:
        for outputs in options.T:
            mine = [r for r in rows if (r["d"], r["T"]) == (d, outputs)]
            done = sorted((r for r in mine if "rate" in r), key=lambda r: -r["rate"])
            target = TARGETS.get(d)
            aim = (
                f" target {target * (1 if outputs == 1 else 0.6) / 1e12:.2f}"
                if target
                else ""
            )
            print(f"d={d} T={outputs}{aim}")
            slow = [r for r in done[options.top :] if r["config"] == "plain torch"]
            for r in done[: options.top] + slow:
                fold = "fold" if r["fold"] else "full"
                print(
                    f"  {r['rate'] / 1e12:6.3f} {r['config']} {fold} ({r['error']:.1e})"
                )
            skipped = {}
            for r in mine:
                if "skipped" in r:
                    skipped.setdefault(r["skipped"][:70], []).append(r["config"])
            for reason, configs in skipped.items():
                print(f"  skipped {'; '.join(configs)[:120]}: {reason}")


if __name__ == "__main__":
    main()
