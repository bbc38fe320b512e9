"""Reproductions, on some that are made up here."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import datasets, harness
from benchmarks.reproduction import Reproduction, mean_std
from benchmarks.table import page, table


def declare(monkeypatch, measure, **changes):
    """Make a reproduction of this process, and have the harness load it."""
    declaration = {
        "title": "Table 1",
        "sentence": "As in print.",
        "cases": [{"stream": "a"}, {"stream": "b"}],
        "measure": measure,
    }
    made = Reproduction(**declaration | changes)
    monkeypatch.setattr(harness, "load", lambda module: made)
    monkeypatch.setattr(command, "declared", lambda: {"made_up": made})
    return made


def two_methods(stream):
    return [
        {"method": "ours", "nMSE": (2.8712, 0.0421), "documented": (2.878, 0.042)},
        {"method": "theirs", "nMSE": np.float32(12.5), "documented": None},
    ]


def test_a_case_may_have_several_rows_in_a_table(monkeypatch):
    declare(monkeypatch, two_methods)
    rows = harness.run("benchmarks.made_up")
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert ["seconds" in row for row in rows] == [True, False, True, False]
    assert rows[0]["versions"]["numpy"] == np.__version__
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table(rows).splitlines()
    ]
    assert lines[0] == ["stream", "method", "nMSE", "documented", "measured in"]
    assert lines[2][:4] == ["a", "ours", "2.871 ± 0.042", "2.878 ± 0.042"]
    assert lines[5] == ["b", "theirs", "12.5", "", ""]


def test_rows_survive_the_file(monkeypatch, tmp_path):
    declare(monkeypatch, lambda stream: {"n": np.int64(3), "pair": np.ones(2).tolist()})
    rows = harness.run("benchmarks.made_up")
    harness.write(rows, tmp_path)
    assert harness.read(tmp_path) == [rows]
    assert rows[0]["columns"] == {"n": 3, "pair": [1.0, 1.0]}


def test_what_is_absent_is_named_and_nothing_measured(monkeypatch, tmp_path):
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    (tmp_path / "a.npz").touch()

    def measure(stream):
        assert stream == "a"
        return {"n": 1}

    declare(monkeypatch, measure, data=lambda stream: (stream,))
    here, away = harness.run("benchmarks.made_up")
    assert (here["status"], away["status"]) == ("ok", "data absent: b")
    declare(monkeypatch, measure, needs=("numpy", "no_such_package"), data=("c", "d"))
    assert {row["status"] for row in harness.run("benchmarks.made_up")} == {
        "not installed: no_such_package"
    }
    declare(monkeypatch, measure, data=("a", "c", "d"))
    assert harness.run("benchmarks.made_up")[0]["status"] == "data absent: c, d"


@pytest.mark.parametrize(
    "measured",
    [[], None, [3], {"a": np.ones(3)}, {"a": (1, 2, 3)}, {"a": {}}, {"a": 1j}],
)
def test_what_is_no_row_fails(monkeypatch, capsys, measured):
    declare(monkeypatch, lambda stream: measured)
    for row in harness.run("benchmarks.made_up"):
        assert row["status"].startswith("failed: ")
        assert "columns" not in row


def test_a_failing_case_leaves_the_others_and_fails_the_command(
    monkeypatch, tmp_path, capsys
):
    def measure(stream):
        return {"ratio": 1 / "ab".index(stream)}

    declare(monkeypatch, measure)
    assert command.main(["suite", "reproduce", "--out", str(tmp_path)]) == 1
    assert "failed: ZeroDivisionError" in capsys.readouterr().out
    (rows,) = harness.read(tmp_path)
    assert rows[1]["columns"] == {"ratio": 1.0}


def test_finished_cases_outlast_an_interrupted_run(monkeypatch, tmp_path, capsys):
    def measure(stream):
        if stream == "b":
            raise KeyboardInterrupt
        return {"method": "ours", "nMSE": (2.8712, 0.0421)}

    declare(monkeypatch, measure)
    with pytest.raises(KeyboardInterrupt):
        command.main(["run", "made_up", "--out", str(tmp_path)])
    (rows,) = harness.read(tmp_path)
    assert [row["case"] for row in rows] == [{"stream": "a"}]
    assert "method ours, nMSE 2.871 ± 0.042" in capsys.readouterr().err


def test_one_case_alone_keeps_the_rows_of_the_other(monkeypatch, tmp_path):
    count = iter(range(10))
    declare(monkeypatch, lambda stream: {"count": next(count)})
    command.main(["run", "made_up", "--out", str(tmp_path)])
    command.main(["run", "made_up", "--only", "stream=a", "--out", str(tmp_path)])
    (rows,) = harness.read(tmp_path)
    assert [row["columns"]["count"] for row in rows] == [2, 1]


def test_repeat_is_refused(monkeypatch, capsys):
    declare(monkeypatch, two_methods)
    with pytest.raises(SystemExit):
        command.main(["run", "made_up", "--repeat", "3"])
    assert "its own repetitions" in capsys.readouterr().err


def test_each_kind_has_its_page(monkeypatch, tmp_path, capsys):
    declare(monkeypatch, two_methods)
    monkeypatch.setattr(command, "HERE", tmp_path)
    out = ["--out", str(tmp_path / "results")]
    command.main(["list", *out])
    assert capsys.readouterr().out.split() == ["made_up", "reproduce", "Table", "1"]
    command.main(["run", "made_up", *out])
    command.main(["table", *out])
    assert "Nothing has been measured" in (tmp_path / "README.md").read_text("utf-8")
    text = (tmp_path / "REPRODUCTIONS.md").read_text("utf-8")
    assert "## Table 1\n\nAs in print.\n" in text
    assert "2.871 ± 0.042 | 2.878 ± 0.042" in text


def test_a_status_has_a_column_where_there_is_one(monkeypatch):
    made = declare(monkeypatch, two_methods, needs=("no_such_package",))
    text = page([harness.run("benchmarks.made_up")], {"made_up": made})
    assert "| stream | status " in text
    assert "| a      | not installed: no_such_package |" in text


@pytest.mark.parametrize("field", ["needs", "data"])
def test_a_lone_name_is_refused(field):
    with pytest.raises(ValueError, match=f"{field} is a tuple"):
        Reproduction("", "", [], two_methods, **{field: "river"})


def test_the_mean_and_its_sample_deviation():
    assert mean_std(x for x in (1, 2, 6)) == (3.0, pytest.approx(7**0.5))
    with pytest.raises(ValueError, match="two repetitions"):
        mean_std([1.0])
