"""Memory is a contract: working memory stays within the budget, and plans tell it."""

import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from tiercel import kernels as k
from tiercel import products

# The peak of a process of its own, with all that libraries allocate. Large blocks go
# back to the system when they are freed, so that the peak is what is held at a time.
SCRIPT = """
import json, re, sys, tempfile
from pathlib import Path
import numpy as np
from scipy import sparse
from tiercel import products
from tiercel.kernels import Gaussian

kind, budget = sys.argv[1:]
kernel, m, n = Gaussian(4.0), 2000, 100_000

def status(name):
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(name + r":\\s+([0-9]+)", text)[1])

rng = np.random.default_rng(0)
if kind == "csr":
    columns = np.sort(rng.integers(0, 50_000, (n, 20)), axis=1).ravel()
    parts = rng.random(n * 20, np.float32), columns, 20 * np.arange(n + 1)
    X = sparse.csr_array(parts, shape=(n, 50_000))
else:
    X = rng.standard_normal((n, 20), dtype=np.float32)
Z, short = X[:m].copy(), X[:10_000]
if kind == "disk":
    folder = tempfile.TemporaryDirectory()
    np.save(folder.name + "/rows.npy", X)
    np.save(folder.name + "/short.npy", short)
    X = products.open_rows(folder.name + "/rows.npy")
    short = products.open_rows(folder.name + "/short.npy")
v, u, w = np.ones((m, 2), np.float32), np.ones((n, 2), np.float32), np.ones(n)

def operator(rows):
    op = products.KernelOperator(
        kernel, rows, Z, memory=budget, device_memory=budget, threads=2
    )
    if kind == "torch":
        import torch
        op.devices = [torch.device("cpu")]
    return op

VERBS = {
    "product": (X, lambda op: op.product(v)),
    "cross_product": (X, lambda op: op.cross_product(u)),
    "gram_product": (X, lambda op: op.gram_product(v, w)),
    "gram": (short, lambda op: op.gram(w[:10_000])),
    "matrix": (short, lambda op: op.matrix()),
}
for work in (lambda op: op.product(v), lambda op: op.gram(w[:10_000])):
    work(operator(short))  # libraries, threads and their stacks are loaded
for verb, (rows, work) in VERBS.items():
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = status("VmRSS")
    result = work(operator(rows))
    print(json.dumps([verb, status("VmHWM") - before - result.nbytes]))
    del result
"""


def measured(kind, budget):
    """Return the working memory of every verb in a process of its own."""
    blocks = {f"MALLOC_{name}_THRESHOLD_": "65536" for name in ("MMAP", "TRIM")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(budget)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | blocks | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        ("dense", 64 * 10**6),
        ("dense", 256 * 10**6),
        ("disk", 64 * 10**6),
        ("csr", 64 * 10**6),
        ("torch", 128 * 10**6),
    ],
)
def test_working_memory_stays_within_the_budget(kind, budget):
    """100,000 rows and 2,000 centres: the matrix itself would take 0.8 GB."""
    if kind == "torch":
        pytest.importorskip("torch")
    for verb, peak in measured(kind, budget).items():
        assert peak < budget, verb


class Rational(k.DistanceKernel):
    """A profile that takes no care of memory."""

    def __init__(self, length_scale=1.0):
        self.length_scale = length_scale

    def profile(self, t, xp):
        return 1.0 / (1.0 + t + t * t)


KERNELS = [
    k.Gaussian(4.0),
    k.Laplacian(4.0),
    k.Matern(1.5, 4.0),
    k.Polynomial(3),
    k.Gaussian(2.0) + k.Linear() * k.Laplacian(3.0),
    Rational(4.0),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(("m", "outputs"), [(1000, 1), (1000, 20), (50, 3)])
def test_plans_tell_the_memory_that_is_used(kernel, m, outputs, dtype):
    check_plans(kernel, m, 10, outputs, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length_scale", [2.0, 40.0])
def test_plans_count_wide_rows_and_those_in_float64(length_scale, dtype):
    check_plans(k.Gaussian(length_scale), 200, 500, 1, dtype)


def check_plans(kernel, m, d, outputs, dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, d)).astype(dtype)
    V, U = rng.random((m, outputs)).astype(dtype), rng.random((6000, outputs))
    for operation, vectors in (
        ("product", V), ("cross_product", U), ("gram_product", V), ("gram", None)
    ):  # fmt: skip
        # One thread: how far two overlap, and add up, depends on the day.
        op = products.KernelOperator(kernel, X, X[:m], threads=1)
        tracemalloc.start()
        result = getattr(op, operation)(vectors)
        peak = tracemalloc.get_traced_memory()[1] - result.nbytes
        tracemalloc.stop()
        planned = op.plan(operation, outputs).peak
        assert peak < planned < 3 * peak + 10**6, operation
