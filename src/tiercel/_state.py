"""What a ``_restore_state`` needs: the entries of a saved state, checked.

A file can be written on purpose, and compiled loops do not look at bounds. So an
estimator takes each entry of its state through one of these functions, with the shape
and range that its loops rely on, before it sets any attribute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tiercel._arrays import FLOATS, all_finite


def check_entries(state: dict[str, Any], *names: str) -> None:
    """Raise ValueError unless ``state`` holds exactly these names.

    Examples
    --------
    >>> check_entries({"R": 1}, "R", "z")
    Traceback (most recent call last):
    ValueError: the saved state misses z
    """
    missing, unknown = set(names) - set(state), set(state) - set(names)
    for what, some in (("misses", missing), ("holds unknown", unknown)):
        if some:
            raise ValueError(f"the saved state {what} {', '.join(sorted(some))}")


def saved_array(
    state: dict[str, Any],
    name: str,
    shape: tuple[int | None, ...],
    dtypes: Any = FLOATS,
    *,
    finite: bool = True,
) -> np.ndarray:
    """Return an array of the state, in C order, or raise ValueError.

    Parameters
    ----------
    state : dict
    name : str
    shape : tuple
        Lengths that it must have; None where any will do.
    dtypes : dtype or tuple of dtypes
        What it may hold; by default float32 or float64.
    finite : bool
        Whether NaN and infinite values are refused.

    Examples
    --------
    >>> saved_array({"R": np.eye(2)}, "R", (None, 2)).shape
    (2, 2)
    >>> saved_array({"R": np.eye(2)}, "R", (3, 3))
    Traceback (most recent call last):
    ValueError: R in the saved state has shape (2, 2), not (3, 3)
    """
    array = state.get(name)
    allowed = [
        np.dtype(d) for d in (dtypes if isinstance(dtypes, tuple) else (dtypes,))
    ]
    if not isinstance(array, np.ndarray) or array.dtype not in allowed:
        kinds = " or ".join(map(str, allowed))
        raise ValueError(f"{name} in the saved state must be an array of {kinds}")
    fits = len(shape) == array.ndim and all(
        n in (None, found) for n, found in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = str(shape).replace("None", "any")
        raise ValueError(
            f"{name} in the saved state has shape {array.shape}, not {wanted}"
        )
    if finite and array.dtype.kind == "f" and not all_finite(array):
        raise ValueError(f"{name} in the saved state holds NaN or infinite values")
    return np.require(array, requirements=["C", "W"])


def saved_int(
    state: dict[str, Any], name: str, least: int = 0, most: int | None = None
) -> int:
    """Return a whole number of the state between two limits, or raise ValueError.

    Examples
    --------
    >>> saved_int({"n_seen": 12}, "n_seen")
    12
    >>> saved_int({"head": 4}, "head", most=3)
    Traceback (most recent call last):
    ValueError: head in the saved state must be a whole number from 0 to 3, not 4
    """
    number: Any = state.get(name)
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not whole or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(
            f"{name} in the saved state must be a whole number {limits}, not {number!r}"
        )
    return int(number)
