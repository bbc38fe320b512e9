"""Ill-conditioned Nyström systems, solved by every route of the room.

The oracle is the same problem in long double: the kernel, the factor T of K_mm, the
features F = K_nm T^-1 and the factor of F'F + n penalty I.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from matrices import (
    EXTENDED,
    extended_cholesky,
    extended_forward,
    extended_solve,
    gaussian,
    needs_extended,
)

from tiercel.linalg import (
    cholesky,
    cholesky_update_rows,
    conjugate_gradient,
    solve_positive,
    solve_triangular,
    triangular_gram,
)

N, M = 2000, 200
PENALTIES = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12]

pytestmark = needs_extended


@cache
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(N)
    return gaussian(X, X[:M]), gaussian(X[:M], X[:M]), y


@cache
def oracle_features():
    X = np.random.default_rng(0).uniform(-1, 1, (N, 3)).astype(EXTENDED)
    T = extended_cholesky(gaussian(X[:M], X[:M]))
    F = extended_forward(T, gaussian(X, X[:M]).T).T
    return F, F.T @ F, F.T @ data()[2].astype(EXTENDED)


def error(predictions, penalty):
    """Return the relative error of predictions at the data."""
    F, gram, right = oracle_features()
    exact = F @ extended_solve(gram + N * penalty * np.eye(M), right)
    return float(np.linalg.norm(predictions - exact) / np.linalg.norm(exact))


@cache
def centers_factor():
    """Return T in float64."""
    factor = cholesky(data()[1])
    assert factor.jitter == 0
    return factor.R


@cache
def features():
    """Return K_nm T^-1 in float64."""
    return solve_triangular(centers_factor(), data()[0].T, transpose=True).T


def test_the_systems_are_ill_conditioned():
    K_nm, K_mm, _ = data()
    eigenvalues = np.linalg.eigvalsh(K_mm)
    assert 1e12 < eigenvalues[-1] / eigenvalues[0] < 1e13
    assert cholesky(K_nm.T @ K_nm + N * 1e-12 * K_mm).jitter > 0


@pytest.mark.parametrize("penalty", PENALTIES)
def test_rows_added_to_a_factor(penalty):
    # The last column carries y along, so that nothing is ever squared.
    F = features()
    R = np.sqrt(N * penalty) * np.eye(M + 1)
    rows = np.c_[F, data()[2]]
    for start in range(0, N, 300):
        cholesky_update_rows(R, rows[start : start + 300])
    assert error(F @ solve_triangular(R[:M, :M], R[:M, M]), penalty) < 1e-7


@pytest.mark.parametrize("penalty", PENALTIES)
def test_gram_of_the_features(penalty):
    F = features()
    solution = solve_positive(F.T @ F + N * penalty * np.eye(M), F.T @ data()[2])
    assert solution.converged
    assert error(F @ solution.x, penalty) < 1e-7


@pytest.mark.parametrize("penalty", PENALTIES)
def test_conjugate_gradient(penalty):
    # T' and T stay apart from K_nm, and nothing m x m is formed of K_nm.
    K_nm, _, y = data()
    T = centers_factor()
    gram = np.triu(triangular_gram(T)) / M
    A = cholesky(gram + np.triu(gram, 1).T + penalty * np.eye(M))

    def half(V):
        return solve_triangular(T, V, transpose=True, check=False)

    def operator(V):
        predictions = K_nm @ solve_triangular(T, V, check=False)
        return half(K_nm.T @ predictions) / N + penalty * V

    solution = conjugate_gradient(
        operator,
        half(K_nm.T @ y) / N,
        preconditioner=lambda V: A.solve(V, check=False),
        tol=1e-8,
        max_iter=2000,
    )
    assert solution.converged
    beta = solve_triangular(T, solution.x)
    assert error(K_nm @ beta, penalty) < 2e-5


@pytest.mark.parametrize(
    ("penalty", "bound"),
    [(1e-2, 1e-9), (1e-4, 1e-6), (1e-6, 1e-3), (1e-8, 0.1), (1e-12, 0.2)],
)
def test_normal_equations(penalty, bound):
    """What K_nm'K_nm has lost in float64, its solver cannot bring back.

    The residual is at rounding level for every penalty; the predictions are as good
    as the penalty outweighs the rounding of the matrix.
    """
    K_nm, K_mm, y = data()
    A, b = K_nm.T @ K_nm + N * penalty * K_mm, K_nm.T @ y
    solution = solve_positive(A, b)
    assert solution.converged
    level = np.linalg.norm(A) * np.linalg.norm(solution.x)
    assert np.linalg.norm(b - A @ solution.x) <= 20 * np.finfo(float).eps * level
    assert error(K_nm @ solution.x, penalty) < bound
