"""Classification that follows a stream and meets its classes on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tiercel._state import saved_int
from tiercel.stream import _recoding
from tiercel.stream._class_models import ClassModels
from tiercel.stream._class_settings import check_choice, recodes_of, ridges_of
from tiercel.stream._labels import as_label, as_labels, in_order, labelled_rows
from tiercel.stream._maps import StreamMap, fitted
from tiercel.stream._one_by_one import (
    CHANGED,
    MOST_INPUTS,
    _as_floats,
    as_weights,
    check_dtype,
    check_weights,
    unchanged_if_refused,
)
from tiercel.stream._recursion import warm_up
from tiercel.stream._to_c import write_c
from tiercel.stream.frozen import FrozenPredictor


class IncrementalClassifier(ClassifierMixin, BaseEstimator):
    """Least squares classification, one sample and one new class at a time.

    Each class has a column of weights, and after any samples in any order these are
    the minimiser of::

        sum of w_i ||e_i - W' phi(x_i) - b||^2 + ridge ||W||^2

    where e_i is 1 at the class of sample i and 0 elsewhere; the class with the largest
    score is predicted. Time and memory per sample do not depend on how many there were:
    O(F^2) for F features, and O(F) more for each of T classes (Camoriano 2017, Alg.
    7.1, with the factor and its right-hand side rotated together). A new class joins as
    a column of zeros, which is what it would have been, had it been known from the
    start. Columns are kept in reserve, as many again whenever they run out: a new class
    costs O(F), and now and then a copy of O(F T).

    Least squares scores approximate the probabilities of the classes, so a class of
    which little has been seen is rarely predicted. ``recode`` multiplies the scores of
    class t by (n / n_t)^recode, where n_t of n samples are of that class.

    Where there is a choice to make (several ridges, or ``recode="auto"``) it is made
    along the stream, after Camoriano 2017, section 7.6.3. Each ``hold_out``-th sample
    of each class is not learned but held out (of each class, so that no rhythm of the
    stream holds out one class alone), and one model per ridge learns the others.
    Whenever a sample is held out or a class is new, all that are kept of those held
    out, 50 of each class at most, spread over its history, are classified anew; such a
    sample costs O(F^2 T) for each ridge. Chosen is the largest recoding in 0, 0.05,
    ..., 1 that is as accurate as none, each with its best ridge, on the classes with
    ``enough`` samples held out, each of which counts by how often it occurs: what is
    well known pays nothing. Until there is such a class, the first ridge serves,
    without recoding.

    Parameters
    ----------
    features : None or transformer
        What is between the inputs and the scores, as for `RecursiveRidge`.
    ridge : float or sequence of floats
        Weight of ||W||^2 against the *summed* loss, or candidates to choose from, each
        of which costs as much time and memory as a model of its own.
    recode : float from 0 to 1, or "auto"
        How far rare classes are raised: 0 not at all, 1 to equal terms with the others.
    hold_out : int, optional
        Hold out every so manieth sample of each class, where there is a choice to make.
        With None all are learned, and the choice is left to :meth:`choose`.
    enough : int
        How many held-out samples of a class it takes to judge by, 50 at most unless
        ``hold_out`` is None.
    allowed_loss : float
        How much accuracy on what is well known recoding may cost after all: 0.003
        gives up 0.3 points.
    fit_intercept : bool
        Whether b is there; it goes unpenalised.
    dtype : "float64" or "float32"
        Of the model's state.

    Attributes
    ----------
    classes_ : array of shape (T,)
        The labels, sorted after ``fit`` and in order of appearance in a stream; the
        columns of ``decision_function`` follow it. Labels that are equal (1, 1.0 and
        True) are the same class.
    class_counts_ : array of shape (T,)
        Samples learned of each class, counted by weight.
    n_samples_seen_ : int
        Samples that came, learned or held out.
    ridge_, recode_ : float
        In use.
    features_ : transformer or None
        As fitted.

    Examples
    --------
    >>> import numpy as np
    >>> model = IncrementalClassifier(recode=1.0)
    >>> rng = np.random.default_rng(0)
    >>> for t in range(200):
    ...     label = ["cup", "box"][t % 2]
    ...     x = rng.normal([3.0, 0.0] if label == "cup" else [0.0, 3.0])
    ...     guess = model.predict_update(x, label)
    >>> model.learn_one([-3.0, -3.0], "ball").predict_one([-3.0, -2.0])
    'ball'
    >>> model.predict([[3.0, 0.0], [0.0, 3.0]])
    array(['cup', 'box'], dtype='<U4')
    """

    def __init__(
        self,
        features: Any = None,
        ridge: float | Sequence[float] | np.ndarray = 1.0,
        recode: float | str = 0.0,
        hold_out: int | None = 6,
        enough: int = 10,
        allowed_loss: float = 0.0,
        fit_intercept: bool = True,
        dtype: str = "float64",
    ) -> None:
        self.features = features
        self.ridge = ridge
        self.recode = recode
        self.hold_out = hold_out
        self.enough = enough
        self.allowed_loss = allowed_loss
        self.fit_intercept = fit_intercept
        self.dtype = dtype

    _models: ClassModels | None = None

    # --- many rows -------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these rows; the classes are sorted.

        Labels that cannot be sorted (texts and numbers) stay in order of appearance.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        with unchanged_if_refused(self):
            self.reset()
            X, labels = labelled_rows(self, X, y, reset=True)
            weights = as_weights(sample_weight, len(X))
            if not weights.any():
                raise ValueError(
                    "Sample weights must contain at least one non-zero number."
                )
            models = self._begin(X, labels)
            models.learn_rows(X, labels, weights, first=in_order(labels))
        return self

    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None
    ) -> Self:
        """Go on learning; the rows are learned as if they came one by one.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,)
            Labels of any type; those that are new become classes.
        sample_weight : array of shape (n,), optional
        classes : array of labels, optional
            Classes to make known before they are met, which is never needed. One of
            which nothing was learned is never predicted; its score is minus infinity.

        Returns
        -------
        self
        """
        with unchanged_if_refused(self):
            X, labels = labelled_rows(self, X, y, reset=self._models is None)
            weights = as_weights(sample_weight, len(X))
            first = [] if classes is None else as_labels(classes)
            models = self._models or self._begin(X, labels)
            models.learn_rows(X, labels, weights, first)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the recoded scores of rows; the columns follow ``classes_``.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n, T), or (n,) for two classes
            Of two classes the second one's score, less the first one's.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predict the labels of rows.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        return self.classes_[self._scores(X).argmax(1)]

    def _scores(self, X: Any) -> np.ndarray:
        models = self._begun()
        X = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return models.scores(X)

    # --- one sample ------------------------------------------------------------

    def predict_one(self, x: Any) -> Any:
        """Predict the label of one sample.

        Parameters
        ----------
        x : array of shape (d,)

        Returns
        -------
        the label
        """
        return self._begun().predict(_as_floats(x, "x"))

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn one sample: ``predict_update`` without its answer."""
        self.predict_update(x, y, sample_weight)
        return self

    def predict_update(self, x: Any, y: Any, sample_weight: float = 1.0) -> Any:
        """Predict the label of one sample, then learn it: one compiled call per ridge.

        Parameters
        ----------
        x : array of shape (d,)
        y : label
            Any hashable value but None, and no fractions.
        sample_weight : float

        Returns
        -------
        The label predicted before learning, None if there was nothing to go by.
        """
        label = as_label(y)
        if sample_weight != 1.0:
            sample_weight = float(sample_weight)
            check_weights(np.array([sample_weight]))
        x = _as_floats(x, "x")
        if self._models is not None:
            return self._models.follow(x, label, sample_weight)
        with unchanged_if_refused(self):
            X = validate_data(self, x[None], reset=True, dtype=np.float64)
            return self._begin(X, [label]).follow(x, label, sample_weight)

    # --- the choice ------------------------------------------------------------

    def choose(self, X_val: Any, y_val: Any) -> Self:
        """Choose ``ridge_`` and ``recode_`` by rows that were not learned.

        The rule is that of the stream, with these rows in the place of those held out.
        The stream goes on choosing by its own; with ``hold_out=None`` it never does.

        Parameters
        ----------
        X_val : array of shape (n, d)
        y_val : array of shape (n,)
            Labels of known classes. A class counts if ``enough`` rows are of it.

        Returns
        -------
        self

        Examples
        --------
        >>> X = np.array([[0.0], [0.1], [0.9], [1.0], [1.1]])
        >>> model = IncrementalClassifier(None, [0.1, 1.0], hold_out=None, enough=2)
        >>> model.fit(X, list("aabbb")).choose([[0.0], [0.4]], list("aa")).ridge_
        0.1
        """
        models = self._begun()
        models.choose_by(*labelled_rows(self, X_val, y_val, reset=False))
        return self

    @property
    def ridge_(self) -> float:
        """The ridge in use."""
        models = self._begun()
        return float(models.ridges[models.chosen])

    @property
    def recode_(self) -> float:
        """The recoding in use."""
        return self._begun().recode

    @property
    def validation_(self) -> dict[str, np.ndarray] | None:
        """What the last choice was made by, or None if there was none.

        ``accuracy`` (L, A) is that of each ``ridge`` (L,) and ``recode`` (A,) on those
        of the ``classes`` that have enough of the ``n_samples``.
        """
        return self._begun().validation()

    # --- what else -------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray:
        """The labels of all classes met so far."""
        return self._begun().classes.array

    @property
    def class_counts_(self) -> np.ndarray:
        """Samples learned of each class, counted by weight."""
        return self._begun().counts.copy()

    @property
    def n_samples_seen_(self) -> int:
        """How many samples came, learned or held out."""
        return self._begun().seen

    def freeze(self) -> FrozenPredictor:
        """Return a small model that predicts the same and learns no more."""
        models = self._begun()
        seen = np.flatnonzero(models.counts > 0)
        if not len(seen):
            raise ValueError("no class has a sample yet: there is nothing to freeze")
        weights = models.weights()[:, seen]
        return FrozenPredictor(
            models.inputs, weights, classes=models.classes.array[seen]
        )

    export_c = write_c

    def reset(self) -> Self:
        """Forget all samples and classes; parameters stay."""
        for name in ("_models", "features_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        return self

    def warm_up(self) -> Self:
        """Compile all loops, so that the first sample need not wait for that."""
        warm_up(np.dtype(self.dtype))
        _recoding.right_answers(np.ones((1, 1, 1)), np.zeros(1), np.ones(1), np.ones(1))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self._models is not None

    def _begun(self) -> ClassModels:
        check_is_fitted(self)
        assert self._models is not None
        return self._models

    # --- the parts -------------------------------------------------------------

    def _begin(self, X: np.ndarray, labels: list[Any]) -> ClassModels:
        features = fitted(self.features, X, labels)
        self._models = self._empty(features, X.shape[1])
        self.features_ = features
        return self._models

    def _empty(self, features: Any, n_inputs: int) -> ClassModels:
        ridges, recodes = ridges_of(self.ridge), recodes_of(self.recode)
        choice = self.hold_out, self.enough, self.allowed_loss
        check_choice(*choice)
        check_dtype(self.dtype)
        dtype = np.dtype(self.dtype)
        inputs = StreamMap(features, n_inputs, dtype, bool(self.fit_intercept))
        return ClassModels(inputs, ridges, recodes, *choice, dtype)

    # --- persistence: plain arrays in place of the recursions ------------------

    def _saved_state(self) -> dict[str, Any]:
        names = ("features_", "n_features_in_", "feature_names_in_")
        state = {name: vars(self)[name] for name in names if name in vars(self)}
        if self._models is not None:
            now = self._empty(self.features_, self.n_features_in_)
            if now.settings() != self._models.settings():
                raise ValueError(CHANGED)
            state["models"] = self._models.arrays()
        return state

    def _restore_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        kept = state.pop("models", None)
        if kept is not None:
            n_inputs = saved_int(state, "n_features_in_", 1, MOST_INPUTS)
            models = self._empty(state.get("features_"), n_inputs)
            models.restore(kept)
            self._models = models
        self.__dict__.update(state)
