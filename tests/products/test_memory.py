"""Memory is a contract: working memory stays within the budget."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="peak memory is read from /proc"
)

SCRIPT = """
import re
import numpy as np
from tiercel import products
from tiercel.kernels import Gaussian

def status(name):
    lines = open("/proc/self/status").read()
    return 1024 * int(re.search(name + r":\\s+([0-9]+)", lines)[1])

rng = np.random.default_rng(0)
X = rng.standard_normal((500_000, 20), dtype=np.float32)
Z, v, u = X[:2_000].copy(), np.ones(2_000, np.float32), np.ones(500_000, np.float32)
# Libraries, threads and their stacks are loaded before the measurement.
products.gram_product(Gaussian(4.0), X[:9000], Z, v, threads=2)
before = status("VmRSS")
result = products.{verb}(Gaussian(4.0), X, Z, {vectors}, memory="{budget}", threads=2)
print(status("VmHWM") - before - result.nbytes)
"""


@pytest.mark.parametrize("budget", ["64MB", "256MB", "1GB"])
@pytest.mark.parametrize(
    ("verb", "vectors"),
    [("product", "v"), ("gram_product", "v"), ("cross_product", "u")],
)
def test_working_memory_stays_within_the_budget(budget, verb, vectors):
    """500,000 rows and 2,000 centres: the matrix itself would take 4 GB."""
    script = SCRIPT.format(verb=verb, vectors=vectors, budget=budget)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    million = int(budget.replace("GB", "000").replace("MB", ""))
    assert int(done.stdout) < million * 10**6
