"""Exported headers as shared libraries, called from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
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
void reset(void) { arm_reset(&state); }

int predict(const double *x, double *mean, double *spread)
{
    return arm_predict(&state, x, mean, spread);
}

int update(const double *x, const double *y, double weight)
{
    return arm_update(&state, x, y, weight);
}

int predict_update(
    const double *x, const double *y, double weight, double *mean, double *spread)
{
    return arm_predict_update(&state, x, y, weight, mean, spread);
}

int follow(int n, const double *x, const double *y, const double *weight,
           double *mean, double *spread)
{
    int status = 0;
    for (int i = 0; i < n; i++)
        status |= arm_predict_update(
            &state, x + i * ARM_INPUTS, y + i * ARM_OUTPUTS, weight[i],
            mean + i * ARM_OUTPUTS, spread + i);
    return status;
}
"""

CLASSIFIER = """
#include "arm.h"

arm_state state;

size_t size(void) { return sizeof state; }
void reset(void) { arm_reset(&state); }

int predict(const double *x, double *scores, int *answer)
{
    return arm_predict(&state, x, scores, answer);
}

int update(const double *x, int label, double weight)
{
    return arm_update(&state, x, label, weight);
}

int predict_update(
    const double *x, int label, double weight, double *scores, int *answer)
{
    return arm_predict_update(&state, x, label, weight, scores, answer);
}
"""

FROZEN_CLASSIFIER = """
#include "arm.h"

int predict(const double *x, double *scores, int *answer)
{
    return arm_predict(x, scores, answer);
}
"""

FROZEN = """
#include "arm.h"

int predict(int n, const double *x, double *mean)
{
    int status = 0;
    for (int i = 0; i < n; i++)
        status |= arm_predict(x + i * ARM_INPUTS, mean + i * ARM_OUTPUTS);
    return status;
}
"""


def build(folder: Path, source: str, flags=FLAGS, compiler="gcc") -> ctypes.CDLL:
    """Compile a source beside its header and load it."""
    place = Path(tempfile.mkdtemp(dir=folder))  # a path that was loaded stays loaded
    file = place / ("arm.cpp" if compiler == "g++" else "arm.c")
    file.write_text(source)
    library = place / "arm.so"
    command = [compiler, *flags, "-shared", "-fPIC", str(file), "-lm", f"-I{folder}"]
    command += ["-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def pointer(array: np.ndarray):
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


class Learner:
    """A model on the robot, which learns there."""

    def __init__(self, model, folder: Path, learn=True, flags=FLAGS) -> None:
        self.header = export_c(model, folder / "arm.h", "arm", learn)
        self.library = build(folder, LEARNER, flags)
        self.library.size.restype = ctypes.c_size_t
        self.outputs = model.n_outputs_
        self.library.reset()

    def predict(self, x):
        """Return status, means and spread; they are 7 where nothing was written."""
        mean, spread = np.full(self.outputs, 7.0), np.full(1, 7.0)
        x = np.array(x, float)
        status = self.library.predict(pointer(x), pointer(mean), pointer(spread))
        return status, mean, spread[0]

    def predict_update(self, x, y, weight=1.0):
        mean, spread = np.full(self.outputs, 7.0), np.full(1, 7.0)
        x, y = np.array(x, float), np.array(y, float).reshape(-1)
        status = self.library.predict_update(
            *map(pointer, (x, y)),
            ctypes.c_double(weight),
            *map(pointer, (mean, spread)),
        )
        return status, mean, spread[0]

    def update(self, x, y, weight=1.0):
        x, y = np.array(x, float), np.array(y, float).reshape(-1)
        return self.library.update(pointer(x), pointer(y), ctypes.c_double(weight))

    def follow(self, X, Y, weights):
        """Predict and learn rows; return the means and their spread."""
        X, Y = np.ascontiguousarray(X), np.ascontiguousarray(Y)
        means, spreads = np.empty((len(X), self.outputs)), np.empty(len(X))
        arrays = map(pointer, (X, Y, weights, means, spreads))
        assert self.library.follow(len(X), *arrays) == 0
        return means, spreads

    def state(self) -> bytes:
        """Return every byte of the state."""
        size = self.library.size()
        return bytes((ctypes.c_char * size).in_dll(self.library, "state"))


class Frozen:
    """A model on the robot, which only predicts."""

    def __init__(self, model, folder: Path, flags=FLAGS, **how) -> None:
        self.header = export_c(model, folder / "arm.h", "arm", **how)
        self.library = build(folder, FROZEN, flags)

    def predict(self, X, n_outputs):
        X, means = np.ascontiguousarray(X), np.full((len(X), n_outputs), 7.0)
        status = self.library.predict(len(X), pointer(X), pointer(means))
        return status, means


class Classifier:
    """A classifier on the robot; ``learn=False`` for one that only predicts."""

    def __init__(self, model, folder: Path, learn=True, flags=FLAGS) -> None:
        self.header = export_c(model, folder / "arm.h", "arm", learn)
        source = CLASSIFIER if learn else FROZEN_CLASSIFIER
        self.library = build(folder, source, flags)
        self.outputs = len(model.classes_)
        if learn:
            self.library.size.restype = ctypes.c_size_t
            self.library.reset()

    def predict(self, x):
        """Return status, scores and answer; they are 7 where nothing was written."""
        x, scores, answer = np.array(x, float), np.full(self.outputs, 7.0), _seven()
        status = self.library.predict(pointer(x), pointer(scores), ctypes.byref(answer))
        return status, scores, answer.value

    def predict_update(self, x, label, weight=1.0):
        x, scores, answer = np.array(x, float), np.full(self.outputs, 7.0), _seven()
        weight = ctypes.c_double(weight)
        status = self.library.predict_update(
            pointer(x), label, weight, pointer(scores), ctypes.byref(answer)
        )
        return status, scores, answer.value

    def update(self, x, label, weight=1.0):
        x = np.array(x, float)
        return self.library.update(pointer(x), label, ctypes.c_double(weight))

    def state(self) -> bytes:
        """Return every byte of the state."""
        size = self.library.size()
        return bytes((ctypes.c_char * size).in_dll(self.library, "state"))


def _seven():
    return ctypes.c_int(7)
