"""How a benchmark is declared and run: interleaved, checked, written down as rows."""

from __future__ import annotations

import datetime
import importlib
import importlib.util
import json
import multiprocessing
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.reproduction import Reproduction, Row, failure


@dataclass(frozen=True)
class Contestant:
    """One way to the answer: what is timed, what comes before, what it needs."""

    run: Callable[[Any], Any]  # setup's result -> answer; timed
    setup: Callable[[Any], Any] | None = None  # data -> what run takes; not timed
    needs: tuple[str, ...] = ()  # packages, imported before the clock starts


@dataclass(frozen=True)
class Latencies:
    """What ``run`` returns when it times each of many short calls by itself."""

    seconds: np.ndarray  # one number per call
    answer: Any

    def __post_init__(self) -> None:
        if np.ndim(self.seconds) != 1 or not np.size(self.seconds):
            raise ValueError("latencies are an array with the seconds of each call")


def relative_error(answer: np.ndarray, reference: np.ndarray) -> float:
    """Return the norm of the difference over the norm of the reference, in float64."""
    answer, reference = np.asarray(answer, float), np.asarray(reference, float)
    return float(np.linalg.norm(answer - reference) / np.linalg.norm(reference))


@dataclass(frozen=True)
class Benchmark:
    """One table: what is computed, by whom, and how right an answer must be.

    ``prepare(**case)`` makes the data (seeded: each process makes its own) and
    ``reference(data)`` what ``error(answer, reference)`` measures answers against.
    A contestant fails when its error is above ``tolerance`` (a number, or a function
    of the case), or more than the fraction ``agreement`` above the smallest error of
    all: give one of the two. ``columns(case, seconds)`` adds columns of one's own.
    With ``processes`` each run has a process to itself, and memory is measured.
    Where ``run`` returns :class:`Latencies`, seconds are those of a single call.
    """

    title: str
    sentence: str
    cases: Sequence[dict[str, Any]]
    prepare: Callable[..., Any]
    contestants: dict[str, Contestant]
    baseline: str
    reference: Callable[[Any], Any]
    error: Callable[[Any, Any], float] = relative_error
    tolerance: float | Callable[..., float] | None = None
    agreement: float | None = None
    columns: Callable[[dict[str, Any], float], dict[str, Any]] | None = None
    suite: str = "cpu"
    processes: bool = False
    repeat: int = 5

    def __post_init__(self) -> None:
        if (self.tolerance is None) == (self.agreement is None):
            raise ValueError("give either a tolerance or an agreement, not both")
        if self.baseline not in self.contestants:
            raise ValueError(f"the baseline {self.baseline!r} is not a contestant")
        if self.suite not in ("cpu", "gpu"):
            raise ValueError(f"the suite is 'cpu' or 'gpu', not {self.suite!r}")

    @property
    def needs(self) -> tuple[str, ...]:
        """All packages that some contestant needs."""
        return tuple(p for c in self.contestants.values() for p in c.needs)


@dataclass
class Trial:
    """One timed run; of latencies, ``seconds`` is the median."""

    seconds: float
    answer: np.ndarray
    memory: dict[str, int]
    latencies: np.ndarray | None = None


@dataclass
class Arena:
    """Runs contestants on one case's data; the first run of each is a warm-up."""

    benchmark: Benchmark
    case: dict[str, Any]
    inputs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = self.benchmark.prepare(**self.case)

    def trial(self, name: str) -> Trial:
        contestant = self.benchmark.contestants[name]
        if name not in self.inputs:
            for package in contestant.needs:
                importlib.import_module(package)
            setup = contestant.setup
            self.inputs[name] = setup(self.data) if setup else self.data
            contestant.run(self.inputs[name])
        cuda = _cuda()
        if cuda:
            cuda.synchronize()
            cuda.reset_peak_memory_stats()
        environment.forget_peak()
        before, _ = environment.resident()
        start = time.perf_counter()
        answer = contestant.run(self.inputs[name])
        if cuda:
            cuda.synchronize()
        seconds = time.perf_counter() - start
        _, peak = environment.resident()
        memory = {"peak_memory": peak, "working_memory": max(peak - before, 0)}
        if not self.benchmark.processes:  # others left their traces in this process
            memory = {}
        if cuda:
            memory["device_memory"] = cuda.max_memory_allocated()
        latencies = None
        if isinstance(answer, Latencies):
            latencies, answer = np.asarray(answer.seconds, float), answer.answer
            seconds = float(np.median(latencies))
        if hasattr(answer, "cpu"):  # a tensor, wherever it lives
            answer = answer.cpu()
        return Trial(seconds, np.asarray(answer), memory, latencies)


