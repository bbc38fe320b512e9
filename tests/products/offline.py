"""Fused products compiled for a Hopper GPU that is not there, and run by a machine.

Run as a script (Triton decides once whether it interprets or compiles): reads a list of
cases from standard input, prints one line of JSON with what came out for each.

A stand-in for the driver lets Triton's own launch path compile for compute capability
9.0; the launch itself goes to :mod:`ptx_machine`, or nowhere.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ptx_machine import Descriptor, Machine
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from tiercel.products.fused import (
    Config,
    EntrySpec,
    apply,
    candidates,
    gaussian,
    prepare,
)
from tiercel.products.fused.split import padded_depth

# Name: the entry, its value from squared distance and scalar product, points' spread
# and scale.
ENTRIES: dict[str, tuple] = {
    "gaussian": (gaussian(), lambda t, u: torch.exp2(-0.5 * t), 1.0, 1.0),
    "spread": (gaussian(), lambda t, u: torch.exp2(-0.5 * t), 4.0, 256.0),
    "laplacian": (
        EntrySpec("tl.exp2(-p0 * tl.sqrt(t0))", (1.4427,), rough=(True, False)),
        lambda t, u: torch.exp2(-1.4427 * t.sqrt()),
        1.0,
        1024.0,
    ),
    "cubic": (
        EntrySpec(
            "(p0 * u0 + p1) * (p0 * u0 + p1) * (p0 * u0 + p1)",
            (0.5, 1.0),
            bound=1024.0,
        ),
        lambda t, u: (0.5 * u + 1.0) ** 3,
        1.0,
        512.0,
    ),
    "pair": (
        EntrySpec("tl.exp2(-0.5 * t0) * (1.0 + u1)", groups=2, bound=64.0),
        lambda t, u: torch.exp2(-0.5 * t) * (1.0 + u),
        1.0,
        512.0,
    ),
}


class Driver:
    """A Hopper GPU as far as the compiler asks about it."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


compiled: list[Any] = []
order: list[tuple[bool, bool] | None] = [None]
real_run = JITFunction.run


def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
    """Compile as for a launch; let the machine run it if an order is set."""
    kernel = real_run(self, *arguments, grid=grid, warmup=True, **options)
    compiled.append(kernel)
    if order[0] is not None:
        threads = 32 * kernel.metadata.num_warps
        on_machine(
            Machine(kernel.asm["ptx"], threads, *order[0]), kernel, grid, arguments
        )
    return kernel


def on_machine(machine: Machine, kernel: Any, grid: Any, arguments: tuple) -> None:
    """Copy tensors to the machine, run, and copy them back."""
    places: dict[int, tuple[int, torch.Tensor]] = {}

    def place(tensor: torch.Tensor) -> int:
        if tensor.data_ptr() not in places:
            address = machine.place(tensor.contiguous().numpy())
            places[tensor.data_ptr()] = address, tensor
        return places[tensor.data_ptr()][0]

    found: list[float | int] = []
    maps = iter(kernel.metadata.tensordesc_meta or ())
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            found.append(place(argument))
        elif hasattr(argument, "block_shape"):
            about = next(maps)
            if list(about["block_size"]) != list(argument.block_shape):
                raise AssertionError("a box is copied in parts")
            shape, box = tuple(argument.shape), tuple(argument.block_shape)
            base = place(argument.base)
            found.append(
                machine.describe(Descriptor(base, shape, box, about["swizzle"]))
            )
            found += [*argument.shape, *argument.strides]
        else:
            found.append(argument)
    machine.launch(grid, [*found, 0, 0])  # Triton's own scratch memory is not used
    for address, tensor in places.values():
        values = machine.fetch(address, tensor.numpy())
        tensor.copy_(torch.from_numpy(values.copy()))


def error(case: dict[str, Any], config: Config) -> float:
    """Return the error of a product by the machine, over that of its absolute sum."""
    entry, value, spread, scale = ENTRIES[case["entry"]]
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    width = spread / math.sqrt(case["d"])
    X, C = (normal(case[size], case["d"]) * width for size in "nm")
    V = normal(case["m"], case["outputs"])
    x, c = X.double(), C.double()
    K = value((x[:, None] - c[None]).square().sum(2), x @ c.T)
    groups = entry.groups
    rows, columns = [prepare(X, scale)] * groups, [prepare(C, scale)] * groups
    result = apply(entry, rows, columns, V, config=config, precision=case["precision"])
    size = (K.abs() @ V.double().abs()).norm()
    return float((result.double() - K @ V.double()).norm() / size)


def resources(ptx: str) -> dict[str, Any]:
    """Return what the assembler says: registers, spilled bytes, warnings."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = [knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", str(source)]
        command += ["-o", str(Path(folder, "kernel.cubin"))]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    text = said.stdout + said.stderr
    spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", text)
    return {
        "registers": int(re.findall(r"Used (\d+) registers", text)[0]),
        "spilled": sum(map(int, spilled)),
        "serialized": "serialized" in text,
    }


def first_choice(case: dict[str, Any]) -> Config:
    """Return the configuration that the table puts first on a Hopper GPU."""
    entry = ENTRIES[case["entry"]][0]
    outputs = case["outputs"]
    padded = 1 if outputs == 1 else max(16, 1 << (outputs - 1).bit_length())
    depth = padded_depth(case["d"])
    small = case["d"] <= 8 and case.get("small", False)
    return candidates(depth, case["d"], padded, entry.groups, True, small)[0]


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    """Run a case in the orders it names (none: only compile); describe its kernel."""
    config = first_choice(case)
    errors = []
    for order[0] in case["orders"] or [None]:
        compiled.clear()
        errors.append(error(case, config))
    kernel = compiled[0]
    found = resources(kernel.asm["ptx"])
    found |= {"config": str(config), "shared": kernel.metadata.shared}
    return found | {"errors": errors, "wgmma": "wgmma.mma_async" in kernel.asm["ptx"]}


def main() -> None:
    driver.set_active(Driver())
    JITFunction.run = run
    np.seterr(all="ignore")  # what was never written is NaN on purpose
    print(json.dumps([outcome(case) for case in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
