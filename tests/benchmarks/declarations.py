"""A benchmark that is made up for a test."""

from __future__ import annotations

import numpy as np

from benchmarks import harness
from benchmarks.harness import Benchmark, Contestant


def declare(monkeypatch, **changes):
    """Make a benchmark of this process, and have the harness load it."""
    declaration = {
        "title": "Numbers",
        "sentence": "One number.",
        "cases": [{"n": 4}],
        "prepare": lambda n: np.arange(float(n)),
        "contestants": {"sum": Contestant(np.sum), "loop": Contestant(sum)},
        "baseline": "sum",
        "reference": lambda data: 6.0,
        "tolerance": 1e-9,
        "repeat": 3,
    }
    benchmark = Benchmark(**declaration | changes)
    monkeypatch.setattr(harness, "load", lambda module: benchmark)
    return benchmark
