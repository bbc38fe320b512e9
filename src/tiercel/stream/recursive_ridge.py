"""Ridge regression that follows a stream."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from tiercel.stream._joining import rows_of_moments, same_map
from tiercel.stream._maps import StreamMap, fitted
from tiercel.stream._one_by_one import (
    CHANGED,
    OneByOne,
    check_dtype,
    check_positive,
    check_weights,
    unchanged_if_refused,
)
from tiercel.stream._recursion import Recursion
from tiercel.stream._window import SlidingWindow


class RecursiveRidge(OneByOne, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Ridge regression over any features, one sample at a time, exactly.

    After any samples in any order the model is the minimiser of::

        sum of w_i (y_i - <w, phi(x_i)> - b)^2 + ridge ||w||^2

    to rounding: no learning rate, no approximation. Time and memory per sample depend
    on the number of features F only, O(F^2), and an extra output costs O(F). The model
    keeps the Cholesky factor R of the regularised moments and the rotated targets
    R^-T (sum of w phi y), updated by Givens rotations (Gijsberts 2011, section 4.3;
    Camoriano 2017, section 7.4.2), which is the numerically stable form.

    Parameters
    ----------
    features : None or transformer
        What is between the inputs and the linear model:
        `tiercel.features.FourierFeatures` for a kernel, None for the inputs
        themselves, or another scikit-learn transformer. It is cloned, and fitted to
        the first rows that come. That does for a `FourierFeatures`, which only looks
        at their number of columns; wrap what was fitted to other data beforehand in
        `sklearn.frozen.FrozenEstimator`.
    ridge : float
        Weight of ||w||^2 against the *summed* loss. A batch estimator's ``penalty``
        belongs to the mean: ridge = n * penalty.
    forgetting : float, from 0 (excluded) to 1
        Factor by which all earlier samples fade whenever a new one comes, even one of
        weight 0, for a world that changes: 1 - 1/n remembers about n samples. The ridge
        does not fade with them: the model restores it feature by feature, and no
        feature's falls below half.
    window : int, optional
        Learn from the last so many samples only, each removed exactly in its turn.
    fit_intercept : bool
        Whether b is there; it goes unpenalised.
    dtype : "float64" or "float32"
        Of the model's state. Rounding errors of a long stream stay small in float64;
        float32 is faster from some hundreds of features on.

    Attributes
    ----------
    coef_ : array of shape (F,) or (T, F)
    intercept_ : float or array of shape (T,)
    n_samples_seen_ : int
        Samples in the model.
    features_ : transformer or None
        As fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from tiercel.features import FourierFeatures
    >>> from tiercel.kernels import Gaussian
    >>> model = RecursiveRidge(FourierFeatures(Gaussian(0.5), 50, random_state=0), 0.01)
    >>> for t in range(500):
    ...     x = np.array([np.cos(0.1 * t)])
    ...     prediction = model.predict_update(x, np.sin(3.0 * x[0]))
    >>> bool(abs(model.predict_one([0.5]) - np.sin(1.5)) < 0.01)
    True
    """

    def __init__(
        self,
        features: Any = None,
        ridge: float = 1.0,
        forgetting: float = 1.0,
        window: int | None = None,
        fit_intercept: bool = True,
        dtype: str = "float64",
    ) -> None:
        self.features = features
        self.ridge = ridge
        self.forgetting = forgetting
        self.window = window
        self.fit_intercept = fit_intercept
        self.dtype = dtype

    _window: SlidingWindow | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything and learn these rows."""
        if sample_weight is not None and not np.any(np.asarray(sample_weight)):
            raise ValueError(
                "Sample weights must contain at least one non-zero number."
            )
        with unchanged_if_refused(self):
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
        self._learn_rows(*self._checked_rows(X, y, sample_weight))
        return self

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
        float, or array of shape (T,)
            The prediction made before learning.
        """
        if sample_weight != 1.0:
            check_weights(np.array([sample_weight], np.float64))
        return self._predict_update(x, y, sample_weight)

    # --- what the mixin asks for -----------------------------------------------

    def _check_parameters(self) -> None:
        check_positive(self.ridge, "ridge")
        check_positive(self.forgetting, "forgetting")
        if self.forgetting > 1.0:
            raise ValueError(f"forgetting must be 1 at most, not {self.forgetting!r}")
        check_dtype(self.dtype)
        if self.window is not None:
            if not isinstance(self.window, Integral) or self.window < 2:
                raise ValueError(f"window must be 2 samples or more: {self.window!r}")
            if self.forgetting < 1.0:
                raise ValueError("a window forgets already: leave forgetting at 1")

    def _begin(self, X: np.ndarray, Y: np.ndarray) -> None:
        self._check_parameters()
        self.features_ = fitted(self.features, X, Y)

    def _map(self, n_inputs: int) -> StreamMap:
        return StreamMap(
            self.features_, n_inputs, np.dtype(self.dtype), bool(self.fit_intercept)
        )

    def _empty(self, map: StreamMap, n_outputs: int) -> Recursion:
        def empty() -> Recursion:
            ridge = np.full(map.n_features, float(self.ridge))
            ridge[: int(bool(self.fit_intercept))] = 0.0
            dtype = np.dtype(self.dtype)
            return Recursion(map, n_outputs, ridge, dtype, float(self.forgetting))

        if self.window is not None:
            self._window = SlidingWindow(int(self.window), empty())
        return empty()

    def _worded(self, mean: np.ndarray, leverage: float) -> Any:
        return mean.item(0) if self._one_output else mean.copy()

    def reset(self) -> Self:
        """Forget all samples; parameters stay."""
        super().reset()
        for name in ("_window", "features_"):
            self.__dict__.pop(name, None)
        return self

    # --- windows, which remove what they learned -------------------------------

    def _learn_taken(self, recursion: Recursion, weight: float) -> float:
        if self._window is None:
            return recursion.learn(weight)
        return self._window.learn(recursion, weight)

    def _learn_rows(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        recursion = self._begun()
        if self._window is None:
            recursion.learn_rows(X, Y, weights)
            return
        for x, y, weight in zip(recursion.map.rows_taken(X), Y, weights, strict=True):
            recursion.x[:], recursion.y[:] = x, y
            self._window.learn(recursion, weight)

    # --- samples that leave, models that join ----------------------------------

    def remove(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take learned samples out again, as if they had never been there.

        Parameters
        ----------
        X, y, sample_weight : as they were learned

        Returns
        -------
        self

        Raises
        ------
        FactorisationError
            A sample was never learned, or with another weight; or the ridge is too
            small to go back to. Those before it are out, it and those after it are
            not.

        Examples
        --------
        >>> model = RecursiveRidge(ridge=0.1).fit([[0.0], [1.0], [5.0]], [0, 1, 9])
        >>> model.remove([[5.0]], [9]).predict([[1.0]]).round(3)
        array([0.917])
        """
        recursion = self._begun()
        if self._window is not None or self.forgetting < 1.0:
            raise ValueError(
                "a model with a window or with forgetting removes its samples itself"
            )
        X, Y, weights = self._checked_rows(X, y, sample_weight)
        taken = recursion.map.rows_taken(X)
        for x, row, weight in zip(taken, Y, weights, strict=True):
            recursion.x[:], recursion.y[:] = x, row
            recursion.remove(weight)
        return self

    def merge(self, other: RecursiveRidge) -> Self:
        """Learn all that another model, trained apart, has learned.

        Parameters
        ----------
        other : RecursiveRidge
            With the same features (same ``random_state``, an int) and inputs. It stays
            as it is.

        Returns
        -------
        self, as if it had seen both streams with its own ridge

        Raises
        ------
        FactorisationError
            The other model's ridge is so large that its rounding errors would hide
            what is left without it. The model is unchanged.

        Examples
        --------
        >>> a = RecursiveRidge(ridge=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
        >>> b = RecursiveRidge(ridge=0.1).fit([[2.0]], [1.5])
        >>> both = RecursiveRidge(ridge=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.5])
        >>> bool(np.allclose(a.merge(b).coef_, both.coef_))
        True
        """
        if not isinstance(other, RecursiveRidge):
            raise TypeError(f"a {type(other).__name__} does not merge into this model")
        mine, theirs = self._begun(), other._begun()
        if self._window is not None or other._window is not None:
            raise ValueError("models with a window do not merge: whose samples stay?")
        if mine.state.Z.shape != theirs.state.Z.shape or not same_map(mine, theirs):
            raise ValueError(
                "the models differ in their features or outputs; give both the same "
                "FourierFeatures(random_state=<an int>), or one and the same fitted "
                "transformer in a FrozenEstimator"
            )
        mine.merge(theirs)
        return self

    def learn_moments(
        self, gram: Any, cross: Any, squares: Any, n_samples: int
    ) -> Self:
        """Learn samples of which only moments over the features are left.

        What a batch method has accumulated (`tiercel.products.gram`, say) is taken
        over, and the stream goes on from there.

        Parameters
        ----------
        gram : array of shape (F, F)
            Sum of phi phi'; F counts the leading 1 of an intercept.
        cross : array of shape (F,) or (F, T)
            Sum of phi y'.
        squares : float or array of shape (T,)
            Sum of y^2.
        n_samples : int
            How many samples these are.

        Returns
        -------
        self

        Notes
        -----
        A sum of squares has lost half its digits; where they matter, give the rows
        themselves to ``partial_fit``. A model without any sample does not know its
        inputs yet: let it begin with one of weight 0.

        Examples
        --------
        >>> X, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([0, 1, 3.0])
        >>> model = RecursiveRidge(ridge=1.0).fit(X[:1, 1:], y[:1])
        >>> model.learn_moments(X[1:].T @ X[1:], X[1:].T @ y[1:], y[1:] @ y[1:], 2)
        RecursiveRidge()
        >>> bool(np.allclose(model.coef_, RecursiveRidge().fit(X[:, 1:], y).coef_))
        True
        """
        recursion = self._begun()
        if self._window is not None:
            raise ValueError("moments cannot leave a window again")
        size, outputs = recursion.state.Z.shape
        cross = np.asarray(cross, np.float64).reshape(-1, outputs)
        gram, squares = np.asarray(gram, np.float64), np.reshape(squares, -1)
        if gram.shape != (size, size) or cross.shape != (size, outputs):
            raise ValueError(
                f"gram must be ({size}, {size}) and cross ({size}, {outputs}), not "
                f"{gram.shape} and {cross.shape}"
            )
        if len(squares) != outputs or int(n_samples) < 1:
            raise ValueError(
                "squares needs one number per output, n_samples one sample"
            )
        if not all(np.isfinite(moment).all() for moment in (gram, cross, squares)):
            raise ValueError("the moments hold NaN or infinite values")
        rows, rotated = rows_of_moments(gram, cross)
        recursion.absorb(rows, rotated)
        left = squares - (rotated**2).sum(0)
        recursion.state.rss[...] += np.maximum(left, 0.0)
        recursion.seen += int(n_samples)
        recursion.restore_ridge()
        return self

    # --- what was learned ------------------------------------------------------

    @property
    def coef_(self) -> np.ndarray:
        """The weights of the features."""
        recursion = self._begun()
        weights = recursion.weights()[int(recursion.map.compiled.intercept) :].T
        return weights[0].copy() if self._one_output else weights.copy()

    @property
    def intercept_(self) -> Any:
        """The constant b."""
        recursion = self._begun()
        if not recursion.map.compiled.intercept:
            return 0.0
        first = recursion.weights()[0]
        return float(first[0]) if self._one_output else first.copy()

    def _check_settings(self, recursion: Recursion) -> None:
        super()._check_settings(recursion)
        begun = recursion.state
        window = None if self._window is None else len(self._window.weights)
        if (self.window, float(self.forgetting), float(self.ridge)) != (
            window,
            begun.forgetting,
            begun.ridge[-1],
        ):
            raise ValueError(CHANGED)

    def _saved_state(self) -> dict[str, Any]:
        state = super()._saved_state()
        window = state.pop("_window", None)
        if window is not None:
            state["window_"] = window.arrays()
        return state

    def _restore_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        window = state.pop("window_", None)
        super()._restore_state(state)
        if (window is None) != (self._window is None):
            raise ValueError(
                "the state has a window and its parameters none, or reverse"
            )
        if window is not None and self._window is not None:
            self._window.restore(window, self._begun())
