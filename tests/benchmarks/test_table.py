"""From rows to tables, pages and what the command shows."""

from __future__ import annotations

import numpy as np
import pytest
from declarations import declare

from benchmarks import __main__ as command
from benchmarks import harness
from benchmarks.harness import Contestant
from benchmarks.table import page, short, table


def test_rows_of_several_sittings_say_which(monkeypatch):
    benchmark = declare(monkeypatch)
    old, new = harness.run("benchmarks.numbers", repeat=1)
    old |= {"date": "2001-02-03", "commit": "abc"}
    text = page([[old, new]], {"numbers": benchmark})
    assert "2 sittings, `python -m benchmarks run numbers`" in text
    assert "| 2001-02-03, abc" in text
    old["versions"] = {**old["versions"], "numpy": "1.0"}
    apart = page([[old, new]], {"numbers": benchmark})
    assert "2001-02-03, commit abc, `python -m benchmarks run numbers`" in apart
    assert apart.count("| contestant |") == 2


def test_the_page_shows_each_benchmark_and_machine(monkeypatch):
    absent = Contestant(np.sum, needs=("no_such_package",))
    benchmark = declare(
        monkeypatch, contestants={"sum": Contestant(np.sum), "absent": absent}
    )
    rows = harness.run("benchmarks.numbers")
    text = page([rows], {"numbers": benchmark, "unmeasured": benchmark})
    assert text.count("## Numbers\n\nOne number.\n") == 1
    assert "`python -m benchmarks run numbers`" in text
    assert f"numpy {np.__version__}" in text
    head, rule, first, second = table(rows).splitlines()
    assert head.split("|")[1:4] == [
        " n ",
        " contestant ",
        " seconds".ljust(len(rule.split("|")[3])),
    ]
    assert "| sum *" in first
    assert "| absent     | not installed" in second
    assert len({len(line) for line in (head, rule, first, second)}) == 1


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (0.12345, "0.123"),
        (65536, "65,536"),
        (2.5e12, "2.5e+12"),
        (1234.5, "1,234"),
        (-999.7, "-1,000"),
        ((14.0523, 0.7712), "14.05 ± 0.77"),
        ((1234.5, 120.4), "1,234 ± 120"),
        (None, ""),
        ("a", "a"),
    ],
)
def test_numbers_are_short(number, text):
    assert short(number) == text


def test_the_command_lists_and_measures(monkeypatch, tmp_path, capsys):
    assert command.main(["list"]) == 0
    assert "machine" in capsys.readouterr().out
    benchmark = declare(monkeypatch)
    monkeypatch.setattr(command, "declared", lambda: {"numbers": benchmark})
    assert (
        command.main(["run", "numbers", "--out", str(tmp_path), "--repeat", "1"]) == 0
    )
    assert "| sum *" in capsys.readouterr().out
    assert len(harness.read(tmp_path)) == 1


def test_the_command_fails_when_a_contestant_does(monkeypatch, tmp_path, capsys):
    wrong = {"sum": Contestant(lambda data: 0.0)}
    benchmark = declare(monkeypatch, contestants=wrong)
    monkeypatch.setattr(command, "declared", lambda: {"numbers": benchmark})
    assert command.main(["suite", "cpu", "--out", str(tmp_path)]) == 1
    assert "failed: error" in capsys.readouterr().out


def test_the_command_runs_some_cases_and_keeps_the_others(monkeypatch, tmp_path):
    benchmark = declare(
        monkeypatch,
        cases=[{"n": 4}, {"n": 5}, {"n": 6}],
        reference=lambda data: data.sum(),
    )
    monkeypatch.setattr(command, "declared", lambda: {"numbers": benchmark})
    run = ["run", "numbers", "--out", str(tmp_path), "--repeat"]
    command.main([*run, "1"])
    command.main([*run, "2", "--only", "n=4", "--only", "n=6"])
    (rows,) = harness.read(tmp_path)
    assert [row["case"]["n"] for row in rows] == [4, 4, 5, 5, 6, 6]
    assert [row.get("repeats") for row in rows[::2]] == [2, 1, 2]


def test_a_case_that_breaks_leaves_the_others(monkeypatch, tmp_path, capsys):
    def prepare(n):
        return np.arange(4.0 / (n - 5) * (n - 5))

    benchmark = declare(monkeypatch, cases=[{"n": 5}, {"n": 4}], prepare=prepare)
    monkeypatch.setattr(command, "declared", lambda: {"numbers": benchmark})
    assert command.main(["run", "numbers", "--out", str(tmp_path)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    (rows,) = harness.read(tmp_path)
    assert [(row["case"]["n"], row["status"]) for row in rows] == [(4, "ok")] * 2


def test_a_case_that_is_not_there_is_refused(monkeypatch, capsys):
    benchmark = declare(monkeypatch, cases=[{"n": 4}, {"n": 5}])
    monkeypatch.setattr(command, "declared", lambda: {"numbers": benchmark})
    with pytest.raises(SystemExit):
        command.main(["run", "numbers", "--only", "n=7"])
    assert "no case has n=7; there are: n=4; n=5" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["run", "nonsense"])
    assert "there are: " in capsys.readouterr().err
