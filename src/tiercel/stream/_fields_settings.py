"""What the user gives to locally weighted projection regression, checked."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from tiercel.stream._fields_memory import Array, Rule

SMALLEST, LARGEST = 1e-30, 1e30  # of what inputs and metrics are scaled with


def make_rule(model: Any, d: int) -> Rule:
    """Return the parameters of a model of d inputs, or raise ValueError."""
    memory = np.ravel(np.asarray(model.forgetting, dtype=object))
    if len(memory) != 3:
        raise ValueError(
            f"forgetting must hold 3 numbers (first, last, blend), not {memory}"
        )
    most = model.max_fields
    if not isinstance(most, Integral) or int(most) < 1:
        raise ValueError(f"max_fields must be a whole number above 0, not {most!r}")
    ranges = 1.0 if model.input_range is None else model.input_range
    meta = -1.0 if model.meta_rate is None else within(model.meta_rate, "meta_rate", 0)
    below = within(model.generate_below, "generate_below", SMALLEST, 1)
    first, last, blend = (within(f, "forgetting", SMALLEST, 1) for f in memory)
    return Rule(
        input_range=per_input(ranges, "input_range", d),
        init_root=np.sqrt(per_input(model.init_metric, "init_metric", d)),
        init_rate=within(model.init_rate, "init_rate", SMALLEST),
        meta_rate=meta,
        generate_below=below,
        prune_above=within(model.prune_above, "prune_above", below, 1),
        add_threshold=within(model.add_threshold, "add_threshold", 0, 1),
        metric_penalty=within(model.metric_penalty, "metric_penalty", 0),
        first_forgetting=first,
        last_forgetting=last,
        blend=blend,
        max_fields=int(most),
    )


def same_rule(one: Rule, other: Rule) -> bool:
    """Tell whether two models go on learning in the same way."""
    parts: Any = zip(one, other, strict=True)
    return all(np.array_equal(mine, theirs) for mine, theirs in parts)


def within(value: Any, name: str, low: float, high: float = LARGEST) -> float:
    """Return a number from ``low`` to ``high``, or raise ValueError."""
    if not (isinstance(value, Real) and low <= float(value) <= high):
        raise ValueError(
            f"{name} must be a number from {low:g} to {high:g}, not {value!r}"
        )
    return float(value)


def per_input(value: Any, name: str, d: int) -> Array:
    """Return a positive number for each of d inputs, or raise ValueError."""
    found = np.asarray(value)
    if found.dtype.kind not in "fiu" or found.shape not in ((), (d,)):
        raise ValueError(
            f"{name} must be a number or {d} numbers, one per input, not {value!r}"
        )
    if not ((found >= SMALLEST) & (found <= LARGEST)).all():
        raise ValueError(
            f"{name} must be positive (and of a usual size), not {value!r}"
        )
    return np.array(np.broadcast_to(found, d), dtype=np.float64)


def as_floats(values: Any, name: str) -> Array:
    """Return one sample's numbers in float64, or raise ValueError."""
    if type(values) is np.ndarray and values.dtype.char == "d":
        return values
    found = np.asarray(values)
    if found.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, not {found.dtype}")
    return found.astype(np.float64)


def plain(array: Any) -> Array:
    """Return the array in the one form that the loops are compiled for."""
    return np.require(array, np.float64, ["C", "W"])


def own(parts: Any) -> Any:
    """Return a named tuple whose arrays may be written to, whoever made them."""
    return type(parts)(
        *(np.array(p) if isinstance(p, np.ndarray) else p for p in parts)
    )


def rows_of(y: Any) -> Array:
    """Return outputs as one row per sample."""
    if sparse.issparse(y):
        raise ValueError("y is sparse, but outputs are dense; pass y.toarray()")
    return plain(np.reshape(y, (len(y), -1)))


def check_marks(state: dict[str, Any]) -> dict[str, Any]:
    """Return what a saved model knows beside its fields, or raise ValueError."""
    marks, counts = dict(state), ("n_features_in_", "n_outputs_", "n_samples_seen_")
    names, one_output = marks.pop("feature_names_in_", None), marks.pop("one_output", 0)
    good = sorted(marks) == sorted(counts) and isinstance(one_output, bool)
    if not (good and all(type(n) is int and n >= 0 for n in marks.values())):
        raise ValueError(f"the state of the model must hold one_output and {counts}")
    d, outputs = marks["n_features_in_"], marks["n_outputs_"]
    if d == 0 or outputs == 0 or (one_output and outputs != 1):
        raise ValueError(f"the state is over {d} inputs, for {outputs} outputs")
    if names is not None and not (
        isinstance(names, list)
        and len(names) == d
        and all(isinstance(name, str) for name in names)
    ):
        raise ValueError("the state must hold one name per input, or none")
    return {"names": names, "one_output": one_output, "marks": marks}
