"""What detectors have in common: settings that are checked, a window, a threshold."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from tiercel._arrays import check_float, to_numpy
from tiercel.stream import _windowed_ratio


class Setting:
    """A parameter that is checked, together with the others, whenever it is set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, detector: Detector | None, owner: type) -> Any:
        return self if detector is None else detector._settings[self.name]

    def __set__(self, detector: Detector, value: Any) -> None:
        detector.set_params(**{self.name: value})


class Detector(BaseEstimator):
    """A window of residuals, the statistic over it, and the threshold it may pass."""

    _settings: dict[str, Any]
    threshold = Setting()

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
        return self._take(u[:, None] if u.ndim == 1 else u)

    def reset(self) -> Self:
        """Forget all residuals, and how many there are per sample."""
        self.statistic_ = 0.0
        self.changed_ = False
        self.n_residuals_ = 0
        self._ring = np.empty((0, 0))
        self._place = np.zeros(2, np.int64)
        self._total = np.empty(0)
        return self

    def warm_up(self) -> Self:
        """Compile what the first sample would otherwise have to wait for."""
        type(self)(**self.get_params()).update(0.0)
        return self

    def smallest_shift(self) -> float:
        """Return the smallest shift that raises the alarm once it fills the window.

        It is the norm of the mean residual, in standard deviations of the residuals,
        their noise left aside: the statistic of Gijsberts 2011, section 6.1, inverted.
        """
        small, large, window = self._shape()
        evidence = 2.0 * float(self.threshold) / window
        if large > small:
            shift = (evidence + large**2 - small**2) / (2.0 * (large - small))
            if shift <= large:
                return shift
        return small + math.sqrt(evidence)

    def set_params(self, **params: Any) -> Self:
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
        settings = self._checked({**getattr(self, "_settings", {}), **params})
        if self.n_residuals_ and settings.get("window", 1) != len(self._ring):
            raise ValueError(
                f"the window holds {len(self._ring)} samples; call reset() before its "
                "length is changed"
            )
        self._settings = settings
        return self

    def _checked(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings that may be used together; raise ValueError otherwise."""
        check_number(settings, "threshold")
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
        changed = statistics >= float(self.threshold)
        self.statistic_, self.changed_ = float(statistics[-1]), bool(changed[-1])
        return changed

    # --- what is saved and restored ------------------------------------------

    def _saved_state(self) -> dict[str, Any]:
        """Return what a detector with the same parameters needs to go on."""
        if not self.n_residuals_:
            return {}
        newest, held = self._place.tolist()
        order = np.arange(newest - held + 1, newest + 1)
        return {
            "residuals": self._ring.take(order, axis=0, mode="wrap"),
            "statistic": np.array([self.statistic_]),
            "changed": self.changed_,
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        """Go on where the detector that gave ``state`` stopped, bit for bit."""
        window = self._shape()[2]
        if not state:
            self.reset()
            return
        residuals, statistic, changed = _checked_state(state, window)
        held, p = residuals.shape
        self._ring, self._total = np.zeros((window, p)), np.zeros(p)
        self._ring[:held] = residuals
        self._place[:] = held - 1, held
        self.n_residuals_ = p
        self.statistic_, self.changed_ = statistic, changed


def check_number(settings: dict[str, Any], name: str) -> None:
    """Raise ValueError unless this setting is a finite number."""
    value = settings[name]
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, but it is {value!r}")


def _checked_state(
    state: dict[str, Any], window: int
) -> tuple[np.ndarray, float, bool]:
    """Return window, statistic and alarm of a saved state, or raise ValueError."""
    if set(state) != {"residuals", "statistic", "changed"}:
        raise ValueError(f"this is not the state of a detector: it has {sorted(state)}")
    residuals = np.asarray(state["residuals"])
    statistic, changed = np.asarray(state["statistic"]), state["changed"]
    shaped = residuals.ndim == 2 and 0 < len(residuals) <= window and residuals.size
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
