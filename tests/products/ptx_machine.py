"""A small machine that runs the PTX of one Hopper kernel, where there is no GPU.

All threads of a program go in step, each register a numpy array with one number for
each thread; where that hides a race between warps, the machine looks for the barrier
that prevents it. Only what Triton emits for the fused kernels is known; anything else
raises :class:`UnknownInstruction`.

What the chip does asynchronously is done as late as it may be, or at once: a kernel
that reads a tile before it has come, or lets a new tile come while the old one is still
read, gives wrong numbers in one order or the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

SHARED = 232448
SHARED_BASE = 1 << 10  # as aligned as swizzled tiles need it
GLOBAL_BASE = 1 << 32
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {16: np.int16, 32: np.int32, 64: np.int64}
# By the tensor map's number and by the width of a tile's row: which bits of an address
# are exchanged, so that a column of 16-byte pieces falls into different banks.
SWIZZLE = {0: 0, 1: 1, 2: 3, 3: 7}
# The same by the number in a matrix descriptor.
SWIZZLE_OF_MATRIX = {0: 0, 1: 7, 2: 3, 3: 1}


class UnknownInstruction(Exception):
    """The machine has not been taught this."""


class Stuck(Exception):
    """A barrier is waited for that will not come."""


class Race(Exception):
    """One warp may be ahead of another where it must not be."""


@dataclass
class Descriptor:
    """A tensor map: where a matrix of halves lies, and the box that is copied."""

    address: int
    shape: tuple[int, int]
    box: tuple[int, int]
    swizzle: int


@dataclass
class Barrier:
    """An mbarrier: arrivals and bytes that its phase still waits for."""

    count: int
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    copies: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pending = self.count

    def settle(self) -> None:
        """Begin the next phase when nothing is missing."""
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count


@dataclass
class Statement:
    """One instruction: its guard, its name in parts, its operands."""

    guard: str | None
    name: list[str]
    operands: list[str]


def parse(ptx: str) -> tuple[list[Statement], dict[str, int], list[str]]:
    """Return statements, labels (those of inner blocks made unique) and parameters."""
    head, _, body = ptx.partition(".reqntid")
    parameters = re.findall(r"\.param [^\n]*?(\w+_param_\d+)", head)
    body = re.sub(r"//[^\n]*", "", body[body.index("{") + 1 : body.rindex("}")])
    body = re.sub(r"^\s*\.(loc|pragma|file)[^\n]*$", "", body, flags=re.M)
    statements: list[Statement] = []
    labels: dict[str, int] = {}
    scopes, count = [""], 0
    for piece in _pieces(body):
        if piece == "{":
            count += 1
            scopes.append(f"@{count}")
        elif piece == "}":
            scopes.pop()
        elif piece.endswith(":"):
            labels[_scoped(piece[:-1], scopes[-1])] = len(statements)
        elif not piece.startswith("."):
            statements.append(_statement(piece, scopes[-1]))
    return statements, labels, parameters


def _pieces(body: str) -> list[str]:
    """Cut a body into statements, labels and the braces of inner blocks."""
    found = []
    for line in body.splitlines():
        line = line.strip()
        if line in ("{", "}") or re.fullmatch(r"[$\w]+:", line):
            found.append(line)
        else:
            found += [" ".join(piece.split()) for piece in line.split(";")]
    return [piece for piece in found if piece]


def _scoped(name: str, scope: str) -> str:
    """Names of inner blocks are their own; ``%`` and ``$`` belong to everybody."""
    return name if name[0] in "%$" else name + scope


def _statement(text: str, scope: str) -> Statement:
    guard = None
    if text.startswith("@"):
        guard, text = text[1:].split(None, 1)
        guard = "!" * guard.startswith("!") + _scoped(guard.lstrip("!"), scope)
    name, _, rest = text.partition(" ")
    operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
    if scope:
        operands = [
            re.sub(r"(?<![%$\w.])[a-zA-Z_]\w*", _in(scope), o) for o in operands
        ]
    return Statement(guard, name.split("."), operands)


def _in(scope: str) -> Callable[[re.Match], str]:
    return lambda match: _scoped(match[0], scope)


class Machine:
    """Global memory, and a way to run a kernel over a grid.

    Parameters
    ----------
    ptx : str
    threads : int
        Threads of one program.
    late_copies, late_products : bool
        Whether tiles come, and matrix products are done, as late as they may be.
    """

    def __init__(
        self, ptx: str, threads: int, late_copies: bool, late_products: bool
    ) -> None:
        self.statements, self.labels, self.parameter_names = parse(ptx)
        self.threads = threads
        self.late_copies, self.late_products = late_copies, late_products
        self.memory = np.zeros(0, np.uint8)
        self.descriptors: dict[int, Descriptor] = {}

    def place(self, array: np.ndarray) -> int:
        """Copy an array to global memory; return its address."""
        used = -(-len(self.memory) // 256) * 256
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self.memory = np.concatenate(
            [self.memory, np.zeros(used - len(self.memory), np.uint8), data]
        )
        return GLOBAL_BASE + used

    def fetch(self, address: int, like: np.ndarray) -> np.ndarray:
        """Return what has become of an array."""
        start = address - GLOBAL_BASE
        flat = self.memory[start : start + like.nbytes]
        return flat.view(like.dtype).reshape(like.shape)

    def describe(self, descriptor: Descriptor) -> int:
        """Return an address that stands for a tensor map."""
        address = 1 << 48 | len(self.descriptors) << 8
        self.descriptors[address] = descriptor
        return address

    def launch(self, grid: tuple[int, int], arguments: list[float | int]) -> None:
        """Run every program of a grid, one after another."""
        for y in range(grid[1]):
            for x in range(grid[0]):
                Program(self, (x, y), arguments).run()


class Program:
    """One program at work: registers, shared memory, barriers."""

    def __init__(
        self, machine: Machine, index: tuple[int, int], arguments: list[float | int]
    ) -> None:
        self.machine, self.index = machine, index
        n = self.n = machine.threads
        self.registers: dict[str, np.ndarray] = {}
        self.arguments = dict(zip(machine.parameter_names, arguments, strict=False))
        # Halves and floats of all ones are NaN: what nobody wrote shows.
        self.shared = np.full(SHARED, 0xFF, np.uint8)
        self.barriers: dict[int, Barrier] = {}
        self.products: list[Callable[[], None]] = []
        self.hidden: dict[str, np.ndarray] = {}
        # Whether all warps have met since products were waited for, and barriers made.
        self.met = self.made = True
        self.tid = np.arange(n, dtype=np.uint32)
        self.everyone = np.ones(n, bool)

    def run(self) -> None:
        """Run to the end."""
        at, steps = 0, 0
        statements = self.machine.statements
        while at < len(statements):
            statement = statements[at]
            mask = self.everyone
            if statement.guard:
                mask = self.bits(statement.guard.lstrip("!"), "pred")
                mask = ~mask if statement.guard[0] == "!" else mask
            kind = statement.name[0]
            if kind == "ret":
                break
            if kind == "bra":
                taken = self._uniform(mask)
                at = self.machine.labels[statement.operands[0]] if taken else at + 1
                steps += 1
                if steps > 10**6:
                    raise Stuck("the program does not end")
                continue
            act = getattr(self, "_" + kind.replace("::", "_"), None)
            if act is None:
                raise UnknownInstruction(".".join(statement.name))
            act(statement.name, statement.operands, mask)
            at += 1
        if self.hidden or any(b.copies for b in self.barriers.values()):
            raise Stuck("the program ends while a tile or a product is under way")

    # Operands -----------------------------------------------------------------

    def bits(self, operand: str, kind: str) -> np.ndarray:
        """Return an operand's bits as unsigned numbers, one for each thread."""
        if kind == "pred":
            if operand.lstrip("-").isdigit():
                return np.full(self.n, int(operand) != 0)
            return self.registers[operand]
        dtype = UNSIGNED[int(kind[1:].removesuffix("x2"))]
        if operand == "%tid.x":
            return self.tid.astype(dtype)
        if operand in ("%ctaid.x", "%ctaid.y"):
            return np.full(self.n, self.index["xy".index(operand[-1])], dtype)
        if operand.startswith("global_smem"):
            return np.full(self.n, SHARED_BASE, dtype)
        if operand.startswith("0f"):
            return np.full(self.n, int(operand[2:], 16), dtype)
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", operand):
            value = int(operand, 0) & ((1 << np.dtype(dtype).itemsize * 8) - 1)
            return np.full(self.n, value, dtype)
        if operand not in self.registers:
            raise UnknownInstruction(f"operand {operand}")
        return self.registers[operand].astype(dtype, copy=False)

    def value(self, operand: str, kind: str) -> np.ndarray:
        """Return an operand as numbers of a kind such as ``f32`` or ``s32``."""
        bits = self.bits(operand, kind)
        if kind[0] == "f":
            return bits.view({"f32": np.float32, "f16": np.float16}[kind])
        return bits.view(SIGNED[int(kind[1:])]) if kind[0] == "s" else bits

    def put(self, operand: str, values: np.ndarray, mask: np.ndarray) -> None:
        """Set a register, where the mask holds."""
        if operand == "_":
            return
        if values.dtype != bool:
            values = values.view(UNSIGNED[values.dtype.itemsize * 8])
        if not mask.all():
            old = self.registers.get(operand, np.zeros(self.n, values.dtype))
            values = np.where(mask, values, old.astype(values.dtype, copy=False))
        self.registers[operand] = values

    def _uniform(self, values: np.ndarray) -> int:
        if not (values == values[0]).all():
            raise UnknownInstruction("threads part ways")
        return int(values[0])

    def _addresses(self, operand: str) -> np.ndarray:
        base, _, offset = operand.strip("[] ").partition("+")
        base, offset = base.strip(), int(offset or 0)
        width = "b64" if base.startswith("%rd") else "b32"
        return self.bits(base, width).astype(np.int64) + offset

    # Arithmetic ---------------------------------------------------------------

    def _binary(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        kind = name[-1]
        a, b = (self.value(o, kind) for o in operands[1:3])
        with np.errstate(all="ignore"):
            self.put(operands[0], BINARY[name[0]](a, b).astype(a.dtype), mask)

    _add = _sub = _and = _or = _xor = _min = _max = _div = _binary

    def _mul(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        if name[1] == "wide":
            return self._mad(name, [*operands, "0"], mask)
        if name[1] == "hi":
            kind = name[-1]
            a, b = (
                self.value(o, kind).astype("i8" if kind[0] == "s" else "u8")
                for o in operands[1:3]
            )
            high = (a.view(np.uint64) * b.view(np.uint64)) >> np.uint64(32)
            return self.put(operands[0], high.astype(np.uint32), mask)
        return self._binary(name, operands, mask)

    def _shl(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        a, by = self.value(operands[1], name[-1]), self.bits(operands[2], "b32")
        shifted = (
            a << by.astype(a.dtype) if name[0] == "shl" else a >> by.astype(a.dtype)
        )
        self.put(operands[0], shifted, mask)

    _shr = _shl

    def _mad(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        kind = name[-1]
        a, b = (self.value(o, kind) for o in operands[1:3])
        with np.errstate(all="ignore"):
            if name[1] == "wide":
                wide = kind[0] + str(2 * int(kind[1:]))
                c = self.value(operands[3], wide)
                self.put(operands[0], a.astype(c.dtype) * b.astype(c.dtype) + c, mask)
            else:
                self.put(operands[0], a * b + self.value(operands[3], kind), mask)

    def _fma(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        a, b, c = (self.value(o, "f32").astype(np.float64) for o in operands[1:])
        with np.errstate(all="ignore"):
            self.put(operands[0], (a * b + c).astype(np.float32), mask)

    def _unary(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        a = self.value(operands[1], name[-1])
        with np.errstate(all="ignore"):
            self.put(operands[0], UNARY[name[0]](a).astype(a.dtype), mask)

    _ex2 = _lg2 = _rcp = _sqrt = _neg = _abs = _not = _unary

    def _bfe(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        a = self.bits(operands[1], "b32").astype(np.uint64)
        start, length = (int(o) for o in operands[2:])
        field_ = (a >> np.uint64(start)) & np.uint64((1 << length) - 1)
        if name[-1] == "s32":
            sign = (field_ >> np.uint64(length - 1)) & np.uint64(1)
            field_ = field_ - sign * np.uint64(1 << length)
        self.put(operands[0], field_.astype(np.uint32), mask)

    def _setp(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        a, b = (self.value(o, name[-1]) for o in operands[1:])
        with np.errstate(invalid="ignore"):
            self.put(operands[0], COMPARE[name[1]](a, b), mask)

    def _selp(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        a, b = (self.bits(o, name[-1]) for o in operands[1:3])
        self.put(operands[0], np.where(self.bits(operands[3], "pred"), a, b), mask)

    def _mov(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        target, source = operands
        if source in self.machine.parameter_names:  # a tensor map's place
            self.registers[target] = np.full(self.n, self.arguments[source], np.uint64)
        elif source.startswith("{"):
            parts = [self.bits(o, "b16") for o in _members(source)]
            joined = parts[0].astype(np.uint32) | parts[1].astype(np.uint32) << 16
            self.put(target, joined, mask)
        elif target.startswith("{"):
            whole = self.bits(source, "b32")
            for shift, part in zip((0, 16), _members(target), strict=True):
                self.put(part, (whole >> np.uint32(shift)).astype(np.uint16), mask)
        else:
            self.put(target, self.bits(source, name[-1]).copy(), mask)

    def _cvta(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        self.put(operands[0], self.bits(operands[1], "b64"), mask)

    def _cvt(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        to, source = name[-2:]
        if to == "f16x2":
            high, low = (self.value(o, "f32") for o in operands[1:])
            with np.errstate(over="ignore"):
                pair = np.stack([low, high], 1).astype(np.float16)
            self.put(operands[0], pair.view(np.uint32)[:, 0], mask)
            return
        values = self.value(operands[1], source)
        kinds = {"f32": np.float32, "f16": np.float16}
        dtype = kinds.get(to) or (SIGNED if to[0] == "s" else UNSIGNED)[int(to[1:])]
        with np.errstate(over="ignore", invalid="ignore"):
            self.put(operands[0], values.astype(dtype), mask)

    # Memory -------------------------------------------------------------------

    def _ld(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        if name[1] == "param":
            argument = self.arguments[operands[1].strip("[]")]
            if isinstance(argument, float):
                argument = int(np.float32(argument).view(np.uint32))
            dtype = UNSIGNED[int(name[-1][1:])]
            self.registers[operands[0]] = np.full(self.n, argument, dtype)
            return
        memory, where, dtype = self._place(name, operands[1])
        for index, target in enumerate(_members(operands[0])):
            at = np.where(mask, where + index * dtype().itemsize, 0)[:, None]
            raw = memory[at + np.arange(dtype().itemsize)]
            self.put(target, raw.reshape(-1).view(dtype), mask)

    def _st(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        memory, where, dtype = self._place(name, operands[0])
        for index, source in enumerate(_members(operands[1])):
            raw = self.bits(source, f"b{8 * dtype().itemsize}").view(np.uint8)
            at = where[:, None] + index * dtype().itemsize + np.arange(dtype().itemsize)
            memory[at[mask]] = raw.reshape(self.n, -1)[mask]

    def _place(self, name: list[str], operand: str) -> tuple:
        where = self._addresses(operand)
        if name[1].startswith("shared"):
            return self.shared, where - SHARED_BASE, UNSIGNED[int(name[-1][1:])]
        return self.machine.memory, where - GLOBAL_BASE, UNSIGNED[int(name[-1][1:])]

    # Threads together ---------------------------------------------------------

    def _bar(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        self.met = self.made = True

    def _fence(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        """Between kinds of memory access: the machine has but one kind."""

    _nanosleep = _fence

    def _shfl(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        target = operands[0].partition("|")[0]
        source = self.tid ^ np.uint32(int(operands[2]))
        if name[2] != "bfly":
            raise UnknownInstruction(".".join(name))
        self.put(target, self.bits(operands[1], "b32")[source], mask)

    def _elect(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        self.put(operands[0].partition("|")[2], self.tid % 32 == 0, mask)

    # Barriers and copies ------------------------------------------------------

    def _mbarrier(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        if name[1] == "try_wait":
            self._try_wait(operands, mask)
        elif mask.any():
            place = operands[0] if name[1] == "init" else operands[1]
            at = self._uniform(self._addresses(place)[mask])
            number = int(operands[-1])
            if mask.sum() != 1:
                raise UnknownInstruction("several threads at one barrier")
            if name[1] == "init":
                self.barriers[at] = Barrier(number)
                self.made = False
            else:
                barrier = self.barriers[at]
                barrier.bytes += number
                barrier.pending -= 1
                barrier.settle()

    def _try_wait(self, operands: list[str], mask: np.ndarray) -> None:
        barrier = self.barriers[self._uniform(self._addresses(operands[1]))]
        if not self.made:
            raise Race("a barrier may be waited for before it is made")
        parity = self._uniform(self.bits(operands[2], "b32"))
        if barrier.phase % 2 == parity:
            copies, barrier.copies = barrier.copies, []
            for copy in copies:
                copy()
            barrier.settle()
        if barrier.phase % 2 == parity:
            raise Stuck("a barrier is waited for that nothing completes")
        self.put(operands[0], self.everyone, mask)

    def _cp(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        """cp.async.bulk.tensor.2d: a box of a matrix to shared memory."""
        if not mask.any():
            return
        if not self.met:
            raise Race("a tile may come while another warp's products read the old one")
        first = int(np.flatnonzero(mask)[0])
        to = int(self._addresses(operands[0])[first]) - SHARED_BASE
        tensor_map, coordinates = operands[1].strip("[] ").split(",", 1)
        place = int(self.bits(tensor_map.strip(), "b64")[first])
        x, y = (int(self.bits(o, "b32")[first]) for o in _members(coordinates.strip()))
        barrier = self.barriers[int(self._addresses(operands[2])[first])]
        described = self.machine.descriptors[place]
        rows, columns = described.box
        if x != 0 or y + rows > described.shape[0] or columns != described.shape[1]:
            raise UnknownInstruction("a box that leaves its matrix")

        def copy() -> None:
            start = described.address - GLOBAL_BASE + y * columns * 2
            box = self.machine.memory[start : start + rows * columns * 2]
            at = to + np.arange(rows * columns * 2)
            self.shared[swizzled(at, SWIZZLE[described.swizzle])] = box
            barrier.bytes -= rows * columns * 2

        if self.machine.late_copies:
            barrier.copies.append(copy)
        else:
            copy()
            barrier.settle()

    # Matrix products ----------------------------------------------------------

    def _wgmma(self, name: list[str], operands: list[str], mask: np.ndarray) -> None:
        if name[1] == "wait_group":
            if operands != ["0"]:
                raise UnknownInstruction("a wait for some of the products")
            self.met = False
            for product in self.products:
                product()
            self.registers |= self.hidden
            self.products, self.hidden = [], {}
        elif name[1] == "mma_async":
            self._product(name, operands)

    def _product(self, name: list[str], operands: list[str]) -> None:
        target, left = _members(operands[0]), _members(operands[1])
        n = int(name[4].removeprefix("m64n").removesuffix("k16"))
        use = bool(self._uniform(self.bits(operands[3], "pred")))
        if operands[4:] != ["1", "1", "0"] or name[5:] != ["f32", "f16", "f16"]:
            raise UnknownInstruction("a product of another kind")
        rows = fragment([self.bits(o, "b32") for o in left]).astype(np.float64)
        matrix = self._uniform(self.bits(operands[2], "b64"))
        nothing = np.full(self.n, 0xFFFFFFFF, np.uint32)
        for o in target:  # nobody may look before the product is waited for
            self.hidden.setdefault(o, self.registers.get(o, nothing))
            self.registers[o] = nothing

        def product() -> None:
            block = (rows @ self._columns(matrix, n).T.astype(np.float64)).reshape(
                -1, n
            )
            if use:
                block += accumulator([self.hidden[o] for o in target], n)
            results = pieces(block.astype(np.float32))
            self.hidden |= dict(zip(target, results, strict=True))

        if self.machine.late_products:
            self.products.append(product)
        else:
            product()

    def _columns(self, matrix: int, n: int) -> np.ndarray:
        """Return the (n, 16) halves that a matrix descriptor points to."""
        start = (matrix & 0x3FFF) << 4
        stride = (matrix >> 32 & 0x3FFF) << 4
        bits = SWIZZLE_OF_MATRIX[matrix >> 62]
        width = 16 * (bits + 1)
        row, k = np.arange(n)[:, None], np.arange(16)[None, :]
        at = start + row // 8 * stride + row % 8 * width + 2 * k
        at = swizzled(at - SHARED_BASE, bits)
        raw = self.shared[at[..., None] + np.arange(2)]
        return raw.reshape(n, -1).view(np.float16)


def swizzled(at: np.ndarray, bits: int) -> np.ndarray:
    """Return shared addresses with their 16-byte pieces exchanged, row by row."""
    return at ^ ((at >> 7 & bits) << 4)


def _members(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{} ").split(",")]


def fragment(registers: list[np.ndarray]) -> np.ndarray:
    """Return (groups of four warps, 64, 16) halves held by four registers a thread."""
    groups = len(registers[0]) // 128
    block = np.zeros((groups, 4, 16, 16), np.float16)
    lane = np.arange(32)
    for index, values in enumerate(registers):
        pair = values.reshape(groups, 4, 32).view(np.float16).reshape(groups, 4, 32, 2)
        row, column = lane // 4 + index % 2 * 8, lane % 4 * 2 + index // 2 * 8
        for half in range(2):
            block[:, :, row, column + half] = pair[..., half]
    return block.reshape(groups, 64, 16)


def accumulator(registers: list[np.ndarray], n: int) -> np.ndarray:
    """Return the (rows, n) floats that threads hold after a product."""
    groups = len(registers[0]) // 128
    block = np.zeros((groups * 4, 16, n), np.float32)
    lane = np.arange(32)
    for index, values in enumerate(registers):
        row = lane // 4 + index // 2 % 2 * 8
        column = index // 4 * 8 + lane % 4 * 2 + index % 2
        block[:, row, column] = values.view(np.float32).reshape(-1, 32)
    return block.reshape(-1, n)


def pieces(block: np.ndarray) -> list[np.ndarray]:
    """Return the registers of the threads that hold a (rows, n) block."""
    block = block.reshape(-1, 16, block.shape[1])
    lane = np.arange(32)
    found = []
    for index in range(block.shape[2] // 2):
        row = lane // 4 + index // 2 % 2 * 8
        column = index // 4 * 8 + lane % 4 * 2 + index % 2
        found.append(np.ascontiguousarray(block[:, row, column]).reshape(-1))
    return [values.view(np.uint32) for values in found]


BINARY: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.fmin,
    "max": np.fmax,
    "div": np.divide,
}
UNARY: dict[str, Callable] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "abs": np.abs,
    "not": np.invert,
}
COMPARE: dict[str, Callable] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
