"""What Tiercel's regressors bring to River, which `tiercel.stream.river` adds."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tiercel.stream._river.arrays import (
    as_frame,
    as_row,
    as_series,
    as_targets,
    in_order,
    normal,
)
from tiercel.stream._river.named_inputs import NamedInputs, check_names
from tiercel.stream.recursive_ridge import RecursiveRidge


class Regressor(NamedInputs):
    """A streaming regressor of Tiercel as a regressor of River.

    Samples are dicts of numbers. A feature that a sample lacks is 0, as in River's
    linear models. A feature that is new gets a place of its own: a `RecursiveRidge`
    without a feature map takes it in exactly as if it had been 0 all along, at the cost
    of a larger model. Other learners have a fixed number of inputs, and a sample with
    features beyond them raises an error: name all that may come with ``inputs``, or
    select features ahead of the model.

    Parameters
    ----------
    model : streaming regressor
        `RecursiveRidge`, `SparseSpectrumGP` or `LocallyWeightedProjection`. A copy
        begins without samples; hyperparameters that ``optimize`` found stay.
    inputs : sequence of names, optional
        The features in the order of the model's inputs: that of its length scales, and
        of the columns that ``optimize`` saw. By default those of the first sample,
        sorted, as the order of a dict should not matter.

    Attributes
    ----------
    learner : streaming regressor
        The copy that learns; to be saved with `tiercel.save`.
    names : list
        The features that are known, in the order of the learner's inputs.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from tiercel.stream import RecursiveRidge
    >>> from tiercel.stream.river import Regressor
    >>> model = Regressor(RecursiveRidge(forgetting=0.98))
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.399...

    With a Gaussian process, predictions have error bars.

    >>> from tiercel.stream import SparseSpectrumGP
    >>> process = SparseSpectrumGP(
    ...     50, noise=0.1, signal=1.0, length_scale=1.0, random_state=0
    ... )
    >>> model = Regressor(process)
    >>> model.learn_one({"x": 0.5}, 1.0)
    >>> model.predict_one({"x": 0.5}, with_dist=True)
    𝒩(μ=0.990, σ=0.141)
    """

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : dict
            Numbers by feature.
        y : float
        w : float
            The sample's weight.
        """
        self._learn_one(x, y, w)

    def predict_one(self, x: dict[Any, Any], with_dist: bool = False) -> Any:
        """Predict one sample; 0 before the first one is learned.

        Parameters
        ----------
        x : dict
            Numbers by feature.
        with_dist : bool
            Return a normal distribution, the noise included, where the model has error
            bars.

        Returns
        -------
        float or river.proba.Gaussian
        """
        found = self._predict_one(x) if self._begun else 0.0
        if not with_dist:
            return found[0] if isinstance(found, tuple) else found
        mean, std = found if isinstance(found, tuple) else (found, self._prior())
        return normal(mean, std)

    def _prior(self) -> float:
        """Return the standard deviation before the first sample."""
        known = getattr(self.learner, "hyperparameters_", self.learner)
        if not hasattr(known, "noise"):
            raise ValueError(
                f"{type(self.learner).__name__} gives no error bars; SparseSpectrumGP "
                "does"
            )
        return (
            math.inf if known.noise is None else math.hypot(known.noise, known.signal)
        )

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn rows, the same as one by one.

        Parameters
        ----------
        X : DataFrame
            A feature per column.
        y : Series
        """
        self._learn_many(as_frame(X), as_targets(y))

    def predict_many(self, X: Any) -> Any:
        """Predict rows.

        Parameters
        ----------
        X : DataFrame
            A feature per column.

        Returns
        -------
        Series
        """
        X = as_frame(X)
        found = self._predict_many(X) if self._begun else np.zeros(len(X))
        return as_series(np.asarray(found, np.float64), X)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": RecursiveRidge()}


class MultiTargetRegressor(NamedInputs):
    """A streaming regressor of Tiercel with several outputs, as River has them.

    Like `Regressor`, with a dict of targets, which must be the same for all samples.

    Parameters
    ----------
    model : streaming regressor
        `RecursiveRidge`, `SparseSpectrumGP`, `LocallyWeightedProjection`, or an
        `OutputGroups` of them. A copy begins without samples; hyperparameters that
        ``optimize`` found stay.
    inputs : sequence of names, optional
        The features in the order of the model's inputs; those of the first sample,
        sorted, by default.
    targets : sequence of names, optional
        The targets in the order of the model's outputs; those of the first sample,
        sorted, by default.

    Attributes
    ----------
    learner : streaming regressor
        The copy that learns.
    names : list
        The features that are known, in the order of the learner's inputs.

    Examples
    --------
    >>> from tiercel.stream import RecursiveRidge
    >>> from tiercel.stream.river import MultiTargetRegressor
    >>> model = MultiTargetRegressor(RecursiveRidge(ridge=1e-9))
    >>> for t in range(3):
    ...     model.learn_one({"t": t}, {"up": 2.0 * t, "down": 1.0 - t})
    >>> model.predict_one({"t": 10})
    {'down': -9.0..., 'up': 20.0...}
    """

    def __init__(
        self,
        model: Any,
        inputs: Sequence[Hashable] | None = None,
        targets: Sequence[Hashable] | None = None,
    ) -> None:
        super().__init__(model, inputs)
        self.targets = targets
        check_names(targets, "targets")
        self._targets = None if targets is None else list(targets)

    def learn_one(self, x: dict[Any, Any], y: dict[Any, Any], w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : dict
            Numbers by feature.
        y : dict
            Numbers by target.
        w : float
            The sample's weight.
        """
        targets = self._targets or in_order(y)
        if y.keys() != {*targets}:
            raise ValueError(
                f"y has the targets {list(y)}, but the model learns {targets}; it is "
                "unchanged"
            )
        self._learn_one(x, as_row(y, targets), w)
        self._targets = targets

    def predict_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Predict one sample; nothing before the first one is learned.

        Parameters
        ----------
        x : dict
            Numbers by feature.

        Returns
        -------
        dict
            A number for each target.
        """
        if not self._begun or self._targets is None:
            return {}
        found = self._predict_one(x)
        mean = found[0] if isinstance(found, tuple) else found
        return dict(zip(self._targets, mean.tolist(), strict=True))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": RecursiveRidge()}
