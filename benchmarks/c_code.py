"""The header that `tiercel.stream.export_c` writes, beside the model in Python."""

from __future__ import annotations

import copy
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Contestant, Latencies
from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import RecursiveRidge
from tiercel.stream.c_code import export_c

INPUTS = 21  # angles, speeds and accelerations of seven joints
FIRST, SAMPLES = 500, 2000

DRIVER = """\
#include <time.h>
#include "arm.h"

static arm_state state;

void run(int n, const double *x, const double *y, double *mean, double *seconds)
{
    struct timespec begin, end;
    arm_reset(&state);
    for (int i = 0; i < n; i++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        arm_predict_update(&state, x + i * ARM_INPUTS, y + i, 1.0, mean + i, 0);
        clock_gettime(CLOCK_MONOTONIC, &end);
        seconds[i] = (end.tv_sec - begin.tv_sec) + 1e-9 * (end.tv_nsec - begin.tv_nsec);
    }
}
"""


@dataclass
class Data:
    """A model that has seen some samples, and those to come."""

    model: RecursiveRidge
    X: np.ndarray
    y: np.ndarray


def prepare(features: int, dtype: str) -> Data:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((FIRST + SAMPLES, INPUTS))
    y = np.sin(X[:, 0] + X[:, 1]) * X[:, 2] + 0.1 * rng.standard_normal(len(X))
    map = FourierFeatures(Gaussian(INPUTS**0.5), features, map="phase", random_state=0)
    model = RecursiveRidge(map, ridge=1.0, fit_intercept=False, dtype=dtype)
    model.fit(X[:FIRST], y[:FIRST])
    return Data(model, X[FIRST:], y[FIRST:])


def in_python(data: Data) -> Latencies:
    model, clock = copy.deepcopy(data.model), time.perf_counter
    seconds, answer = np.empty(len(data.y)), np.empty(len(data.y))
    targets = data.y.tolist()
    for i, x in enumerate(data.X):
        start = clock()
        answer[i] = model.predict_update(x, targets[i])
        seconds[i] = clock() - start
    return Latencies(seconds, answer)


def compiled(flags: str, data: Data) -> tuple[Data, Callable[..., Any]]:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "run.c"), Path(folder, "run.so")
        source.write_text(DRIVER)
        export_c(data.model, Path(folder, "arm.h"), "arm")
        command = ["gcc", *flags.split(), "-shared", "-fPIC", str(source), "-lm"]
        subprocess.run([*command, "-o", str(library)], check=True)
        return data, ctypes.CDLL(str(library)).run


def in_c(made: tuple[Data, Callable[..., Any]]) -> Latencies:
    data, run = made
    seconds, answer = np.empty(len(data.y)), np.empty(len(data.y))
    arrays = [data.X, data.y, answer, seconds]
    doubles = ctypes.POINTER(ctypes.c_double)
    run(len(data.y), *(array.ctypes.data_as(doubles) for array in arrays))
    return Latencies(seconds, answer)


def reference(data: Data) -> np.ndarray:
    return in_python(data).answer


BENCHMARK = Benchmark(
    title="The exported C code beside Python",
    sentence=(
        "One call of `predict_update` on random Fourier features of "
        f"{INPUTS} inputs, one output, {SAMPLES:,} samples: the model in Python, and "
        "the C header that `export_c` writes for it, compiled by gcc. The error is the "
        "distance of the predictions from Python's."
    ),
    cases=[
        *({"features": F, "dtype": "float64"} for F in (50, 100, 200, 400, 1000)),
        {"features": 400, "dtype": "float32"},
    ],
    prepare=prepare,
    contestants={
        "Python": Contestant(in_python, needs=("numba",)),
        "C, gcc -O2": Contestant(in_c, partial(compiled, "-O2")),
        "C, gcc -O3 -march=native": Contestant(
            in_c, partial(compiled, "-O3 -march=native")
        ),
    },
    baseline="Python",
    reference=reference,
    tolerance=lambda features, dtype: 1e-10 if dtype == "float64" else 1e-4,
)
