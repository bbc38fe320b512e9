"""Has the world changed? Detectors that watch the residuals of a model.

A regressor that predicts one step ahead, with a standard deviation s, leaves residuals
u = (y - mean) / s that are standard normal as long as nothing but noise disturbs it.
A detector takes them one by one and tells whether their mean has left zero.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from tiercel._arrays import check_float, to_numpy
from tiercel.stream import _windowed_ratio


class _Setting:
    """A parameter that is checked, together with the others, whenever it is set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, detector: _Detector | None, owner: type) -> Any:
        return self if detector is None else detector._settings[self.name]

    def __set__(self, detector: _Detector, value: Any) -> None:
        detector.set_params(**{self.name: value})


class _Detector(BaseEstimator):
    """A window of residuals, the statistic over it, and the threshold it may pass."""

    _settings: dict[str, Any]
    threshold = _Setting()

    def update(self, residuals: Any) -> bool:
        """Take in the residuals of one sample and tell whether there is a change.

        Parameters
        ----------
        residuals : array (p,) or float
            Standardised one-step-ahead residuals. Their number is fixed by the first
            sample.

        Returns
        -------
        bool
            Also in ``changed_``; the statistic behind it is in ``statistic_``.
        """
        u = check_float(to_numpy(residuals), "residuals")
        if u.ndim > 1:
            raise ValueError(
                "residuals of one sample are a vector or a number, but their shape is "
                f"{u.shape}; pass a matrix to run(...)"
            )
        return bool(self._take(u.reshape(1, -1))[0])

    def run(self, residuals: Any) -> np.ndarray:
        """Take in many samples and tell after each whether there is a change.

        Parameters
        ----------
        residuals : array (n, p), or (n,) for one residual per sample

        Returns
        -------
        array of bool (n,)
            What ``update`` would have returned, sample by sample.
        """
        u = check_float(to_numpy(residuals), "residuals")
        if u.ndim not in (1, 2):
            raise ValueError(
                f"residuals must have shape (n, p) or (n,), but it is {u.shape}"
            )
        return self._take(u.reshape(len(u), -1) if u.size else u.reshape(0, 0))

    def reset(self) -> None:
        """Forget all residuals, and how many there are per sample."""
        self.statistic_ = 0.0
        self.changed_ = False
        self.n_residuals_ = 0
        self._ring = np.empty((0, 0))
        self._place = np.zeros(2, np.int64)
        self._total = np.empty(0)

    def warm_up(self) -> None:
        """Compile what the first sample would otherwise have to wait for."""
        type(self)(**self.get_params()).update(0.0)

    def smallest_shift(self) -> float:
        """Return the smallest mean residual that is sure to raise the alarm in time.

        It is measured in standard deviations of the residuals, without the noise, when
        it has filled the whole window (Gijsberts 2011, section 6.1, inverted).
        """
        small, large, window = self._shape()
        evidence = 2.0 * float(self.threshold) / window
        if large > small:
            shift = (evidence + large**2 - small**2) / (2.0 * (large - small))
            if shift <= large:
                return shift
        return small + math.sqrt(evidence)

    def set_params(self, **params: Any) -> _Detector:
        """Change parameters, all or none of them; they hold from the next sample on.

        Setting one by its attribute is the same; two that depend on each other are
        better changed in one call.
        """
        unknown = sorted(params.keys() - set(self._get_param_names()))
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; "
                f"it has {', '.join(self._get_param_names())}"
            )
        self._settings = self._checked({**getattr(self, "_settings", {}), **params})
        return self

    def _checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings that may be used together; raise ValueError otherwise."""
        _check_number(settings, "threshold")
        if not settings["threshold"] > 0:
            raise ValueError(
                f"threshold must be positive, but it is {settings['threshold']}"
            )
        return settings

    def _shape(self) -> tuple[float, float, int]:
        """Return small shift, large shift and length of the window."""
        return 0.0, 0.0, 1

    def _take(self, rows: np.ndarray) -> np.ndarray:
        """Take in one row of residuals per sample, all or none of them."""
        small, large, window = self._shape()
        if not len(rows):
            return np.empty(0, bool)
        ring, place, total = self._ring, self._place, self._total
        n_residuals = self.n_residuals_ or rows.shape[1]
        if not n_residuals or rows.shape[1] != n_residuals:
            raise ValueError(
                f"{rows.shape[1]} residuals came in where {n_residuals or 'some'} are "
                "expected; reset() begins anew with another number"
            )
        if not self.n_residuals_:
            ring, total = np.zeros((window, n_residuals)), np.zeros(n_residuals)
        statistics = np.empty(len(rows))
        rows = np.array(rows, np.float64, order="C")  # writable: one type to compile
        status = _windowed_ratio.scan(
            rows, ring, place, total, small, large, statistics
        )
        if status == _windowed_ratio.NOT_FINITE:
            raise ValueError(
                "residuals hold NaN or infinite values; the detector is unchanged"
            )
        self._ring, self._total, self.n_residuals_ = ring, total, n_residuals
        changed = statistics >= self.threshold
        self.statistic_, self.changed_ = float(statistics[-1]), bool(changed[-1])
        return changed

    # --- what is saved and restored ------------------------------------------

    def _saved_state(self) -> dict[str, Any]:
        """Return what a detector with the same parameters needs to go on."""
        newest, held = self._place.tolist()
        order = np.arange(newest - held + 1, newest + 1)
        return {
            "residuals": self._ring.take(order, axis=0, mode="wrap").copy()
            if held
            else np.empty((0, 0)),
            "statistic": np.array([self.statistic_]),
            "changed": self.changed_,
        }

    def _restore_state(self, state: dict[str, Any]) -> _Detector:
        """Go on where the detector that gave ``state`` stopped, bit for bit."""
        window = self._shape()[2]
        residuals, statistic, changed = _checked_state(state, window)
        self.reset()
        if len(residuals):
            held, p = residuals.shape
            self._ring, self._total = np.zeros((window, p)), np.zeros(p)
            self._ring[:held] = residuals
            self._place[:] = held - 1, held
            self.n_residuals_ = p
        self.statistic_, self.changed_ = statistic, changed
        return self


class ChangeDetector(_Detector):
    """Window-limited generalised likelihood ratio test for a shift of the mean.

    Residuals u ~ N(theta, I) had a mean of norm at most a before the change and have
    one of norm at least b after it. For every start of the change within the window,
    the likelihoods of both hypotheses are maximised over theta; the statistic is the
    largest logarithm of their ratio (Gijsberts 2011, section 6.1),

        g_t = max over j of (k / 2) (max(nu - a, 0)^2 - max(b - nu, 0)^2),

    with k = t - j + 1 and nu the norm of the mean of u_j, ..., u_t. There is a change
    as long as g_t reaches the threshold h. A sample costs O(window p), the memory is
    constant.

    Parameters
    ----------
    small_shift : float, default=0.0
        The a of the formula: shifts up to it are no change. In standard deviations of
        the residuals.
    large_shift : float, default=0.5
        The b of the formula: shifts from it on are a change; above ``small_shift``.
    window : int, default=20
        How many samples back a change may have begun.
    threshold : float, default=5.0
        The h of the formula: how much evidence an alarm takes.

    Attributes
    ----------
    statistic_ : float
        g_t of the last sample; 0 before the first.
    changed_ : bool
        Whether there was a change at the last sample.
    n_residuals_ : int
        Residuals per sample, p; 0 before the first.

    Notes
    -----
    The shifts and the threshold may be changed at run time and hold from the next
    sample on; the window's length only after ``reset()``.

    Examples
    --------
    >>> import numpy as np
    >>> detector = ChangeDetector(small_shift=0.0, large_shift=1.0, window=10)
    >>> bool(detector.run(np.zeros((50, 2))).any())
    False
    >>> [detector.update([1.5, 0.0]) for _ in range(5)]
    [False, False, False, False, True]
    >>> detector.statistic_
    5.625
    """

    small_shift, large_shift, window = _Setting(), _Setting(), _Setting()

    def __init__(
        self,
        small_shift: float = 0.0,
        large_shift: float = 0.5,
        window: int = 20,
        threshold: float = 5.0,
    ) -> None:
        self.reset()
        self.set_params(
            small_shift=small_shift,
            large_shift=large_shift,
            window=window,
            threshold=threshold,
        )

    def _checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        for name in ("small_shift", "large_shift"):
            _check_number(settings, name)
        small, large = settings["small_shift"], settings["large_shift"]
        window = settings["window"]
        if not 0 <= small < large:
            raise ValueError(
                "shifts must satisfy 0 <= small_shift < large_shift, but they are "
                f"{small} and {large}; set_params(...) changes both in one step"
            )
        if not isinstance(window, Integral) or isinstance(window, bool) or window < 1:
            raise ValueError(f"window must be a positive integer, but it is {window!r}")
        if self.n_residuals_ and window != len(self._ring):
            raise ValueError(
                f"the window holds {len(self._ring)} samples; call reset() before its "
                "length is changed"
            )
        return super()._checked(settings)

    def _shape(self) -> tuple[float, float, int]:
        return float(self.small_shift), float(self.large_shift), int(self.window)


class ThresholdDetector(_Detector):
    """Alarm whenever the residuals of a single sample are large: the baseline.

    The statistic is ||u||^2 / 2, which is that of `ChangeDetector` with a window of one
    sample and both shifts at zero. Where the residuals are standard normal, ||u||^2
    follows the chi-square distribution with p degrees of freedom.

    Parameters
    ----------
    threshold : float, default=5.0
        There is an alarm if the statistic reaches it; it may be changed at run time.

    Attributes
    ----------
    statistic_ : float
        ||u||^2 / 2 of the last sample; 0 before the first.
    changed_ : bool
        Whether there was an alarm at the last sample.
    n_residuals_ : int
        Residuals per sample, p; 0 before the first.

    Examples
    --------
    >>> detector = ThresholdDetector(threshold=5.0)
    >>> detector.update([3.0, 0.0]), detector.update([3.0, 1.0])
    (False, True)
    >>> detector.smallest_shift()
    3.16227766
    """

    def __init__(self, threshold: float = 5.0) -> None:
        self.reset()
        self.set_params(threshold=threshold)


def _check_number(settings: dict[str, Any], name: str) -> None:
    value = settings[name]
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, but it is {value!r}")


def _checked_state(
    state: dict[str, Any], window: int
) -> tuple[np.ndarray, float, bool]:
    """Return the three parts of a saved state, or raise ValueError."""
    if set(state) != {"residuals", "statistic", "changed"}:
        raise ValueError(f"this is not the state of a detector: it has {sorted(state)}")
    residuals, statistic = (
        np.asarray(state["residuals"]),
        np.asarray(state["statistic"]),
    )
    changed = state["changed"]
    shaped = residuals.ndim == 2 and residuals.shape[0] <= window
    shaped &= (residuals.shape[0] == 0) == (residuals.shape[-1:] == (0,))
    if not shaped or residuals.dtype != np.float64 or not np.isfinite(residuals).all():
        raise ValueError(
            "the saved residuals must be finite float64 of shape (k, p) with k at most "
            f"the window's {window}, but their shape is {residuals.shape} and their "
            f"dtype {residuals.dtype}"
        )
    if statistic.shape != (1,) or statistic.dtype != np.float64 or np.isnan(statistic):
        raise ValueError("the saved statistic must be one float64 that is not NaN")
    if not isinstance(changed, bool):
        raise ValueError(f"the saved 'changed' must be true or false, not {changed!r}")
    return residuals, float(statistic[0]), changed
