"""How much memory the routines take, counted in matrices of the size of theirs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tiercel.linalg import (
    cholesky,
    cholesky_update_rows,
    solve_positive,
    solve_triangular,
    triangular_gram,
)

M = 1600


@pytest.fixture(scope="module")
def A():
    """A matrix that is not quite positive, and takes several attempts."""
    return np.ones((M, M)) + np.diag(np.r_[1.0, np.arange(1.0, M - 2), 0.0, -1e-10])


def matrices(work, matrix):
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / matrix.nbytes


@pytest.mark.parametrize("order", ["C", "F"])
def test_factors_and_products_in_place(A, order):
    A = A.copy(order)
    B = np.ones((M, 3))
    assert matrices(lambda: cholesky(A, overwrite=True), A) < 0.5
    assert matrices(lambda: solve_triangular(A, B), A) < 0.1
    assert matrices(lambda: solve_triangular(A[1:, 1:], B[1:], transpose=True), A) < 0.1
    assert matrices(lambda: triangular_gram(A, overwrite=True), A) < 0.1
    if order == "F":
        assert matrices(lambda: cholesky_update_rows(A, np.ones((40, M))), A) < 0.5


def test_one_buffer_is_made(A):
    factor = cholesky(A)
    assert factor.attempts > 1
    np.testing.assert_allclose(factor.R[0, :3], [np.sqrt(2), 0.5**0.5, 0.5**0.5])
    assert matrices(lambda: cholesky(A), A) < 1.5
    narrow = A.astype(np.float32)
    # A float32 factor and blocks of float64 rows; never all of A in float64.
    assert matrices(lambda: solve_positive(narrow, np.ones(M)), narrow) < 2.0
