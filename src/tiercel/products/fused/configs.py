"""Which kernel, and with what block sizes: one table, tried from the top.

A configuration that the device refuses (registers, shared memory) gives way to the next.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """One way to launch.

    Attributes
    ----------
    variant : {"hopper", "resident", "looped", "small"}
        Which kernel.
    rows, columns : int
        Block of entries formed at a time by one program.
    warps : int
        Warps of one program.
    stages : int
        Depth of the ring through which columns come.
    mixed : bool
        Take one exponential in four on the multiply-add units (``hopper`` only).
    registers : int or None
        Upper limit of registers per thread, where the compiler should be held back.
    """

    variant: str
    rows: int
    columns: int
    warps: int
    stages: int
    mixed: bool = False
    registers: int | None = None

    def __str__(self) -> str:
        mixed = " mixed" if self.mixed else ""
        cap = f" r{self.registers}" if self.registers else ""
        return (
            f"{self.variant} {self.rows}x{self.columns} w{self.warps} "
            f"s{self.stages}{mixed}{cap}"
        )


def _hopper(
    rows: int, warps: int, stages: int, mixed: bool = False, cap: int | None = None
) -> Config:
    return Config("hopper", rows, 64, warps, stages, mixed, cap)


def candidates(
    depth: int, d: int, outputs: int, groups: int, hopper: bool, small: bool
) -> list[Config]:
    """Return configurations to try in turn, the one expected to be fastest first.

    Parameters
    ----------
    depth : int
        Padded number of coordinates (the larger one of two groups).
    d : int
        Number of coordinates.
    outputs : int
        1, or the padded number of outputs.
    groups : int
        Operand sets the entry reads.
    hopper : bool
        Whether the device and the installed compiler know Hopper's instructions.
    small : bool
        Whether the operands keep their points for the arithmetic units.

    Examples
    --------
    >>> candidates(64, 40, 1, 1, hopper=False, small=False)[0].variant
    'resident'
    """
    if depth not in (16, 32, 64, 128):
        return [
            Config("looped", 128, 128, 8, 3),
            Config("looped", 64, 64, 4, 3),
            Config("looped", 64, 64, 4, 2),
        ]
    found = []
    if small and outputs == 1 and d <= 4:
        found.append(Config("small", 128, 32, 4, 2))
    if hopper and groups == 1:
        found += _hopper_table(depth, outputs)
    found += _resident_table(depth, outputs, groups)
    return found


def _hopper_table(depth: int, outputs: int) -> list[Config]:
    if outputs == 1:
        return {
            16: [_hopper(64, 4, 4, True), _hopper(64, 4, 4)],
            32: [_hopper(128, 8, 4), _hopper(64, 4, 3)],
            64: [_hopper(128, 8, 3), _hopper(64, 4, 2)],
            128: [_hopper(128, 8, 3), _hopper(128, 8, 2)],
        }[depth]
    return {
        16: [_hopper(64, 4, 4)],
        32: [_hopper(128, 8, 3), _hopper(64, 4, 3)],
        64: [_hopper(128, 8, 3), _hopper(128, 8, 2)],
        128: [_hopper(128, 8, 2)],
    }[depth]


def _resident_table(depth: int, outputs: int, groups: int) -> list[Config]:
    def block(rows: int, columns: int, warps: int, stages: int) -> Config:
        return Config("resident", rows, columns, warps, stages)

    if groups == 2:
        return [block(64, 64, 4, 2), block(64, 64, 4, 1)]
    if outputs == 1 and depth <= 64:
        return [block(128, 64, 4, 3), block(64, 64, 4, 2), block(64, 64, 4, 1)]
    return [block(128, 64, 8, 2), block(64, 64, 4, 2), block(64, 64, 4, 1)]
