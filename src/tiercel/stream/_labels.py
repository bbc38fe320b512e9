"""Class labels of any type, and the columns that stand for them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

PLAIN = {bool, int, float, str}


def labelled_rows(
    estimator: Any, X: Any, y: Any, *, reset: bool
) -> tuple[np.ndarray, list[Any]]:
    """Return checked rows and the labels of each as Python values."""
    X, y = validate_data(
        estimator, X, as_label_array(y), reset=reset, dtype=np.float64, order="C"
    )
    if y.dtype.kind == "f":
        check_classification_targets(y)
    return X, as_labels(y)


def as_label(y: Any) -> Any:
    """Return one label as a Python value; raise ValueError for what cannot be one."""
    if isinstance(y, (np.generic, np.ndarray)) and np.ndim(y) == 0:
        y = y.item()
    if type(y) is str or type(y) is int or type(y) is bool:
        return y
    if y is None:
        raise ValueError("the label is None; a label must be a value")
    if isinstance(y, float) and not y.is_integer():
        raise ValueError(
            f"Unknown label type: {y!r} is no whole number; a class is named by a "
            "text, a whole number or another hashable value"
        )
    try:
        hash(y)
    except TypeError:
        raise ValueError(
            f"Unknown label type: {type(y).__name__} is not hashable; a class is named "
            "by a text, a whole number or another hashable value"
        ) from None
    return y


def as_label_array(y: Any) -> Any:
    """Return labels as an array, without turning the 1 of [1, "a"] into a text."""
    found = np.asarray(y) if isinstance(y, (list, tuple)) else y
    if found is not y and found.dtype.kind in "US" and found.ndim == 1:
        texts = all(isinstance(label, (str, bytes)) for label in y)
        return found if texts else class_array(y)
    return found


def as_labels(y: Any) -> list[Any]:
    """Return the labels of rows as Python values."""
    y = np.asarray(as_label_array(y)).reshape(-1)
    labels = y.tolist()
    return labels if y.dtype.kind in "biuUS" else [as_label(label) for label in labels]


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Return the labels that occur, sorted if they can be."""
    once = list(dict.fromkeys(labels))
    try:
        return sorted(once)
    except TypeError:
        return once


def class_array(labels: Iterable[Hashable]) -> np.ndarray:
    """Return labels as an array, of objects unless all have one simple type."""
    labels = list(labels)
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= PLAIN:
        return np.array(labels)
    array = np.empty(len(labels), object)
    for place, label in enumerate(labels):
        array[place] = label
    return array


class Classes:
    """The labels of the classes that are known, one column each.

    Labels that are equal (1, 1.0 and True) are the same class.
    """

    def __init__(self, labels: Iterable[Any] = ()) -> None:
        self.labels: list[Any] = []
        self.columns: dict[Any, int] = {}
        self.array = np.empty(0, object)
        self.extend(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def extend(self, labels: Iterable[Any]) -> None:
        """Make those classes known that are not, in the order in which they come."""
        known = len(self.labels)
        for label in labels:
            if label not in self.columns:
                self.columns[label] = len(self.labels)
                self.labels.append(label)
        if len(self.labels) > known:
            self.array = class_array(self.labels)

    def of(self, labels: Iterable[Any]) -> np.ndarray:
        """Return the columns of labels, all of which are known."""
        return np.fromiter((self.columns[label] for label in labels), np.intp)
