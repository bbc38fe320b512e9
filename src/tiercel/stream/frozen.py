"""What is left of a streaming model when it has stopped learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel._state import saved_array, saved_int
from tiercel.stream import _loops
from tiercel.stream._maps import StreamMap
from tiercel.stream._to_c import write_c

KINDS = {_loops.LINEAR: None, _loops.COSINE: "phase", _loops.SINE_COSINE: "sincos"}


class FrozenPredictor:
    """The weights of a streaming model and the map of its inputs: it only predicts.

    Made by a model's ``freeze()``. It takes F T numbers for the weights and d D for the
    frequencies, where the model that goes on learning keeps F^2 / 2 more. Of a Gaussian
    process the means are left: error bars need what was left behind. Features must be
    `FourierFeatures` or none.

    Attributes
    ----------
    weights_ : array of shape (F, T)
    offset_ : float or array of shape (T,)
    classes_ : array, only of a classifier
        A column of the weights each.
    n_features_in_ : int

    Examples
    --------
    >>> from tiercel.stream import RecursiveRidge
    >>> model = RecursiveRidge(ridge=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> frozen = model.freeze()
    >>> bool(frozen.predict([[3.0]]) == model.predict([[3.0]]))
    True
    """

    weights_: np.ndarray
    offset_: Any
    classes_: Any
    one_output: bool
    n_features_in_: int

    def __init__(
        self,
        map: StreamMap,
        weights: np.ndarray,
        offset: Any = 0.0,
        one_output: bool = False,
        classes: Any = None,
        index: int = 0,
    ) -> None:
        if map.transformer is not None:
            raise ValueError(
                f"a model on {type(map.transformer).__name__} features cannot be "
                "frozen: only FourierFeatures, or none, can"
            )
        of = map.compiled
        state = {
            "map": KINDS[of.kind],
            "frequencies": of.frequencies.T.copy(),
            "phases": of.phases.copy(),
            "amplitude": of.scale,
            "intercept": of.intercept,
            "trend": map.trend_step * index if map.trend_step > 0 else None,
            "weights_": weights.copy(),
            "offset_": offset,
            "one_output": one_output,
            "n_features_in_": map.n_inputs,
        }
        if classes is not None:
            state["classes_"] = classes
        self._restore_state(state)

    def scores(self, X: Any) -> np.ndarray:
        """Return the outputs of rows, one column each."""
        X = np.asarray(X, np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have shape (n, {self.n_features_in_}), not {X.shape}"
            )
        if not np.isfinite(X).all():
            raise ValueError("X holds NaN or infinite values")
        return (
            self._map.rows(self._map.rows_taken(X), self._index) @ self.weights_
            + self.offset_
        )

    def predict(self, X: Any) -> np.ndarray:
        """Predict rows: the numbers (n,) or (n, T), or the labels of a classifier."""
        scores = self.scores(X)
        if "classes_" in self.__dict__:
            return np.asarray(self.classes_)[scores.argmax(1)]
        return scores[:, 0] if self.one_output else scores

    def predict_one(self, x: Any) -> Any:
        """Predict one sample: a number, an array (T,), or a label."""
        x = np.asarray(x, np.float64)
        if x.shape != (self.n_features_in_,):
            raise ValueError(
                f"x must have shape ({self.n_features_in_},), not {x.shape}"
            )
        found = self.predict(x[None])[0]
        return found.item() if isinstance(found, np.generic) else found

    export_c = write_c

    def _saved_state(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_map", "_index")}

    def _restore_state(self, state: dict[str, Any]) -> None:
        if state["map"] not in KINDS.values():
            raise ValueError(f"the state's map {state['map']!r} is not known")
        weights = saved_array(state, "weights_", (None, None))
        if weights.size == 0:
            raise ValueError("the state has no weights")
        n_inputs = saved_int(state, "n_features_in_", 1, max(len(weights), 10**6))
        features, trend = None, state["trend"]
        if state["map"] is not None:
            frequencies = saved_array(
                state, "frequencies", (None, n_inputs), np.float64
            )
            if len(saved_array(state, "phases", (None,), np.float64)) != len(
                frequencies
            ):
                raise ValueError("the state's phases do not fit its frequencies")
            features = _Map(state)
        offset, outputs = np.asarray(state["offset_"]), weights.shape[1]
        if offset.shape not in ((), (outputs,)) or not np.isfinite(offset).all():
            raise ValueError("the state's offset does not fit its weights")
        if state["one_output"] and outputs != 1:
            raise ValueError(f"the state has {outputs} outputs, not one")
        self.__dict__.update(state)
        self._map = StreamMap(
            features,
            n_inputs,
            weights.dtype,
            bool(state["intercept"]),
            0.0 if trend is None else 1.0,
        )
        self._index = 0.0 if trend is None else float(trend)
        if weights.shape[0] != self._map.n_features:
            raise ValueError(
                f"the state has {weights.shape[0]} weights, but its map gives "
                f"{self._map.n_features} features"
            )
        if "classes_" in state and len(state["classes_"]) != weights.shape[1]:
            raise ValueError("the state's classes do not fit its weights")


class _Map:
    """A Fourier map of given numbers, as a `StreamMap` reads it."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.map, self.amplitude_ = state["map"], state["amplitude"]
        self.frequencies_ = np.asarray(state["frequencies"], np.float64)
        self.phases_ = np.asarray(state["phases"], np.float64)
