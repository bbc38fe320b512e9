"""Whatever happens while saving, one complete file is there, and nothing beside it."""

from __future__ import annotations

import os
import stat
import tracemalloc

import numpy as np
import pytest
from holders import OWN, Holder

from tiercel.io import _file, load, save


@pytest.fixture
def path(tmp_path):
    save(Holder("old"), tmp_path / "model")
    return tmp_path / "model"


class Crash(BaseException):
    """What no handler for errors catches."""


def crash(*_arguments):
    raise Crash


@pytest.mark.parametrize("where", ["os.replace", "os.fsync", "os.chmod"])
def test_a_crash_leaves_the_old_file_and_no_other(where, path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(where, crash)
        with pytest.raises(Crash):
            save(Holder("new"), path)
    assert os.listdir(path.parent) == ["model"]
    assert load(path, classes=OWN).value == "old"


def test_a_crash_between_two_arrays_leaves_the_old_file(path, monkeypatch):
    blocks = _file._blocks

    def crash_at_the_second(array, seen=[]):  # noqa: B006
        seen.append(array)
        return blocks(array) if len(seen) < 2 else crash()

    model = Holder([np.ones(10**6), np.ones(10)])
    with monkeypatch.context() as patch:
        patch.setattr(_file, "_blocks", crash_at_the_second)
        with pytest.raises(Crash):
            save(model, path)
    assert os.listdir(path.parent) == ["model"]
    assert load(path, classes=OWN).value == "old"


def test_the_new_file_is_complete_before_it_takes_the_place(path, monkeypatch):
    seen = []
    replace = os.replace

    def look(source, target):
        seen.append((load(source, classes=OWN).value, load(target, classes=OWN).value))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    save(Holder("new"), path)
    assert seen == [("new", "old")]
    assert load(path, classes=OWN).value == "new"


def test_file_and_folder_reach_the_disk(path, monkeypatch):
    synced = []
    fsync = os.fsync

    def note(descriptor):
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    save(Holder("new"), path)
    assert synced == [False, True]


def test_a_folder_that_cannot_be_synced_is_no_error(path, monkeypatch):
    opened = os.open

    def refuse(name, flags, *rest, **options):
        if os.path.isdir(name):
            raise PermissionError
        return opened(name, flags, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    save(Holder("new"), path)
    assert load(path, classes=OWN).value == "new"


@pytest.mark.skipif(os.name == "nt", reason="permission bits")
def test_permission_bits_are_kept(path):
    fresh = os.umask(0)
    os.umask(fresh)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~fresh
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        save(Holder("new"), path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_a_link_stays_a_link(path, tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "far" / "link"
    link.symlink_to(path)
    save(Holder("new"), link)
    assert link.is_symlink()
    assert load(path, classes=OWN).value == "new"
    assert os.listdir(link.parent) == ["link"]


def test_text_and_paths_name_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(Holder(1), "here")
    save(Holder(2), tmp_path / ("ü" * 100))
    assert load(tmp_path / "here", classes=OWN).value == 1
    assert load("ü" * 100, classes=OWN).value == 2


def test_targets_that_will_not_do(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"there is no folder .*absent; make it"
    ):
        save(Holder(), tmp_path / "absent" / "model")
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        save(Holder(), tmp_path)
    if os.name != "nt":
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="pipe is no regular file"):
            save(Holder(), tmp_path / "pipe")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save(Holder(print), tmp_path / "absent" / "model")


def test_an_array_that_changes_meanwhile_does_not_spoil_the_file(path, monkeypatch):
    model = Holder([np.zeros(10**5), np.zeros(10)])
    blocks = _file._blocks

    def disturb(array):
        for block in blocks(array):
            model.value[0] += 1
            yield block

    monkeypatch.setattr(_file, "_blocks", disturb)
    save(model, path)
    assert load(path, classes=OWN).value[1].sum() == 0


def test_saving_needs_no_copy_of_the_model(tmp_path):
    model = Holder([np.zeros((1500, 1000)), np.asfortranarray(np.ones((1000, 1500)))])
    tracemalloc.start()
    save(model, tmp_path / "model")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * _file.BLOCK < model.value[0].nbytes
