"""Noise, signal and length scales from data, by maximising the marginal likelihood.

A streaming Gaussian process learns its weights sample by sample, and its
hyperparameters beforehand from a first batch. `optimize_spectrum` fits those of the
sparse-spectrum model itself; `optimize_gaussian_process` fits the exact model on a
subset, as a proxy; `ridge_equivalent` hands either on to kernel ridge and random
features.

The evidence is the *negative* log marginal likelihood here, summed over the outputs:
the lower, the better.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tiercel._state import check_entries
from tiercel.kernels import Gaussian
from tiercel.linalg import cholesky, solve_triangular
from tiercel.stream._evidence import (
    Evidence,
    gaussian_process_evidence,
    sparse_spectrum_evidence,
)
from tiercel.stream._spectrum_checks import (
    as_finite,
    as_points,
    as_positive,
    as_samples,
    check_counts,
    check_width,
)
from tiercel.stream._spectrum_search import (
    centre,
    search,
    search_box,
    shortened,
    warn_of_noise,
)

BLOCK = 1024  # rows predicted at a time


@dataclass(frozen=True, eq=False)
class SpectrumHyperparameters:
    """Hyperparameters of a Gaussian process, and how they were found.

    Attributes
    ----------
    noise, signal : float
        Standard deviations of the noise and of the function.
    length_scale : ndarray (n,)
        One per input; a huge one switches its input off.
    directions : ndarray (D, n) or None
        Frequencies for unit length scales, with which the other values were fitted;
        None where they are those of an exact model.
    offset : ndarray (T,)
        Mean of each output; a single number stands for all outputs.
    evidence : float
        Negative log marginal likelihood, summed over the outputs.
    evaluations : int
        Of the evidence and its gradient, by all searches together.
    converged : bool
        Whether the search that won ended by itself rather than at its last iteration.
    message : str
        How it ended, in the optimiser's words.

    Examples
    --------
    >>> hyper = SpectrumHyperparameters(0.1, 1.0, [2.0, 4.0], [[1.0, 1.0]])
    >>> hyper.frequencies
    array([[0.5 , 0.25]])
    """

    noise: float
    signal: float
    length_scale: np.ndarray
    directions: np.ndarray | None = None
    offset: np.ndarray = field(default_factory=lambda: np.zeros(1))
    evidence: float = float("nan")
    evaluations: int = 0
    converged: bool = False
    message: str = "not optimised"

    def __post_init__(self) -> None:
        values: dict[str, Any] = {
            "noise": float(as_positive("noise", self.noise, 0)),
            "signal": float(as_positive("signal", self.signal, 0)),
            "length_scale": as_positive("length_scale", self.length_scale, 1),
            "offset": np.atleast_1d(as_finite("offset", self.offset)),
        }
        if values["offset"].ndim != 1:
            raise ValueError("offset must hold one number, or one per output")
        if self.directions is not None:
            values["directions"] = as_points(self.directions, "directions")
            check_width("directions", values["directions"], values["length_scale"])
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _restore_state(self, state: dict[str, Any]) -> None:
        check_entries(state, *(field.name for field in fields(self)))
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    @property
    def frequencies(self) -> np.ndarray:
        """The frequencies directions / length_scale, (D, n)."""
        if self.directions is None:
            raise ValueError(
                "hyperparameters of an exact model have no frequencies; "
                "pass them as start= to optimize_spectrum"
            )
        return self.directions / self.length_scale


def optimize_spectrum(
    X: Any,
    Y: Any,
    n_frequencies: int,
    frequencies: str = "fixed",
    restarts: int = 1,
    max_iter: int = 200,
    random_state: Any = None,
    start: SpectrumHyperparameters | None = None,
) -> SpectrumHyperparameters:
    """Fit a sparse-spectrum Gaussian process by its marginal likelihood.

    L-BFGS-B on the logarithms of noise, signal and one length scale per input, which
    all outputs share, and on the directions where they are optimised. It begins at
    noise = 0.25 std(Y), signal = std(Y), length_scale = 2 range(X) and standard normal
    directions (Gijsberts 2011, section 5.1.1), with std pooled over the outputs; or at
    length scales 2, 4, 8 or 16 times shorter, where the evidence is lower there. Noise
    stays within 1e-4 to 10 std(Y), signal within 0.01 to 1000 std(Y), length scales
    within 0.001 to 10,000 times the range of their input.

    An input that does not vary says nothing about its length scale, which is set to 1.
    An output that does not vary is its offset and takes no part.

    Parameters
    ----------
    X : array (m, n)
    Y : array (m,) or (m, T)
        Outputs share noise and signal: fit different physical quantities apart.
    n_frequencies : int
        D; the model has 2 D features.
    frequencies : "fixed" or "optimized"
        Draw the directions once and keep them, which approximates the exact model, or
        optimise them too, which needs fewer but overfits where D n is not far below m.
    restarts : int
        Number of searches. Those after the first begin with the logarithms moved by
        standard normal numbers, and with new directions where these are optimised;
        the one with the lowest evidence is kept.
    max_iter : int
        Iterations of each search.
    random_state : int, numpy Generator or None
        For the directions and the moves.
    start : SpectrumHyperparameters, optional
        Begin there (within the bounds); where inputs are many, the result of
        `optimize_gaussian_process` is a good place. Its directions, if it has any,
        replace the draw.

    Returns
    -------
    SpectrumHyperparameters
        With the directions that the other values were fitted with.

    Warns
    -----
    UserWarning
        Directions are optimised, and 2 + n + D n is more than half of m; or the
        search took all variation for noise.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> noise = 0.1 * np.random.default_rng(1).standard_normal(200)
    >>> hyper = optimize_spectrum(X, np.sin(4 * X[:, 0]) + noise, 20, random_state=0)
    >>> 0.09 < hyper.noise < 0.11
    True
    """
    X, Y = as_samples(X, Y)
    check_counts(n_frequencies=n_frequencies, restarts=restarts, max_iter=max_iter)
    if frequencies not in ("fixed", "optimized"):
        raise ValueError(
            f'frequencies must be "fixed" or "optimized", not {frequencies!r}'
        )
    n, optimized = X.shape[1], frequencies == "optimized"
    if optimized:
        _warn_of_overfitting(len(X), n, n_frequencies)
    offset, centred = centre(Y)
    rng = np.random.default_rng(random_state)
    drawn = rng.standard_normal((n_frequencies, n))
    box = search_box(X, centred)
    first = box[1]
    if start is not None:
        first, drawn = _from_start(start, drawn)

    def directions(theta: np.ndarray) -> np.ndarray:
        return theta[2 + n :].reshape(-1, n) if optimized else drawn

    def evidence(theta: np.ndarray) -> Evidence:
        scales = theta[0], theta[1], theta[2 : 2 + n]
        return sparse_spectrum_evidence(
            *scales, directions(theta), X, centred, optimized
        )

    if optimized:
        first = np.append(first, drawn)
    if start is None:
        first = shortened(evidence, first, n)
    theta, report = search(evidence, first, box, restarts, max_iter, rng)
    warn_of_noise(report["evidence"], centred, n)
    noise, signal, *length_scale = np.exp(theta[: 2 + n])
    return SpectrumHyperparameters(
        noise, signal, np.array(length_scale), directions(theta), offset, **report
    )


def optimize_gaussian_process(
    X: Any,
    Y: Any,
    n_subset: int = 2000,
    restarts: int = 1,
    max_iter: int = 100,
    random_state: Any = None,
) -> SpectrumHyperparameters:
    """Fit an exact Gaussian process on a random subset, as a proxy for larger models.

    Search, start and bounds are those of `optimize_spectrum`, and the outputs share
    one set of hyperparameters: the one of the lowest evidence summed over the outputs,
    as one factorisation serves them all. Divide outputs of different scales by their
    standard deviations first; the kernel and the ridge of `ridge_equivalent` then serve
    the outputs as they were, too, because predictions are linear in them.

    Parameters
    ----------
    X : array (m, n)
    Y : array (m,) or (m, T)
    n_subset : int
        Samples drawn without replacement; all of them where there are no more. An
        evaluation takes O(n_subset^3) time.
    restarts, max_iter, random_state
        As in `optimize_spectrum`; the subset is drawn first.

    Returns
    -------
    SpectrumHyperparameters
        Without directions; evidence and offset are those of the subset.

    Warns
    -----
    UserWarning
        The search took all variation for noise.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, (100, 1))
    >>> noise = 0.1 * np.random.default_rng(1).standard_normal(100)
    >>> hyper = optimize_gaussian_process(X, np.sin(4 * X[:, 0]) + noise)
    >>> 0.08 < hyper.noise < 0.12
    True
    """
    X, Y = as_samples(X, Y)
    check_counts(n_subset=n_subset, restarts=restarts, max_iter=max_iter)
    if n_subset < 2:
        raise ValueError(f"n_subset must be at least 2, not {n_subset}")
    rng = np.random.default_rng(random_state)
    subset = rng.permutation(len(X))[:n_subset]
    X, Y = X[subset], Y[subset]
    offset, centred = centre(Y)
    n, box = X.shape[1], search_box(X, centred)

    def evidence(theta: np.ndarray) -> Evidence:
        return gaussian_process_evidence(theta[0], theta[1], theta[2:], X, centred)

    first = shortened(evidence, box[1], n)
    theta, report = search(evidence, first, box, restarts, max_iter, rng)
    warn_of_noise(report["evidence"], centred, n)
    noise, signal, *length_scale = np.exp(theta)
    return SpectrumHyperparameters(
        noise, signal, np.array(length_scale), None, offset, **report
    )


def ridge_equivalent(hyper: SpectrumHyperparameters) -> tuple[Gaussian, float]:
    """Return the kernel and the ridge whose solution is the mean of the process.

    Kernel ridge regression (K + ridge I) a = y - offset, with the unit-amplitude
    kernel, predicts the mean of the Gaussian process when ridge = noise^2 / signal^2
    (Gijsberts 2011, sections 2.5 and 5.2.1). Of an averaged loss the regulariser is
    penalty = ridge / n_samples.

    Examples
    --------
    >>> ridge_equivalent(SpectrumHyperparameters(0.5, 2.0, [1.0, 3.0]))
    (Gaussian(length_scale=array([1., 3.])), 0.0625)
    """
    return Gaussian(hyper.length_scale.copy()), (hyper.noise / hyper.signal) ** 2


def gaussian_process_predict(
    hyper: SpectrumHyperparameters, X_train: Any, Y_train: Any, X_test: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Predict with an exact Gaussian process of given hyperparameters.

    Parameters
    ----------
    hyper : SpectrumHyperparameters
        Directions, if it has any, are not used.
    X_train, Y_train : array (m, n) and (m,) or (m, T)
        All of them enter: O(m^3) time and O(m^2) memory.
    X_test : array (q, n)

    Returns
    -------
    mean : ndarray (q,) or (q, T)
        As `Y_train`.
    std : ndarray (q,)
        Of a new observation, noise included; all outputs have the same.

    Examples
    --------
    >>> hyper = SpectrumHyperparameters(noise=1.0, signal=1.0, length_scale=[1.0])
    >>> gaussian_process_predict(hyper, [[0.0]], [2.0], [[0.0], [9.0]])
    (array([1., 0.]), array([1.2247, 1.4142]))
    """
    X, Y = as_samples(X_train, Y_train, least=1)
    X_test = as_points(X_test, "X_test")
    for name, points in (("X_train", X), ("X_test", X_test)):
        check_width(name, points, hyper.length_scale)
    if len(hyper.offset) not in (1, Y.shape[1]):
        raise ValueError(
            f"Y_train has {Y.shape[1]} outputs, but the hyperparameters have "
            f"{len(hyper.offset)} offsets"
        )
    kernel, ridge = ridge_equivalent(hyper)
    factor = cholesky(kernel(X) + ridge * np.eye(len(X)), overwrite=True)
    alpha = factor.solve(Y - hyper.offset)
    mean, variance = np.empty((len(X_test), Y.shape[1])), np.empty(len(X_test))
    for start in range(0, len(X_test), BLOCK):
        rows = slice(start, start + BLOCK)
        k = kernel(X, X_test[rows])
        mean[rows] = k.T @ alpha + hyper.offset
        known = solve_triangular(factor.R, k, transpose=True, overwrite=True)
        variance[rows] = np.clip(1.0 - np.sum(known**2, axis=0), 0.0, None) + ridge
    std = hyper.signal * np.sqrt(variance)
    return (mean[:, 0] if np.ndim(Y_train) == 1 else mean), std


def _from_start(
    start: SpectrumHyperparameters, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of ``start``, and its directions if it has any."""
    check_width("X", directions, start.length_scale)
    logarithms = np.log([start.noise, start.signal, *start.length_scale])
    if start.directions is None:
        return logarithms, directions
    if start.directions.shape != directions.shape:
        raise ValueError(
            f"start has {len(start.directions)} directions, but n_frequencies is "
            f"{len(directions)}"
        )
    return logarithms, start.directions


def _warn_of_overfitting(n_samples: int, n_inputs: int, n_frequencies: int) -> None:
    n_parameters = 2 + n_inputs + n_frequencies * n_inputs
    if 2 * n_parameters > n_samples:
        warnings.warn(
            f"{n_parameters} parameters are optimised on {n_samples} samples, which "
            "they may overfit: give more samples, fewer frequencies, or "
            'frequencies="fixed"',
            UserWarning,
            stacklevel=3,
        )
