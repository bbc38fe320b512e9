"""Where the fields of locally weighted projection regression lie in memory.

The numbers of a field lie in four arrays, whose rows are named in `_fields`. There is
room for more fields, and for wider ones, than are used; the room doubles when it is
full. The last place of each output holds a blank field, from which new ones are copied.

The compiled loops keep the order of what stands here: whoever changes it changes
`_fields`, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray

DIRECTIONS = 3  # the row of `numbers` that says how many directions a field has
TINY = 1e-10  # the weight with which a field begins


class Fields(NamedTuple):
    """The fields of all p outputs of d inputs."""

    used: Array  # (p,)
    numbers: Array  # (p, places, 4)
    vectors: Array  # (p, places, 6, d)
    sums: Array  # (p, places, 9, width), width <= d directions
    axes: Array  # (p, places, 4, width, d)


class Rule(NamedTuple):
    """What the constructor was told, in the form that the loops want."""

    input_range: Array
    init_root: Array
    init_rate: float
    meta_rate: float  # negative: no meta learning
    generate_below: float
    prune_above: float
    add_threshold: float
    metric_penalty: float
    first_forgetting: float
    last_forgetting: float
    blend: float
    max_fields: int


class Room(NamedTuple):
    """Where one sample lies while it is learned."""

    x: Array  # (1, d)
    y: Array  # (1, p)
    before: Array  # (1, p): what was predicted
    nothing: Array  # (0, p): nobody asked
    work: Array  # (3, d): scaled input, residual input, scores

    @classmethod
    def of(cls, d: int, outputs: int) -> Room:
        """Return room for samples of d inputs."""
        shapes = (1, d), (1, outputs), (1, outputs), (0, outputs), (3, d)
        return cls(*(np.zeros(shape) for shape in shapes))


def blank_fields(rule: Rule, outputs: int, places: int, width: int) -> Fields:
    """Return arrays in which every place holds a field that has seen nothing."""
    d = len(rule.init_root)
    numbers, vectors = np.zeros((outputs, places, 4)), np.zeros((outputs, places, 6, d))
    sums = np.zeros((outputs, places, 9, width))
    axes = np.zeros((outputs, places, 4, width, d))
    numbers[:, :, DIRECTIONS] = min(2, d)
    vectors[:, :, 0] = rule.init_root
    sums[:, :, :3] = TINY  # what is divided by, and the count of samples
    sums[:, :, 3] = rule.first_forgetting
    axes[:, :, :2] = np.eye(width, d)  # directions, loadings: the coordinate axes
    return Fields(np.zeros(outputs, np.int64), numbers, vectors, sums, axes)


def first_fields(rule: Rule, outputs: int) -> Fields:
    """Return no fields, with room for a few."""
    width = min(2, len(rule.init_root))
    return blank_fields(rule, outputs, 1 + min(16, rule.max_fields), width)


def enlarged(fields: Fields, rule: Rule) -> Fields:
    """Return the same fields, with twice the room of the kind that is used up."""
    _, places, _, width, d = fields.axes.shape
    most = int(fields.used.max())
    if most == places - 1:
        places = 1 + min(2 * most, rule.max_fields)
    if widest(fields) == width:
        width = min(2 * width, d)
    return copied(fields, blank_fields(rule, len(fields.used), places, width))


def widest(fields: Fields) -> int:
    """Return the largest number of directions in use."""
    used = [
        fields.numbers[output, :count, DIRECTIONS].max()
        for output, count in enumerate(fields.used)
        if count
    ]
    return int(max(used, default=0))


def copied(source: Fields, target: Fields) -> Fields:
    """Copy the fields in use into arrays of other sizes, and return these."""
    target.used[:] = source.used
    width = min(source.sums.shape[3], target.sums.shape[3])
    for o, count in enumerate(source.used):
        target.numbers[o, :count] = source.numbers[o, :count]
        target.vectors[o, :count] = source.vectors[o, :count]
        target.sums[o, :count, :, :width] = source.sums[o, :count, :, :width]
        target.axes[o, :count, :, :width] = source.axes[o, :count, :, :width]
    return target


def as_state(fields: Fields, rule: Rule) -> dict[str, Array]:
    """Return the fields in use, by name."""
    most, width = int(fields.used.max()), widest(fields)
    return copied(fields, blank_fields(rule, len(fields.used), most, width))._asdict()


def from_state(state: Any, rule: Rule, outputs: int) -> Fields:
    """Return fields that can go on learning, or raise ValueError.

    The compiled loops check nothing, so all that they use as an index is checked here.
    """
    d = len(rule.init_root)
    if not isinstance(state, dict) or set(state) != set(Fields._fields):
        raise ValueError(f"the state of the fields must hold {list(Fields._fields)}")
    kept = Fields(**{name: np.asarray(array) for name, array in state.items()})
    if kept.used.dtype != np.int64 or any(a.dtype != np.float64 for a in kept[1:]):
        raise ValueError("the state must hold its counts in int64, the rest in float64")
    most, width = kept.sums.shape[1:4:2] if kept.sums.ndim == 4 else (-1, -1)
    shapes = [
        (outputs,),
        (outputs, most, 4),
        (outputs, most, 6, d),
        (outputs, most, 9, width),
        (outputs, most, 4, width, d),
    ]
    if [array.shape for array in kept] != shapes or width > d:
        raise ValueError("the arrays of the state do not fit each other or the model")
    if kept.used.min() < 0 or kept.used.max() > min(most, rule.max_fields):
        raise ValueError("the state counts more fields than it holds or may hold")
    for o, count in enumerate(kept.used):
        directions = kept.numbers[o, :count, DIRECTIONS]
        good = (directions >= min(2, d)) & (directions <= width)
        if not (good & (directions == np.floor(directions))).all():
            raise ValueError("the state holds a field with too few or many directions")
    width = max(width, min(2, d))
    return copied(kept, blank_fields(rule, outputs, 1 + max(most, 1), width))
