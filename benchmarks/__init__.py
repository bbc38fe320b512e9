"""Measurements of Tiercel and its peers; see ``python -m benchmarks --help``.

A benchmark is a module of this folder with a ``BENCHMARK = Benchmark(...)`` in it
(:mod:`benchmarks.harness`); :mod:`benchmarks.machine` is a short one to copy from. A
published result measured again is a ``Reproduction`` (:mod:`benchmarks.reproduction`).
"""
