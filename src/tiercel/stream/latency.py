"""How many features fit into a control period, measured on the user's own machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from tiercel.stream._timed_models import array_bytes, maker, measure, outputs_of

MOST = 10**9  # features that a law may promise


def latency_report(
    model: Any = None,
    n_inputs: int | None = None,
    n_outputs: int | None = None,
    n_features: Sequence[int] = (50, 100, 200, 400, 800),
    period: float | None = None,
    samples: int = 2000,
    clock: Callable[[], float] = time.perf_counter,
) -> LatencyReport:
    """Time ``predict_update`` here, for several numbers of features.

    Parameters
    ----------
    model : estimator or callable, optional
        `RecursiveRidge` on Fourier features by default. One that is passed is a
        `SparseSpectrumGP`, or has a `FourierFeatures`: copies of it are timed, without
        its samples and with other numbers of features. A callable makes a model from
        a number of features.
    n_inputs, n_outputs : int, optional
        Of a sample; those of the model if it is fitted, else 1 output. Of a classifier,
        the outputs are its classes.
    n_features : sequence of int
        What is measured; a frequency of ``map="sincos"`` makes two, an intercept comes
        on top.
    period : float, optional
        Of the control loop, in seconds: the report then ends with an answer.
    samples : int
        Calls that are timed, for each number of features.
    clock : callable
        Returns seconds.

    Returns
    -------
    LatencyReport

    Examples
    --------
    >>> report = latency_report(n_inputs=21, n_features=[20, 40], samples=200)
    >>> report.n_features
    array([20, 40])
    >>> bool((report.median > 0).all())
    True
    >>> fits = report.largest_for(period=0.001)  # of which it may take a half
    """
    sizes = _sizes(n_features)
    for name, count in (("n_inputs", n_inputs), ("n_outputs", n_outputs)):
        if count is not None and (int(count) != count or count < 1):
            raise ValueError(f"{name} must be a whole number above 0, not {count!r}")
    if int(samples) != samples or samples < 100:
        raise ValueError(f"samples must be 100 or more, not {samples!r}")
    if period is not None:
        check_budget(period, 1.0)
    inputs = n_inputs or getattr(model, "n_features_in_", None)
    if inputs is None:
        raise ValueError("say how many inputs a sample has: latency_report(n_inputs=…)")
    outputs = n_outputs or outputs_of(model)
    free = callable(model) and not isinstance(model, type)
    make = model if free else maker(model)
    models = [make(int(size)) for size in sizes]
    seconds = measure(models, int(inputs), int(outputs), int(samples), clock)
    told = f"{type(models[0]).__name__}, inputs: {inputs}, outputs: {outputs}"
    n_bytes = np.array([array_bytes(one) for one in models])
    return LatencyReport(told, sizes, seconds, n_bytes, period)


@dataclass(frozen=True)
class LatencyReport:
    """What was measured; ``str()`` makes a table of it.

    Attributes
    ----------
    model : str
        What was timed.
    n_features : array of shape (K,)
    seconds : array of shape (K, n)
        Of each call.
    n_bytes : array of shape (K,)
        Of the model's arrays.
    period : float or None
        Of the control loop, in seconds.
    """

    model: str
    n_features: np.ndarray
    seconds: np.ndarray
    n_bytes: np.ndarray
    period: float | None = None

    @property
    def median(self) -> np.ndarray:
        """Median seconds of a call, for each number of features."""
        return self.percentile(50.0)

    @property
    def worst(self) -> np.ndarray:
        """Seconds of the slowest call."""
        return self.percentile(100.0)

    def percentile(self, percentile: float) -> np.ndarray:
        """Return the seconds within which so many percent of the calls were done."""
        return np.percentile(self.seconds, percentile, axis=1)

    def law(self, percentile: float = 50.0) -> np.ndarray:
        """Fit seconds = a + b F + c F^2 with none of them negative; return a, b, c.

        The relative error counts, so that the small sizes do.
        """
        F = self.n_features.astype(float)
        taken = np.maximum(self.percentile(percentile), 1e-12)  # clocks may be coarse
        powers = np.stack([np.ones_like(F), F, F**2], axis=1)
        scale = powers.max(0)
        return nnls(powers / scale / taken[:, None], np.ones_like(F))[0] / scale

    def largest_for(
        self,
        period: float,
        share: float = 0.5,
        percentile: float = 99.0,
        beyond: bool = False,
    ) -> int:
        """Return how many features fit into a control period.

        The measured sizes decide between which two of them the answer lies; there the
        fitted law, bent to meet both, decides. It is the largest measured size where
        even that fits, and 0 where not even the smallest does.

        Parameters
        ----------
        period : float
            Seconds from one sample to the next.
        share : float, up to 1
            Of the period, for the model.
        percentile : float
            Of the calls, that must be done in time; 100 goes by the slowest.
        beyond : bool
            Ask the law for more, or less, than was measured.

        Returns
        -------
        int
        """
        check_budget(period, share)
        budget, sizes, law = share * period, self.n_features, self.law(percentile)
        # More features cannot take less: a dip is a quiet moment of the machine.
        taken = np.maximum.accumulate(self.percentile(percentile))
        fit = int(np.searchsorted(taken, budget, side="right"))
        if 0 < fit < len(sizes):
            part = (budget - taken[fit - 1]) / (taken[fit] - taken[fit - 1])
            low, high = (_seconds(law, size) for size in sizes[fit - 1 : fit + 1])
            found = _solve(law, low + part * (high - low))
            return int(np.clip(found, sizes[fit - 1], sizes[fit] - 1))
        if not beyond:
            return int(sizes[-1]) if fit else 0
        end = -1 if fit else 0
        found = _solve(law, _seconds(law, sizes[end]) + budget - taken[end])
        return int(max(found, sizes[-1]) if fit else min(found, sizes[0] - 1))

    def __str__(self) -> str:
        columns = [1e6 * self.percentile(q) for q in (50.0, 99.0, 100.0)]
        columns.append(self.n_bytes / 1e3)
        heads = ("features", "median", "99 %", "worst", "state, kB")
        lines = [f"{self.model}: microseconds per predict_update"]
        lines.append("".join(f"{head:>12}" for head in heads))
        for F, row in zip(self.n_features, np.transpose(columns), strict=True):
            lines.append(f"{F:12,}" + "".join(f"{value:12,.1f}" for value in row))
        if self.period is not None:
            lines.append(self._answer(self.period))
        return "\n".join(lines)

    def _answer(self, period: float) -> str:
        half = f"Half of a period of {1e6 * period:,.0f} µs"
        found, sizes = self.largest_for(period), self.n_features
        if found == 0:
            return f"{half} is too short for {sizes[0]:,} features, the least measured."
        if found < sizes[-1]:
            return f"{half} is enough for {found:,} features in 99 % of the calls."
        more = self.largest_for(period, beyond=True)
        return (
            f"{half} is enough for {found:,} features in 99 % of the calls. More were "
            f"not measured; the fitted law says {more:,}."
        )


class Operations(NamedTuple):
    """Operations of one prediction with its update, and what is documented."""

    multiplications: int
    additions: int
    documented_multiplications: int
    documented_additions: int


def operations(n_frequencies: int, n_inputs: int) -> Operations:
    """Count the operations of `SparseSpectrumGP.predict_update`, one output.

    Multiplications include divisions, additions subtractions. The documented counts
    (Gijsberts 2011, Table 4.1) leave sines and cosines out; here their polynomials are
    in. One sweep of rotations does what a triangular solve, an update of the factor and
    another two solves do there.

    Parameters
    ----------
    n_frequencies : int
        D, for 2D features.
    n_inputs : int

    Returns
    -------
    Operations

    Examples
    --------
    >>> count = operations(200, 21)
    >>> count.multiplications, count.documented_multiplications
    (337605, 647801)
    """
    D, n = n_frequencies, n_inputs
    return Operations(
        8 * D**2 + D * (n + 67) + 5,
        4 * D**2 + D * (n + 37) + 4,
        16 * D**2 + D * (n + 18) + 1,
        12 * D**2 + D * (n + 2) + 1,
    )


def check_budget(period: float, share: float) -> None:
    """Raise ValueError unless a period and a share of it can be meant."""
    if not 0.0 < period < math.inf:
        raise ValueError(f"period must be seconds above 0, not {period!r}")
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1, not {share!r}")


def _sizes(n_features: Sequence[int]) -> np.ndarray:
    sizes = np.unique(np.asarray(n_features))
    if sizes.ndim != 1 or len(sizes) < 2 or sizes.dtype.kind not in "iu":
        raise ValueError(
            "n_features must hold at least two whole numbers, as the law is fitted to "
            f"them, not {n_features}"
        )
    if sizes[0] < 2:
        raise ValueError(f"n_features must be 2 or more each, not {sizes[0]}")
    return sizes


def _seconds(law: np.ndarray, size: float) -> float:
    return float(law @ [1.0, size, size**2])


def _solve(law: np.ndarray, budget: float) -> int:
    """Return the largest F with a + b F + c F^2 <= budget, to rounding."""
    a, b, c = law
    left = max(budget - a, 0.0)
    slope = b + math.sqrt(b * b + 4.0 * c * left)
    return math.floor(min(2.0 * left / slope, MOST) + 1e-6) if slope > 0.0 else 0
