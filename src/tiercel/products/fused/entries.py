"""Kernel expressions turned into device functions.

A kernel is written as an expression over ``t0`` (squared distance of the first group),
``u0`` (its scalar product), ``t1``, ``u1`` for a second group, and run-time scalars
``p0`` to ``p7``; the functions of the ``tl`` namespace are at hand. Both compilers, the
portable one and the one for Hopper, get a function of the same text.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

PARAMETERS = 8

_HEADER = "def entry(u0, a0, b0, u1, a1, b1, p0, p1, p2, p3, p4, p5, p6, p7):\n"
_DISTANCE = "    t{g} = tl.maximum((a{g} + b{g}) - 2.0 * u{g}, 0.0)\n"
# Where points coincide, rounding leaves a distance of some 8 machine epsilons of their
# norms; a kernel with a kink at zero would lose half its digits in the square root.
_SNAP = "    t{g} = tl.where(t{g} < 9.6e-7 * (a{g} + b{g}), 0.0, t{g})\n"


@dataclass(frozen=True)
class EntrySpec:
    """What one kernel entry is.

    Attributes
    ----------
    expression : str
        Value of the entry, for example ``"tl.exp2(-p0 * tl.sqrt(t0))"``.
    parameters : tuple of float
        Values of ``p0``, ``p1``, ... (at most 8).
    groups : int
        1 or 2: how many operand sets the expression reads.
    rough : tuple of bool
        Per group: whether distances within rounding of zero are set to zero.
    exponential : bool
        True for ``2 ** (u0 + a0 + b0)``: then ``a0`` and ``b0`` stand for minus half
        the squared norms, and may be taken out of the sum.
    bound : float
        Power of two that no entry exceeds in magnitude. With many outputs entries are
        split in halves too: below 2**-38 of the bound they count as zero.

    Examples
    --------
    >>> gaussian().groups
    1
    >>> EntrySpec("t0 * p0", parameters=(2.0,)).needs_distance(0)
    True
    """

    expression: str
    parameters: tuple[float, ...] = ()
    groups: int = 1
    rough: tuple[bool, ...] = (False, False)
    exponential: bool = False
    bound: float = 1.0

    def __post_init__(self) -> None:
        if self.groups not in (1, 2):
            raise ValueError(f"an entry reads 1 or 2 groups, not {self.groups}")
        if len(self.parameters) > PARAMETERS:
            raise ValueError(
                f"an entry takes at most {PARAMETERS} parameters, "
                f"not {len(self.parameters)}"
            )

    def needs_distance(self, group: int) -> bool:
        """Tell whether the expression reads the squared distance of ``group``."""
        return f"t{group}" in self.expression

    @property
    def direct(self) -> bool:
        """Whether the squared distance of one group is all that the entry reads."""
        alone = self.groups == 1 and "u0" not in self.expression
        return self.exponential or (alone and self.needs_distance(0))

    @property
    def source(self) -> str:
        """Return the text of the device function."""
        lines = [_HEADER]
        for group in range(self.groups):
            if self.needs_distance(group):
                lines.append(_DISTANCE.format(g=group))
                if self.rough[group]:
                    lines.append(_SNAP.format(g=group))
        return "".join([*lines, f"    return {self.expression}\n"])

    @property
    def direct_source(self) -> str:
        """Return the same for exact squared distances, which come as ``a0``."""
        value = "tl.exp2(-0.5 * a0)" if self.exponential else self.expression
        return f"{_HEADER}    t0 = a0\n    return {value}\n"

    @property
    def scalars(self) -> tuple[float, ...]:
        """Return the parameters, padded with zeros to the full number."""
        return self.parameters + (0.0,) * (PARAMETERS - len(self.parameters))


def gaussian() -> EntrySpec:
    """Return the Gaussian of points scaled by ``sqrt(log2(e)) / length_scale``."""
    return EntrySpec("tl.exp2((u0 + b0) + a0)", exponential=True)


@lru_cache(maxsize=256)
def compile_entry(source: str, dialect: str = "triton") -> Callable[..., Any]:
    """Return ``source`` as a jit function of the given dialect, once per text."""
    if dialect == "gluon":
        from triton.experimental import gluon
        from triton.experimental.gluon import language as tl

        decorate = gluon.jit
    else:
        import triton
        import triton.language as tl

        decorate = triton.jit
    # The compiler reads a function's text through linecache: register it there.
    name = f"<tiercel {dialect} entry {sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"tl": tl, "__name__": __name__}
    exec(compile(source, name, "exec"), scope)
    return decorate(scope["entry"])
