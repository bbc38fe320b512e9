"""A header that goes on learning, put together for one model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tiercel.stream import _loops
from tiercel.stream._c import header, learning, maps, text
from tiercel.stream._recursion import Recursion

EXAMPLE = """\
#include "model.h"
static model_state state; // too large for a stack
double mean[MODEL_OUTPUTS];
model_reset(&state);
while (read_sample(x, y))
    if (model_predict_update(&state, x, y, 1.0, mean, 0)) complain();
"""


def learner_code(model: Any, fresh: bool) -> str:
    """Return the header of a recursive regressor, under the name ``model``.

    With ``fresh`` it begins with nothing learned.
    """
    recursion = model._begun()
    flags = maps.flags_of(recursion.map)
    flags |= {"fading"} if recursion.state.forgetting < 1.0 else set()
    flags |= {"bayesian"} if recursion.state.noise > 0.0 else set()
    tables = _settings(model, recursion, flags, fresh)
    tables += maps.numbers_of(recursion.map)
    tables += "" if fresh else _learned(recursion, flags)
    waves, linear = [maps.WAVES, maps.WAVE_FEATURES], [maps.LINEAR_FEATURES]
    sections = [
        _title(model, recursion, flags, fresh),
        header.OPENING,
        header.sizes(_sizes(recursion)),
        f"typedef {header.REALS[recursion.state.R.dtype.char]} model_real;\n",
        learning.STATE,
        tables,
        maps.CHECK,
        *(linear if "linear" in flags else waves),
        learning.RESET_EMPTY if fresh else learning.RESET_LEARNED,
        learning.SOLVE,
        learning.ROTATE,
        *([learning.REFRESH] if "fading" in flags else []),
        learning.PREDICT,
        learning.UPDATE,
        header.CLOSING,
    ]
    filled = text.fill("\n".join(sections), flags)
    return filled.replace("SPREAD", "std" if "bayesian" in flags else "leverage")


def _sizes(recursion: Recursion) -> dict[str, int]:
    size, outputs = recursion.state.Z.shape
    sizes = maps.sizes_of(recursion.map) | {
        "OUTPUTS": outputs,
        "INTERCEPT": int(recursion.map.compiled.intercept),
        "FEATURES": size,
        "FACTOR": size * (size + 1) // 2,
    }
    refreshed = recursion.state.refreshed
    return sizes | ({"REFRESHED": refreshed} if refreshed else {})


def _settings(model: Any, recursion: Recursion, flags: set[str], fresh: bool) -> str:
    """Return the declarations of what stays as it is."""
    state, map = recursion.state, recursion.map
    found = {"limit": header.LIMITS[state.R.dtype.char]}
    if "fading" in flags:
        found["forgetting"] = state.forgetting
        found["fade"] = math.sqrt(state.forgetting)
    if "fading" in flags or fresh:
        found["ridge"] = state.ridge[-1]
    if "trend" in flags:
        found["trend_step"] = map.trend_step
    if "bayesian" in flags:
        found["noise"] = state.noise
    declared = "".join(text.constant(f"model_{n}", v) for n, v in found.items())
    if "bayesian" in flags:
        offset = np.broadcast_to(np.asarray(model._offset, float), state.rss.shape)
        declared += text.table("double model_offset", offset)
    return declared


def _learned(recursion: Recursion, flags: set[str]) -> str:
    """Return the declarations of what the model has learned."""
    state = recursion.state
    factor = state.R[np.triu_indices(len(state.R))]
    found = text.table("model_real model_factor", factor)
    found += text.table("model_real model_rotated", state.Z.reshape(-1))
    if "fading" in flags:
        found += text.table("double model_prior", state.prior)
    return found + f"static const int64_t model_seen = {recursion.seen};\n"


def _title(model: Any, recursion: Recursion, flags: set[str], fresh: bool) -> str:
    size, outputs = recursion.state.Z.shape
    begun = f"after {header.counted(recursion.seen, 'sample')}"
    told = (
        f"{type(model).__name__}: {maps.told_of(recursion.map, outputs, size)}, "
        f"{recursion.state.R.dtype}.  It predicts and learns, sample by sample, and "
        f"begins {'with nothing learned' if fresh else begun}."
    )
    spread = "the standard deviation" if "bayesian" in flags else "the leverage"
    notes = [
        "x holds MODEL_INPUTS and y MODEL_OUTPUTS numbers, 1.0 is the sample's weight, "
        f"and in place of 0 may stand the address of a double for {spread}.  "
        "model_predict and model_update are the two halves.  MODEL_BAD_SAMPLE (NaN, "
        "infinite or absurdly large numbers) and MODEL_BAD_WEIGHT say that nothing was "
        "learned: state and outputs are as they were.  One state serves one thread.",
        f"Memory: {_state_bytes(recursion):,} bytes of state, "
        f"{_constant_bytes(recursion, fresh):,} bytes of constants, little stack.",
        "gcc -O3 -march=native makes it fast; with -ffp-contract=off it gives the "
        "numbers of the model in Python to the last bit.",
    ]
    return header.title(told, EXAMPLE, notes)


def _state_bytes(recursion: Recursion) -> int:
    """Return the size of the struct."""
    state = recursion.state
    size, outputs = state.Z.shape
    real, fading = state.R.dtype, int(state.refreshed > 0)
    fields: list[tuple[str, Any, int]] = [
        ("factor", real, size * (size + 1) // 2),
        ("rotated", real, size * outputs),
        ("prior", np.float64, size * fading),
        ("seen", np.int64, 1),
        ("features", real, size),
        ("target", real, outputs),
    ]
    return np.dtype(fields, align=True).itemsize


def _constant_bytes(recursion: Recursion, fresh: bool) -> int:
    """Return the size of the tables."""
    of, state = recursion.map.compiled, recursion.state
    size = len(state.R)
    found = of.frequencies.nbytes
    found += of.phases.nbytes if of.kind == _loops.COSINE else 0
    if not fresh:
        found += size * (size + 1) // 2 * state.R.itemsize + state.Z.nbytes
        found += state.prior.nbytes if state.refreshed else 0
    return found
