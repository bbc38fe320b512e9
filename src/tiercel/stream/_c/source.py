"""What a header is made from: the parts of a model that C code knows of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tiercel.stream._c import maps
from tiercel.stream._maps import StreamMap
from tiercel.stream._one_by_one import OneByOne
from tiercel.stream._recursion import Recursion
from tiercel.stream.frozen import FrozenPredictor
from tiercel.stream.incremental_classifier import IncrementalClassifier


@dataclass(frozen=True)
class Source:
    """A recursion and what its model does with it.

    Attributes
    ----------
    kind : str
        The model's class.
    recursion : Recursion
    n_outputs : int
        Those in use; a classifier keeps more columns, in reserve.
    offset : array of shape (n_outputs,) or None
        What is added to the means.
    classes : tuple of labels, or None
    counts, factors : arrays of shape (n_outputs,) or None
        Of each class: samples learned, by weight, and that to the power of -recode.
    recode : float
    """

    kind: str
    recursion: Recursion
    n_outputs: int
    offset: np.ndarray | None = None
    classes: tuple[Any, ...] | None = None
    counts: np.ndarray | None = None
    factors: np.ndarray | None = None
    recode: float = 0.0

    @property
    def flags(self) -> set[str]:
        """What the templates' lines depend on."""
        state = self.recursion.state
        found = maps.flags_of(self.recursion.map)
        found |= {"fading"} if state.forgetting < 1.0 else set()
        found |= {"bayesian"} if state.noise > 0.0 else set()
        found |= {"classes"} if self.classes is not None else set()
        return found | ({"recoded"} if self.recode > 0.0 else set())

    @property
    def rotated(self) -> np.ndarray:
        """The rotated targets (F, n_outputs)."""
        return self.recursion.state.Z[:, : self.n_outputs]


def source_of(model: Any) -> Source:
    """Return the parts of a fitted model; refuse one that C code cannot learn."""
    _check_features(model)
    if getattr(model, "window", None) is not None:
        raise ValueError(
            "there is no C code for a window: use forgetting, or learn=False"
        )
    if isinstance(model, IncrementalClassifier):
        return _classifier(model)
    recursion, offset = model._begun(), None
    if recursion.state.noise > 0.0:
        offset = np.zeros(recursion.n_outputs) + model._offset
    return Source(type(model).__name__, recursion, recursion.n_outputs, offset)


@dataclass(frozen=True)
class Weights:
    """What is left of a model when it does not learn.

    Attributes
    ----------
    map : StreamMap
    weights : array of shape (F, T)
    offset : array of shape (T,)
        What is added to the outputs.
    trend : float
        The trend's feature, as it stands.
    classes : tuple of labels, or None
    """

    map: StreamMap
    weights: np.ndarray
    offset: np.ndarray
    trend: float = 0.0
    classes: tuple[Any, ...] | None = None


def weights_of(model: Any) -> Weights:
    """Return what is left of a fitted model when it does not learn."""
    if not isinstance(model, FrozenPredictor):
        _check_features(model)
    if isinstance(model, IncrementalClassifier):
        return _class_weights(_classifier(model))
    kept = model if isinstance(model, FrozenPredictor) else model.freeze()
    weights = np.asarray(kept.weights_)
    offset = np.zeros(weights.shape[1]) + kept.offset_
    labels = vars(kept).get("classes_")
    classes = None if labels is None else tuple(np.asarray(labels).tolist())
    trend = kept._map.trend_step * kept._index
    return Weights(kept._map, weights, offset, trend, classes)


def _class_weights(source: Source) -> Weights:
    assert source.counts is not None
    assert source.factors is not None
    plain = source.recursion.weights()[:, : source.n_outputs]
    weights = plain * (source.counts.sum() ** source.recode * source.factors)
    unseen = np.where(source.counts > 0, 0.0, -np.inf)
    weights = weights.astype(source.rotated.dtype)
    return Weights(source.recursion.map, weights, unseen, classes=source.classes)


def _check_features(model: Any) -> None:
    if isinstance(model, IncrementalClassifier):
        transformer = model._begun().inputs.transformer
    elif isinstance(model, OneByOne):
        transformer = model._begun().map.transformer
    else:
        raise TypeError(
            "export_c knows RecursiveRidge, SparseSpectrumGP, IncrementalClassifier "
            f"and FrozenPredictor, not {type(model).__name__}"
        )
    if transformer is not None:
        raise ValueError(
            f"there is no C code for {type(transformer).__name__} features, only for "
            "FourierFeatures: compute them in code of your own, and export a model "
            "with features=None that was fitted to them"
        )


def _classifier(model: IncrementalClassifier) -> Source:
    models = model._begun()
    return Source(
        type(model).__name__,
        models.recursions[models.chosen],
        len(models.classes),
        classes=tuple(models.classes.labels),
        counts=models.counts,
        factors=models._factors,
        recode=models.recode,
    )
