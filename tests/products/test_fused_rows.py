"""Kernels multiplied by fused launches, against the dense kernel in float64.

Without a GPU the launches run in Triton's interpreter, on small problems.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from tiercel import kernels as k

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from tiercel.products.fused_rows import FusedRows, launches  # noqa: E402

pytestmark = pytest.mark.usefixtures("triton_here")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CUBIC = k.Polynomial(3, offset=1.0, length_scale=2.0)

KERNELS = [
    k.Gaussian(2.0),
    k.Laplacian(2.0),
    k.Matern(0.5, 2.0),
    k.Matern(1.5, 2.0),
    k.Matern(2.5, 2.0),
    k.Cauchy(2.0),
    k.RationalQuadratic(0.7, 2.0),
    k.Linear(2.0),
    CUBIC,
    k.Gaussian(2.0) + k.Linear(2.0),
    0.5 * k.Gaussian(2.0) + 2.0 * k.Matern(1.5, 4.0),
    k.Gaussian(2.0) * k.Laplacian(3.0),
    k.Gaussian(2.0) * k.Linear(2.0),
    k.Gaussian(2.0) * k.Gaussian(3.0),
    0.1 * (k.Gaussian(2.0) + k.Linear(2.0)) * k.Matern(2.5, 3.0),
]


def problem(d, outputs, shift=0.0):
    """Return rows, centers (some of them rows), and weights for both sides."""
    rng = np.random.default_rng(0)
    X, Z = (rng.standard_normal((size, d)) / d**0.5 * 2.0 for size in (150, 130))
    Z[:30] = X[:30]
    V, U = (rng.standard_normal((size, outputs)) for size in (130, 150))
    return [array.astype(np.float32) for array in (X + shift, Z + shift, V, U)]


def fused(kernel, X, Z, precision="auto"):
    maker = FusedRows(kernel, torch.tensor(Z, device=DEVICE), DEVICE, precision, 64)
    return maker, maker.prepare(torch.tensor(X, device=DEVICE))


def on_device(array):
    return torch.tensor(array, device=DEVICE)


def error(result, exact):
    result = result.double().cpu().numpy()
    return np.linalg.norm(result - exact) / np.linalg.norm(exact)


def errors(kernel, X, Z, V, U, precision="auto"):
    """Return the errors of a product, a transposed one, and both in turn."""
    K = kernel(X.astype(float), Z.astype(float))
    maker, rows = fused(kernel, X, Z, precision)
    w = np.linspace(0.5, 1.5, len(X)).astype(np.float32)
    return [
        error(maker.product(rows, on_device(V)), K @ V),
        error(maker.cross_product(rows, on_device(U)), K.T @ U),
        error(
            maker.gram_product(rows, on_device(V), on_device(w)),
            K.T @ (w[:, None] * (K @ V)),
        ),
    ]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(("d", "outputs"), [(3, 1), (20, 3)])
def test_products_are_float32_grade(kernel, d, outputs):
    assert max(errors(kernel, *problem(d, outputs))) < 2e-6


@pytest.mark.parametrize("kernel", KERNELS[:4], ids=str)
def test_each_input_may_have_its_length_scale(kernel):
    kernel = clone(kernel).set_params(length_scale=np.linspace(1.0, 4.0, 20))
    assert max(errors(kernel, *problem(20, 1))) < 2e-6


@pytest.mark.parametrize("kernel", KERNELS[:7], ids=str)
def test_far_from_the_origin_nothing_is_lost(kernel):
    assert max(errors(kernel, *problem(6, 2, shift=1000.0))) < 2e-6


@pytest.mark.parametrize("kernel", [*KERNELS[:7], KERNELS[9], KERNELS[11]], ids=str)
def test_rows_far_from_the_others_are_worked_in_float64(kernel):
    X, Z, V, U = problem(20, 2)
    X[[3, 70]] += 1e5
    X[100:110] *= 9.0
    Z[100] = X[105] + 0.1
    _, rows = fused(kernel, X, Z)
    assert 2 <= int(rows.far.sum()) <= 12
    assert errors(kernel, X, Z, V, U)[0] < 2e-6
    near = np.where(rows.far.cpu().numpy()[:, None], 0.0, U).astype(np.float32)
    assert errors(kernel, X, Z, V, near)[1] < 2e-6


@pytest.mark.parametrize("kernel", KERNELS[:7], ids=str)
def test_a_center_far_from_the_others_spoils_nothing(kernel):
    X, Z, V, U = problem(20, 2)
    Z[100] += 1e6
    assert fused(kernel, X, Z)[1].far is None
    heavy_tailed = isinstance(kernel, k.Cauchy | k.RationalQuadratic)
    assert max(errors(kernel, X, Z, V, U)) < (5e-5 if heavy_tailed else 2e-6)


def test_fast_is_coarser_and_no_more():
    X, Z, V, U = problem(20, 1)
    for kernel in (k.Gaussian(2.0), k.Matern(1.5, 2.0), CUBIC):
        assert all(1e-6 < e < 3e-3 for e in errors(kernel, X, Z, V, U, "fast"))


def test_gaussians_in_a_product_are_one_launch_without_parameters():
    (launch,) = launches(k.Gaussian(2.0) * k.Gaussian(3.0))
    assert launch.exponential
    assert len(launch.groups) == 1
    (launch,) = launches(k.Gaussian(2.0) * k.Laplacian(3.0))
    assert len(launch.groups) == 1
    assert launch.groups[0].rough
    assert len(launches(k.Gaussian(2.0) + k.Linear())) == 2


def test_what_has_no_fused_form_is_said_so():
    class Own(k.DistanceKernel):
        fused = None

        def profile(self, t, xp):
            return 1.0 / (1.0 + t) ** 2

    three = k.Gaussian(1.0) * k.Laplacian(np.ones(3)) * k.Cauchy([1.0, 2.0, 3.0])
    assert launches(Own()) is None
    assert launches(k.Gaussian(1.0) * k.Linear() * k.Cauchy([1.0, 2.0, 3.0])) is None
    assert len(launches(three)[0].groups) == 2
    many = k.Gaussian(1.0)
    for scale in range(2, 10):
        many = many + k.Gaussian(float(scale))
    assert launches(many) is None
    with pytest.raises(TypeError, match="no fused form"):
        fused(Own(), *problem(3, 1)[:2])
