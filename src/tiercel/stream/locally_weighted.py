"""Locally weighted projection regression: many small linear models, each for a region.

The competitor of its time: what robots learned with before recursive ridge regression
over random features, and what the papers on those measure against.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from tiercel.stream import _fields
from tiercel.stream._fields_memory import (
    Fields,
    Room,
    Rule,
    as_state,
    enlarged,
    first_fields,
    from_state,
)
from tiercel.stream._fields_settings import (
    as_floats,
    check_marks,
    make_rule,
    own,
    plain,
    rows_of,
    same_rule,
)
from tiercel.stream._one_by_one import CHANGED

FITTED = ("n_features_in_", "feature_names_in_", "n_outputs_", "n_samples_seen_")
LEARNED = (*FITTED, "_one_output", "_fields", "_rule", "_room")
ROWS: dict[str, Any] = {"dtype": np.float64, "multi_output": True, "y_numeric": True}
UNTAME = (
    "the sample holds NaN, infinite values or values beyond "
    f"{_fields.HUGE:.0e}; the model is unchanged"
)


class LocallyWeightedProjection(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """LWPR: local linear models that a stream places, shapes and fits.

    The prediction is sum a_i(x) f_i(x) / sum a_i(x) over fields i, with activations
    a_i(x) = exp(-(x - c_i)' D_i (x - c_i) / 2), D_i diagonal, and f_i linear: a partial
    least squares regression that is updated recursively and forgets. A sample is shown
    to every field whose activation exceeds 0.001. Once a field has seen enough, D_i
    moves along the gradient of its leave-one-out error. Where no field is active a new
    one is placed; a region that nobody knows is predicted as 0 (Vijayakumar, D'Souza
    and Schaal, 2005). The rule is that of the library LWPR (Klanke, Vijayakumar and
    Schaal, 2008) with diagonal metrics, and so are the defaults, except that meta
    learning is on.

    Unlike the other learners of this room it is constant neither in time nor in
    memory: both grow with the number of fields, and that grows with the data, the
    wiggles of the function and, exponentially, the dimension. This is what the others
    are compared for. Room for fields doubles when it is full; nothing else is
    allocated. Several outputs have fields of their own each, as if they were models of
    their own.

    Parameters
    ----------
    init_metric : float or array of shape (d,)
        Diagonal of the metric D with which fields begin, in units of `input_range`. The
        most important parameter; the library's manual advises to raise it from 0.05 on.
    init_rate : float
        First step of the metrics' gradient descent. Steps scale like 1 / y^2: outputs
        are best brought to a size near 1.
    meta_rate : float or None
        How fast the steps adapt (Sutton, 1992); None keeps them.
    generate_below : float
        A field is placed where all activations are at most this.
    prune_above : float
        If two activations exceed this, the field with the larger trace of D is
        dropped. The library's manual says 0.9, its code 1, which never prunes; 1 is
        what experiments with its defaults have used.
    add_threshold : float
        A field gets one more projection direction (it begins with two) if the last
        one has brought the squared error below this part of what it was.
    metric_penalty : float
        Weight of the squared entries of D in the leave-one-out criterion, which keeps
        fields from shrinking.
    forgetting : tuple of 3 floats
        Factor by which a field forgets at each of its samples: at first, at last, and
        the part of the difference that each sample leaves.
    input_range : float, array of shape (d,) or None
        Inputs are divided by this; None takes them as they are. A stream must know it
        before the first sample, so `fit` does not look at X for it either: a model
        does not depend on whether its samples came at once.
    max_fields : int
        Fields per output at which no more are placed.

    Attributes
    ----------
    n_fields_ : int, or array of shape (p,) if y has several outputs
    n_samples_seen_ : int
    n_outputs_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Column names of X, if it had any.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = LocallyWeightedProjection(init_metric=50.0).fit(X, y)
    >>> model.predict([[-0.5], [0.0], [0.5], [30.0]]).round(1)
    array([-0.9,  0. ,  1. ,  0. ])
    >>> model.predict_update([0.5], 1.0)  # what it predicts, before it learns that
    1.01...
    >>> model.n_fields_
    6
    """

    def __init__(
        self,
        init_metric: Any = 25.0,
        init_rate: float = 50.0,
        meta_rate: float | None = 250.0,
        generate_below: float = 0.1,
        prune_above: float = 1.0,
        add_threshold: float = 0.5,
        metric_penalty: float = 1e-6,
        forgetting: tuple[float, float, float] = (0.999, 0.99999, 0.9999),
        input_range: Any = None,
        max_fields: int = 10_000,
    ) -> None:
        self.init_metric = init_metric
        self.init_rate = init_rate
        self.meta_rate = meta_rate
        self.generate_below = generate_below
        self.prune_above = prune_above
        self.add_threshold = add_threshold
        self.metric_penalty = metric_penalty
        self.forgetting = forgetting
        self.input_range = input_range
        self.max_fields = max_fields

    # --- many rows -------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn these rows, one by one."""
        X, Y = self._begin(X, y)
        return self._learn(X, Y, self._room.nothing)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning, row by row; if one row is refused, none is learned.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, p)

        Returns
        -------
        self
        """
        if not self._begun:
            return self.fit(X, y)
        X, y = validate_data(self, X, y, reset=False, **ROWS)
        Y = rows_of(y)
        if (y.ndim == 1) != self._one_output or Y.shape[1] != self.n_outputs_:
            wanted = "(n,)" if self._one_output else f"(n, {self.n_outputs_})"
            raise ValueError(
                f"y has shape {y.shape}, but the model learns outputs of shape {wanted}"
            )
        return self._learn(plain(X), Y, self._room.nothing)

    def predict(self, X: Any) -> np.ndarray:
        """Predict rows; 0 where no field has learned enough.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, p)
        """
        check_is_fitted(self, "n_outputs_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        out = np.empty((len(X), self.n_outputs_))
        work = np.empty((2, X.shape[1]))  # of its own: several threads may predict
        _fields.predict(self._fields, self._rule, work, plain(X), out)
        return out[:, 0] if self._one_output else out

    # --- one sample ------------------------------------------------------------

    def predict_one(self, x: Any) -> Any:
        """Predict one sample of shape (d,): a float, or an array of shape (p,)."""
        if not self._begun:
            check_is_fitted(self, "n_outputs_")
        x = plain(self._input(x)[None])
        if not _fields.all_tame(x):
            raise ValueError(UNTAME)
        out, work = np.empty((1, self.n_outputs_)), np.empty((2, x.shape[1]))
        _fields.predict(self._fields, self._rule, work, x, out)
        return float(out[0, 0]) if self._one_output else out[0]

    def learn_one(self, x: Any, y: Any) -> Self:
        """Learn one sample: x of shape (d,), y a number or of shape (p,)."""
        self._take(x, y)
        return self._learn(self._room.x, self._room.y, self._room.nothing)

    def predict_update(self, x: Any, y: Any) -> Any:
        """Predict one sample, then learn it: one compiled call.

        Parameters
        ----------
        x : array of shape (d,)
        y : float, or array of shape (p,)

        Returns
        -------
        float or array of shape (p,)
            The prediction made before learning.
        """
        self._take(x, y)
        before = self._room.before
        self._learn(self._room.x, self._room.y, before)
        return float(before[0, 0]) if self._one_output else before[0].copy()

    # --- what else -------------------------------------------------------------

    def reset(self) -> Self:
        """Forget all samples; parameters stay."""
        for name in LEARNED:
            self.__dict__.pop(name, None)
        return self

    def warm_up(self) -> Self:
        """Compile all loops, so that the first sample need not wait for that."""
        probe = LocallyWeightedProjection()
        probe.predict_update([0.0], 0.0)
        probe.predict_one([0.0])
        return self

    @property
    def n_fields_(self) -> Any:
        """How many fields there are, for each output."""
        check_is_fitted(self, "n_outputs_")
        count = self._fields.used
        return int(count[0]) if self._one_output else count.copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # In 10 dimensions the default metric leaves nearly every point on its own.
        tags.regressor_tags.poor_score = True
        return tags

    # --- how it is done --------------------------------------------------------

    @property
    def _begun(self) -> bool:
        return "_fields" in vars(self)

    def _begin(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Forget everything and make room, if there is nothing wrong with the rows."""
        probe = clone(self)  # which gets the marks that a refused row would leave
        X, y = validate_data(probe, X, y, reset=True, **ROWS)
        X, Y = plain(X), rows_of(y)
        rule = make_rule(self, X.shape[1])
        if not (_fields.all_tame(X) and _fields.all_tame(Y)):
            raise ValueError(UNTAME)
        self.reset()
        self.__dict__.update({k: v for k, v in vars(probe).items() if k in FITTED})
        self._one_output = y.ndim == 1
        self.n_outputs_, self.n_samples_seen_ = Y.shape[1], 0
        self._make(rule, first_fields(rule, Y.shape[1]))
        return X, Y

    def _make(self, rule: Rule, fields: Fields) -> None:
        self._rule, self._fields = rule, fields
        self._room = Room.of(len(rule.init_root), len(fields.used))

    def _learn(self, X: np.ndarray, Y: np.ndarray, out: np.ndarray) -> Self:
        start = 0
        while start < len(X):
            fields, rule, work = self._fields, self._rule, self._room.work
            end = _fields.learn(fields, rule, work, X, Y, out, start)
            if end == _fields.NOT_FINITE:
                raise ValueError(UNTAME)
            self.n_samples_seen_ += end - start
            start = end
            if start < len(X):
                self._fields = enlarged(fields, rule)
        return self

    def _take(self, x: Any, y: Any) -> None:
        """Copy one sample to where the loops read it, if its shape is right."""
        x, y = as_floats(x, "x"), as_floats(y, "y")
        if not self._begun:
            if x.ndim != 1 or y.ndim > 1 or not x.size:
                raise ValueError(
                    "one sample has x of shape (d,) and y a number or of shape (p,), "
                    f"not {x.shape} and {y.shape}"
                )
            self._begin(x.reshape(1, -1), y.reshape((1, *y.shape)))
        if y.shape != (() if self._one_output else (self.n_outputs_,)):
            wanted = "a number" if self._one_output else f"{self.n_outputs_} numbers"
            raise ValueError(f"y must be {wanted}, but its shape is {y.shape}")
        self._room.x[0] = self._input(x)
        self._room.y[0] = y

    def _input(self, x: Any) -> np.ndarray:
        x = as_floats(x, "x")
        if x.shape != (self.n_features_in_,):
            raise ValueError(
                f"x must have shape ({self.n_features_in_},), not {x.shape}; the model "
                "is unchanged"
            )
        return x

    # --- persistence: plain arrays in place of the fields ----------------------

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        for name in {"_fields", "_rule", "_room"} & set(vars(self)):
            setattr(self, name, own(getattr(self, name)))

    def _saved_state(self) -> dict[str, Any]:
        state = {k: v for k, v in vars(self).items() if k not in LEARNED or k in FITTED}
        if self._begun:
            now = make_rule(self, self.n_features_in_)
            if not same_rule(now, self._rule):
                raise ValueError(CHANGED)
            state["one_output"] = self._one_output
            state["fields"] = as_state(self._fields, self._rule)
        if "feature_names_in_" in state:
            state["feature_names_in_"] = self.feature_names_in_.tolist()
        return state

    def _restore_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        kept = state.pop("fields", None)
        settings = {k: state.pop(k) for k in self.get_params() if k in state}
        model = clone(self).set_params(**settings)
        if kept is not None:
            model._resume(kept, **check_marks(state))
        elif state:
            raise ValueError(f"the state holds {list(state)}, but no fields")
        self.reset()
        self.__dict__.update(vars(model))

    def _resume(self, kept: Any, one_output: bool, names: Any, marks: Any) -> None:
        self.__dict__.update(marks)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._one_output = one_output
        vectors = kept.get("vectors", ()) if isinstance(kept, dict) else ()
        if np.shape(vectors)[3:] != (self.n_features_in_,):
            raise ValueError("the fields of the state are not over its inputs")
        rule = make_rule(self, self.n_features_in_)
        self._make(rule, from_state(kept, rule, self.n_outputs_))
