"""How many arrays of a tile's size a kernel makes beside the tile it fills."""

from __future__ import annotations

from tiercel.kernels import (
    Cauchy,
    DistanceKernel,
    DotKernel,
    Gaussian,
    Kernel,
    Linear,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
)

#: Kernels whose every step overwrites the tile.
NONE = (Gaussian, RationalQuadratic, Cauchy, Linear)

#: Another profile that works in place may have a root or a power beside the tile.
IN_PLACE = 1

#: The profile of a kernel that does not: the statistic, the value, and steps between.
PLAIN = 4

#: A kernel that evaluates itself brings its matrix, in float64, by ways of its own.
OWN = 4


def temporaries(kernel: Kernel) -> int:
    """Return the number of tile-sized arrays to reckon with.

    Examples
    --------
    >>> from tiercel.kernels import Gaussian, Matern
    >>> temporaries(Gaussian() + 2.0 * Matern())
    1
    """
    if isinstance(kernel, Sum | Product):
        return max(temporaries(kernel.left), temporaries(kernel.right))
    if isinstance(kernel, Scaled):
        return temporaries(kernel.base)
    if isinstance(kernel, NONE):
        return 0
    for family in (DistanceKernel, DotKernel):
        if isinstance(kernel, family):
            own = type(kernel).profile_in_place is not family.profile_in_place
            return IN_PLACE if own else PLAIN
    return OWN
