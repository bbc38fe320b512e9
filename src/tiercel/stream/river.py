"""Tiercel's streaming learners as models of River, the library for streams of dicts.

`Regressor`, `MultiTargetRegressor` and `Classifier` wrap a learner of this room: what
River feeds to a model (pipelines, evaluation, metrics, mini-batches) it feeds to them.
They are made when first asked for, as River is an optional package.
"""

from __future__ import annotations

from functools import cache
from types import new_class
from typing import Any

from tiercel.stream._river import classifier, regressors

# What this room brings to each of them, and what they are to River.
PARTS: dict[str, tuple[type, str]] = {
    "Classifier": (classifier.Classifier, "MiniBatchClassifier"),
    "MultiTargetRegressor": (regressors.MultiTargetRegressor, "MultiTargetRegressor"),
    "Regressor": (regressors.Regressor, "MiniBatchRegressor"),
}

__all__ = ["Classifier", "MultiTargetRegressor", "Regressor"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name not in PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _made(name)


@cache
def _made(name: str) -> type:
    """Make the class that is both a model of River and what this room brings to it."""
    try:
        from river import base
    except ImportError as error:
        raise ImportError(
            f"{name} needs River; install it with: pip install 'tiercel[river]'"
        ) from error
    ours, theirs = PARTS[name]
    # A pickle of a model looks for its class here, by this name.
    about = {"__module__": __name__, "__qualname__": name, "__doc__": ours.__doc__}
    bases = (ours, getattr(base, theirs))
    return new_class(name, bases, exec_body=lambda body: body.update(about))


def __dir__() -> list[str]:
    return __all__
