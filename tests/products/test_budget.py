"""Amounts of memory are read strictly, and free memory respects every limit."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiercel.products import budget
from tiercel.products.budget import (
    default_budget,
    device_free_memory,
    format_bytes,
    free_memory,
    parse_bytes,
)


@pytest.mark.parametrize(
    ("amount", "size"),
    [
        ("4GB", 4 * 10**9),
        ("512 MB", 512 * 10**6),
        ("1.5GiB", 3 * 2**29),
        (" 64 kib ", 2**16),
        (".5 tb", 5 * 10**11),
        ("1e3 B", 1000),
        ("2048", 2048),
        ("1.15 GB", 1150 * 10**6),
        (4e9, 4 * 10**9),
        (np.int64(7), 7),
        (np.float32(1.0), 1),
    ],
)
def test_amounts_are_read(amount, size):
    assert parse_bytes(amount) == size
    assert type(parse_bytes(amount)) is int


@pytest.mark.parametrize(
    "amount", ["", "GB", "4 gigs", "-4GB", "4G", "1,5 GB", "1..5GB", "1 2 GB", "nan"]
)
def test_unreadable_text_is_refused_with_examples(amount):
    with pytest.raises(ValueError, match=r"'4GB' or '1\.5GiB'"):
        parse_bytes(amount)


@pytest.mark.parametrize("amount", [0, -5, float("nan"), float("inf"), "0 GB", "0.1 B"])
def test_amounts_below_a_byte_or_without_end_are_refused(amount):
    with pytest.raises(ValueError, match="at least one byte"):
        parse_bytes(amount)


@pytest.mark.parametrize("amount", [None, True, b"4GB", [4]])
def test_other_types_are_refused(amount):
    with pytest.raises(TypeError, match="number of bytes or text"):
        parse_bytes(amount)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 10**18))
def test_formatted_amounts_read_back_within_half_a_percent(n):
    assert abs(parse_bytes(format_bytes(n)) - n) <= 0.005 * n


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999_499, "999 KB"),
        (999_501, "1 MB"),
        (5e18, "5000 PB"),
    ],
)
def test_format_has_three_digits(n, text):
    assert format_bytes(n) == text


def _write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MEMINFO = {"proc/meminfo": "MemTotal: 16 kB\nMemAvailable:     8000 kB\nCached: 1 kB\n"}


def test_without_groups_the_system_decides(tmp_path):
    _write(tmp_path, MEMINFO)
    assert budget._free_memory(tmp_path) == 8_192_000


def test_the_tightest_group_above_the_process_decides(tmp_path):
    v2 = {
        "proc/self/cgroup": "0::/batch/job\n",
        "sys/fs/cgroup/batch/memory.max": "1000000\n",
        "sys/fs/cgroup/batch/memory.current": "900000\n",
        "sys/fs/cgroup/batch/memory.stat": (
            "anon 5\ninactive_file 70000\nactive_file 30000\n"
        ),
        "sys/fs/cgroup/batch/job/memory.max": "max\n",
        "sys/fs/cgroup/batch/job/memory.current": "900000\n",
    }
    _write(tmp_path, MEMINFO | v2)
    # Pages of files that were read are given up when memory is needed.
    assert budget._free_memory(tmp_path) == 1_000_000 - 900_000 + 100_000


def test_groups_of_version_one_and_paths_of_another_host(tmp_path):
    v1 = {
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/abc\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "500000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "400000\n",
        "sys/fs/cgroup/memory/memory.stat": (
            "active_file 7\ntotal_active_file 40\ntotal_inactive_file 2\n"
        ),
    }
    _write(tmp_path, MEMINFO | v1)
    assert budget._free_memory(tmp_path) == 100_042


def test_a_group_beyond_its_limit_leaves_nothing(tmp_path):
    group = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "1000\n",
        "sys/fs/cgroup/memory.current": "2000\n",
    }
    _write(tmp_path, MEMINFO | group)
    assert budget._free_memory(tmp_path) == 0


def test_other_systems_are_asked_for_their_pages(tmp_path, monkeypatch):
    pages = {"SC_AVPHYS_PAGES": 100, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(budget.os, "sysconf", pages.__getitem__, raising=False)
    assert budget._free_memory(tmp_path) == 409_600

    def knows_only_the_total(name):
        if name == "SC_AVPHYS_PAGES":
            raise ValueError(name)
        return {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 4096}[name]

    monkeypatch.setattr(budget.os, "sysconf", knows_only_the_total)
    assert budget._free_memory(tmp_path) == 204_800
    monkeypatch.delattr(budget.os, "sysconf")
    assert budget._free_memory(tmp_path) == budget.ASSUMED_FREE


def test_default_is_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr(budget, "free_memory", lambda: 10**9)
    assert default_budget() == 5 * 10**8


def test_free_memory_here_is_less_than_the_machine_has():
    total = budget.os.sysconf("SC_PHYS_PAGES") * budget.os.sysconf("SC_PAGE_SIZE")
    assert 0 < free_memory() <= total


def _torch(available):
    cuda = SimpleNamespace(
        is_available=lambda: available,
        mem_get_info=lambda device: (700, 1000),
        memory_reserved=lambda device: 200,
        memory_allocated=lambda device: 150,
    )
    kind = lambda device: SimpleNamespace(type=device.partition(":")[0])  # noqa: E731
    return SimpleNamespace(cuda=cuda, device=kind)


def test_device_memory_counts_what_torch_holds_idle(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", _torch(available=True))
    assert device_free_memory("cuda:1") == 750


def test_device_memory_without_a_device_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", _torch(available=False))
    with pytest.raises(RuntimeError, match="no CUDA device"):
        device_free_memory("cuda")
    with pytest.raises(ValueError, match="free_memory"):
        device_free_memory("cpu")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"tiercel\[gpu\]"):
        device_free_memory("cuda")
