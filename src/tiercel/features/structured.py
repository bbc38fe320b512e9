"""Random directions that are multiplied in n log n: no matrix is stored.

A block of p = 2^k directions in d <= p inputs consists of the first d columns of

    B H D / sqrt(p),

with D random signs, H the Hadamard matrix and B a butterfly of p/2 log2(p) plane
rotations. Hadamard matrices and signs alone (Yu et al. 2016, section 5) reach finitely
many directions only, which in few dimensions amounts to another kernel. B mends that:
the squared cosines of its rotations between rows h apart are drawn from Beta(h/2, h/2),
the law of the share that one half of a random unit vector of length 2h has of its
square, and the angles on the way of one row are independent. So each row of B is
uniform on the sphere, exactly, and stays so under the orthogonal H D / sqrt(p). Where
d < p, rows are cut to d inputs and normalised, which leaves them uniform. Every
frequency keeps its law, as with orthogonal blocks; rows of a block are orthogonal where
d = p, and cut from orthogonal ones elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tiercel._state import saved_array
from tiercel.features import _butterflies

WIDTH = 64  # rows of X that are transformed together

#: signs (blocks, p), cosines and sines (blocks, k, p/2), lengths (D,), scale (d,)
Structure = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def draw_structure(
    norms: np.ndarray, scale: np.ndarray, rng: np.random.Generator
) -> Structure:
    """Draw frequencies ``norms * direction * scale`` with structured directions.

    Parameters
    ----------
    norms : array (D,)
        Norms of the frequencies, before columns are scaled.
    scale : array (d,)
        Factors of the columns.
    rng : Generator

    Returns
    -------
    tuple of arrays
        What `structured_angles` and `structured_matrix` take.
    """
    steps = (len(scale) - 1).bit_length()
    size = 2**steps
    blocks = -(-len(norms) // size)
    signs = rng.choice([-1.0, 1.0], (blocks, size))
    cosines = np.empty((blocks, steps, size // 2))
    for step in range(steps):
        half = 2.0**step
        cosines[:, step] = rng.beta(half / 2, half / 2, (blocks, size // 2))
    sines = np.sqrt(1.0 - cosines) * rng.choice([-1.0, 1.0], cosines.shape)
    np.sqrt(cosines, out=cosines)
    drawn = signs, cosines, sines, np.full(len(norms), size**-0.5)
    if len(scale) < size:
        drawn[3][:] /= _row_norms(drawn, len(scale))
    drawn[3][:] *= norms
    return *drawn, scale


def _row_norms(drawn: Any, n_inputs: int) -> np.ndarray:
    """Return the norms of the rows, cut to the first inputs."""
    squares = np.zeros(len(drawn[3]))
    for _, columns in _columns((*drawn, np.ones(n_inputs))):
        squares += np.sum(columns * columns, axis=1)
    return np.sqrt(squares)


def check_structure(structure: Any, n_frequencies: int, n_inputs: int) -> None:
    """Raise ValueError where a saved structure is not one for such a map."""
    steps = (n_inputs - 1).bit_length()
    size = 2**steps
    blocks = -(-n_frequencies // size)
    names = ("signs", "cosines", "sines", "lengths", "scale")
    turns = (blocks, steps, size // 2)
    shapes = ((blocks, size), turns, turns, (n_frequencies,), (n_inputs,))
    if not isinstance(structure, tuple) or len(structure) != len(names):
        raise ValueError("the saved structure does not have five arrays")
    parts = dict(zip(names, structure, strict=True))
    for name, shape in zip(names, shapes, strict=True):
        saved_array(parts, name, shape, np.float64)


def structured_angles(structure: Structure, X: np.ndarray) -> np.ndarray:
    """Return the products of the rows of ``X`` with all frequencies, (n, D) in float64.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> structure = draw_structure(np.ones(4), np.ones(4), rng)
    >>> structured_angles(structure, np.eye(4)).shape
    (4, 4)
    """
    signs, cosines, sines, lengths, scale = structure
    out = np.empty((len(X), len(lengths)))
    for start in range(0, len(X), WIDTH):
        rows = slice(start, start + WIDTH)
        x = np.ascontiguousarray((X[rows] * scale).T)
        work = np.empty((signs.shape[1], x.shape[1]))
        _butterflies.project(x, signs, cosines, sines, lengths, work, out[rows])
    return out


def structured_matrix(structure: Structure) -> np.ndarray:
    """Return the frequencies themselves, (D, d).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> W = structured_matrix(draw_structure(np.ones(4), np.ones(4), rng))
    >>> bool(np.allclose(W @ W.T, np.eye(4)))
    True
    """
    W = np.empty((len(structure[3]), len(structure[4])))
    for where, columns in _columns(structure):
        W[:, where] = columns
    return W


def _columns(structure: Structure) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the columns of the matrix, some at a time, and where they belong."""
    n_inputs = len(structure[4])
    for start in range(0, n_inputs, WIDTH):
        where = slice(start, min(start + WIDTH, n_inputs))
        unit = np.eye(where.stop - start, n_inputs, start)
        yield where, structured_angles(structure, unit).T
