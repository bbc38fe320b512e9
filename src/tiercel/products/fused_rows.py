"""Any kernel with fused forms, over rows on one GPU: plans of launches and their sums.

A kernel is written as a sum of products of leaves. Leaves of one product that see the
points through the same scales share their scalar products (a *group*); a launch of the
fused kernels reads at most two groups. Products of Gaussians are Gaussians again, and
one Gaussian alone takes the shortest form there is. Sums are sums of launches.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tiercel.kernels import Gaussian, Kernel, Product, Scaled, Sum
from tiercel.products.fused import EntrySpec, Operand, apply, fitting_scale, gaussian
from tiercel.products.fused import prepare as split
from tiercel.products.fused.split import pieces
from tiercel.products.precision import FAR
from tiercel.products.torch_tiles import TorchTiles

MAX_GROUPS, MAX_PARAMETERS, MAX_LAUNCHES = 2, 8, 8

#: A Gaussian is a power of two: its points carry the base's logarithm.
BASE = math.sqrt(math.log2(math.e))

#: A coordinate so far from the centre that many kernels are zero there.
OUTSIDE = 2.0**12


@dataclass
class Group:
    """Points seen by one statistic through one set of scales.

    ``rough`` kernels have a kink at distance zero; those that ``vanish`` are zero at
    the distance :data:`OUTSIDE`.
    """

    statistic: str
    scale: np.ndarray
    rough: bool = False
    vanish: bool = False


@dataclass
class Launch:
    """One product of leaves: its groups, its expression and its numbers."""

    factor: float
    leaves: list[Any]
    groups: list[Group] = field(default_factory=list)
    expression: str = ""
    parameters: list[float] = field(default_factory=list)

    @property
    def exponential(self) -> bool:
        """Tell whether the launch is one Gaussian."""
        return len(self.leaves) == 1 and isinstance(self.leaves[0], Gaussian)

    def entry(self, bound: float) -> EntrySpec:
        """Return the fused kernels' description of an entry."""
        if self.exponential:
            return gaussian()
        rough = tuple(g.rough for g in self.groups)
        return EntrySpec(
            self.expression,
            tuple(self.parameters),
            groups=len(self.groups),
            rough=rough + (False,) * (MAX_GROUPS - len(rough)),
            bound=bound,
        )

    def bound(self, reach: list[tuple[float, float]]) -> float:
        """Return a power of two that no entry exceeds, from the norms of the points."""
        largest = 1.0
        for leaf in self.leaves:
            t = np.zeros(1)
            if leaf.statistic == "dot":
                index, ratio = self._place(leaf)
                x, z = reach[index]
                t = np.array([-x * z, x * z]) * ratio
            largest *= float(np.abs(leaf.profile(t, np)).max())
        return 2.0 ** math.ceil(math.log2(max(largest, 1e-30)))

    def _place(self, leaf: Any) -> tuple[int, float]:
        """Return the group that serves a leaf, and its statistic over the group's."""
        scale = np.atleast_1d(leaf.scale_of(0))
        for index, group in enumerate(self.groups):
            if group.statistic != leaf.statistic:
                continue
            ratios = (scale / group.scale) ** 2
            if np.allclose(ratios, ratios[0], rtol=1e-12, atol=0.0):
                return index, float(ratios[0])
        self.groups.append(Group(leaf.statistic, scale))
        return len(self.groups) - 1, 1.0

    def compile(self) -> None:
        """Find the groups, and write the expression over them."""
        texts = []
        for leaf in self.leaves:
            index, ratio = self._place(leaf)
            t = f"u{index}"
            if leaf.statistic == "distance":
                t = f"t{index}"
                outside = np.array([ratio * OUTSIDE**2])
                self.groups[index].rough |= leaf.rough
                self.groups[index].vanish |= not leaf.profile(outside, np).any()
            if ratio != 1.0:
                t = f"({self._parameter(ratio)} * {t})"
            text = re.sub(r"\bt\b", t, leaf.fused)
            for name, value in leaf.fused_values().items():
                text = text.replace("{" + name + "}", self._parameter(value))
            texts.append(f"({text})")
        self.expression = " * ".join(texts)

    def _parameter(self, value: float) -> str:
        self.parameters.append(float(value))
        return f"p{len(self.parameters) - 1}"


def launches(kernel: Kernel) -> list[Launch] | None:
    """Return the launches that add up to a kernel; None if it has no fused form."""
    found = []
    for factor, leaves in _terms(kernel):
        if any(getattr(leaf, "fused", None) is None for leaf in leaves):
            return None
        launch = Launch(factor, _merged(leaves))
        launch.compile()
        if len(launch.groups) > MAX_GROUPS or len(launch.parameters) > MAX_PARAMETERS:
            return None
        found.append(launch)
    return found if len(found) <= MAX_LAUNCHES else None


def _terms(kernel: Kernel) -> list[tuple[float, list[Any]]]:
    """Write a kernel as a sum of products of leaves."""
    if isinstance(kernel, Sum):
        return _terms(kernel.left) + _terms(kernel.right)
    if isinstance(kernel, Scaled):
        return [(kernel.factor * c, leaves) for c, leaves in _terms(kernel.base)]
    if isinstance(kernel, Product):
        return [
            (a * b, left + right)
            for a, left in _terms(kernel.left)
            for b, right in _terms(kernel.right)
        ]
    return [(1.0, [kernel])]


