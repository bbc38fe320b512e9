"""A linear learner meets an input that was not there before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import clone

from tiercel.stream.incremental_classifier import IncrementalClassifier
from tiercel.stream.recursive_ridge import RecursiveRidge


def takes_more_inputs(model: Any) -> bool:
    """Tell whether :func:`with_inputs` has a way for this model.

    It takes a learner that is linear in its inputs: a feature map (Fourier or other)
    has a place for each of its inputs from the start, and so does a metric.
    """
    linear = isinstance(model, (RecursiveRidge, IncrementalClassifier))
    return linear and model.features is None


def with_inputs(model: Any, count: int) -> Any:
    """Return a copy of a linear model with ``count`` more inputs, 0 in all samples.

    This is exactly the model that would be there, had it known them from the start.
    The moments of an input that was always 0 are 0, so the factor R gets a row and a
    column that hold nothing but the root of the ridge, and the rotated targets a row of
    zeros. (Only forgetting may come to restore another feature's ridge first.)
    """
    state = model._saved_state()
    state["n_features_in_"] += count
    ridges = np.array(model.ridge, np.float64).reshape(-1).tolist()
    if "recursion" in state:
        state["recursion"] = _grown(state["recursion"], count, ridges[0])
    if "window_" in state:
        state["window_"] = _grown_window(state["window_"], count, ridges[0])
    if "models" in state:
        state["models"] = _grown_classes(state["models"], count, ridges)
    grown = clone(model)
    grown._restore_state(state)
    return grown


def _grown(kept: dict[str, Any], count: int, ridge: float) -> dict[str, Any]:
    """Return a recursion's arrays with more features, at the end of the others."""
    size, factor = len(kept["rotated"]), kept["factor"]
    R = np.zeros((size + count, size + count), factor.dtype)
    R[np.triu_indices(size)] = factor
    new = np.arange(size, size + count)
    R[new, new] = math.sqrt(ridge)
    return {
        **kept,
        "factor": R[np.triu_indices(size + count)],
        "rotated": np.pad(kept["rotated"], ((0, count), (0, 0))),
        "prior": np.append(kept["prior"], np.full(count, ridge)),
    }


def _grown_window(kept: dict[str, Any], count: int, ridge: float) -> dict[str, Any]:
    rows = np.pad(kept["X"], ((0, 0), (0, count)))
    return {**kept, "heir": _grown(kept["heir"], count, ridge), "X": rows}


def _grown_classes(
    kept: dict[str, Any], count: int, ridges: list[float]
) -> dict[str, Any]:
    pairs = zip(kept["recursions"], ridges, strict=True)
    held = kept["held"]
    return {
        **kept,
        "recursions": [_grown(each, count, ridge) for each, ridge in pairs],
        "held": {**held, "phi": np.pad(held["phi"], ((0, 0), (0, count)))},
    }
