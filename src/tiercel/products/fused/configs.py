"""Which kernel, and with what block sizes: one table, tried from the top.

Where a device refuses a configuration (registers, shared memory), the next is tried.
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
    >>> print(candidates(64, 40, 1, 1, hopper=False, small=False)[0])
    resident 128x64 w4 s3
    >>> print(candidates(64, 40, 1, 1, hopper=True, small=False)[0])
    hopper 128x64 w8 s3 r128
    """
    if depth not in (16, 32, 64, 128):
        return _looped(outputs, groups)
    found = []
    if small and outputs == 1 and d <= 4:
        found.append(Config("small", 128, 32, 4, 2))
    if hopper and groups == 1:
        found += _hopper(depth, outputs)
    return found + _resident(depth, outputs, groups)


def _hopper(depth: int, outputs: int) -> list[Config]:
    # Where 128 registers do, two programs share a multiprocessor and its memory.
    shared = depth <= (64 if outputs == 1 else 32) and outputs <= 32
    turn = 512 * (depth + (outputs if outputs > 1 else 0))  # bytes of two tiles
    stages = min(4, (112 if shared else 224) * 1024 // turn)
    mixed = depth == 16 and outputs == 1
    cap = 128 if shared else None
    return [
        Config("hopper", 128, 64, 8, stages, mixed, cap),
        Config("hopper", 64, 64, 4, 2, mixed, cap),
    ]


def _resident(depth: int, outputs: int, groups: int) -> list[Config]:
    def block(rows: int, columns: int, warps: int, stages: int) -> Config:
        return Config("resident", rows, columns, warps, stages)

    if groups == 2:
        return [block(64, 64, 4, 2), block(64, 64, 4, 1)]
    if outputs == 1 and depth <= 64:
        return [block(128, 64, 4, 3), block(64, 64, 4, 2), block(64, 64, 4, 1)]
    return [block(128, 64, 8, 2), block(64, 64, 4, 2), block(64, 64, 4, 1)]


def _looped(outputs: int, groups: int) -> list[Config]:
    # Two groups, or 64 outputs, leave registers for a smaller block of entries only.
    columns = 128 if groups == 1 and outputs <= 32 else 64
    return [
        Config("looped", 128, columns, 8, 3),
        Config("looped", 64, 64, 4, 3),
        Config("looped", 64, 64, 4, 2),
    ]