def _merged(leaves: list[Any]) -> list[Any]:
    """Make one Gaussian of all the Gaussians in a product."""
    gaussians = [leaf for leaf in leaves if isinstance(leaf, Gaussian)]
    if len(gaussians) < 2:
        return leaves
    inverse = sum(np.asarray(g.scale_of(0)) ** 2 for g in gaussians)
    others = [leaf for leaf in leaves if not isinstance(leaf, Gaussian)]
    return [Gaussian(1.0 / np.sqrt(inverse)), *others]


@dataclass
class PreparedRows:
    """Rows split for every launch, and those that are worked in float64 instead."""

    count: int
    operands: list[list[Operand]]
    far: Any = None
    far_rows: Any = None


class FusedRows:
    """Multiply with k(rows, Z) by fused kernels, for rows that lie on the device.

    Parameters
    ----------
    kernel, Z, device
        The kernel (see :func:`launches`), the centres on the device, the device.
    precision : {"auto", "fast"}
    tile_rows : int
        Height of the tiles in which far rows are worked in float64.
    """

    def __init__(
        self, kernel: Kernel, Z: Any, device: Any, precision: str, tile_rows: int
    ) -> None:
        import torch

        self.torch, self.precision = torch, precision
        plan = launches(kernel)
        if plan is None:
            raise TypeError(f"{kernel} has no fused form")
        self.launches = plan
        self.m = Z.shape[0]
        # The median: one center far away must not take the others from the middle.
        self.center = Z.double().median(0).values
        self.columns = [self._split(Z, launch) for launch in plan]
        self._wide = (kernel, Z, device, torch.float64, tile_rows)
        self._tiles: TorchTiles | None = None

    def prepare(self, X: Any) -> PreparedRows:
        """Split rows for the tensor cores; set aside those too far for float32."""
        operands = [self._split(X, launch) for launch in self.launches]
        far = self._far(operands, X.shape[0])
        if far is None:
            return PreparedRows(X.shape[0], operands)
        # Where far rows were, the centre stands: they must not set the others' scale.
        operands = [self._split(X, launch, far) for launch in self.launches]
        return PreparedRows(X.shape[0], operands, far, X[far])

    def _far(self, operands: list[list[Operand]], count: int) -> Any:
        """Return which rows lie too far from the centre for float32, or None."""
        far = None
        for launch, group in zip(self.launches, operands, strict=True):
            limit = FAR * (BASE**2 if launch.exponential else 1.0)
            for which, operand in zip(launch.groups, group, strict=True):
                if which.statistic == "distance" and operand.reach**2 > limit:
                    mask = operand.squares[:count] > limit
                    far = mask if far is None else far | mask
        return far

    def product(self, P: PreparedRows, V: Any) -> Any:
        """Return k(X, Z) V."""
        out = self._sum_of(P, V, transpose=False)
        if P.far is not None:
            out[P.far] = self._float64().product(P.far_rows, V).to(out.dtype)
        return out

    def cross_product(self, P: PreparedRows, U: Any) -> Any:
        """Return k(X, Z)' U in float64."""
        if P.far is None:
            return self._sum_of(P, U, transpose=True).double()
        near = self.torch.where(P.far[:, None], 0.0, U)
        total = self._sum_of(P, near, transpose=True).double()
        return total + self._float64().cross_product(P.far_rows, U[P.far])

    def gram_product(self, P: PreparedRows, V: Any, weights: Any) -> Any:
        """Return k(X, Z)' diag(weights) k(X, Z) V in float64."""
        W = self.product(P, V)
        if weights is not None:
            W *= weights.to(W.dtype)[:, None]
        return self.cross_product(P, W)

    def _sum_of(self, P: PreparedRows, V: Any, transpose: bool) -> Any:
        V, total = V.float().contiguous(), None
        for launch, rows, columns in zip(
            self.launches, P.operands, self.columns, strict=True
        ):
            pairs = zip(rows, columns, strict=True)
            bound = launch.bound([(x.reach, z.reach) for x, z in pairs])
            left, right = (columns, rows) if transpose else (rows, columns)
            entry = launch.entry(bound)
            part = apply(entry, left, right, V, precision=self.precision)
            if launch.factor != 1.0:
                part = part * launch.factor
            total = part if total is None else total + part
        return total

    def _split(self, X: Any, launch: Launch, far: Any = None) -> list[Operand]:
        """Centre, scale and split points for the groups of a launch."""
        operands = []
        for group in launch.groups:
            scale = self.torch.as_tensor(group.scale, device=X.device)
            if launch.exponential:
                scale = scale * BASE
            seen = partial(self._seen, X, group, scale, far)
            unit = 1.0
            if not launch.exponential:
                every = pieces(*X.shape)
                largest = [seen(rows).abs().max() for rows in every]
                unit = fitting_scale(float(self.torch.stack(largest).max()))
            operands.append(split(X, unit, seen=seen))
        return operands

    def _seen(self, X: Any, group: Group, scale: Any, far: Any, rows: slice) -> Any:
        """Return rows as a group sees them; where far rows are, the centre."""
        part = X[rows].double()
        if far is not None:
            part = self.torch.where(far[rows, None], self.center, part)
        if group.statistic == "distance":
            part = part - self.center
        part = (part * scale).float()
        # Halves would become infinite, or have no digits left for the others.
        return part.clamp_(-OUTSIDE, OUTSIDE) if group.vanish else part

    def _float64(self) -> TorchTiles:
        if self._tiles is None:
            self._tiles = TorchTiles(*self._wide)
        return self._tiles


__all__ = ["FusedRows", "launches"]
