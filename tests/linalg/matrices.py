"""Matrices to try the algebra on, and an oracle with more digits than float64."""

from __future__ import annotations

import numpy as np
import pytest

EXTENDED = np.longdouble

needs_extended = pytest.mark.skipif(
    np.finfo(EXTENDED).eps > 1e-18, reason="long double is no wider than double here"
)


def positive(m, condition=10.0, seed=0, dtype=np.float64):
    """Return a positive definite matrix whose eigenvalues fall from 1 evenly in log."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((m, m)))
    A = (Q * np.logspace(0, -np.log10(condition), m)) @ Q.T
    return ((A + A.T) / 2).astype(dtype)


def right_hand_sides(n, columns=None, dtype=np.float64, seed=0):
    shape = n if columns is None else (n, columns)
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def times(A):
    return lambda X: A @ X


def true_residuals(A, B, X):
    """Return ||b - A x|| / ||b|| of each column, from float64 products."""
    A, B, X = (np.asarray(V, dtype=float) for V in (A, B, X))
    return np.linalg.norm(B - A @ X, axis=0) / np.linalg.norm(B, axis=0)


def gaussian(X, Z, length_scale=1.0):
    """Return the Gaussian kernel, from differences, in the dtype of ``X``."""
    squares = ((X[:, None] - Z[None]) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * length_scale**2))


def layouts(A):
    """Return copies of ``A`` in all the ways that memory can hold a matrix or vector.

    What lies between the entries of a block is NaN: who touches it will show it.
    """
    wide = np.full([2 * n + 1 for n in A.shape], np.nan, dtype=A.dtype)
    inside = tuple(slice(1, n + 1) for n in A.shape)
    every_other = (slice(None, -1, 2),) * A.ndim
    backwards = (slice(None, None, -1),) * A.ndim
    made = {
        "rows": A.copy("C"),
        "columns": A.copy("F"),
        "block of rows": wide.copy("C")[inside],
        "block of columns": wide.copy("F")[inside],
        "strided": wide.copy()[every_other],
        "reversed": A.copy()[backwards],
        "upside down": A.copy()[::-1],
    }
    for array in made.values():
        array[...] = A
    return made


def read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


def extended_cholesky(A):
    """Return the lower factor in long double."""
    A, L = A.astype(EXTENDED), np.zeros(A.shape, dtype=EXTENDED)
    for j in range(len(A)):
        L[j:, j] = A[j:, j] / np.sqrt(A[j, j])
        A[j:, j:] -= np.outer(L[j:, j], L[j:, j])
    return L


def extended_forward(L, B):
    """Return L^-1 B in long double."""
    X = B.astype(EXTENDED)
    for i in range(len(L)):
        X[i] /= L[i, i]
        X[i + 1 :] -= np.multiply.outer(L[i + 1 :, i], X[i])
    return X


def extended_solve(A, B):
    """Return A^-1 B for a positive definite A, worked out in long double."""
    L = extended_cholesky(A)
    X = extended_forward(L, B)
    for i in reversed(range(len(L))):
        X[i] /= L[i, i]
        X[:i] -= np.multiply.outer(L[i, :i], X[i])
    return X
