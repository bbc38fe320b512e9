"""The compiled loop of change detection: a likelihood ratio over a sliding window.

It returns a status, as compiled code raises no message worth reading, and looks at
everything that may fail before it writes. Nothing is allocated.
"""

from __future__ import annotations

import math

import numpy as np

from tiercel._compiled import compiled

DONE, NOT_FINITE = 0, 1


@compiled
def scan(
    rows: np.ndarray,
    ring: np.ndarray,
    place: np.ndarray,
    total: np.ndarray,
    small: float,
    large: float,
    statistics: np.ndarray,
) -> int:
    """Take in the residuals, one per row, and write the statistic after each.

    ``ring`` holds the last residuals, ``place`` where the newest of them is and how
    many there are. The window may start at any of them; ``total`` is the running sum
    from the newest back to each start, so that one sample costs one pass.
    """
    n, p = rows.shape
    size = ring.shape[0]
    for t in range(n):
        for i in range(p):
            if not math.isfinite(rows[t, i]):
                return NOT_FINITE
    for t in range(n):
        newest = (place[0] + 1) % size
        place[0], place[1] = newest, min(place[1] + 1, size)
        for i in range(p):
            ring[newest, i] = rows[t, i]
            total[i] = 0.0
        best = -math.inf
        for k in range(1, place[1] + 1):
            square, start = 0.0, (newest + 1 - k + size) % size
            for i in range(p):
                total[i] += ring[start, i]
                square += total[i] * total[i]
            shift = math.sqrt(square) / k
            if shift < small:
                ratio = -0.5 * k * (shift - large) ** 2
            elif shift <= large:
                ratio = 0.5 * k * (large - small) * (2.0 * shift - small - large)
            elif small > 0.0:
                ratio = 0.5 * k * (shift - small) ** 2
            else:  # no root taken and squared again: exact for short residuals
                ratio = 0.5 * square / k
            if ratio > best:
                best = ratio
        statistics[t] = best
    return DONE
