"""The compiled loops of rank-one updates: plane rotations along the rows of a factor.

Each returns a status and a number, as compiled code raises no message worth reading,
and looks at everything that may fail before it writes. R is row-major, possibly with
more columns than rows: only R[:m, :m] is touched, m being the length of x.
"""

from __future__ import annotations

import math

import numpy as np

from tiercel._compiled import compiled

DONE, REFUSED, NOT_FINITE = 0, 1, 2


@compiled
def rotate_in(R: np.ndarray, x: np.ndarray) -> tuple[int, float]:
    """Add x, two rows per sweep: x passes through registers half as often."""
    m, zero, one = x.shape[0], x.dtype.type(0), x.dtype.type(1)
    for j in range(m):
        if not math.isfinite(x[j]):
            return NOT_FINITE, 0.0
    for k in range(0, m - 1, 2):
        r0 = math.hypot(R[k, k], x[k])
        c0, s0 = (R[k, k] / r0, x[k] / r0) if r0 > 0 else (one, zero)
        next_x = c0 * x[k + 1] - s0 * R[k, k + 1]
        R[k, k + 1] = c0 * R[k, k + 1] + s0 * x[k + 1]
        r1 = math.hypot(R[k + 1, k + 1], next_x)
        c1, s1 = (R[k + 1, k + 1] / r1, next_x / r1) if r1 > 0 else (one, zero)
        R[k, k], R[k + 1, k + 1] = r0, r1
        upper, lower, tail = R[k, k + 2 : m], R[k + 1, k + 2 : m], x[k + 2 :]
        for j in range(tail.shape[0]):
            u, v, t = upper[j], lower[j], tail[j]
            upper[j] = c0 * u + s0 * t
            t = c0 * t - s0 * u
            lower[j] = c1 * v + s1 * t
            tail[j] = c1 * t - s1 * v
    if m % 2:
        R[m - 1, m - 1] = math.hypot(R[m - 1, m - 1], x[m - 1])
    return DONE, 0.0


@compiled
def rotate_out(R: np.ndarray, x: np.ndarray, eps: float) -> tuple[int, float]:
    """Take x out; the vector a is found in float64 before R is touched."""
    m = x.shape[0]
    for j in range(m):
        if not math.isfinite(x[j]):
            return NOT_FINITE, 0.0
    a = x.astype(np.float64)
    left = 1.0
    for k in range(m):  # R' a = x, by rows of R
        a[k] /= R[k, k]
        left -= a[k] * a[k]
        row, tail = R[k, k + 1 : m], a[k + 1 :]
        ak = a[k]
        for j in range(tail.shape[0]):
            tail[j] -= ak * row[j]
    if not left > eps:
        return REFUSED, left
    size = math.sqrt(left)
    carried = np.zeros_like(x)
    for k in range(m - 1, -1, -1):
        r = math.hypot(size, a[k])
        c, s = x.dtype.type(size / r), x.dtype.type(a[k] / r)
        size = r
        row, tail = R[k, k:m], carried[k:]
        for j in range(tail.shape[0]):
            t, u = tail[j], row[j]
            tail[j] = c * t + s * u
            row[j] = c * u - s * t
    return DONE, left
