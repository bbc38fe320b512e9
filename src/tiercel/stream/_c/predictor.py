"""A header that only predicts, put together for one model."""

from __future__ import annotations

import numpy as np

from tiercel.stream._c import frozen, header, maps, text
from tiercel.stream._maps import StreamMap
from tiercel.stream.frozen import FrozenPredictor

EXAMPLE = """\
#include "model.h"
double mean[MODEL_OUTPUTS];
if (model_predict(x, mean)) complain();
"""
CLASS_EXAMPLE = """\
#include "model.h"
double scores[MODEL_OUTPUTS];
int answer;
if (model_predict(x, scores, &answer)) complain();
"""


def predictor_code(model: FrozenPredictor) -> str:
    """Return the header of a frozen model, under the name ``model``."""
    kept = vars(model)
    map, weights = model._map, np.asarray(kept["weights_"])
    flags = maps.flags_of(map) | ({"classes"} if "classes_" in kept else set())
    first = int("intercept" in flags)
    last = len(weights) - int("trend" in flags)
    constant = np.zeros(weights.shape[1]) + kept["offset_"]
    constant += weights[:first].sum(0) + model._index * weights[last:].sum(0)
    tables = [
        text.constant("model_limit", header.LIMITS[weights.dtype.char]),
        maps.numbers_of(map),
        text.table("double model_constant", constant),
        text.table("model_real model_weights", weights[first:last].reshape(-1)),
    ]
    waves, linear = [maps.WAVES, frozen.WAVE_SUM], [frozen.LINEAR_SUM]
    sections = [
        _title(model, map, weights),
        header.OPENING,
        header.sizes(maps.sizes_of(map) | {"OUTPUTS": weights.shape[1]}),
        f"typedef {header.REALS[weights.dtype.char]} model_real;\n",
        "".join(tables),
        maps.CHECK,
        *(linear if "linear" in flags else waves),
        frozen.CLASSIFY if "classes" in flags else frozen.PREDICT,
        header.CLOSING,
    ]
    return text.fill("\n".join(sections), flags)


def _title(model: FrozenPredictor, map: StreamMap, weights: np.ndarray) -> str:
    told = (
        f"A frozen model: {maps.told_of(map, weights.shape[1], len(weights))}, "
        f"{weights.dtype}.  It predicts and has no state, so that any number of "
        "threads may call it."
    )
    tables = (map.compiled.frequencies, map.compiled.phases, weights)
    example, classes = EXAMPLE, []
    if "classes_" in vars(model):
        labels = np.asarray(model.classes_).tolist()
        example, classes = CLASS_EXAMPLE, [f"Classes: {header.named(labels)}."]
    notes = [
        "x holds MODEL_INPUTS numbers.  MODEL_BAD_SAMPLE says that they are NaN, "
        "infinite or absurdly large; nothing is written then.",
        *classes,
        f"Memory: {sum(table.nbytes for table in tables):,} bytes of constants, "
        f"{3 * 8 * maps.CHUNK:,} bytes of stack.",
    ]
    return header.title(told, example, notes)
