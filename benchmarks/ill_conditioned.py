"""An ill-conditioned stream: what rounding does to three recursions."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.reproduction import Reproduction
from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.linalg import cholesky_update, solve_triangular
from tiercel.stream import RecursiveRidge

SAMPLES, FEATURES, RIDGE = 5_000, 80, 1e-6


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs in [-0.3, 0.3]^2, targets, and features that can barely differ."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.3, 0.3, (SAMPLES, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.01 * rng.standard_normal(SAMPLES)
    features = waves(seed).fit(X)
    return X, y, features.transform(X)


def waves(seed: int) -> FourierFeatures:
    return FourierFeatures(Gaussian(1.0), FEATURES, map="phase", random_state=seed)


def dense(phi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the fit by an orthogonal factorisation, which squares nothing."""
    rows = np.vstack([phi, RIDGE**0.5 * np.eye(FEATURES)])
    targets = np.append(y, np.zeros(FEATURES))
    return phi @ np.linalg.lstsq(rows, targets, rcond=None)[0]


def rotations(
    X: np.ndarray, y: np.ndarray, phi: np.ndarray, seed: int, dtype: str
) -> np.ndarray:
    model = RecursiveRidge(waves(seed), RIDGE, fit_intercept=False, dtype=dtype)
    for x, target in zip(X, y, strict=True):
        model.learn_one(x, target)
    return model.predict(X)


def sherman_morrison(
    X: np.ndarray, y: np.ndarray, phi: np.ndarray, seed: int, dtype: str
) -> np.ndarray:
    phi, y = phi.astype(dtype), y.astype(dtype)
    P = (np.eye(FEATURES) / RIDGE).astype(dtype)
    b = np.zeros(FEATURES, dtype)
    with np.errstate(all="ignore"):
        for row, target in zip(phi, y, strict=True):
            k = P @ row
            P -= np.outer(k, k) / (1 + row @ k)
            b += target * row
        return phi @ (P @ b)


def cholesky_and_moments(
    X: np.ndarray, y: np.ndarray, phi: np.ndarray, seed: int, dtype: str
) -> np.ndarray:
    """Alg. 4.1: the factor is updated, the sum of phi y is kept beside it."""
    phi, y = phi.astype(dtype), y.astype(dtype)
    R, b = (RIDGE**0.5 * np.eye(FEATURES)).astype(dtype), np.zeros(FEATURES, dtype)
    for row, target in zip(phi, y, strict=True):
        cholesky_update(R, row)
        b += target * row
    return phi @ solve_triangular(R, solve_triangular(R, b, transpose=True))


METHODS = {
    "RecursiveRidge (targets rotated too)": rotations,
    "Cholesky update and moments (Alg. 4.1)": cholesky_and_moments,
    "Sherman-Morrison": sherman_morrison,
}


def measure(method: str, dtype: str) -> dict[str, Any]:
    errors = []
    for seed in range(5):
        X, y, phi = problem(seed)
        found = METHODS[method](X, y, phi, seed, dtype)
        errors.append(float(np.abs(found - dense(phi, y)).max()))
    return {
        "largest error, median of 5": float(np.median(errors)),
        "worst of 5": max(errors),
    }


BENCHMARK = Reproduction(
    title="Rounding on an ill-conditioned stream",
    sentence=(
        f"{FEATURES} phase features of a Gaussian on inputs in [-0.3, 0.3]², ridge "
        f"{RIDGE:g}, {SAMPLES:,} samples one at a time: the largest error of the fit "
        "against an orthogonal factorisation of all rows. Gijsberts (2011, section "
        "4.3) prefers the Cholesky form to Sherman-Morrison's; rotating the targets "
        "with it, instead of keeping their moments, is better still."
    ),
    cases=[{"method": m, "dtype": d} for d in ("float64", "float32") for m in METHODS],
    measure=measure,
)
