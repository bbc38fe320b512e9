"""Is this sample to be learned? A detector's word on the model's residuals."""

from __future__ import annotations

from typing import Any

import numpy as np


class Gate:
    """Standardise the residual of each sample and ask the detector about it.

    Where the model tells no standard deviation, the root mean square of all its past
    errors, output by output, stands in. All of them count, also those of samples that
    were not learned: an alarm that will not end then widens the scale until it does.
    No sample is judged before there are `WARM_UP` errors.
    """

    WARM_UP = 30

    def __init__(self, detector: Any, n_outputs: int) -> None:
        self.detector = detector
        self.squares, self.seen = np.zeros(n_outputs), 0

    def closes(self, error: np.ndarray, std: np.ndarray | None) -> bool:
        """Tell whether the detector sees a change in the error of this sample."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if std is not None:
                return bool(self.detector.update(error / std))
            if not np.isfinite(error).all():
                raise ValueError("the model predicted NaN or an infinite value")
            known = self.seen >= self.WARM_UP and (self.squares > 0).all()
            scale = np.sqrt(self.squares / max(self.seen, 1))
            changed = bool(self.detector.update(error / scale)) if known else False
        self.squares += error**2
        self.seen += 1
        return changed
