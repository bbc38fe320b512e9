"""Has the world changed? Detectors that watch the residuals of a model.

A regressor that predicts one step ahead, with a standard deviation s, leaves residuals
u = (y - mean) / s that are standard normal as long as nothing but noise disturbs it.
A detector takes them one by one and tells whether their mean has left zero.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from tiercel.stream._detector import Detector, Setting, check_number


class ChangeDetector(Detector):
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

    small_shift, large_shift, window = Setting(), Setting(), Setting()

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
            check_number(settings, name)
        small, large = settings["small_shift"], settings["large_shift"]
        window = settings["window"]
        if not 0 <= small < large:
            raise ValueError(
                "shifts must satisfy 0 <= small_shift < large_shift, but they are "
                f"{small} and {large}; set_params(...) changes both in one step"
            )
        if not isinstance(window, Integral) or isinstance(window, bool) or window < 1:
            raise ValueError(f"window must be a positive integer, but it is {window!r}")
        return super()._checked(settings)

    def _shape(self) -> tuple[float, float, int]:
        return float(self.small_shift), float(self.large_shift), int(self.window)


class ThresholdDetector(Detector):
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
