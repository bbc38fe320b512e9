"""Putting a product together: padding, scaling, grid, launch, and the sum of parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

from tiercel.products.fused.configs import Config, candidates
from tiercel.products.fused.entries import EntrySpec, compile_entry
from tiercel.products.fused.split import TILE, Operand

# 2 ** (u) is formed before norms enter when they are taken out of the sum: it must not
# leave float32's range, or half precision's where many outputs split it in halves.
_FOLD_REACH = 100.0
_FOLD_REACH_HALF = 12.0
_LONGEST_SUM = 1 << 16
_LIFT = 14


def apply(
    entry: EntrySpec,
    rows: Sequence[Operand],
    columns: Sequence[Operand],
    weights: Any,
    *,
    precision: str = "auto",
    config: Config | None = None,
) -> Any:
    """Return ``sum_j entry(x_i, c_j) weights[j]`` for all i, tile by tile.

    Parameters
    ----------
    entry : EntrySpec
        The kernel.
    rows, columns : sequence of Operand
        Prepared points, one per group of the entry.
    weights : tensor of shape (m, T), float32
        One column per output.
    precision : {"auto", "fast"}, default="auto"
        ``"auto"``: both halves, relative error around 1e-6. ``"fast"``: the high halves
        only; the error of a scalar product is then some 3e-4 of the norms' product.
    config : Config, default=None
        Block sizes; taken from the table when None.

    Returns
    -------
    tensor of shape (n, T), float32
    """
    import torch

    _check(entry, rows, columns, weights, precision)
    outputs = weights.shape[1]
    if outputs > 64:
        return torch.cat(
            [
                apply(entry, rows, columns, part, precision=precision, config=config)
                for part in weights.split(64, dim=1)
            ],
            dim=1,
        )
    padded = padded_outputs(outputs)
    tried = [config] if config else _table(entry, rows, padded)
    on_cuda = weights.device.type == "cuda"
    for position, choice in enumerate(tried):
        try:
            with torch.cuda.device(weights.device) if on_cuda else nullcontext():
                return _launch(entry, rows, columns, weights, padded, precision, choice)
        except Exception as error:
            refused = type(error).__name__ in ("OutOfResources", "PTXASError")
            if not refused or position == len(tried) - 1:
                raise
    raise AssertionError("unreachable: the table is never empty")


def _check(
    entry: EntrySpec,
    rows: Sequence[Operand],
    columns: Sequence[Operand],
    weights: Any,
    precision: str,
) -> None:
    import torch

    if precision not in ("auto", "fast"):
        raise ValueError(f"precision must be 'auto' or 'fast', not {precision!r}")
    if len(rows) != entry.groups or len(columns) != entry.groups:
        raise ValueError(
            f"the entry reads {entry.groups} group(s), but {len(rows)} row and "
            f"{len(columns)} column operands were given"
        )
    for x, c in zip(rows, columns, strict=True):
        if x.d != c.d:
            raise ValueError(f"rows have {x.d} coordinates, columns {c.d}")
    if weights.ndim != 2 or weights.shape[0] != columns[0].n:
        raise ValueError(
            f"weights must have shape ({columns[0].n}, T), not {tuple(weights.shape)}"
        )
    if weights.dtype != torch.float32:
        raise TypeError(f"weights must be float32, not {weights.dtype}")


@cache
def _knows_hopper(index: int) -> bool:
    import torch

    if torch.cuda.get_device_capability(index)[0] != 9:
        return False
    try:
        from tiercel.products.fused import kernels_hopper
    except ImportError:
        return False
    return kernels_hopper is not None


def _table(entry: EntrySpec, rows: Sequence[Operand], outputs: int) -> list[Config]:
    device = rows[0].squares.device
    # The arithmetic units form distances or scalar products, not both.
    plain = entry.direct or (entry.groups == 1 and not entry.needs_distance(0))
    hopper = device.type == "cuda" and _knows_hopper(device.index or 0)
    return candidates(
        max(x.depth for x in rows),
        rows[0].d,
        outputs,
        entry.groups,
        hopper,
        rows[0].points is not None and plain,
    )


def foldable(rows: Operand, columns: Operand, outputs: int) -> bool:
    """Tell whether norms can be taken out of a sum of exponentials without overflow."""
    limit = _FOLD_REACH if outputs == 1 else _FOLD_REACH_HALF
    widest = max(rows.reach, columns.reach)
    return (
        rows.scale * columns.scale == 1.0
        and rows.reach * columns.reach <= limit
        and widest * widest <= 2 * _FOLD_REACH
    )


def power_of_two_scale(values: Any, exponent: int) -> Any:
    """Return, per column, the power of two that brings its largest to 2**exponent."""
    import torch

    largest = values.abs().amax(0)
    power = torch.frexp(torch.where(largest > 0, largest, 1.0)).exponent
    return torch.ldexp(torch.ones_like(largest), (exponent - power).clamp(-126, 126))


def padded_outputs(outputs: int) -> int:
    """Return how many outputs one launch makes for as many as are wanted.

    Examples
    --------
    >>> [padded_outputs(outputs) for outputs in (1, 2, 17, 100)]
    [1, 16, 32, 64]
    """
    return 1 if outputs <= 1 else min(64, max(16, 1 << (outputs - 1).bit_length()))


def weight_tiles(weights: Any, m_padded: int, outputs: int) -> Any:
    """Return weights in halves, (m_padded / 64, 2, outputs, 64): high, then low."""
    import torch

    full = torch.zeros((m_padded, outputs), dtype=torch.float32, device=weights.device)
    full[: weights.shape[0], : weights.shape[1]] = weights
    tiles = full.view(-1, TILE, outputs).transpose(1, 2)
    high = tiles.half()
    low = (tiles - high.float()).half()
    return torch.stack([high, low], dim=1).contiguous()


def split_count(programs: int, tiles: int, device: Any) -> int:
    """Return into how many parts to cut the columns.

    Enough programs to fill the device several times over, so many that its
    multiprocessors all end at about the same time, and no sum so long that float32
    loses digits.
    """
    import torch

    longest = -(-tiles * TILE // _LONGEST_SUM)
    most = min(max(tiles // 16, 1), 65535)
    if device.type != "cuda":
        return min(longest, most)
    count = torch.cuda.get_device_properties(device).multi_processor_count
    least = max(-(-16 * count // programs) if programs < 8 * count else 1, longest)

    def idle(splits: int) -> float:
        # At most four programs share a multiprocessor.
        waves = programs * splits / (4 * count)
        return math.ceil(waves) / waves

    return min(min(range(least, 2 * least), key=idle), most)


def _launch(
    entry: EntrySpec,
    rows: Sequence[Operand],
    columns: Sequence[Operand],
    weights: Any,
    outputs: int,
    precision: str,
    config: Config,
) -> Any:
    import torch

    x, c = rows[0], columns[0]
    device = weights.device
    fold = (
        entry.exponential
        and config.variant in ("hopper", "resident", "small")
        and foldable(x, c, outputs)
    )
    a, b = x.squares, c.squares
    if entry.exponential:
        a, b = -0.5 * a, -0.5 * b
    values = weights
    if fold:
        values = values * torch.exp2(b[: c.n])[:, None]
    # Halves keep most digits just below 2**15: weights and entries are brought there.
    unit = power_of_two_scale(values, 0 if outputs == 1 else _LIFT)
    values = values * unit
    lift = 1.0
    if outputs > 1 and not fold:
        lift = 2.0**_LIFT / entry.bound
        if entry.exponential:
            a = a + _LIFT
    if outputs == 1:
        v = torch.zeros(c.n_padded, dtype=torch.float32, device=device)
        v[: c.n] = values[:, 0]
    else:
        v = weight_tiles(values, c.n_padded, outputs)
    tiles = c.n_padded // TILE
    programs = x.n_padded // config.rows
    per_unit = max(2, config.columns // TILE)
    per_split = -(-tiles // split_count(programs, tiles, device))
    per_split = -(-per_split // per_unit) * per_unit
    splits = -(-tiles // per_split)
    out = torch.empty((splits, x.n_padded, outputs), dtype=torch.float32, device=device)
    call = _CALLS[config.variant]
    call(
        entry=entry,
        rows=rows,
        columns=columns,
        a=a,
        b=b,
        v=v,
        out=out,
        outputs=outputs,
        lift=lift,
        fold=fold,
        exact=precision == "auto",
        per_split=per_split,
        grid=(programs, splits),
        config=config,
    )
    total = out[0] if splits == 1 else out.sum(0, dtype=torch.float64).float()
    total = total[: x.n, : weights.shape[1]]
    # One after the other: the product of both may leave float32's range.
    return (total / lift if lift != 1.0 else total) / unit


def _options(config: Config) -> dict[str, Any]:
    options: dict[str, Any] = {"num_warps": config.warps}
    if config.variant != "hopper":
        options["num_stages"] = config.stages
    if config.registers:
        options["maxnreg"] = config.registers
    return options


def _unscale(x: Operand, c: Operand) -> float:
    return 1.0 / (x.scale * c.scale)


def _launch_hopper(
    *, entry, rows, columns, a, b, v, out, outputs, lift, fold, exact, per_split, grid,
    config, **_,
):  # fmt: skip
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from tiercel.products.fused import kernels_hopper

    x, c = rows[0], columns[0]
    chunk = c.tiles.shape[-1]

    def described(halves: Any, box: list[int]) -> Any:
        layout = gl.NVMMASharedLayout.get_default_for(box, gl.float16)
        return TensorDescriptor.from_tensor(halves.view(-1, box[1]), box, layout)

    desc = described(c.tiles, [256, chunk])
    function = compile_entry(entry.source, "gluon")
    scalars = [out.stride(0), *entry.scalars]
    turns = [c.n_padded // TILE // 2, per_split // 2]
    shared = {
        "ENTRY": function,
        "FOLD": fold,
        "EXACT": exact,
        "MIXED": config.mixed and fold,
        "BM": config.rows,
        "D": c.depth,
        "S": config.stages,
        "W": config.warps,
        **_options(config),
    }
    scale = _unscale(x, c)
    if outputs == 1:
        kernels_hopper.one_output[grid](
            x.tiles, a, desc, b, v, out, scale, *turns, *scalars, **shared
        )
    else:
        kernels_hopper.many_outputs[grid](
            x.tiles, a, desc, b, described(v, [4 * outputs, 64]), out, scale, lift,
            *turns, *scalars,
            LIFT=not fold and not entry.exponential, T=outputs, **shared,
        )  # fmt: skip


def _launch_portable(
    *, entry, rows, columns, a, b, v, out, outputs, lift, fold, exact, per_split, grid,
    config, **_,
):  # fmt: skip
    from tiercel.products.fused import kernels_looped, kernels_resident

    looped = config.variant == "looped"
    second = len(rows) - 1
    x0, c0, x1, c1 = rows[0], columns[0], rows[second], columns[second]
    a1, b1 = (x1.squares, c1.squares) if second else (a, b)
    depths = [[x0.depth], [x1.depth]] if looped else [[], []]
    constants = {
        "ENTRY": compile_entry(entry.source),
        "G": entry.groups,
        "EXACT": exact,
        "LIFT": not fold and not entry.exponential,
        "T": outputs,
        "BM": config.rows,
        "BN": config.columns,
    }
    if not looped:
        constants.update(FOLD=fold, D0=x0.depth, D1=x1.depth)
    kernel = kernels_looped.looped if looped else kernels_resident.resident
    kernel[grid](
        x0.tiles, a, c0.tiles, b, _unscale(x0, c0), *depths[0],
        x1.tiles, a1, c1.tiles, b1, _unscale(x1, c1), *depths[1],
        v, out, lift,
        c0.n_padded // TILE, per_split, out.stride(0), *entry.scalars,
        **constants, **_options(config),
    )  # fmt: skip


def _launch_small(
    *, entry, rows, columns, a, b, v, out, fold, per_split, grid, config, **_
):
    import torch

    from tiercel.products.fused import kernels_small

    x, c = rows[0], columns[0]
    distance = entry.direct and not fold
    kernels_small.small[grid](
        x.points, c.points, v, out, x.n_padded, c.n_padded,
        c.n_padded // TILE, per_split, out.stride(0), *entry.scalars,
        ENTRY=compile_entry(entry.direct_source if distance else entry.source),
        DISTANCE=distance,
        D=x.d,
        BM=config.rows,
        BN=config.columns,
        **_options(config),
    )  # fmt: skip
    if fold:
        out *= torch.exp2(a)[None, :, None]


_CALLS = {
    "hopper": _launch_hopper,
    "resident": _launch_portable,
    "looped": _launch_portable,
    "small": _launch_small,
}
