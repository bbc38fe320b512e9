"""Features with names, and the places that they have in a learner's arrays."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence, Set
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils.validation import has_fit_parameter

from tiercel.stream._river.arrays import as_row, as_rows, in_order, width
from tiercel.stream._river.more_inputs import takes_more_inputs, with_inputs


class NamedInputs:
    """Mixin: a copy of a model learns from dicts and from frames.

    Nothing changes before the learner has accepted a sample: places and learner are
    replaced together, afterwards.
    """

    def __init__(self, model: Any, inputs: Sequence[Hashable] | None = None) -> None:
        self.model = model
        self.inputs = inputs
        self._check()
        self.learner = copy.deepcopy(model).reset()
        self._places = {name: place for place, name in enumerate(inputs or ())}
        self._begun = False

    def _check(self) -> None:
        model, kind = self.model, type(self).__name__
        if isinstance(model, type) or not self._suits(model):
            raise TypeError(f"{kind} wraps a streaming model of Tiercel, not {model!r}")
        check_names(self.inputs, "inputs")
        parts = (model, *getattr(model, "models_", ()))
        if self.inputs is None and any(hasattr(m, "hyperparameters_") for m in parts):
            raise ValueError(
                "the model's hyperparameters were found for columns in some order: "
                "name them in that order with inputs=[...]"
            )

    def _suits(self, model: Any) -> bool:
        return is_regressor(model) and hasattr(model, "learn_one")

    @property
    def names(self) -> list[Any]:
        """The features that are known, in the order of the learner's inputs."""
        return list(self._places)

    def _learn_one(self, x: dict[Any, Any], y: Any, weight: float) -> None:
        weights = {} if weight == 1.0 else {"sample_weight": weight}
        if weights and not has_fit_parameter(self.learner, "sample_weight"):
            raise ValueError(
                f"a {type(self.learner).__name__} knows no weights of samples, so w "
                f"must be 1, not {weight!r}; the model is unchanged"
            )
        places, learner = self._with_places(x.keys())
        learner.learn_one(as_row(x, places), y, **weights)
        self._places, self.learner, self._begun = places, learner, True

    def _learn_many(self, X: Any, y: np.ndarray) -> None:
        places, learner = self._with_places(dict.fromkeys(X.columns).keys())
        learner.partial_fit(as_rows(X, places), y)
        self._places, self.learner, self._begun = places, learner, True

    def _predict_one(self, x: dict[Any, Any]) -> Any:
        self._check_places(x.keys())
        return self.learner.predict_one(as_row(x, self._places))

    def _predict_many(self, X: Any) -> np.ndarray:
        self._check_places(dict.fromkeys(X.columns).keys())
        return self.learner.predict(as_rows(X, self._places))

    def _check_places(self, names: Set[Any]) -> None:
        """Raise ValueError for a feature that makes a difference, but has no place."""
        if takes_more_inputs(self.learner):  # its weight is 0 so far
            return
        self._with_places(names)

    def _with_places(self, names: Set[Any]) -> tuple[dict[Any, int], Any]:
        """Return places and learner with a place for each of these names.

        The first names, and those that come together, are sorted: a model must not
        depend on the order in which a dict holds its keys.
        """
        if names <= self._places.keys():
            return self._places, self.learner
        new = in_order(names - self._places.keys())
        places = {name: place for place, name in enumerate([*self._places, *new])}
        if takes_more_inputs(self.learner):
            missing = width(places) - width(self._places)
            if self._begun and missing:
                return places, with_inputs(self.learner, missing)
        elif self._begun or self._places:
            raise ValueError(
                f"the feature {new[0]!r} is new, and a {type(self.learner).__name__} "
                "like this one has a fixed number of inputs: name all features that "
                "may come with inputs=[...], or drop this one ahead of the model "
                "(River's compose.Discard); the model is unchanged"
            )
        return places, self.learner


def check_names(names: Any, what: str) -> None:
    """Raise ValueError unless there are names, each of them once, or None."""
    if names is None:
        return
    if isinstance(names, str) or not 0 < len(names) == len({*names}):
        raise ValueError(f"{what} must be a list that has each name once: {names!r}")
