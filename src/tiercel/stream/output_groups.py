"""Outputs of different kinds, each kind with a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    MultiOutputMixin,
    RegressorMixin,
    clone,
)
from sklearn.utils.validation import (
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from tiercel.stream._one_by_one import _as_floats, unchanged_if_refused

LARGEST = 1e30  # what every model takes


class OutputGroups(MetaEstimatorMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """One streaming regressor per group of outputs.

    Outputs that share a model share its hyperparameters. Forces and torques, or
    whatever differs in scale and noise, get realistic error bars from separate ones
    (Gijsberts 2011, section 5.3.1).

    Parameters
    ----------
    model : streaming regressor
        Cloned for each group.
    groups : sequence of sequences of int, optional
        Which outputs go together, each output once; one group per output by default.

    Attributes
    ----------
    models_ : list
        One per group.
    groups_ : list of lists of int

    Examples
    --------
    >>> from tiercel.stream import RecursiveRidge
    >>> wrench = OutputGroups(RecursiveRidge(ridge=0.1), groups=[[0, 1], [2]])
    >>> X, Y = np.eye(3), np.arange(9.0).reshape(3, 3)
    >>> wrench.fit(X, Y).predict(X).shape
    (3, 3)
    >>> wrench.predict_update(X[0], Y[0]).shape
    (3,)
    """

    _one_output: bool

    def __init__(
        self, model: Any, groups: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.model = model
        self.groups = groups

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these rows."""
        weights = self._weights(sample_weight, None)
        with unchanged_if_refused(self):
            X, y = self._checked(X, y, first=True)
            self._begin(y)
            return self._each("fit", X, y, **weights)

    def optimize(self, X: Any, y: Any) -> Self:
        """Find the hyperparameters of every model by these rows; learn nothing else."""
        with unchanged_if_refused(self):
            X, y = self._checked(X, y, first=True)
            self._begin(y)
            return self._each("optimize", X, y)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on learning."""
        first = "models_" not in self.__dict__
        weights = self._weights(sample_weight, None)
        with unchanged_if_refused(self):
            X, y = self._checked(X, y, first)
            if first:
                self._begin(y)
            return self._each("partial_fit", X, y, **weights)

    def predict(self, X: Any, **options: Any) -> Any:
        """Predict rows; ``return_std=True`` where the models know it.

        Returns
        -------
        mean : array of shape (n, T)
        std : array of shape (n, T), if asked for
        """
        check_is_fitted(self, "models_")
        found = [model.predict(X, **options) for model in self.models_]
        if isinstance(found[0], tuple):
            means, stds = zip(*found, strict=True)
            return self._joined(means), self._joined(stds)
        return self._joined(found)

    def predict_one(self, x: Any) -> Any:
        """Predict one sample: an array (T,), or two, means and standard deviations.

        Where y has one output and came as numbers, they are numbers.
        """
        check_is_fitted(self, "models_")
        return self._joined_one([model.predict_one(x) for model in self.models_])

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn one sample."""
        self.predict_update(x, y, sample_weight)
        return self

    def predict_update(self, x: Any, y: Any, sample_weight: float = 1.0) -> Any:
        """Predict one sample, then learn it, with every model."""
        x, y = _as_floats(x, "x"), _as_floats(y, "y")
        weights = self._weights(sample_weight, 1.0)
        if "models_" in self.__dict__:
            return self._followed(x, np.atleast_1d(y), weights)
        if x.ndim != 1 or y.ndim > 1:
            raise ValueError(
                "one sample has x of shape (d,) and y a number or of shape (T,), not "
                f"{x.shape} and {y.shape}"
            )
        with unchanged_if_refused(self):
            self._begin(self._checked(x[None], y[None], first=True)[1])
            return self._followed(x, np.atleast_1d(y), weights)

    def _weights(self, sample_weight: Any, neutral: float | None) -> dict[str, Any]:
        """Return what to pass on; refuse weights that the models know nothing of."""
        if sample_weight is neutral or (neutral and sample_weight == neutral):
            return {}
        if not has_fit_parameter(self.model, "sample_weight"):
            raise ValueError(
                f"a {type(self.model).__name__} takes no sample_weight; leave it out"
            )
        return {"sample_weight": sample_weight}

    def _followed(self, x: np.ndarray, y: np.ndarray, weights: dict[str, Any]) -> Any:
        if x.shape != (self.n_features_in_,) or y.shape != (self.n_outputs_,):
            raise ValueError(
                f"x must have shape ({self.n_features_in_},) and y "
                f"({self.n_outputs_},), not {x.shape} and {y.shape}"
            )
        check_size(x, y)
        return self._joined_one(
            [
                model.predict_update(x, y[group], **weights)
                for model, group in zip(self.models_, self.groups_, strict=True)
            ]
        )

    def warm_up(self) -> Self:
        """Compile everything now (or read it from the disk), not at the first sample.

        Returns
        -------
        self
        """
        self.model.warm_up()
        return self

    def reset(self) -> Self:
        """Forget all samples; hyperparameters stay."""
        for model in self.__dict__.get("models_", ()):
            model.reset()
        return self

    @property
    def n_samples_seen_(self) -> int:
        """How many samples the models hold."""
        check_is_fitted(self, "models_")
        return self.models_[0].n_samples_seen_

    def _checked(self, X: Any, y: Any, first: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(
            self, X, y, reset=first, dtype=np.float64, multi_output=True, y_numeric=True
        )
        if not first and (y.ndim == 1) != self._one_output:
            raise ValueError(
                f"y has {y.ndim} dimensions, but the models began with "
                f"{1 if self._one_output else 2}"
            )
        check_size(X, y)
        if first:
            self._one_output = y.ndim == 1
        y = y.reshape(len(X), -1)
        if not first and y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y has {y.shape[1]} outputs, but the models learn {self.n_outputs_}"
            )
        return X, y

    def _begin(self, y: np.ndarray) -> None:
        outputs = y.shape[1]
        groups = self.groups
        if groups is None:
            groups = [[output] for output in range(outputs)]
        self.groups_ = [[int(output) for output in group] for group in groups]
        if sorted(chain(*self.groups_)) != list(range(outputs)):
            raise ValueError(
                f"groups must name each of the {outputs} outputs once, not {groups!r}"
            )
        self.n_outputs_ = outputs
        self.models_ = [clone(self.model) for _ in self.groups_]

    def _each(self, verb: str, X: np.ndarray, Y: np.ndarray, **weights: Any) -> Self:
        for model, group in zip(self.models_, self.groups_, strict=True):
            getattr(model, verb)(X, Y[:, group], **weights)
        return self

    def _joined(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        first = np.asarray(parts[0])
        joined = np.empty((len(first), self.n_outputs_), first.dtype)
        for group, part in zip(self.groups_, parts, strict=True):
            joined[:, group] = np.asarray(part).reshape(len(first), -1)
        return joined[:, 0] if self._one_output else joined

    def _joined_one(self, found: list[Any]) -> Any:
        if not isinstance(found[0], tuple):
            joined = self._joined([part[None] for part in found])[0]
            return joined.item() if self._one_output else joined
        means, stds = np.empty(self.n_outputs_), np.empty(self.n_outputs_)
        for group, (mean, std) in zip(self.groups_, found, strict=True):
            means[group], stds[group] = mean, std
        if self._one_output:
            return means.item(), stds.item()
        return means, stds


def check_size(*arrays: np.ndarray) -> None:
    """Raise ValueError before the first model learns what another would refuse."""
    for values in arrays:
        if not np.abs(values).max(initial=0.0) < LARGEST:  # NaN too
            raise ValueError(
                f"the sample holds NaN, infinite or absurdly large values ({LARGEST} "
                "or more); no model has learned it"
            )
