"""Hopper's kernels without a Hopper: compiled, assembled, and run by a small machine.

Triton cannot interpret them. Here their PTX is run instruction by instruction, with the
layouts of tensor cores and tile copies as the manual gives them, and with asynchronous
work done both at once and as late as it may be (see ``ptx_machine``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ptx_machine import fragment, swizzled

pytest.importorskip("torch")
pytest.importorskip("triton")
knobs = pytest.importorskip("triton.knobs")

HERE = Path(__file__).parent
ORDERS = ((True, False), (False, True))  # copies late, products late
MEMORY = 232448  # what one program may have of a multiprocessor's shared memory


@cache
def outcome(*cases):
    """Return what ``offline.py`` says of the cases, in a process that compiles."""
    if not knobs.nvidia.ptxas.path:
        pytest.skip("this Triton has no assembler")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(HERE.parents[1] / "src"), str(HERE)]
    )
    names = ("entry", "d", "outputs", "n", "m", "precision", "orders")
    done = subprocess.run(
        [sys.executable, str(HERE / "offline.py")],
        input=json.dumps([dict(zip(names, case, strict=True)) for case in cases]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(found, bound=1e-6):
    assert "hopper" in found["config"]
    assert max(found["errors"]) < bound, found
    assert found["spilled"] <= 16, found  # bytes: what a limit of registers may cost
    assert not found["serialized"], found
    assert found["shared"] <= MEMORY


def test_products_are_right_in_every_order_of_copies_and_tensor_products():
    for found in outcome(
        ("gaussian", 20, 1, 100, 900, "auto", ORDERS),
        ("laplacian", 100, 3, 100, 300, "auto", ORDERS),
    ):
        check(found)


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 17, 64, 65])
@pytest.mark.parametrize("outputs", [1, 16, 32, 64])
def test_every_entry_in_every_depth(d, outputs):
    names = ("gaussian", "spread", "laplacian", "cubic")
    cases = [(name, d, outputs, 100, 300, "auto", ORDERS) for name in names]
    for name, found in zip(names, outcome(*cases), strict=True):
        check(found, 1e-5 if name == "spread" else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("d", [10, 100])
@pytest.mark.parametrize("outputs", [1, 2])
def test_any_number_of_turns(d, outputs):
    sizes = (1, 64, 257, 513, 1025, 1500)  # two tiles a turn, 256 points a pad
    cases = [("gaussian", d, outputs, 1, m, "auto", ORDERS) for m in sizes]
    for found in outcome(*cases):
        check(found)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 16])
def test_one_half_only_is_coarser(outputs):
    for found in outcome(("gaussian", 40, outputs, 100, 300, "fast", ORDERS)):
        check(found, 1e-3)
        assert min(found["errors"]) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 16, 32, 64])
def test_portable_first_choices_fit_the_chip(outputs):
    cases = [("gaussian", d, outputs, 64, 256, "auto", ()) for d in (200, 1000)]
    cases += [("pair", d, outputs, 64, 256, "auto", ()) for d in (16, 64, 128, 200)]
    for found in outcome(*cases):
        assert found["wgmma"]
        assert found["spilled"] == 0, found
        assert found["shared"] <= MEMORY


def test_swizzle_spreads_a_column_over_the_banks():
    at = swizzled(np.arange(8) * 128, 7)
    assert sorted(at % 128) == list(range(0, 128, 16))
    assert np.array_equal(swizzled(swizzled(np.arange(4096), 7), 7), np.arange(4096))


def test_fragments_hold_each_number_once():
    halves = np.arange(64 * 16, dtype=np.float16)
    lane, warp = np.arange(128) % 32, np.arange(128) // 32
    registers = []
    for part in range(4):
        row = warp * 16 + lane // 4 + part % 2 * 8
        column = lane % 4 * 2 + part // 2 * 8
        pair = np.stack([halves[row * 16 + column], halves[row * 16 + column + 1]], 1)
        registers.append(np.ascontiguousarray(pair).view(np.uint32)[:, 0])
    assert np.array_equal(fragment(registers)[0], halves.reshape(64, 16))
