"""What Tiercel's classifiers bring to River, which `tiercel.stream.river` adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.base import is_classifier

from tiercel.stream._river.arrays import as_frame, as_series, as_targets
from tiercel.stream._river.named_inputs import NamedInputs
from tiercel.stream.incremental_classifier import IncrementalClassifier


class Classifier(NamedInputs):
    """A streaming classifier of Tiercel as a classifier of River.

    Features are taken as `Regressor` takes them: 0 where a sample lacks one, and new
    ones join where there is no feature map. Labels may be of any type, and need not be
    known in advance. Scores of least squares are not probabilities, so there is no
    ``predict_proba_one``; use metrics of labels.

    Parameters
    ----------
    model : IncrementalClassifier
        A copy begins without samples.
    inputs : sequence of names, optional
        The features in the order of the model's inputs; those of the first sample,
        sorted, by default.

    Attributes
    ----------
    learner : IncrementalClassifier
        The copy that learns; to be saved with `tiercel.save`.
    names : list
        The features that are known, in the order of the learner's inputs.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from tiercel.stream.incremental_classifier import IncrementalClassifier
    >>> from tiercel.stream.river import Classifier
    >>> model = Classifier(IncrementalClassifier())
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 88...%
    """

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : dict
            Numbers by feature.
        y : label
            Any hashable value but None, and no fractions.
        w : float
            The sample's weight.
        """
        self._learn_one(x, y, w)

    def predict_one(self, x: dict[Any, Any]) -> Any:
        """Predict the label of one sample; None before the first one is learned.

        Parameters
        ----------
        x : dict
            Numbers by feature.

        Returns
        -------
        label
        """
        return self._predict_one(x) if self._begun else None

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn rows, the same as one by one.

        Parameters
        ----------
        X : DataFrame
            A feature per column.
        y : Series
            Labels.
        """
        self._learn_many(as_frame(X), as_targets(y))

    def predict_many(self, X: Any) -> Any:
        """Predict the labels of rows.

        Parameters
        ----------
        X : DataFrame
            A feature per column.

        Returns
        -------
        Series
        """
        X = as_frame(X)
        found = self._predict_many(X).tolist() if self._begun else [None] * len(X)
        return as_series(found, X)

    @property
    def _multiclass(self) -> bool:
        return True

    def _suits(self, model: Any) -> bool:
        return is_classifier(model) and hasattr(model, "learn_one")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": IncrementalClassifier()}
