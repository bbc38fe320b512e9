"""Fused GPU products against dense float64 algebra.

Without a GPU the portable kernels run in Triton's interpreter, on small problems.
"""

from __future__ import annotations

import math
import os
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
CUDA = torch.cuda.is_available()
if not CUDA and "triton" not in sys.modules:
    os.environ["TRITON_INTERPRET"] = "1"
triton = pytest.importorskip("triton")
if not CUDA and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a GPU or Triton's interpreter", allow_module_level=True)

from tiercel.products.fused import (  # noqa: E402
    Config,
    EntrySpec,
    apply,
    candidates,
    fitting_scale,
    foldable,
    gaussian,
    prepare,
)

DEVICE = "cuda" if CUDA else "cpu"
RESIDENT = Config("resident", 64, 64, 4, 2)
WIDE = Config("resident", 128, 128, 4, 2)
LOOPED = Config("looped", 64, 128, 4, 2)
SMALL = Config("small", 128, 16, 4, 2)
LAPLACIAN = EntrySpec("tl.exp2(-p0 * tl.sqrt(t0))", (1.4427,), rough=(True, False))
CUBIC = EntrySpec("(p0 * u0 + p1) * (p0 * u0 + p1) * (p0 * u0 + p1)", (0.5, 1.0))


@pytest.fixture(autouse=True)
def interpreter_reads_loop_bounds(monkeypatch):
    """Let Triton's interpreter loop under a numpy that refuses int(one-element array)."""
    if CUDA:
        return
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, *scope):
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)


def points(n, d, seed, spread=1.0):
    values = np.random.default_rng(seed).normal(size=(n, d)) * spread / math.sqrt(d)
    return torch.tensor(values, dtype=torch.float32, device=DEVICE)


def dense(X, C, value):
    """Return the matrix of value(squared distances, scalar products) in float64."""
    X, C = X.double(), C.double()
    distances = (X[:, None, :] - C[None, :, :]).square().sum(2)
    return value(distances, X @ C.T)


def error(result, exact):
    return float((result.double() - exact).norm() / exact.norm())


def product(entry, X, C, V, config, scale=1.0):
    x, c = prepare(X, scale), prepare(C, scale)
    return apply(entry, [x], [c], V, config=config)


def test_halves_add_up_to_the_points():
    X = points(70, 5, 0, spread=3.0)
    operand = prepare(X, 1024.0)
    both = operand.tiles.double().sum(1).reshape(-1, 64, 16).reshape(-1, 16)
    assert error(both[:70, :5] / 1024.0, X.double()) < 2.0**-24
    assert both[70:].abs().max() == 0 and both[:, 5:].abs().max() == 0


def test_chunks_lie_one_after_another():
    X = points(64, 130, 0)
    operand = prepare(X)
    assert operand.tiles.shape == (4, 2, 3, 64, 64)
    assert torch.equal(operand.tiles[0, 0, 1], X[:, 64:128].half())


@pytest.mark.parametrize("config", [RESIDENT, WIDE])
@pytest.mark.parametrize(("d", "outputs"), [(3, 1), (20, 1), (40, 3), (70, 17)])
def test_gaussian_with_norms_folded_out(config, d, outputs):
    X, C, V = points(150, d, 1), points(130, d, 2), points(130, outputs, 3)
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)) @ V.double()
    assert foldable(prepare(X), prepare(C), outputs)
    assert error(product(gaussian(), X, C, V, config), exact) < 1e-6


@pytest.mark.parametrize("outputs", [1, 3])
def test_gaussian_of_spread_points_keeps_norms_in(outputs):
    X, C, V = (
        points(150, 20, 1, 30.0),
        points(130, 20, 2, 30.0),
        points(130, outputs, 3),
    )
    C[:60] = X[:60] + 0.1 * C[:60]
    scale = fitting_scale(float(X.abs().max()))
    assert not foldable(prepare(X), prepare(C), outputs)
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)) @ V.double()
    assert error(product(gaussian(), X, C, V, RESIDENT, scale), exact) < 2e-4


@pytest.mark.parametrize("config", [RESIDENT, LOOPED])
def test_deep_points(config):
    d = 100 if config is RESIDENT else 200
    X, C, V = points(100, d, 4), points(70, d, 5), points(70, 2, 6)
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)) @ V.double()
    assert error(product(gaussian(), X, C, V, config), exact) < 1e-6


@pytest.mark.parametrize("outputs", [1, 2])
def test_polynomial(outputs):
    X, C, V = points(90, 12, 7), points(80, 12, 8), points(80, outputs, 9)
    exact = dense(X, C, lambda t, u: (0.5 * u + 1.0) ** 3) @ V.double()
    entry = EntrySpec(CUBIC.expression, CUBIC.parameters, bound=8.0)
    assert error(product(entry, X, C, V, RESIDENT, 1024.0), exact) < 1e-6


