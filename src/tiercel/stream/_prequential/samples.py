"""What is the next sample? Arrays and iterables, read one sample at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tiercel._arrays import check_float, is_torch, to_numpy
from tiercel.stream._prequential.models import answers_with_labels

Pair = tuple[Any, Any]


class Sample(NamedTuple):
    """One sample, checked.

    ``x`` is None where nobody needs a vector; ``y`` is what the model learns,
    ``target`` the same as numbers, with codes for labels.
    """

    given: Any
    x: np.ndarray | None
    y: Any
    target: np.ndarray


class Samples:
    """A stream whose first sample says what all the others must look like.

    Attributes
    ----------
    total : int or None
        Number of samples, where it is known.
    columns : list
        Names of the inputs.
    output_names : tuple of str
    scalar : bool
        Whether a target is a single value and not a vector.
    are_labels : bool
        Whether targets are classes.
    codes : dict
        Code of each label that came up.
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        *,
        vectors: bool,
        output_names: Sequence[str] | None = None,
    ) -> None:
        self.pairs: Iterator[Pair]
        if y is None:
            self.pairs, first = _open_iterable(X)
            self.total, self._y = None, None
            columns, names = _keys(first[0]), _keys(first[1])
        else:
            columns, names = _column_names(X), _column_names(y)
            X, y = _matrix(X), _matched_targets(X, y)
            self.pairs, first = zip(X, y, strict=True), (X[0], y[0])
            self.total, self._y = len(X), y
        self.columns = columns or list(range(np.size(first[0])))
        self._keys = names
        self._vectors = vectors
        self.scalar, n_outputs = _shape_of_target(first[1])
        targets = first[1] if y is None else y
        self.are_labels = n_outputs == 1 and answers_with_labels(model, targets)
        self.output_names = _named(output_names or names, n_outputs)
        self.codes: dict[Any, int] = {}

    def known_labels(self) -> np.ndarray | None:
        """Return the labels of the whole stream, where they are known."""
        return None if self._y is None else np.unique(self._y)

    def read(self, given: Any, y: Any) -> Sample:
        """Return one sample, checked; raise ValueError where it will not do."""
        x = self._vector(given) if self._vectors else None
        if self.are_labels:
            return Sample(given, x, y, np.array([self.code(y)], np.float64))
        if isinstance(y, dict):
            y = [y.get(key, np.nan) for key in self._keys or ()]
        target = np.asarray(y, np.float64).reshape(-1)
        if len(target) != len(self.output_names):
            raise ValueError(
                f"{len(target)} targets came in where the first sample had "
                f"{len(self.output_names)}"
            )
        if not np.isfinite(target).all():
            raise ValueError("a target is NaN or infinite")
        return Sample(given, x, y if self.scalar else target, target)

    def code(self, label: Any) -> int:
        """Return the number that stands for a label."""
        label = label.item() if isinstance(label, (np.generic, np.ndarray)) else label
        if label is None or label != label:
            raise ValueError(f"the label {label} is none")
        return self.codes.setdefault(label, len(self.codes))

    def _vector(self, given: Any) -> np.ndarray:
        if isinstance(given, dict):
            values = [given.get(column, np.nan) for column in self.columns]
            try:
                return np.array(values, np.float64)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"the input {given} does not hold numbers alone; with "
                    "baselines=False, a River model can learn from it"
                ) from error
        x = check_float(to_numpy(given), "x")
        if x.shape != (len(self.columns),):
            raise ValueError(
                f"an input of shape {x.shape} came in where the first sample had "
                f"{len(self.columns)} numbers"
            )
        return x


def unpack(pair: Any) -> Pair:
    """Return the input and the target that an iterable yielded."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(
            "without y, X must yield pairs (x, y), but it yielded "
            f"{type(pair).__name__}"
        )
    given, y = (to_numpy(part) if is_torch(part) else part for part in pair)
    return given, y


def _open_iterable(X: Any) -> tuple[Iterator[Pair], Pair]:
    """Return all pairs that X yields, and the first of them."""
    if hasattr(X, "shape") or not isinstance(X, Iterable):
        raise TypeError(
            "y is missing; without it X must be an iterable of pairs (x, y)"
        )
    pairs = iter(X)
    try:
        first = unpack(next(pairs))
    except StopIteration:
        raise ValueError("the stream holds no samples") from None
    return chain([first], pairs), first


def _matrix(X: Any) -> np.ndarray:
    """Return the inputs as a matrix of floats; NaN is the model's affair."""
    if sparse.issparse(X):
        raise TypeError("sparse inputs cannot be streamed; pass X.toarray()")
    X = check_float(to_numpy(X), "X")
    if X.ndim != 2 or not X.shape[1]:
        raise ValueError(f"X must be a matrix with one sample per row, not {X.shape}")
    if not len(X):
        raise ValueError("the stream holds no samples")
    return X


def _matched_targets(X: Any, y: Any) -> np.ndarray:
    """Return the targets, one or one row per sample."""
    y = to_numpy(y)
    if y.ndim not in (1, 2) or len(y) != len(X) or not y.size:
        raise ValueError(
            f"y must have shape ({len(X)},) or ({len(X)}, T), but it is {y.shape}"
        )
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 and y.dtype.kind != "f" else y


def _shape_of_target(y: Any) -> tuple[bool, int]:
    """Tell whether a target is a single value, and how many values it has."""
    if isinstance(y, dict):
        return False, len(y)
    if np.ndim(y) > 1 or not np.size(y):
        raise ValueError(
            f"a target is one value or a vector, not an array of shape {np.shape(y)}"
        )
    return np.ndim(y) == 0, np.size(y)


def _keys(value: Any) -> list[Any] | None:
    return list(value) if isinstance(value, dict) else None


def _column_names(table: Any) -> list[Any] | None:
    columns = getattr(table, "columns", None)
    return None if columns is None else list(columns)


def _named(names: Sequence[Any] | None, n_outputs: int) -> tuple[str, ...]:
    if names is None:
        names = ["y"] if n_outputs == 1 else [f"y{i}" for i in range(n_outputs)]
    if isinstance(names, str) or len(names) != n_outputs:
        raise ValueError(f"output_names must hold {n_outputs} names, not {names!r}")
    return tuple(str(name) for name in names)
