"""Benchmarks of many short calls, each timed by itself."""

from __future__ import annotations

import numpy as np
import pytest
from declarations import declare

from benchmarks import harness
from benchmarks.harness import Contestant, Latencies
from benchmarks.table import table


def calls(seconds, answer=6.0):
    return Contestant(lambda data: Latencies(np.asarray(seconds), answer))


def test_latencies_are_told_by_their_distribution(monkeypatch):
    taken = np.arange(1.0, 102.0)[::-1]  # percentiles fall on entries
    declare(monkeypatch, contestants={"sum": calls(taken)})
    (row,) = harness.run("benchmarks.numbers")
    assert (row["fastest"], row["seconds"], row["slowest"]) == (2.0, 51.0, 100.0)
    assert (row["worst"], row["repeats"], row["error"]) == (101.0, 3, 0.0)


def test_the_speed_of_latencies_is_that_of_their_medians(monkeypatch):
    rivals = {"sum": calls([6.0, 6.0, 90.0]), "quick": calls([2.0, 2.0, 1.0, 500.0])}
    declare(monkeypatch, contestants=rivals)
    _, quick = harness.run("benchmarks.numbers")
    assert (quick["speed"], quick["worst"]) == (3.0, 500.0)


def test_a_call_is_not_compared_with_a_whole_run(monkeypatch):
    rivals = {"sum": Contestant(np.sum), "calls": calls([1.0])}
    declare(monkeypatch, contestants=rivals)
    whole, single = harness.run("benchmarks.numbers")
    assert "speed" in whole
    assert "speed" not in single


def test_latencies_do_not_excuse_a_wrong_answer(monkeypatch):
    declare(monkeypatch, contestants={"sum": calls([1.0], answer=6.1)})
    (row,) = harness.run("benchmarks.numbers")
    assert row["status"].startswith("failed: error")
    assert "worst" not in row


@pytest.mark.parametrize("seconds", [[], 1.0, [[1.0]]])
def test_latencies_are_one_number_per_call(seconds):
    with pytest.raises(ValueError, match="seconds of each call"):
        Latencies(np.asarray(seconds), 0.0)


def test_latencies_are_shown_in_microseconds(monkeypatch):
    late = {"sum": calls([20e-6, 20e-6, 1200e-6]), "absent": calls([1.0])}
    late["absent"] = Contestant(np.sum, needs=("no_such_package",))
    declare(monkeypatch, contestants=late, repeat=1)
    head, _, first, second = table(harness.run("benchmarks.numbers")).splitlines()
    assert [cell.strip() for cell in head.split("|")[3:5]] == [
        "µs per call",
        "worst, µs",
    ]
    assert first.split("|")[3].strip().startswith("20 [20, 1,17")
    assert first.split("|")[4].strip() == "1,200"
    assert second.split("|")[3].strip() == "not installed"
