"""A header that goes on learning, put together for one model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiercel.stream._c import classes, header, learning, maps, text
from tiercel.stream._c.source import Source

EXAMPLE = """\
#include "model.h"
static model_state state; // too large for a stack
double mean[MODEL_OUTPUTS];
model_reset(&state);
while (read_sample(x, y))
    if (model_predict_update(&state, x, y, 1.0, mean, 0)) complain();
"""
CLASS_EXAMPLE = """\
#include "model.h"
static model_state state; // too large for a stack
double scores[MODEL_OUTPUTS];
int answer;
model_reset(&state);
if (model_predict(&state, x, scores, &answer)) complain();
if (model_update(&state, x, label, 1.0)) complain();
"""
REGRESSION_NOTE = (
    "x holds MODEL_INPUTS and y MODEL_OUTPUTS numbers, 1.0 is the sample's weight, and "
    "in place of 0 may stand the address of a double for SPREAD.  model_predict and "
    "model_update are the two halves.  MODEL_BAD_SAMPLE (NaN, infinite or absurdly "
    "large numbers) and MODEL_BAD_WEIGHT say that nothing was learned: state and "
    "outputs are as they were.  One state serves one thread."
)
CLASS_NOTE = (
    "x holds MODEL_INPUTS numbers, label and answer are places among the classes (-1: "
    "nothing has been learned), 1.0 is the sample's weight.  model_predict_update does "
    "both at the cost of one.  MODEL_BAD_SAMPLE (NaN, infinite or absurdly large "
    "numbers), MODEL_BAD_LABEL and MODEL_BAD_WEIGHT say that nothing was learned: "
    "state and outputs are as they were.  One state serves one thread."
)


def learner_code(source: Source, fresh: bool) -> str:
    """Return the header of a recursive model, under the name ``model``.

    With ``fresh`` it begins with nothing learned.
    """
    flags, map = source.flags, source.recursion.map
    tables = _settings(source, flags, fresh) + maps.numbers_of(map)
    waves, linear = [maps.WAVES, maps.WAVE_FEATURES], [maps.LINEAR_FEATURES]
    answers = classes if "classes" in flags else learning
    sections = [
        _title(source, flags, fresh),
        header.OPENING,
        header.sizes(_sizes(source)),
        f"typedef {header.REALS[source.rotated.dtype.char]} model_real;\n",
        learning.STATE,
        tables + ("" if fresh else _learned(source, flags)),
        maps.CHECK,
        *(linear if "linear" in flags else waves),
        learning.RESET_EMPTY if fresh else learning.RESET_LEARNED,
        learning.SOLVE,
        learning.ROTATE,
        *([learning.REFRESH, learning.FORGET] if "fading" in flags else []),
        learning.CHECK,
        answers.PREDICT,
        answers.UPDATE,
        header.CLOSING,
    ]
    filled = text.fill("\n".join(sections), flags)
    return filled.replace("SPREAD", "std" if "bayesian" in flags else "leverage")


def _sizes(source: Source) -> dict[str, int]:
    size, outputs = source.rotated.shape
    sizes = maps.sizes_of(source.recursion.map) | {
        "OUTPUTS": outputs,
        "INTERCEPT": int(source.recursion.map.compiled.intercept),
        "FEATURES": size,
        "FACTOR": size * (size + 1) // 2,
    }
    refreshed = source.recursion.state.refreshed
    return sizes | ({"REFRESHED": refreshed} if refreshed else {})


def _settings(source: Source, flags: set[str], fresh: bool) -> str:
    """Return the declarations of what stays as it is."""
    state = source.recursion.state
    found = {"limit": header.LIMITS[state.R.dtype.char]}
    if "fading" in flags:
        found["forgetting"] = state.forgetting
        found["fade"] = math.sqrt(state.forgetting)
    if "fading" in flags or fresh:
        found["ridge"] = state.ridge[-1]
    if "trend" in flags:
        found["trend_step"] = source.recursion.map.trend_step
    if "bayesian" in flags:
        found["noise"] = state.noise
    if "recoded" in flags:
        found["recode"] = source.recode
    declared = "".join(text.constant(f"model_{n}", v) for n, v in found.items())
    if source.offset is not None:
        declared += text.table("double model_offset", source.offset)
    return declared


def _learned(source: Source, flags: set[str]) -> str:
    """Return the declarations of what the model has learned."""
    state = source.recursion.state
    factor = state.R[np.triu_indices(len(state.R))]
    found = text.table("model_real model_factor", factor)
    found += text.table("model_real model_rotated", source.rotated.reshape(-1))
    if "fading" in flags:
        found += text.table("double model_prior", state.prior)
    if source.counts is not None:
        found += text.table("double model_counts", source.counts)
    if source.factors is not None and "recoded" in flags:
        found += text.table("double model_factors", source.factors)
    return found + f"static const int64_t model_seen = {source.recursion.seen};\n"


def _title(source: Source, flags: set[str], fresh: bool) -> str:
    size, outputs = source.rotated.shape
    begun = f"after {header.counted(source.recursion.seen, 'sample')}"
    told = (
        f"{source.kind}: {maps.told_of(source.recursion.map, outputs, size)}, "
        f"{source.rotated.dtype}.  It predicts and learns, sample by sample, and "
        f"begins {'with nothing learned' if fresh else begun}."
    )
    spread = "the standard deviation" if "bayesian" in flags else "the leverage"
    example, notes = EXAMPLE, [REGRESSION_NOTE.replace("SPREAD", spread)]
    if source.classes is not None:
        example = CLASS_EXAMPLE
        notes = [CLASS_NOTE, f"Classes: {header.named(source.classes)}."]
    notes += [
        f"Memory: {_state_bytes(source, flags):,} bytes of state, "
        f"{_constant_bytes(source, flags, fresh):,} bytes of constants, little stack.",
        "gcc -O3 -march=native makes it fast; with -ffp-contract=off it gives the "
        "numbers of the model in Python to the last bit.",
    ]
    return header.title(told, example, notes)


def _state_bytes(source: Source, flags: set[str]) -> int:
    """Return the size of the struct."""
    size, outputs = source.rotated.shape
    real = source.rotated.dtype
    fields: list[tuple[str, Any, int]] = [
        ("factor", real, size * (size + 1) // 2),
        ("rotated", real, size * outputs),
        ("prior", np.float64, size * ("fading" in flags)),
        ("seen", np.int64, 1),
        ("counts", np.float64, outputs * ("classes" in flags)),
        ("factors", np.float64, outputs * ("recoded" in flags)),
        ("features", real, size),
        ("target", real, outputs),
    ]
    return np.dtype(fields, align=True).itemsize


def _constant_bytes(source: Source, flags: set[str], fresh: bool) -> int:
    """Return the size of the tables."""
    of, state = source.recursion.map.compiled, source.recursion.state
    size, outputs = source.rotated.shape
    found = of.frequencies.nbytes + (of.phases.nbytes if "phase" in flags else 0)
    if fresh:
        return found
    numbers = size * (size + 1) // 2 + size * outputs
    doubles = size * ("fading" in flags)
    doubles += outputs * (("classes" in flags) + ("recoded" in flags))
    return found + numbers * state.R.itemsize + 8 * doubles
