"""What the engine calls on its tiles: in place, in float32, in numpy and torch."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from tiercel.kernels import (
    Cauchy,
    DistanceKernel,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)

KERNELS = [
    Gaussian(),
    Laplacian(),
    Matern(0.5),
    Matern(1.5),
    Matern(2.5),
    RationalQuadratic(0.3),
    RationalQuadratic(500.0),
    Cauchy(),
    Linear(),
    *(Polynomial(degree, 0.5) for degree in range(1, 12)),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_tiles(kernel):
    t = np.random.default_rng(0).gamma(1.0, 1.0, (40, 30))
    s = (kernel.fold * t).astype(np.float32)
    expected = kernel.profile(s.astype(np.float64) / kernel.fold, np)
    kernel.profile_in_place(s, np)
    np.testing.assert_allclose(s, expected, rtol=4e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_torch_tiles(kernel):
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(np.random.default_rng(0).gamma(1.0, 1.0, (40, 30)))
    s = (kernel.fold * t)[3:, ::2]  # a view, as tiles are
    kernel.profile_in_place(s, torch)
    expected = kernel.profile(t[3:, ::2], torch)
    np.testing.assert_allclose(s.numpy(), expected.numpy(), rtol=1e-12)


def test_distances_below_zero_by_rounding():
    class Wendland(DistanceKernel):
        def profile(self, t, xp):
            r = xp.sqrt(t)
            return xp.clip(1.0 - r, 0.0, None) ** 4 * (4.0 * r + 1.0)

    for kernel in (Wendland(), Matern(1.5), Matern(2.5), RationalQuadratic(), Cauchy()):
        s = np.full(3, kernel.fold * -1e-7, dtype=np.float32)
        kernel.profile_in_place(s, np)
        np.testing.assert_allclose(s, 1.0, atol=1e-6)


def test_fused_values_fill_the_braces():
    assert RationalQuadratic(alpha=2).fused_values() == {"alpha": 2.0}
    assert Polynomial(5, offset=3).fused_values() == {"offset": 3.0}
    assert Gaussian(9.0).fused_values() == {}
    product = Polynomial(5).fused.format(offset=0.0)
    assert eval(product, {"t": 3.0}) == 3.0**5


def test_scale_is_the_inverse_length_scale():
    assert Gaussian(4.0).scale_of(7).shape == ()
    np.testing.assert_array_equal(Linear([2, 4]).scale_of(2), [0.5, 0.25])


def test_which_kernels_need_exact_small_distances():
    rough = [k for k in KERNELS if getattr(k, "rough", False)]
    assert [repr(k) for k in rough] == ["Laplacian()", "Matern(nu=0.5)"]
    assert clone(Matern(2.5)).set_params(nu=0.5).rough
