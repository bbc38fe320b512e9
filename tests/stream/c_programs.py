"""Exported headers as shared libraries, called from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tiercel.stream.c_code import export_c

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
FLAGS = [*STRICT, "-O2", "-ffp-contract=off"]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")

LEARNER = """
#include "arm.h"
arm_state state;
size_t size(void) { return sizeof state; }
void copy(char *out) { for (size_t i = 0; i < sizeof state; i++) out[i] = ((char *)&state)[i]; }
void reset(void) { arm_reset(&state); }
int predict(const double *x, double *mean, double *spread)
{ return arm_predict(&state, x, mean, spread); }
int update(const double *x, const double *y, double weight)
{ return arm_update(&state, x, y, weight); }
int follow(int n, const double *x, const double *y, const double *w, double *mean, double *spread)
{
    for (int i = 0; i < n; i++) {
        int status = arm_predict_update(
            &state, x + i * ARM_INPUTS, y + i * ARM_OUTPUTS, w[i],
            mean + i * ARM_OUTPUTS, spread + i);
        if (status) return status;
    }
    return 0;
}
"""

FROZEN = """
#include "arm.h"
int predict(const double *x, double *mean) { return arm_predict(x, mean); }
"""


def build(folder: Path, source: str, flags=FLAGS, compiler="gcc") -> ctypes.CDLL:
    """Compile a source beside its header; a warning is an error."""
    file = folder / ("arm.cpp" if compiler == "g++" else "arm.c")
    file.write_text(source)
    library = folder / "arm.so"
    command = [compiler, *flags, "-shared", "-fPIC", str(file), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def pointer(array: np.ndarray):
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


class Learner:
    """A model on the robot."""

    def __init__(self, model, folder: Path, learn=True, flags=FLAGS) -> None:
        export_c(model, folder / "arm.h", "arm", learn)
        self.library = build(folder, LEARNER, flags)
        self.library.size.restype = ctypes.c_size_t
        self.outputs = model.n_outputs_
        self.library.reset()

    def predict(self, x):
        mean, spread = np.full(self.outputs, 7.0), np.full(1, 7.0)
        x = np.array(x, float)
        status = self.library.predict(pointer(x), pointer(mean), pointer(spread))
        return status, mean, spread[0]

    def update(self, x, y, weight=1.0):
        x, y = np.array(x, float), np.atleast_1d(np.array(y, float))
        return self.library.update(pointer(x), pointer(y), ctypes.c_double(weight))

    def follow(self, X, Y, weights):
        """Predict and learn rows; return the means and their spread."""
        X, Y = np.ascontiguousarray(X), np.ascontiguousarray(Y)
        means, spreads = np.empty((len(X), self.outputs)), np.empty(len(X))
        status = self.library.follow(
            len(X), *map(pointer, (X, Y, weights, means, spreads))
        )
        assert status == 0
        return means, spreads

    def state(self) -> bytes:
        kept = ctypes.create_string_buffer(self.library.size())
        self.library.copy(kept)
        return kept.raw
