"""Negative log evidence of Gaussian process models, with analytic gradients.

The evidence, or marginal likelihood, is the density of the outputs under N(0, C), one
column of Y after the other, where C = K + noise^2 I; both functions return

    1/2 tr(Y' C^-1 Y) + T/2 ln det C + T m/2 ln(2 pi),

which is to be minimised (Rasmussen and Williams 2006, section 5.4.1), and its
gradient. Scales enter by their logarithms, so that a search needs no constraints.
Y is centred by the caller; shifting the rows of X changes nothing.

Arrays are checked before they come here: X (m, n) and Y (m, T) in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from tiercel.kernels import Gaussian
from tiercel.linalg import cholesky

Evidence = tuple[float, np.ndarray]


class _Fit(NamedTuple):
    """What one factorisation of a sparse-spectrum model yields.

    Attributes
    ----------
    quadratic : float
        tr(Y' C^-1 Y)
    logdet : float
        ln det C
    solved_Y : ndarray (m, T)
        C^-1 Y
    solved_Phi : ndarray (m, 2D)
        C^-1 Phi, equal to Phi A^-1
    variance : float
        The noise variance in C.
    """

    quadratic: float
    logdet: float
    solved_Y: np.ndarray
    solved_Phi: np.ndarray
    variance: float


def sparse_spectrum_evidence(
    log_noise: float,
    log_signal: float,
    log_length_scale: np.ndarray,
    directions: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    gradient_of_directions: bool = False,
) -> Evidence:
    """Return the negative log evidence of a sparse-spectrum model and its gradient.

    The covariance is K = Phi Phi' with Phi = signal / sqrt(D) [cos(X W'), sin(X W')]
    and frequencies W = directions / length_scale (Lazaro-Gredilla et al. 2010;
    Gijsberts 2011, section 4.2). With A = Phi' Phi + noise^2 I, of order 2D,
    ln det C = ln det A + (m - 2D) ln noise^2, and C is never formed: O(m D^2 + D^3)
    time, a few arrays of m x 2D numbers. Only where samples are fewer than features is
    C, then the smaller matrix, factorised itself.

    A jitter that the factorisation needs counts as noise: value and gradient are those
    of the model with that noise.

    Parameters
    ----------
    log_noise, log_signal : float
        Logarithms of the standard deviations.
    log_length_scale : ndarray (n,)
    directions : ndarray (D, n)
        Frequencies for unit length scales.
    X, Y : ndarray (m, n) and (m, T)
    gradient_of_directions : bool
        Whether the gradient covers the directions.

    Returns
    -------
    value : float
        Summed over the columns of Y.
    gradient : ndarray (2 + n,) or (2 + n + D n,)
        For log_noise, log_signal, log_length_scale and the directions, row by row.
    """
    length_scale = np.exp(log_length_scale)
    Z = (X - X.mean(axis=0)) / length_scale
    Phi = sine_cosine_features(Z, directions, np.exp(log_signal))
    n_samples, n_outputs = Y.shape
    solve = _through_samples if n_samples < Phi.shape[1] else _through_features
    fit = solve(Phi, Y, np.exp(2.0 * log_noise))
    value = _negative_log_density(fit.quadratic, fit.logdet, n_samples, n_outputs)

    # tr C^-1 from C C^-1 = I, then dL/dPhi, written over C^-1 Phi.
    trace = (n_samples - np.vdot(fit.solved_Phi, Phi)) / fit.variance
    to_Phi = fit.solved_Phi
    to_Phi *= n_outputs
    to_Phi -= fit.solved_Y @ (fit.solved_Y.T @ Phi)
    to_frequencies = _through_waves(Phi, to_Phi).T @ Z  # those of the scaled inputs
    gradient = [
        [np.exp(2.0 * log_noise) * (n_outputs * trace - np.sum(fit.solved_Y**2))],
        [np.vdot(to_Phi, Phi)],
        -np.sum(to_frequencies * directions, axis=0),
    ]
    if gradient_of_directions:
        gradient.append(to_frequencies.ravel())
    return value, np.concatenate(gradient)


def sine_cosine_features(
    Z: np.ndarray, directions: np.ndarray, signal: float
) -> np.ndarray:
    """Return signal / sqrt(D) [cos(Z directions'), sin(Z directions')], (m, 2D)."""
    D = len(directions)
    phases = Z @ directions.T
    Phi = np.empty((len(Z), 2 * D))
    np.cos(phases, out=Phi[:, :D])
    np.sin(phases, out=Phi[:, D:])
    Phi *= signal / np.sqrt(D)
    return Phi


def gaussian_process_evidence(
    log_noise: float,
    log_signal: float,
    log_length_scale: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
) -> Evidence:
    """Return the negative log evidence of a Gaussian process and its gradient.

    The covariance is signal^2 exp(-1/2 sum_i (x_i - z_i)^2 / length_scale_i^2), one
    length scale per input (Gijsberts 2011, eq. 2.19-2.20). One factorisation serves
    all columns of Y: O(m^3) time, and a few m x m matrices whatever the number of
    inputs, as sum_ij Q_ij (z_i - z_j)^2 is made of products with Q.

    Parameters
    ----------
    log_noise, log_signal : float
        Logarithms of the standard deviations.
    log_length_scale : ndarray (n,)
    X, Y : ndarray (m, n) and (m, T)

    Returns
    -------
    value : float
        Summed over the columns of Y.
    gradient : ndarray (2 + n,)
        For log_noise, log_signal and log_length_scale.
    """
    n_samples, n_outputs = Y.shape
    Z = (X - X.mean(axis=0)) / np.exp(log_length_scale)
    K = np.exp(2.0 * log_signal) * Gaussian()(Z)
    factor = cholesky(
        _add_to_diagonal(K.copy(), np.exp(2.0 * log_noise)), overwrite=True
    )
    alpha = factor.solve(Y)
    value = _negative_log_density(
        float(np.vdot(Y, alpha)), factor.logdet(), n_samples, n_outputs
    )

    # W = T C^-1 - alpha alpha': the gradient is 1/2 tr(W dC). It is symmetric, and
    # LAPACK inverts into one triangle, so only that one is kept: lower, column-major.
    W, _ = lapack.dpotri(factor.R.T, lower=1, overwrite_c=1)
    W *= n_outputs
    W -= (alpha @ alpha.T).T
    diagonal = W.diagonal().copy()
    # Without its diagonal, which multiplies distances of zero, Q loses no digits.
    W *= K.T
    Q = np.tril(W, -1)
    squares = Z.T**2 @ (Q.sum(axis=0) + Q.sum(axis=1))
    to_length_scale = squares - 2.0 * np.sum(Z * (Q @ Z), axis=0)
    to_noise = np.exp(2.0 * log_noise) * diagonal.sum()
    to_signal = 2.0 * Q.sum() + np.exp(2.0 * log_signal) * diagonal.sum()
    return value, np.concatenate([[to_noise, to_signal], to_length_scale])


def _through_features(Phi: np.ndarray, Y: np.ndarray, variance: float) -> _Fit:
    """Fit by way of A = Phi' Phi + variance I."""
    factor = cholesky(_add_to_diagonal(Phi.T @ Phi, variance), overwrite=True)
    variance += factor.jitter
    weights = factor.solve(Phi.T @ Y)
    residuals = Y - Phi @ weights
    # The ridge objective at its minimum: an error of the weights enters squared.
    quadratic = np.sum(residuals**2) / variance + np.sum(weights**2)
    n_samples, n_features = Phi.shape
    return _Fit(
        float(quadratic),
        factor.logdet() + (n_samples - n_features) * np.log(variance),
        residuals / variance,
        factor.solve(Phi.T, check=False).T,
        variance,
    )


def _through_samples(Phi: np.ndarray, Y: np.ndarray, variance: float) -> _Fit:
    """Fit by way of C = Phi Phi' + variance I."""
    factor = cholesky(_add_to_diagonal(Phi @ Phi.T, variance), overwrite=True)
    solved_Y = factor.solve(Y)
    return _Fit(
        float(np.vdot(Y, solved_Y)),
        factor.logdet(),
        solved_Y,
        factor.solve(Phi, check=False),
        variance + factor.jitter,
    )


def _through_waves(Phi: np.ndarray, to_Phi: np.ndarray) -> np.ndarray:
    """Return dL/dphases, (m, D): the cosine falls with the sine, the sine rises."""
    D = Phi.shape[1] // 2
    to_phases = to_Phi[:, D:] * Phi[:, :D]
    to_phases -= to_Phi[:, :D] * Phi[:, D:]
    return to_phases


def _negative_log_density(
    quadratic: float, logdet: float, n_samples: int, n_outputs: int
) -> float:
    constant = n_outputs * n_samples * np.log(2.0 * np.pi)
    return float(0.5 * (quadratic + n_outputs * logdet + constant))


def _add_to_diagonal(A: np.ndarray, number: float) -> np.ndarray:
    A.flat[:: len(A) + 1] += number
    return A
