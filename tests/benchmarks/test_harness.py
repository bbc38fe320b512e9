"""The benchmarks' harness, on benchmarks that are made up here."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest
from declarations import declare

from benchmarks import environment, harness
from benchmarks.harness import Arena, Contestant

MADE_UP = """
import os
import numpy as np
from benchmarks.harness import Benchmark, Contestant

def modest(data):
    return data["x"].sum() + np.ones(data["n"] // 8).min() - 1

def hungry(data):
    return data["x"].sum() + np.ones(data["n"]).min() - 1

BENCHMARK = Benchmark(
    title="Sums",
    sentence="A sum, made in several ways.",
    cases=[{"n": 1000, "dtype": "float64"}, {"n": 80_000_000, "dtype": "float64"}],
    prepare=lambda n, dtype: {"x": np.ones(1000, dtype), "n": n},
    contestants={
        "plain": Contestant(modest),
        "hungry": Contestant(hungry),
        "alone": Contestant(lambda data: 1000.0 + (os.getpid() == PARENT)),
    },
    baseline="plain",
    reference=lambda data: 1000.0,
    tolerance=1e-12,
    processes=True,
    repeat=2,
)
"""


def test_a_row_says_what_was_measured_and_where(monkeypatch):
    declare(monkeypatch, columns=lambda case, seconds: {"n per s": case["n"] / seconds})
    row, other = harness.run("benchmarks.numbers")
    assert (row["benchmark"], row["contestant"]) == ("numbers", "sum")
    assert (row["case"], row["status"], row["error"]) == ({"n": 4}, "ok", 0.0)
    assert row["fastest"] <= row["seconds"] <= row["slowest"]
    assert (row["repeats"], row["speed"], other["baseline"]) == (3, 1.0, "sum")
    assert row["columns"] == {"n per s": 4 / row["seconds"]}
    assert row["versions"]["numpy"] == np.__version__
    assert row["hardware"]["cores"] >= 1
    assert row["hardware"]["memory_gb"] >= 1


def test_contestants_take_turns_after_a_warm_up(monkeypatch):
    turns = []
    players = {
        name: Contestant(lambda data, name=name: turns.append(name)) for name in "ab"
    }
    declare(monkeypatch, contestants=players, baseline="a", error=lambda *_: 0.0)
    harness.run("benchmarks.numbers")
    assert turns == ["a", "a", "b", "b", "a", "b", "a", "b"]


def test_setup_is_done_once_and_not_timed(monkeypatch):
    calls = []

    def setup(data):
        calls.append(data)
        time.sleep(0.2)
        return data

    declare(monkeypatch, contestants={"sum": Contestant(np.sum, setup=setup)})
    (row,) = harness.run("benchmarks.numbers")
    assert len(calls) == 1
    assert row["slowest"] < 0.2


class FakeCUDA:
    """Stands for ``torch.cuda`` and notes the order of its calls."""

    def __init__(self):
        self.calls = []

    def synchronize(self):
        self.calls.append("synchronize")

    def reset_peak_memory_stats(self):
        self.calls.append("reset")

    def max_memory_allocated(self):
        return 1234


def test_the_clock_waits_for_the_gpu(monkeypatch):
    cuda = FakeCUDA()
    monkeypatch.setattr(harness, "_cuda", lambda: cuda)
    work = Contestant(lambda data: cuda.calls.append("run") or 6.0)
    declare(monkeypatch, contestants={"sum": work}, repeat=1)
    (row,) = harness.run("benchmarks.numbers")
    assert cuda.calls == ["run", "synchronize", "reset", "run", "synchronize"]
    assert row["device_memory"] == 1234
    assert "peak_memory" not in row


def test_a_wrong_answer_gets_no_time(monkeypatch):
    wrong = Contestant(lambda data: 6.1)
    declare(monkeypatch, contestants={"sum": Contestant(np.sum), "wrong": wrong})
    good, bad = harness.run("benchmarks.numbers")
    assert good["status"] == "ok"
    assert bad["status"] == "failed: error 1.67e-02 above 1.00e-09"
    assert bad["error"] == pytest.approx(0.1 / 6)
    assert "seconds" not in bad
    assert "speed" not in bad


def test_one_wrong_answer_of_several_fails(monkeypatch):
    answers = iter([6.0, 6.0, np.nan, 6.0])
    fickle = Contestant(lambda data: next(answers))
    declare(monkeypatch, contestants={"sum": fickle})
    (row,) = harness.run("benchmarks.numbers")
    assert row["status"].startswith("failed: error nan")


def test_a_tolerance_may_depend_on_the_case(monkeypatch):
    off = Contestant(lambda data: 6.0 + 1e-3 * len(data))
    declare(
        monkeypatch,
        cases=[{"n": 4}, {"n": 8}],
        contestants={"sum": off},
        tolerance=lambda n: 1e-3,
    )
    small, large = harness.run("benchmarks.numbers")
    assert small["status"] == "ok"
    assert large["status"].startswith("failed")


def test_agreement_compares_with_the_smallest_error(monkeypatch):
    answers = {"best": 7.0, "near": 7.005, "far": 7.02}
    guesses = {
        name: Contestant(lambda _, got=got: got) for name, got in answers.items()
    }
    declare(
        monkeypatch,
        contestants=guesses,
        baseline="best",
        error=lambda answer, reference: abs(answer - reference),
        tolerance=None,
        agreement=0.01,
    )
    rows = harness.run("benchmarks.numbers")
    assert [row["status"].partition(":")[0] for row in rows] == ["ok", "ok", "failed"]


def test_missing_and_broken_contestants_are_named(monkeypatch):
    def broken(data):
        raise MemoryError("too\nlarge")

    declare(
        monkeypatch,
        contestants={
            "sum": Contestant(np.sum),
            "absent": Contestant(np.sum, needs=("no_such_package",)),
            "broken": Contestant(broken),
        },
    )
    _, absent, failed = harness.run("benchmarks.numbers")
    assert absent["status"] == "not installed"
    assert failed["status"] == "failed: MemoryError: too large"


def test_each_run_may_have_its_own_process(monkeypatch, tmp_path):
    (tmp_path / "made_up.py").write_text(MADE_UP.replace("PARENT", str(os.getpid())))
    monkeypatch.syspath_prepend(tmp_path)
    rows = harness.run("made_up")
    assert [row["status"] for row in rows] == ["ok"] * 6
    working = {row["contestant"]: row["working_memory"] for row in rows[3:]}
    assert 600e6 <= working["hungry"] < 700e6
    assert 60e6 <= working["plain"] < 140e6
    assert working["alone"] < 60e6


@pytest.mark.parametrize(
    "changes",
    [{"tolerance": None}, {"agreement": 0.1}, {"baseline": "other"}, {"suite": "tpu"}],
)
def test_a_contradictory_declaration_is_refused(monkeypatch, changes):
    with pytest.raises(ValueError, match=r"tolerance|baseline|suite"):
        declare(monkeypatch, **changes)


def test_rows_replace_those_of_the_same_machine(monkeypatch, tmp_path):
    declare(monkeypatch)
    rows = harness.run("benchmarks.numbers", repeat=1)
    path = harness.write(rows, tmp_path)
    assert harness.write(rows, tmp_path) == path
    assert harness.read(tmp_path) == [rows]
    elsewhere = [
        {**row, "hardware": {"cpu": "Other (R) CPU", "cores": 3}} for row in rows
    ]
    assert harness.write(elsewhere, tmp_path).name == "numbers--other-r-cpu-3.jsonl"
    assert len(harness.read(tmp_path)) == 2
    assert json.loads(path.read_text().splitlines()[0])["repeats"] == 1


def test_rows_of_other_cases_are_kept_in_the_order_of_the_cases(monkeypatch, tmp_path):
    benchmark = declare(
        monkeypatch,
        cases=[{"n": 4, "pair": (1, 2)}, {"n": 4, "pair": (3, 4)}],
        prepare=lambda n, pair: np.arange(float(n)),
    )
    rows = harness.run("benchmarks.numbers", repeat=1)
    gone = [{**row, "case": {"n": 5}} for row in rows[:1]]
    harness.write([*rows, *gone], tmp_path)
    new = harness.run("benchmarks.numbers", 2, benchmark.cases[:1])
    assert len(new) == 2
    harness.write(new, tmp_path, benchmark.cases)
    (kept,) = harness.read(tmp_path)
    assert [row["repeats"] for row in kept] == [2, 2, 1, 1]
    assert [row["case"]["pair"] for row in kept[1:3]] == [[1, 2], [3, 4]]


def test_declared_benchmarks_agree_on_a_small_case():
    benchmark = harness.load("benchmarks.machine")
    arena = Arena(benchmark, {"rows": 1024, "d": 3, "dtype": "float32"})
    reference = benchmark.reference(arena.data)
    for name in benchmark.contestants:
        assert benchmark.error(arena.trial(name).answer, reference) < 1e-6


def test_the_peak_is_this_process_and_starts_anew():
    environment.forget_peak()
    before, _ = environment.resident()
    np.ones(10_000_000)
    assert environment.resident()[1] - before >= 75e6
