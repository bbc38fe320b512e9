"""Compiled butterflies: transforms of length p = 2^k at the cost of p log p.

All work in place on the columns of a (p, b) array: one step combines two whole rows, so
that the innermost loop runs along b and vectorises.
"""

from __future__ import annotations

import numpy as np

from tiercel._compiled import compiled

LINE = 8  # numbers of a cache line


@compiled
def hadamard(x: np.ndarray) -> None:
    """Multiply ``x`` by the Hadamard matrix of Sylvester's order, entries 1 and -1."""
    size, width = x.shape
    half = 1
    while half < size:
        for start in range(0, size, 2 * half):
            for i in range(start, start + half):
                upper, lower = x[i], x[i + half]
                for j in range(width):
                    u, v = upper[j], lower[j]
                    upper[j] = u + v
                    lower[j] = u - v
        half *= 2


@compiled
def rotate(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> None:
    """Rotate rows 1 apart by pairs, then rows 2, 4, 8, ... apart.

    ``cosines`` and ``sines`` are (k, p / 2): the angles of each step, by the pair's
    upper row.
    """
    size, width = x.shape
    half, step = 1, 0
    while half < size:
        pair = 0
        for start in range(0, size, 2 * half):
            for i in range(start, start + half):
                c, s = cosines[step, pair], sines[step, pair]
                upper, lower = x[i], x[i + half]
                for j in range(width):
                    u, v = upper[j], lower[j]
                    upper[j] = c * u + s * v
                    lower[j] = c * v - s * u
                pair += 1
        half, step = 2 * half, step + 1


@compiled
def project(
    x: np.ndarray,
    signs: np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
    lengths: np.ndarray,
    work: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the products of the columns of ``x`` with structured rows into ``out``.

    ``x`` is (d, b), ``work`` (p, b) with p >= d, ``out`` (b, D). Block by block of p
    rows: random signs, Hadamard transform, rotations, and each row its length.
    """
    inputs, width = x.shape
    for block in range(signs.shape[0]):
        for i in range(inputs):
            sign = signs[block, i]
            for j in range(width):
                work[i, j] = sign * x[i, j]
        work[inputs:] = 0.0
        hadamard(work)
        rotate(work, cosines[block], sines[block])
        first = block * work.shape[0]
        write_turned(work, lengths[first:], out[:, first:])


@compiled
def write_turned(work: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
    """Write rows of ``work`` times their lengths into columns of ``out``.

    A cache line of ``out`` is filled before it is left: with D a power of two its rows
    would evict each other.
    """
    count = min(work.shape[0], lengths.shape[0])
    for first in range(0, count, LINE):
        last = min(first + LINE, count)
        for j in range(work.shape[1]):
            for i in range(first, last):
                out[j, i] = lengths[i] * work[i, j]
