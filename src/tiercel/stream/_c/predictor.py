"""A header that only predicts, put together for one model."""

from __future__ import annotations

from tiercel.stream._c import frozen, header, maps, text
from tiercel.stream._c.source import Weights

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


def predictor_code(source: Weights) -> str:
    """Return the header of a model that does not learn, under the name ``model``."""
    map, weights = source.map, source.weights
    flags = maps.flags_of(map)
    first = int("intercept" in flags)
    last = len(weights) - int("trend" in flags)
    constant = source.offset + weights[:first].sum(0)
    constant += source.trend * weights[last:].sum(0)
    tables = [
        text.constant("model_limit", header.LIMITS[weights.dtype.char]),
        maps.numbers_of(map),
        text.table("double model_constant", constant),
        text.table("model_real model_weights", weights[first:last].reshape(-1)),
    ]
    waves, linear = [maps.WAVES, frozen.WAVE_SUM], [frozen.LINEAR_SUM]
    sections = [
        _title(source),
        header.OPENING,
        header.sizes(maps.sizes_of(map) | {"OUTPUTS": weights.shape[1]}),
        f"typedef {header.REALS[weights.dtype.char]} model_real;\n",
        "".join(tables),
        maps.CHECK,
        *(linear if "linear" in flags else waves),
        frozen.PREDICT if source.classes is None else frozen.CLASSIFY,
        header.CLOSING,
    ]
    return text.fill("\n".join(sections), flags)


def _title(source: Weights) -> str:
    map, weights = source.map, source.weights
    told = (
        f"A frozen model: {maps.told_of(map, weights.shape[1], len(weights))}, "
        f"{weights.dtype}.  It predicts and has no state, so that any number of "
        "threads may call it."
    )
    tables = (map.compiled.frequencies, map.compiled.phases, weights)
    notes = [
        "x holds MODEL_INPUTS numbers.  MODEL_BAD_SAMPLE says that they are NaN, "
        "infinite or absurdly large; nothing is written then.",
        f"Memory: {sum(table.nbytes for table in tables):,} bytes of constants, "
        f"{3 * 8 * maps.CHUNK:,} bytes of stack.",
    ]
    if source.classes is None:
        return header.title(told, EXAMPLE, notes)
    classes = f"Classes: {header.named(source.classes)}."
    return header.title(told, CLASS_EXAMPLE, [classes, *notes])
