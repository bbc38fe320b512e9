"""Compiled loops over compressed sparse rows.

scipy multiplies sparse matrices into arrays of its own, entry by entry. Here a row is
multiplied with all the centres into one row of sums that stays in the cache, and what
leaves it is the kernel's statistic, where it is wanted. Columns that many centres share
(frequent words) are stored as full rows, which the processor adds up many at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tiercel._compiled import compiled

_GOLDEN = np.uint64(11400714819323198485)  # 2**64 over the golden ratio
_FREE = -1


class Places(NamedTuple):
    """Where each of some columns comes to lie: a hash table, open addressing.

    A table by column would be as long as the columns are many, which may be 10**8.
    """

    columns: np.ndarray
    places: np.ndarray
    shift: Any


def places_of(columns: np.ndarray) -> Places:
    """Return a table from distinct columns to 0, 1, 2, ... in their order."""
    bits = max(4, int(2 * len(columns)).bit_length())
    table = Places(
        np.full(2**bits, _FREE, np.int64),
        np.zeros(2**bits, np.int32),
        np.uint64(64 - bits),
    )
    _fill_places(columns.astype(np.int64), *table)
    return table


@compiled
def _fill_places(wanted: Any, columns: Any, places: Any, shift: Any) -> None:
    for place in range(wanted.size):
        at = np.int64((np.uint64(wanted[place]) * _GOLDEN) >> shift)
        while columns[at] != _FREE:
            at = (at + 1) & (columns.size - 1)
        columns[at] = wanted[place]
        places[at] = place


@compiled
def compress(
    indptr: Any,
    indices: Any,
    data: Any,
    scale: Any,
    columns: Any,
    places: Any,
    shift: Any,
    kept_ends: Any,
    kept_places: Any,
    kept_values: Any,
    squares: Any,
    outside: Any,
) -> None:
    """Scale rows, and keep the entries whose columns have places, renumbered.

    ``squares`` gets the rows' squared norms, ``outside`` the part of them that lies in
    other columns.
    """
    kept = 0
    for i in range(squares.size):
        total, left_out = 0.0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            column = indices[p]
            value = np.float64(data[p])
            value *= scale[column] if scale.size > 1 else scale[0]
            total += value * value
            at = np.int64((np.uint64(column) * _GOLDEN) >> shift)
            while columns[at] != column and columns[at] != _FREE:
                at = (at + 1) & (columns.size - 1)
            if columns[at] == column:
                kept_places[kept] = places[at]
                kept_values[kept] = value
                kept += 1
            else:
                left_out += value * value
        kept_ends[i + 1] = kept
        squares[i] = total
        outside[i] = left_out


@compiled(contract=True)
def statistics(
    indptr: Any,
    indices: Any,
    data: Any,
    full: Any,
    full_rows: Any,
    right_indptr: Any,
    right_indices: Any,
    right_data: Any,
    first: int,
    factor: float,
    row_terms: Any,
    column_terms: Any,
    out: Any,
) -> None:
    """Write ``row_terms[i] + column_terms[j] + factor * (x_i . z_j)``, made in float64.

    ``first`` is the centre of the first column of ``out``. The centres come by their
    coordinates: coordinate c is row ``full[c]`` of ``full_rows`` or, where that is
    negative, row c of the compressed ``right``.
    """
    width = out.shape[1]
    total, terms = np.empty(width), column_terms[first : first + width]
    for i in range(out.shape[0]):
        total[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value, c = data[p], indices[p]
            if full[c] >= 0:
                row = full_rows[full[c], first : first + width]
                for j in range(width):
                    total[j] += value * row[j]
            else:
                for q in range(right_indptr[c], right_indptr[c + 1]):
                    j = right_indices[q] - first
                    if 0 <= j < width:
                        total[j] += value * right_data[q]
        for j in range(width):
            out[i, j] = (row_terms[i] + terms[j]) + factor * total[j]