@pytest.mark.parametrize("config", [RESIDENT, SMALL])
def test_laplacian_where_points_coincide(config):
    X = points(128, 3, 10)
    V = points(128, 1, 11)
    exact = dense(X, X, lambda t, u: torch.exp2(-1.4427 * t.sqrt())) @ V.double()
    bound = 2e-6 if config is SMALL else 2e-5
    assert error(product(LAPLACIAN, X, X, V, config, 1024.0), exact) < bound


@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_small_points_on_arithmetic_units(scale):
    X, C, V = points(300, 2, 12), points(100, 2, 13), points(100, 1, 14)
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)) @ V.double()
    assert error(product(gaussian(), X, C, V, SMALL, scale), exact) < 1e-6


@pytest.mark.parametrize("config", [RESIDENT, Config("looped", 64, 64, 4, 2)])
@pytest.mark.parametrize("outputs", [1, 2])
def test_product_of_two_groups(config, outputs):
    d = (6, 20) if config is RESIDENT else (140, 70)
    X, C = [points(70, k, 15 + k) for k in d], [points(66, k, 16 + k) for k in d]
    V = points(66, outputs, 17)
    entry = EntrySpec("tl.exp2(-0.5 * t0) * (1.0 + u1)", groups=2, bound=4.0)
    first = dense(X[0], C[0], lambda t, u: torch.exp2(-0.5 * t))
    exact = (first * dense(X[1], C[1], lambda t, u: 1.0 + u)) @ V.double()
    rows, columns = [prepare(x, 256.0) for x in X], [prepare(c, 256.0) for c in C]
    assert error(apply(entry, rows, columns, V, config=config), exact) < 1e-6


def test_one_half_only_is_faster_and_coarser():
    X, C, V = points(90, 12, 7), points(80, 12, 8), points(80, 1, 9)
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)) @ V.double()
    result = apply(
        gaussian(), [prepare(X)], [prepare(C)], V, precision="fast", config=RESIDENT
    )
    assert 1e-6 < error(result, exact) < 2e-3


@pytest.mark.parametrize("size", [1e-30, 1e20])
def test_size_of_weights_does_not_matter(size):
    X, C, V = points(70, 5, 18), points(70, 5, 19), points(70, 4, 20)
    V[:, 1] = 0.0
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)) @ V.double()
    result = product(gaussian(), X, C, V * size, RESIDENT)
    assert error(result / size, exact) < 1e-6
    assert result[:, 1].abs().max() == 0


def test_transposed_product_swaps_operands():
    X, C, U = points(150, 8, 21), points(40, 8, 22), points(150, 1, 23)
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)).T @ U.double()
    x, c = prepare(X), prepare(C)
    assert error(apply(gaussian(), [c], [x], U, config=RESIDENT), exact) < 1e-6


def test_default_configuration_is_chosen():
    X, C, V = points(60, 8, 21), points(40, 8, 22), points(40, 1, 23)
    exact = dense(X, C, lambda t, u: torch.exp2(-0.5 * t)) @ V.double()
    assert error(product(gaussian(), X, C, V, None), exact) < 1e-6
    assert candidates(256, 200, 1, 1, True, False)[0].variant == "looped"


def test_bad_arguments_are_refused():
    x, V = prepare(points(10, 2, 0)), points(10, 1, 0)
    with pytest.raises(ValueError, match="precision"):
        apply(gaussian(), [x], [x], V, precision="low")
    with pytest.raises(ValueError, match="group"):
        apply(gaussian(), [x, x], [x, x], V)
    with pytest.raises(ValueError, match="shape"):
        apply(gaussian(), [x], [x], V[:5])
    with pytest.raises(TypeError, match="float32"):
        apply(gaussian(), [x], [x], V.double())
    with pytest.raises(ValueError, match="coordinates"):
        apply(gaussian(), [x], [prepare(points(10, 3, 0))], V)
    with pytest.raises(TypeError, match="float32"):
        prepare(points(10, 2, 0).double())


@pytest.mark.cuda
@pytest.mark.skipif(not CUDA, reason="needs a GPU")
@pytest.mark.parametrize("outputs", [1, 2, 16, 33, 70])
@pytest.mark.parametrize("d", [3, 8, 16, 31, 64, 100, 128, 200, 1000])
@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_every_configuration_on_the_device(d, outputs, spread):
    X, C, V = (
        points(1500, d, 1, spread),
        points(5000, d, 2, spread),
        points(5000, outputs, 3),
    )
    x64, c64 = X.double(), C.double()
    exponent = x64 @ c64.T - 0.5 * (x64**2).sum(1)[:, None] - 0.5 * (c64**2).sum(1)
    exact = torch.exp2(exponent) @ V.double()
    padded = 1 if outputs == 1 else min(max(16, 1 << (outputs - 1).bit_length()), 64)
    scale = 1.0 if spread == 1.0 else fitting_scale(float(X.abs().max()))
    x, c = prepare(X, scale), prepare(C, scale)
    hopper = torch.cuda.get_device_capability()[0] == 9
    for config in candidates(x.depth, d, padded, 1, hopper, x.points is not None):
        result = apply(gaussian(), [x], [c], V, config=config)
        assert error(result, exact) < 2e-6 * max(1.0, spread**2), config
