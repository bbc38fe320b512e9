"""Gaussian process regression that follows a stream at constant cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from tiercel.stream._loops import HUGE
from tiercel.stream._maps import StreamMap
from tiercel.stream._one_by_one import (
    OneByOne,
    check_dtype,
    check_positive,
    unchanged_if_refused,
)
from tiercel.stream._recursion import Recursion
from tiercel.stream._spectrum_checks import check_counts
from tiercel.stream.hyperparameters import (
    SpectrumHyperparameters,
    optimize_gaussian_process,
    optimize_spectrum,
)

TUNINGS = ("fixed", "optimized", "proxy")


class SpectrumMap(NamedTuple):
    """The map of a sparse spectrum, as a `StreamMap` reads it."""

    frequencies_: np.ndarray
    amplitude_: float
    map: str = "sincos"


class SparseSpectrumGP(OneByOne, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Sparse-spectrum Gaussian process: predictions with error bars, sample by sample.

    A Gaussian process with an anisotropic Gaussian kernel, its spectrum replaced by D
    random frequencies: a Bayesian linear model on 2D sines and cosines (Lazaro-Gredilla
    et al. 2010). Learning is exact and recursive (Gijsberts 2011, Alg. 4.2): after any
    samples in any order it is the batch model, at O(D^2) time per sample and O(D^2)
    memory. The error bar is noise * sqrt(1 + phi' A^-1 phi), the noise included, and
    does not depend on the targets.

    The hyperparameters come from a first batch and then stay: by ``fit``, by
    ``optimize`` (which learns nothing else from it), or by the first ``partial_fit``;
    or all three are given. A model for several outputs shares them, which suits outputs
    of one kind; see `OutputGroups` for forces beside torques.

    Parameters
    ----------
    n_frequencies : int
        D. Cost grows with its square; 50 to 200 served robot arms (Gijsberts 2011,
        section 5.3).
    noise, signal : float, optional
        Standard deviations of the noise and of the function.
    length_scale : float or array of shape (d,), optional
        How far one moves in each input before the function changes much.
    offset : float or array of shape (T,), optional
        What the outputs are around; by default the mean of the rows that tuning looked
        at, and 0 where the other three are given.
    tuning : "fixed", "optimized" or "proxy"
        How hyperparameters that are not given are found: by the marginal likelihood of
        this model with its drawn frequencies ("fixed"); the same with the frequencies
        optimised too, which needs fewer of them but overfits where D d is not far below
        the number of samples ("optimized"); or by that of an exact process ("proxy").
    n_tune : int
        Rows that tuning looks at, drawn from those it gets.
    max_steps, restarts : int
        Steps of each search, and the number of searches.
    trend : float, optional
        Adds a linear drift of the outputs in time, for sensors that wander: the number
        of samples over which it may reach about ``signal``. It needs an update for
        every sample, and so does not go with gating.
    dtype : "float64" or "float32"
        Of the model's state.
    random_state : int, numpy Generator or None
        For the frequencies and the search.

    Attributes
    ----------
    hyperparameters_ : SpectrumHyperparameters
    n_samples_seen_ : int
    evidence_ : float
        Negative log marginal likelihood of all samples so far, exactly: the running sum
        of what each cost when it was predicted.
    coverage_ : dict
        Share of one-step-ahead errors within 1, 2 and 3 predicted standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (400, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(400)
    >>> model = SparseSpectrumGP(50, random_state=0).optimize(X[:200], y[:200])
    >>> for x, target in zip(X, y):
    ...     mean, std = model.predict_update(x, target)
    >>> bool(abs(model.predict_one([0.5])[0] - np.sin(1.5)) < 0.1)
    True
    >>> round(model.hyperparameters_.noise, 2)
    0.1
    """

    def __init__(
        self,
        n_frequencies: int = 100,
        noise: float | None = None,
        signal: float | None = None,
        length_scale: Any = None,
        offset: Any = None,
        tuning: str = "fixed",
        n_tune: int = 2000,
        max_steps: int = 200,
        restarts: int = 1,
        trend: float | None = None,
        dtype: str = "float64",
        random_state: Any = None,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.noise = noise
        self.signal = signal
        self.length_scale = length_scale
        self.offset = offset
        self.tuning = tuning
        self.n_tune = n_tune
        self.max_steps = max_steps
        self.restarts = restarts
        self.trend = trend
        self.dtype = dtype
        self.random_state = random_state

    # --- hyperparameters ---------------------------------------------------------

    def optimize(self, X: Any, y: Any) -> Self:
        """Find the hyperparameters by these rows; learn nothing from them otherwise.

        Forgets all samples: until there are new ones, predictions are those of the
        prior. Values given to the constructor stay as they are.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, T)

        Returns
        -------
        self
        """
        with unchanged_if_refused(self):
            self.reset()
            self.__dict__.pop("hyperparameters_", None)
            self._checked_rows(X, y)  # begins with them, which is to tune by them
        return self

    def _set_hyperparameters(self, X: np.ndarray, Y: np.ndarray) -> None:
        self._check_parameters()
        rng = np.random.default_rng(self.random_state)
        given: Any = (self.noise, self.signal, self.length_scale)
        if all(value is None for value in given):
            found = self._tuned(X, Y, rng)
        elif any(value is None for value in given):
            raise ValueError(
                "give noise, signal and length_scale together, or none of them: they "
                "are tuned together"
            )
        else:
            noise, signal, scale = given
            if np.shape(scale) not in ((), (1,), (X.shape[1],)):
                raise ValueError(
                    f"length_scale must be one number, or one for each of the "
                    f"{X.shape[1]} inputs, but its shape is {np.shape(scale)}"
                )
            scale = np.array(np.broadcast_to(scale, (X.shape[1],)), np.float64)
            directions = rng.standard_normal((self.n_frequencies, X.shape[1]))
            found = SpectrumHyperparameters(noise, signal, scale, directions)
        if self.offset is not None:
            found = replace(found, offset=self.offset)
        self.hyperparameters_ = found

    def _tuned(
        self, X: np.ndarray, Y: np.ndarray, rng: np.random.Generator
    ) -> SpectrumHyperparameters:
        if len(X) < 2:
            raise ValueError(
                f"the hyperparameters are not known, and {len(X)} sample cannot tell "
                "them: call optimize(X, y) or fit(X, y) with a first batch, or give "
                "noise, signal and length_scale"
            )
        if not max(np.abs(X).max(), np.abs(Y).max()) < HUGE:
            raise ValueError(f"X or y holds values of {HUGE} or more; rescale it")
        if len(X) > self.n_tune:
            rows = np.sort(rng.choice(len(X), self.n_tune, replace=False))
            X, Y = X[rows], Y[rows]
        settings: Any = {
            "max_iter": self.max_steps,
            "restarts": self.restarts,
            "random_state": rng,
        }
        if self.tuning == "proxy":
            found = optimize_gaussian_process(X, Y, n_subset=len(X), **settings)
            directions = rng.standard_normal((self.n_frequencies, X.shape[1]))
            return replace(found, directions=directions)
        return optimize_spectrum(
            X, Y, self.n_frequencies, frequencies=self.tuning, **settings
        )

    def _check_parameters(self) -> None:
        check_counts(
            n_frequencies=self.n_frequencies,
            n_tune=self.n_tune,
            max_steps=self.max_steps,
            restarts=self.restarts,
        )
        if self.n_tune < 2:
            raise ValueError("n_tune must be 2 or more: one row tells nothing")
        if self.tuning not in TUNINGS:
            raise ValueError(f"tuning must be one of {TUNINGS}, not {self.tuning!r}")
        check_dtype(self.dtype)
        for name in ("noise", "signal", "trend"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name)

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, tune the hyperparameters and learn these rows."""
        with unchanged_if_refused(self):
            self.reset()
            self.__dict__.pop("hyperparameters_", None)
            return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning; the rows are learned as if they came one by one.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, T)

        Returns
        -------
        self
        """
        self._learn_rows(*self._checked_rows(X, y))
        return self

    def learn_one(self, x: Any, y: Any) -> Self:
        """Learn one sample: ``predict_update`` without its answer."""
        self.predict_update(x, y)
        return self

    def predict_update(self, x: Any, y: Any) -> Any:
        """Predict one sample, then learn it: one compiled call.

        Parameters
        ----------
        x : array of shape (d,)
        y : float, or array of shape (T,)

        Returns
        -------
        mean : float, or array of shape (T,)
            Predicted before learning.
        std : float
            Standard deviation of each output about it, the noise included.
        """
        return self._predict_update(x, y)

    # --- what the mixin asks for ---------------------------------------------------

    def _begin(self, X: np.ndarray, Y: np.ndarray) -> None:
        self._check_parameters()
        if "hyperparameters_" not in self.__dict__:
            self._set_hyperparameters(X, Y)
        known = self.hyperparameters_
        if len(known.length_scale) != X.shape[1]:
            raise ValueError(
                f"x has {X.shape[1]} inputs, but the hyperparameters were found for "
                f"{len(known.length_scale)}; call optimize with such inputs"
            )
        if len(known.offset) not in (1, Y.shape[1]):
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but the hyperparameters were found for "
                f"{len(known.offset)}; call optimize with such outputs"
            )
        offset = known.offset
        self._offset = float(offset[0]) if len(offset) == 1 else offset

    def _map(self, n_inputs: int) -> StreamMap:
        known = self.hyperparameters_
        amplitude = known.signal / math.sqrt(len(known.frequencies))
        step = 0.0 if self.trend is None else known.signal / float(self.trend)
        spectrum = SpectrumMap(known.frequencies, amplitude)
        return StreamMap(spectrum, n_inputs, np.dtype(self.dtype), trend_step=step)

    def _empty(self, map: StreamMap, n_outputs: int) -> Recursion:
        noise = self.hyperparameters_.noise
        check_positive(noise**2, "the squared noise")
        ridge = np.full(map.n_features, noise**2)
        return Recursion(map, n_outputs, ridge, np.dtype(self.dtype), noise=noise)

    def _worded(self, mean: np.ndarray, leverage: float) -> Any:
        std = self.hyperparameters_.noise * math.sqrt(1.0 + leverage)
        if self._one_output:
            return mean.item(0) + self._offset, std
        return mean + self._offset, std

    # --- predictions --------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict rows, as if each came next.

        Parameters
        ----------
        X : array of shape (n, d)
        return_std : bool
            Also return the predictive standard deviation, the noise included, which
            all outputs share.

        Returns
        -------
        mean : array of shape (n,) or (n, T)
        std : array of shape (n,), if asked for
        """
        mean = super().predict(X)
        if not return_std:
            return mean
        leverages = self._begun().leverages(self._checked_inputs(X))
        return mean, self.hyperparameters_.noise * np.sqrt(1.0 + leverages)

    # --- how well it does -----------------------------------------------------------

    @property
    def evidence_(self) -> float:
        """Negative log marginal likelihood of all samples so far."""
        recursion, noise = self._begun(), self.hyperparameters_.noise
        state = recursion.state
        log_det = 2.0 * np.log(np.diagonal(state.R).astype(np.float64)).sum()
        log_det -= np.log(state.ridge).sum()
        constant = recursion.seen * math.log(2.0 * math.pi * noise**2)
        misfit = state.rss.sum() / noise**2
        return float(0.5 * (misfit + recursion.n_outputs * (log_det + constant)))

    @property
    def coverage_(self) -> dict[int, Any]:
        """Share of one-step-ahead errors within 1, 2 and 3 standard deviations.

        Gaussian noise and fitting hyperparameters give 0.683, 0.954 and 0.997. Samples
        are counted that were predicted before they were learned: one at a time, or up
        to 32 at once. NaN as long as there are none.
        """
        within = self._begun().state.within
        with np.errstate(invalid="ignore"):
            shares = within[:3] / within[3]
        if self._one_output:
            return {width + 1: float(shares[width, 0]) for width in range(3)}
        return {width + 1: shares[width] for width in range(3)}

    def _restore_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        hyper = state.get("hyperparameters_")
        if hyper is not None and not isinstance(hyper, SpectrumHyperparameters):
            raise ValueError("the state's hyperparameters are of another kind")
        super()._restore_state(state)
