"""Samples one at a time or many: what the recursive regressors have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from tiercel._state import saved_int
from tiercel.stream._maps import StreamMap
from tiercel.stream._recursion import REJECTED, Recursion, warm_up
from tiercel.stream._to_c import write_c
from tiercel.stream.frozen import FrozenPredictor

MOST_INPUTS = 10**7  # that a saved state is believed to have
LIGHTEST, HEAVIEST = 1e-30, 1e30
CHANGED = (
    "parameters were changed after the model had begun, and it could not be loaded "
    "again; change them back to save it, or call reset() to begin with the new ones"
)


class OneByOne:
    """Mixin: feeds a `Recursion` and words what comes back.

    A class that uses it defines ``_check_parameters()``, ``_begin(X, Y)``, which sets
    what depends on the first rows (``_offset``, what is taken off targets),
    ``_map(n_inputs)`` and ``_empty(map, n_outputs)``, which make the parts, and
    ``_worded(mean, leverage)``, which turns one prediction into what the user gets.
    """

    dtype: str
    n_features_in_: int
    n_outputs_: int
    _recursion: Recursion | None = None
    _offset: Any = 0.0
    _one_output = True

    # --- many rows -------------------------------------------------------------

    def _learn_rows(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        self._begun().learn_rows(X, Y - self._offset, weights)

    def _checked_rows(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows that may be learned; begin with them if there is no model yet."""
        with unchanged_if_refused(self):
            return self._checked_or_begun(X, y, sample_weight)

    def _checked_or_begun(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
            self._one_output, self.n_outputs_ = y.ndim == 1, Y.shape[1]
            self._begin(X, Y)
            self._recursion = self._empty(self._map(X.shape[1]), Y.shape[1])
        elif Y.shape[1] != self.n_outputs_ or (y.ndim == 1) != self._one_output:
            wanted = "(n,)" if self._one_output else f"(n, {self.n_outputs_})"
            raise ValueError(f"y has shape {y.shape}, but the model learns {wanted}")
        self._begun().check_rows(X, Y - self._offset, weights)
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
        recursion = self._recursion or self._begun()
        self._take_input(recursion, x)
        leverage = recursion.predict()
        return self._worded(recursion.mean, leverage)

    def _predict_update(self, x: Any, y: Any, weight: float = 1.0) -> Any:
        recursion = self._recursion or self._begin_with(x, y)
        self._take_input(recursion, x)
        self._take_target(recursion, y)
        leverage = self._learn_taken(recursion, weight)
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
                raise ValueError(REJECTED)
            x = recursion.map.taken(x)
        recursion.x[:] = x

    def _take_target(self, recursion: Recursion, y: Any) -> None:
        if self._one_output and isinstance(y, (float, int)):  # np.float64 is a float
            recursion.y[0] = y - self._offset
            return
        if type(y) is not np.ndarray or y.dtype.char != "d":
            y = _as_floats(y, "y")
        if y.shape != (() if self._one_output else recursion.y.shape):
            wanted = "a number" if self._one_output else f"of shape {recursion.y.shape}"
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
        self._checked_rows(x.reshape(1, -1), y.reshape(1) if y.ndim == 0 else Y)
        return self._begun()

    # --- what else -------------------------------------------------------------

    def reset(self) -> Self:
        """Forget all samples; parameters stay, and hyperparameters that were found."""
        for name in ("_recursion", "n_outputs_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        return self

    def warm_up(self) -> Self:
        """Compile everything now (or read it from the disk), not at the first sample.

        Returns
        -------
        self
        """
        warm_up(np.dtype(self.dtype))
        return self

    def freeze(self) -> FrozenPredictor:
        """Return a small model that predicts the same means and learns no more."""
        recursion = self._begun()
        return FrozenPredictor(
            recursion.map,
            recursion.weights(),
            self._offset,
            self._one_output,
            index=recursion.seen,
        )

    export_c = write_c

    @property
    def n_samples_seen_(self) -> int:
        """How many samples the model holds."""
        return self._begun().seen

    def _begun(self) -> Recursion:
        check_is_fitted(self, "n_outputs_")
        assert self._recursion is not None
        return self._recursion

    def _check_parameters(self) -> None:
        raise NotImplementedError

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
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        state = {k: v for k, v in vars(self).items() if k not in parameters}
        recursion = state.pop("_recursion", None)
        if recursion is not None:
            self._check_settings(recursion)
            state["recursion"] = recursion.arrays()
        return state

    def _check_settings(self, recursion: Recursion) -> None:
        """Raise ValueError where a saved state would not fit its parameters."""
        begun, now = recursion.map, self._map(recursion.map.n_inputs)
        if (now.n_features, now.trend_step, np.dtype(self.dtype)) != (
            begun.n_features,
            begun.trend_step,
            recursion.state.R.dtype,
        ):
            raise ValueError(CHANGED)

    def _restore_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        kept = state.pop("recursion", None)
        vars(self).update(state)
        if kept is None:
            return
        self._check_parameters()
        n_inputs = saved_int(state, "n_features_in_", 1, MOST_INPUTS)
        n_outputs = saved_int(state, "n_outputs_", 1)
        size, outputs = np.shape(kept["rotated"])
        offset = np.asarray(self._offset)
        if (
            outputs != n_outputs
            or (self._one_output is not False and n_outputs > 1)
            or offset.shape not in ((), (n_outputs,))
            or not np.isfinite(offset).all()
        ):
            raise ValueError("the state's numbers of outputs do not fit together")
        map = self._map(n_inputs)
        if map.n_features != size or len(kept["factor"]) != size * (size + 1) // 2:
            raise ValueError("the state's factor does not fit its number of features")
        self._recursion = self._empty(map, n_outputs)
        self._recursion.restore(kept)


def as_weights(sample_weight: Any, rows: int) -> np.ndarray:
    """Return a weight per row, each of them checked."""
    if sample_weight is None:
        return np.ones(rows)
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape not in ((), (rows,)):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(rows,)}: one number "
            "per row"
        )
    check_weights(weights)
    return np.array(np.broadcast_to(weights, (rows,)))


def check_weights(weights: np.ndarray) -> None:
    """Raise ValueError unless each weight is 0 or of a size that can be squared."""
    good = (weights == 0) | ((weights >= LIGHTEST) & (weights <= HEAVIEST))
    if not good.all():
        raise ValueError(
            f"sample_weight must be 0 or from {LIGHTEST:.0e} to {HEAVIEST:.0e}, not "
            f"{weights[~good][0]}"
        )


@contextmanager
def unchanged_if_refused(model: Any) -> Iterator[None]:
    """Put a model's attributes back if what it does with them comes to nothing."""
    kept = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(kept)
        raise


def check_dtype(value: Any) -> None:
    """Raise ValueError unless a model's state can be of this dtype."""
    try:
        known = value is not None and np.dtype(value).name in ("float64", "float32")
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"dtype must be float64 or float32, not {value!r}")


def _as_floats(values: Any, name: str) -> np.ndarray:
    """Return real numbers of any kind as float64; raise ValueError for others."""
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
