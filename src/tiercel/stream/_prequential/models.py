"""How is this model asked and taught? Four protocols behind the same calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

if TYPE_CHECKING:
    from tiercel.stream._prequential.samples import Sample, Samples


@dataclass
class Contender:
    """A model, asked and taught through its own protocol.

    ``prepare`` makes of a sample what the other calls take; its time is not the
    model's. ``learn`` is None for a frozen model. ``predict_learn`` is both in one
    call, where a model has that and nothing needs to come between. A model that was
    ``taught`` nothing yet may say so in place of a prediction.
    """

    predict: Callable[[Any], Any]
    learn: Callable[[Any, Any], Any] | None
    prepare: Callable[[Sample], tuple[Any, Any]]
    predict_learn: Callable[[Any, Any], Any] | None = None
    taught: bool = False

    def answer(self, x: Any) -> Any:
        """Predict; None if that takes a sample to begin with."""
        try:
            return self.predict(x)
        except NotFittedError:
            if self.taught or self.learn is None:
                raise
            return None


def contender(
    model: Any, samples: Samples, gated: bool, classes: Any = None
) -> Contender:
    """Find out which protocol a model speaks."""
    if isinstance(model, type):
        raise TypeError(f"pass a model, not the class {model.__name__}")
    if is_river(model):
        return _river(model, samples)
    one_by_one = hasattr(model, "predict_one") and hasattr(model, "learn_one")
    if one_by_one or hasattr(model, "predict_update"):
        if gated and not one_by_one:
            raise TypeError(
                f"{type(model).__name__} cannot be gated by a detector: that takes "
                "predict_one(x) and learn_one(x, y)"
            )
        return Contender(
            getattr(model, "predict_one", _unused),
            getattr(model, "learn_one", _unused),
            lambda sample: (sample.x, sample.y),
            None if gated else getattr(model, "predict_update", None),
        )
    if hasattr(model, "predict"):

        def predict(row: np.ndarray) -> Any:
            return model.predict(row)[0]

        if hasattr(model, "partial_fit"):
            return Contender(predict, _partial_fit(model, samples, classes), _as_rows)
        return Contender(predict, None, _as_rows)
    raise TypeError(
        f"{type(model).__name__} has none of the methods that are asked for: "
        "predict_update; predict_one and learn_one; predict, with or without "
        "partial_fit"
    )


def is_river(model: Any) -> bool:
    """Tell whether a model is one of River's, without importing it."""
    return bool(_river_bases(model))


def answers_with_labels(model: Any, targets: Any) -> bool:
    """Tell whether targets are classes: by the model, or else by their type."""
    if hasattr(model, "__sklearn_tags__") and is_classifier(model):
        return True
    if hasattr(model, "__sklearn_tags__") and is_regressor(model):
        return False
    for base in _river_bases(model):
        if base in ("Classifier", "Regressor"):
            return base == "Classifier"
    values = np.asarray(targets)
    if values.dtype == object and not isinstance(targets, dict):
        return not all(isinstance(value, float) for value in values.flat)
    return values.dtype.kind not in "fO"


def _river_bases(model: Any) -> list[str]:
    bases = type(model).__mro__
    return [b.__name__ for b in bases if b.__module__.partition(".")[0] == "river"]


def _river(model: Any, samples: Samples) -> Contender:
    """Dicts go in; of several outputs, dicts come out."""
    names, columns = samples.output_names, samples.columns

    def prepare(sample: Sample) -> tuple[Any, Any]:
        x, y = sample.given, sample.y
        if not isinstance(x, dict):
            x = dict(zip(columns, np.asarray(x).tolist(), strict=True))
        if not samples.scalar:
            y = dict(zip(names, sample.target.tolist(), strict=True))
        return x, y.item() if isinstance(y, np.generic) else y

    def predict(x: Any) -> Any:
        answer = model.predict_one(x)
        if isinstance(answer, dict):
            return [answer[n] for n in names] if answer else None
        return answer

    return Contender(predict, model.learn_one, prepare)


def _unused(*_: Any) -> Any:
    raise AssertionError("predict_update does both")


def _as_rows(sample: Sample) -> tuple[Any, Any]:
    assert sample.x is not None
    return sample.x[None, :], np.asarray(sample.y)[None]


def _partial_fit(
    model: Any, samples: Samples, classes: Any
) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Learn a matrix of one row; a classifier is told all classes with its first."""
    first: dict[str, Any] = {}
    if samples.are_labels and not hasattr(model, "classes_"):
        first["classes"] = _all_classes(model, samples, classes)

    def learn(row: np.ndarray, target: np.ndarray) -> None:
        model.partial_fit(row, target, **first)
        first.clear()

    return learn


def _all_classes(model: Any, samples: Samples, classes: Any) -> np.ndarray:
    known = samples.known_labels() if classes is None else np.asarray(classes)
    if known is None:
        raise ValueError(
            f"{type(model).__name__} must know all classes when it starts, "
            "and an iterable does not tell them; pass classes=[...]"
        )
    return known
