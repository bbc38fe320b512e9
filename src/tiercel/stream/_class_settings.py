"""The parameters of an incremental classifier, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiercel.stream._held_out import KEPT
from tiercel.stream._one_by_one import check_positive

RECODES = np.arange(21) / 20  # candidates of recode="auto"


def ridges_of(ridge: Any) -> np.ndarray:
    """Return the candidates for the ridge, one or several."""
    candidates = [ridge] if np.ndim(ridge) == 0 else list(ridge)
    if not candidates:
        raise ValueError("ridge must be a number, or candidates to choose from")
    for candidate in candidates:
        check_positive(candidate, "ridge")
    return np.array(candidates, np.float64)


def recodes_of(recode: Any) -> np.ndarray:
    """Return the candidates for the recoding, one or several, in rising order."""
    if isinstance(recode, str) and recode == "auto":
        return RECODES
    if isinstance(recode, str) or not 0.0 <= recode <= 1.0:
        raise ValueError(f'recode must be a number from 0 to 1, or "auto": {recode!r}')
    return np.array([float(recode)])


def check_choice(hold_out: Any, enough: Any, allowed_loss: Any) -> None:
    """Raise ValueError unless these are numbers of a sensible size."""
    if hold_out is not None and not (hold_out == int(hold_out) and hold_out >= 2):
        raise ValueError(f"hold_out must be None, or 2 or more: {hold_out!r}")
    most = math.inf if hold_out is None else KEPT
    if not (enough == int(enough) and 1 <= enough <= most):
        raise ValueError(f"enough must be from 1 to {most}, not {enough!r}")
    if not 0.0 <= allowed_loss < 1.0:
        raise ValueError(f"allowed_loss is a part of 1, not {allowed_loss!r}")
