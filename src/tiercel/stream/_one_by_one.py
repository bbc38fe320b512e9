"""Samples one at a time or many: what the recursive regressors have in common."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from tiercel.stream._maps import StreamMap
from tiercel.stream._recursion import Recursion

MOST_INPUTS = 10**7  # that a saved state is believed to have
LIGHTEST, HEAVIEST = 1e-30, 1e30
LARGEST = {"d": 1e150, "f": 1e30}  # as the compiled loops have it


class OneByOne:
    """Mixin: feeds a `Recursion` and words what comes back.

    A class that uses it defines ``_begin(X, Y)``, which checks the parameters and sets
    what depends on the first rows (``_offset``, what is taken off targets),
    ``_map(n_inputs)`` and ``_empty(map, n_outputs)``, which make the parts, and
    ``_worded(mean, leverage)``, which turns one prediction into what the user gets.
    """

    _recursion: Recursion | None = None
    _offset: Any = 0.0
    _one_output = True

    # --- many rows -------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these rows."""
        if sample_weight is not None and not np.any(np.asarray(sample_weight)):
            raise ValueError(
                "Sample weights must contain at least one non-zero number."
            )
        self.reset()
        return self.partial_fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on learning; the rows are learned as if they came one by one.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, T)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        X, Y, weights = self._checked_rows(X, y, sample_weight)
        self._learn_rows(X, Y - self._offset, weights)
        return self

    def _learn_rows(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        self._begun().learn_rows(X, Y, weights)

    def _checked_rows(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows that may be learned; begin with them if there is no model yet."""
        first = self._recursion is None
        X, y = validate_data(
            self,
            X,
            y,
            reset=first,
            dtype=np.float64,
            order="C",
            multi_output=True,
            y_numeric=True,
        )
        Y = y.reshape(len(X), -1).astype(np.float64, copy=False)
        weights = as_weights(sample_weight, len(X))
        if first:
            self._begin(X, Y)
            self._recursion = self._empty(self._map(X.shape[1]), Y.shape[1])
            self._one_output = y.ndim == 1
            self.n_outputs_ = Y.shape[1]
        elif Y.shape[1] != self._begun().n_outputs or (y.ndim == 1) != self._one_output:
            raise ValueError(
                f"y has shape {y.shape}, but the model learns "
                + ("one target: y of shape (n,)" if self._one_output else "")
                + ("" if self._one_output else f"{self._begun().n_outputs} per row")
            )
        largest = LARGEST[self._begun().state.R.dtype.char]
        if max(np.abs(X).max(), np.abs(Y).max()) >= largest:
            if first:
                self.reset()
            raise ValueError(
                f"X or y holds values of {largest:.0e} or more; rescale it"
            )
        return X, Y, weights

    def predict(self, X: Any) -> np.ndarray:
        """Predict rows, as if each came next.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, T)
        """
        X = self._checked_inputs(X)
        return self._shaped(self._begun().means(X) + self._offset)

    def _checked_inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "n_outputs_")
        return validate_data(self, X, reset=False, dtype=np.float64, order="C")

    def _shaped(self, means: np.ndarray) -> np.ndarray:
        return means[:, 0] if self._one_output else means

    # --- one sample ------------------------------------------------------------

    def predict_one(self, x: Any) -> Any:
        """Predict one sample.

        Parameters
        ----------
        x : array of shape (d,)

        Returns
        -------
        what ``predict_update`` returns
        """
        check_is_fitted(self, "n_outputs_")
        recursion = self._begun()
        self._take_input(recursion, x)
        leverage = recursion.predict()
        return self._worded(recursion.mean, leverage)

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn one sample: ``predict_update`` without its answer."""
        self.predict_update(x, y, sample_weight)
        return self

    def predict_update(self, x: Any, y: Any, sample_weight: float = 1.0) -> Any:
        """Predict one sample, then learn it: one compiled call.

        Parameters
        ----------
        x : array of shape (d,)
        y : float, or array of shape (T,)
        sample_weight : float

        Returns
        -------
        The prediction made before learning.
        """
        recursion = self._recursion or self._begin_with(x, y)
        self._take_input(recursion, x)
        self._take_target(recursion, y)
        if sample_weight != 1.0:
            sample_weight = float(sample_weight)
            check_weights(np.array([sample_weight]))
        leverage = self._learn_taken(recursion, sample_weight)
        return self._worded(recursion.mean, leverage)

    def _learn_taken(self, recursion: Recursion, weight: float) -> float:
        return recursion.learn(weight)

    def _take_input(self, recursion: Recursion, x: Any) -> None:
        if type(x) is not np.ndarray or x.dtype.char != "d":
            x = _as_floats(x, "x")
        if x.shape != (self.n_features_in_,):
            raise ValueError(
                f"x must have shape ({self.n_features_in_},), not {x.shape}; the model "
                "is unchanged"
            )
        if recursion.map.transformer is not None:
            if not np.isfinite(x).all():
                raise ValueError("x holds NaN or infinite values")
            x = recursion.map.taken(x)
        recursion.x[:] = x

    def _take_target(self, recursion: Recursion, y: Any) -> None:
        if self._one_output and isinstance(y, (float, int)):  # np.float64 is a float
            recursion.y[0] = y - self._offset
            return
        if type(y) is not np.ndarray or y.dtype.char != "d":
            y = _as_floats(y, "y")
        if y.shape != (() if self._one_output else recursion.y.shape):
            wanted = "a number" if self._one_output else f"{recursion.n_outputs} numbers"
            raise ValueError(f"y must be {wanted}, but its shape is {y.shape}")
        np.subtract(y, self._offset, out=recursion.y)

    def _begin_with(self, x: Any, y: Any) -> Recursion:
        """Begin with a first sample, if there is nothing wrong with it."""
        x, y = _as_floats(x, "x"), _as_floats(y, "y")
        if x.ndim != 1 or y.ndim > 1:
            raise ValueError(
                "one sample has x of shape (d,) and y a number or of shape (T,), not "
                f"{x.shape} and {y.shape}"
            )
        Y = y.reshape(1, -1)
        self._checked_rows(x.reshape(1, -1), y.reshape(1) if y.ndim == 0 else Y, None)
        return self._begun()

    # --- what else -------------------------------------------------------------

    def reset(self) -> Self:
        """Forget all samples; parameters stay."""
        for name in ("_recursion", "n_outputs_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        return self

    @property
    def n_samples_seen_(self) -> int:
        """How many samples the model holds."""
        return self._begun().seen

    def _begun(self) -> Recursion:
        check_is_fitted(self, "n_outputs_")
        assert self._recursion is not None
        return self._recursion

    def _begin(self, X: np.ndarray, Y: np.ndarray) -> None:
        raise NotImplementedError

    def _map(self, n_inputs: int) -> StreamMap:
        raise NotImplementedError

    def _empty(self, map: StreamMap, n_outputs: int) -> Recursion:
        raise NotImplementedError

    def _worded(self, mean: np.ndarray, leverage: float) -> Any:
        raise NotImplementedError

    # --- persistence: plain arrays in place of the recursion -------------------

    def _saved_state(self) -> dict[str, Any]:
        state = dict(vars(self))
        recursion = state.pop("_recursion", None)
        if recursion is not None:
            state["recursion"] = recursion.arrays()
        return state

    def _restore_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        kept = state.pop("recursion", None)
        vars(self).update(state)
        if kept is None:
            return
        n_inputs, n_outputs = self.n_features_in_, self.n_outputs_
        size, outputs = np.shape(kept["rotated"])
        if outputs != n_outputs or not 0 < n_inputs <= MOST_INPUTS:
            raise ValueError("the state's numbers of inputs and outputs do not fit it")
        map = self._map(n_inputs)
        if map.n_features != size or len(kept["factor"]) != size * (size + 1) // 2:
            raise ValueError("the state's factor does not fit its number of features")
        self._recursion = self._empty(map, n_outputs)
        self._recursion.restore(kept)


def as_weights(sample_weight: Any, rows: int) -> np.ndarray:
    """Return a weight per row, each of them checked."""
    if sample_weight is None:
        return np.ones(rows)
    weights = np.ascontiguousarray(sample_weight, np.float64)
    if weights.shape not in ((), (rows,)):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(rows,)}: one number "
            "per row"
        )
    weights = np.full(rows, weights) if weights.ndim == 0 else weights
    check_weights(weights)
    return weights


def check_weights(weights: np.ndarray) -> None:
    """Raise ValueError unless each weight is 0 or of a size that can be squared."""
    good = (weights == 0) | ((weights >= LIGHTEST) & (weights <= HEAVIEST))
    if not good.all():
        raise ValueError(
            f"sample_weight must be 0 or from {LIGHTEST:.0e} to {HEAVIEST:.0e}, not "
            f"{weights[~good][0]}"
        )


def _as_floats(values: Any, name: str) -> np.ndarray:
    found = np.asarray(values)
    if found.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, not {found.dtype}")
    return found.astype(np.float64)


def check_positive(value: Any, name: str, below: float = math.inf) -> None:
    """Raise ValueError unless ``value`` is a number above 0."""
    try:
        good = 0.0 < float(value) < below
    except (TypeError, ValueError):
        good = False
    if not good:
        limit = "" if math.isinf(below) else f" and below {below}"
        raise ValueError(f"{name} must be above 0{limit}, not {value!r}")
