"""The features of a streaming learner, for one sample and for many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from tiercel.stream import _loops

BLOCK = 4096  # rows of angles held at a time
MARGIN = 1e16  # by which features stay below their limit, for weights to grow into
KINDS = {"phase": _loops.COSINE, "sincos": _loops.SINE_COSINE}


def fitted(features: Any, X: np.ndarray, y: Any) -> Any:
    """Return a copy of a transformer, fitted; None, which is for no features, is None.

    Raises
    ------
    TypeError
        It is no transformer: a kernel, for instance, which `FourierFeatures` wraps.
    """
    if features is None:
        return None
    if isinstance(features, type) or not hasattr(features, "transform"):
        raise TypeError(
            "features must be None or a transformer, such as "
            f"FourierFeatures(Gaussian()), not {features!r}"
        )
    return clone(features).fit(X, y)


class StreamMap:
    """phi(x) = [1?, map of x, trend?].

    Random Fourier features are evaluated inside the compiled recursion; any other
    scikit-learn transformer is called from Python, before it.

    Parameters
    ----------
    features : fitted transformer or None
        None passes the inputs on as they are.
    n_inputs : int
    dtype : dtype
        Of the features.
    intercept : bool
        Whether a constant 1 comes first.
    trend_step : float
        With a value above 0 the last feature is the sample's index times this.
    """

    def __init__(
        self,
        features: Any,
        n_inputs: int,
        dtype: np.dtype,
        intercept: bool = False,
        trend_step: float = 0.0,
    ) -> None:
        self.n_inputs, self.trend_step = n_inputs, trend_step
        self.transformer: Any = None
        kind, scale, n_mapped = _loops.LINEAR, 1.0, n_inputs
        frequencies, phases = np.zeros((n_inputs, 0)), np.zeros(0)
        if hasattr(features, "frequencies_"):
            kind, scale = KINDS[features.map], float(features.amplitude_)
            frequencies = np.array(features.frequencies_.T, np.float64, order="C")
            check_frequencies(frequencies, n_inputs)
            phases = np.zeros(frequencies.shape[1])
            if kind == _loops.COSINE:
                phases[:] = features.phases_
            n_mapped = frequencies.shape[1] * (1 + (kind == _loops.SINE_COSINE))
        elif features is not None:
            self.transformer = features
            n_mapped = self._transformed(np.zeros((1, n_inputs))).shape[1]
        self.n_features = int(intercept) + n_mapped + (trend_step > 0)
        largest = limit_of(dtype) / MARGIN
        if not (0.0 < scale < largest and 0.0 <= trend_step < largest):
            raise ValueError(
                f"features of size {scale:.3g}, and a trend of {trend_step:.3g} per "
                f"sample, have no place in {dtype}"
            )
        count = len(phases)
        self.compiled = _loops.SampleMap(
            kind,
            frequencies,
            phases,
            scale,
            bool(intercept),
            np.zeros(count),
            np.zeros((2, count)),
            np.zeros(self.n_features, dtype),
        )
        #: What the compiled recursion takes: the inputs, or what a transformer gave.
        self.n_taken = n_inputs if self.transformer is None else n_mapped

    def taken(self, x: np.ndarray) -> np.ndarray:
        """Return what the compiled recursion takes for one sample."""
        if self.transformer is None:
            return x
        return self._transformed(x.reshape(1, -1))[0]

    def rows_taken(self, X: np.ndarray) -> np.ndarray:
        """Return what the compiled recursion takes for many samples."""
        taken = X if self.transformer is None else self._transformed(X)
        what = "X" if taken is X else f"what {type(self.transformer).__name__} made"
        self.check_size(taken, what)
        return taken

    def check_size(self, values: np.ndarray, what: str) -> None:
        """Raise ValueError where values are NaN, or too large to be squared."""
        limit = limit_of(self.compiled.phi.dtype)
        if not np.abs(values).max(initial=0.0) < limit:
            raise ValueError(
                f"{what} holds values of {limit:.0e} or more; rescale it. The model is "
                "unchanged"
            )

    def rows(self, taken: np.ndarray, index: Any) -> np.ndarray:
        """Return the features of rows that come at ``index``, one for all or each."""
        of = self.compiled
        phi = np.empty((len(taken), self.n_features), of.phi.dtype)
        begin = int(of.intercept)
        phi[:, :begin] = 1.0
        if of.kind == _loops.LINEAR:
            phi[:, begin : begin + self.n_taken] = taken
        else:
            for start in range(0, len(taken), BLOCK):
                block = slice(start, start + BLOCK)
                self._waves(taken[block], phi[block, begin:])
        if self.trend_step > 0:
            phi[:, -1] = self.trend_step * index
        return phi

    def _waves(self, X: np.ndarray, phi: np.ndarray) -> None:
        of = self.compiled
        angle = X @ of.frequencies + of.phases
        flat, count = angle.reshape(-1), angle.shape[1]
        both = of.kind == _loops.SINE_COSINE
        sine, cosine = np.empty(flat.size if both else 0), np.empty(flat.size)
        _loops.wave(flat, sine, cosine, of.scale)
        phi[:, :count] = cosine.reshape(angle.shape)
        if both:
            phi[:, count : 2 * count] = sine.reshape(angle.shape)

    def _transformed(self, X: np.ndarray) -> np.ndarray:
        found = self.transformer.transform(X)
        found = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        wanted = len(X), getattr(self, "n_taken", found.shape[-1])
        if found.shape != wanted:
            raise ValueError(
                f"{type(self.transformer).__name__} made an array of shape "
                f"{found.shape} instead of {wanted}; the model is unchanged"
            )
        return np.ascontiguousarray(found, dtype=np.float64)


def limit_of(dtype: np.dtype) -> float:
    """Return the size from which on numbers of this dtype may not be squared."""
    return _loops.HUGE if dtype.itemsize == 8 else _loops.HUGE_SINGLE


def check_frequencies(frequencies: np.ndarray, n_inputs: int) -> None:
    """Raise ValueError where frequencies do not make angles of so many inputs."""
    if frequencies.ndim != 2 or len(frequencies) != n_inputs:
        raise ValueError(f"the features' frequencies are not for {n_inputs} inputs")
    if not np.abs(frequencies).max(initial=0.0) < _loops.HUGE:
        raise ValueError("the features' frequencies are so large that angles overflow")
