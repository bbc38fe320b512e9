"""How data sets are found and read."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import datasets


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_set_is_read_with_all_that_its_file_holds(here):
    np.savez_compressed(
        here / "small.npz", X=np.eye(3), y=np.arange(3), run=[0, 0, 1], names=["a"]
    )
    found = datasets.load("small")
    assert datasets.available("small")
    assert datasets.find("small") == here / "small.npz"
    np.testing.assert_array_equal(found.X, np.eye(3))
    np.testing.assert_array_equal(found.y, [0, 1, 2])
    assert {key: value.tolist() for key, value in found.extras.items()} == {
        "run": [0, 0, 1],
        "names": ["a"],
    }


def test_an_absent_set_is_refused_with_what_to_do(here):
    assert not datasets.available("nonsense")
    assert datasets.find("nonsense") is None
    with pytest.raises(FileNotFoundError, match=r"nonsense\.npz.*set TIERCEL_DATA"):
        datasets.load("nonsense")


def test_a_file_with_objects_in_it_is_not_unpickled(here):
    np.savez(here / "objects.npz", X=np.array([{}]), y=np.arange(1))
    with pytest.raises(ValueError, match="allow_pickle"):
        datasets.load("objects")


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_the_folder_is_beside_the_repository(monkeypatch, value):
    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(datasets.VARIABLE, value)
    root = datasets.Path(datasets.__file__).resolve().parents[1]
    assert datasets.folder() == root.parent / "shared" / "data"
