"""How long the stream room takes to import, beyond what it stands on."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks.reproduction import Reproduction

CORE = "import numpy, scipy.linalg, sklearn.base, sklearn.utils.validation"
SCRIPT = """
import sys, time
{core}
start = time.perf_counter()
import {room}
print(time.perf_counter() - start, *sorted({{"numba", "torch"}} & set(sys.modules)))
"""


def measure(room: str) -> dict[str, Any]:
    seconds, loaded = [], set()
    for _ in range(11):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(core=CORE, room=room)],
            capture_output=True,
            text=True,
            check=True,
        )
        found, *names = done.stdout.split()
        seconds.append(float(found))
        loaded |= set(names)
    return {
        "seconds, median": float(np.median(seconds)),
        "slowest": max(seconds),
        "numba or torch loaded": ", ".join(sorted(loaded)) or "no",
    }


BENCHMARK = Reproduction(
    title="Import time",
    sentence=(
        "Seconds that a fresh interpreter takes for a room after numpy, SciPy and "
        "scikit-learn; 11 times each. A robot's process should start at once."
    ),
    cases=[{"room": "tiercel"}, {"room": "tiercel.stream"}],
    measure=measure,
)
