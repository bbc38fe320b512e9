"""numpy's elementwise functions, with a faster exponential for large work.

Once the matrix product of a tile is made, the exponential is what a Gaussian costs.
numpy's is a library routine for every machine; a loop that numba compiles for this one,
with a polynomial short enough to stay in registers, is several times faster at the same
accuracy. Loading and compiling it pays off for large kernel matrices only, so it is
chosen once for each operator, by the number of entries: not by tile or by thread, so
that results do not depend on those.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiercel._compiled import compiled

#: Kernel entries from which the compiled exponential pays for being loaded.
MANY = 2**24


# exp(x) = 2**n exp(r): n is the integer nearest to x log2(e), so that |r| <= log(2)/2.
# Adding and subtracting ROUND rounds to an integer. log(2) comes in two parts, the
# first with so few digits that n times it is exact. The series of exp(r) ends where its
# terms drown in rounding, and n is added to the exponent bits of its sum.


def _constants(dtype: type, high: float, low: float, terms: int) -> tuple[Any, ...]:
    info = np.finfo(dtype)
    numbers = [math.log2(math.e), 1.5 * 2.0**info.nmant, high, low]
    numbers += [math.log(info.smallest_normal), math.log(info.max)]
    numbers += [1.0 / math.factorial(k) for k in range(terms)]
    return tuple(dtype(number) for number in numbers)


_SINGLE = _constants(np.float32, 355 / 512, -2.1219444005469057e-4, terms=8)
_DOUBLE = _constants(np.float64, 0.6931471803691238, 1.9082149292705878e-10, terms=14)


@compiled(contract=True)
def exp_float32(values: np.ndarray) -> None:
    """Overwrite a float32 vector with its exponentials (relative error 8e-8)."""
    log2e, rounding, high, low, least, most, c0, c1, c2, c3, c4, c5, c6, c7 = _SINGLE
    for i in range(values.size):
        x = values[i]
        n = (x * log2e + rounding) - rounding
        r = (x - n * high) - n * low
        p = ((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + c2
        p = np.float32((p * r + c1) * r + c0)
        bits = np.int32(p.view(np.int32) + (np.int32(n) << np.int32(23)))
        y = bits.view(np.float32)
        if x < least:
            y = np.float32(0.0)
        if x > most:
            y = np.float32(np.inf)
        if x != x:  # NaN
            y = x
        values[i] = y


@compiled(contract=True)
def exp_float64(values: np.ndarray) -> None:
    """Overwrite a float64 vector with its exponentials (relative error 2e-16)."""
    log2e, rounding, high, low, least, most = _DOUBLE[:6]
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13 = _DOUBLE[6:]
    for i in range(values.size):
        x = values[i]
        n = (x * log2e + rounding) - rounding
        r = (x - n * high) - n * low
        p = ((((c13 * r + c12) * r + c11) * r + c10) * r + c9) * r + c8
        p = ((((p * r + c7) * r + c6) * r + c5) * r + c4) * r + c3
        p = np.float64(((p * r + c2) * r + c1) * r + c0)
        bits = np.int64(p.view(np.int64) + (np.int64(n) << np.int64(52)))
        y = bits.view(np.float64)
        if x < least:
            y = np.float64(0.0)
        if x > most:
            y = np.float64(np.inf)
        if x != x:  # NaN
            y = x
        values[i] = y


class Elementwise:
    """numpy, except for ``exp``, which is compiled where it works in place.

    Examples
    --------
    >>> values = np.array([0.0, 1.0])
    >>> Elementwise().exp(values, out=values).round(4)
    array([1.    , 2.7183])
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def exp(self, x: Any, out: Any = None) -> Any:
        """Return the exponentials of ``x``, as ``numpy.exp`` does."""
        loop = {np.float32: exp_float32, np.float64: exp_float64}.get(x.dtype.type)
        if out is not x or loop is None or not x.flags.c_contiguous:
            return np.exp(x, out=out)
        loop(x.reshape(-1))
        return x


def functions_for(entries: int) -> Any:
    """Return numpy, or its faster stand-in where there are many kernel entries."""
    return Elementwise() if entries >= MANY else np