def _cuda() -> Any:
    """Return ``torch.cuda`` if a contestant has put it to use, or None."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch and torch.cuda.is_initialized() else None


def _trial_alone(module: str, case: dict[str, Any], name: str) -> Trial:
    benchmark = load(module)
    assert isinstance(benchmark, Benchmark)
    return Arena(benchmark, case).trial(name)


def load(module: str) -> Benchmark | Reproduction:
    """Return the benchmark that a module declares."""
    return importlib.import_module(module).BENCHMARK


def run(
    module: str,
    repeat: int | None = None,
    cases: Sequence[dict[str, Any]] | None = None,
) -> list[Row]:
    """Run a benchmark's cases, or some of them; return their rows."""
    declared = load(module)
    about = {
        "benchmark": module.rpartition(".")[2],
        "date": datetime.date.today().isoformat(),
        "commit": environment.commit(),
        "hardware": environment.hardware(gpu=declared.suite == "gpu"),
        "versions": environment.versions(*declared.needs),
    }
    rows: list[Row] = []
    for case in declared.cases if cases is None else cases:
        if isinstance(declared, Reproduction):
            found: Iterable[Row] = declared.rows(case)
        else:
            found = _run_case(module, declared, case, repeat or declared.repeat)
        rows += [{**about, **row} for row in found]
    return rows


def _run_case(
    module: str, benchmark: Benchmark, case: dict[str, Any], repeat: int
) -> Iterator[Row]:
    arena = Arena(benchmark, case)
    trials: dict[str, list[Trial]] = {name: [] for name in benchmark.contestants}
    status: dict[str, str] = {}
    for name, contestant in benchmark.contestants.items():
        if not all(map(importlib.util.find_spec, contestant.needs)):
            status[name] = "not installed"
    for _ in range(repeat):  # A B A B ...: a busy spell of the machine hits everyone
        for name in benchmark.contestants:
            if name in status:
                continue
            try:
                trials[name].append(_trial(module, arena, name))
            except Exception as problem:
                status[name] = failure(problem)
    reference = benchmark.reference(arena.data)
    errors = {
        name: float(
            np.max([benchmark.error(trial.answer, reference) for trial in done])
        )
        for name, done in trials.items()
        if name not in status
    }
    bound = _bound(benchmark, case, errors)
    for name, error in errors.items():
        if not error <= bound:  # NaN fails too
            status[name] = f"failed: error {error:.2e} above {bound:.2e}"
    for name, done in trials.items():
        row: Row = {"baseline": benchmark.baseline, "case": case, "contestant": name}
        row |= {"status": status.get(name, "ok")}
        row |= {"error": errors[name]} if name in errors else {}
        if name not in status:
            rival = (
                trials[benchmark.baseline] if benchmark.baseline not in status else []
            )
            row |= _timings(done, rival)
            if benchmark.columns:
                row["columns"] = benchmark.columns(case, row["seconds"])
        yield row


def _trial(module: str, arena: Arena, name: str) -> Trial:
    if not arena.benchmark.processes:
        return arena.trial(name)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as fresh:
        return fresh.submit(_trial_alone, module, arena.case, name).result()


def _bound(
    benchmark: Benchmark, case: dict[str, Any], errors: dict[str, float]
) -> float:
    if benchmark.agreement is not None:
        return (1 + benchmark.agreement) * min(errors.values(), default=np.inf)
    tolerance = benchmark.tolerance
    return tolerance(**case) if callable(tolerance) else float(tolerance or 0.0)


def _timings(trials: list[Trial], rivals: list[Trial]) -> Row:
    seconds = [trial.seconds for trial in trials]
    row: Row = {
        "seconds": statistics.median(seconds),
        "fastest": min(seconds),
        "slowest": max(seconds),
        "repeats": len(seconds),
    }
    calls = [trial.latencies for trial in trials if trial.latencies is not None]
    if calls:
        row |= _distribution(np.concatenate(calls))
    # A call's seconds are not compared with a whole run's.
    if rivals and bool(calls) == (rivals[0].latencies is not None):
        # In pairs: what slowed the whole round down cancels.
        pairs = zip(rivals, trials, strict=True)
        row["speed"] = statistics.median(a.seconds / b.seconds for a, b in pairs)
    for kind in trials[0].memory:
        row[kind] = max(trial.memory[kind] for trial in trials)
    return row


def _distribution(latencies: np.ndarray) -> Row:
    low, middle, high = map(float, np.quantile(latencies, [0.01, 0.5, 0.99]))
    worst = float(latencies.max())
    return {"seconds": middle, "fastest": low, "slowest": high, "worst": worst}


def write(rows: list[Row], folder: Path, cases: Sequence[dict[str, Any]] = ()) -> Path:
    """Write a benchmark's rows, in place of older ones from the same machine.

    Older rows of those ``cases`` that were not measured now are kept; all rows come in
    the order of the cases.
    """
    hardware = rows[0]["hardware"]
    machine = "-".join(
        str(hardware[key]) for key in ("cpu", "cores", "gpu") if key in hardware
    )
    slug = re.sub(r"[^a-z0-9]+", "-", machine.lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{rows[0]['benchmark']}--{slug}.jsonl"
    measured = [_key(row["case"]) for row in rows]
    order = [_key(case) for case in cases] or measured
    old = [row for row in _read(path) if _key(row["case"]) in {*order} - {*measured}]
    every = sorted([*old, *rows], key=lambda row: order.index(_key(row["case"])))
    path.write_text("".join(json.dumps(row) + "\n" for row in every), encoding="utf-8")
    return path


def _key(case: dict[str, Any]) -> str:
    return json.dumps(case, sort_keys=True)


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read(folder: Path) -> list[list[Row]]:
    """Return all rows of a folder: one list per benchmark and machine."""
    return [_read(path) for path in sorted(folder.glob("*.jsonl"))]
