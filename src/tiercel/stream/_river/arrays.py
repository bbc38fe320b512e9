"""From River's dicts and frames to arrays, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np


def in_order(names: Iterable[Hashable]) -> list[Any]:
    """Sort names of any type, the same in whatever order they come."""

    def key(name: Any) -> tuple[str, Any]:
        plain = isinstance(name, (str, int, float))
        return type(name).__name__, name if plain else repr(name)

    return sorted(names, key=key)


def width(places: Mapping[Any, int]) -> int:
    """Return how many inputs a learner has that knows these features.

    One at least, as no learner begins with none: the first feature takes that place.
    """
    return max(1, len(places))


def as_row(x: Mapping[Any, Any], names: Iterable[Any]) -> np.ndarray:
    """Return the numbers of a dict in the order of names; 0 for those that it lacks."""
    values = [x.get(name, 0.0) for name in names] or [0.0]
    row = np.asarray(values)
    if row.dtype.kind not in "fiub":
        for name, value in zip(names, values, strict=True):
            if np.asarray(value).dtype.kind not in "fiub":
                raise ValueError(
                    f"{name!r} is {value!r}, which is not a number: encode texts, and "
                    "fill in what is missing, ahead of the model; it is unchanged"
                )
    return row.astype(np.float64)


def as_rows(X: Any, places: Mapping[Any, int]) -> np.ndarray:
    """Return the rows of a frame with their numbers in place; 0 where it has none."""
    from river.utils.dataframe import to_numpy

    kinds = {name: str(dtype) for name, dtype in X.schema.items()}
    texts = [n for n, k in kinds.items() if k.startswith(("String", "Cat", "Enum"))]
    if texts:
        raise ValueError(
            f"the column {texts[0]!r} holds texts, not numbers: encode them ahead of "
            "the model; it is unchanged"
        )
    rows = np.zeros((len(X), width(places)))
    known = [place for place, name in enumerate(X.columns) if name in places]
    rows[:, [places[X.columns[place]] for place in known]] = to_numpy(X)[:, known]
    return rows


def as_frame(X: Any) -> Any:
    """Return a DataFrame of pandas, polars, ... as River reads them all."""
    from river.utils.dataframe import into_frame

    return into_frame(X)


def as_targets(y: Any) -> np.ndarray:
    """Return a Series as an array."""
    from river.utils.dataframe import into_series

    return into_series(y).to_numpy()


def as_series(values: Any, like: Any) -> Any:
    """Return predictions for the rows of a frame as a Series of the same library."""
    from river.utils.dataframe import to_native_series

    return to_native_series(values, name=None, like=like)


def normal(mean: float, std: float) -> Any:
    """Return a normal distribution as River has it."""
    from river.proba import Gaussian

    return Gaussian._from_state(n=1, m=mean, var=std**2, ddof=0)
