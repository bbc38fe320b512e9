"""Fused GPU products against dense float64 algebra.

Without a GPU the portable kernels run in Triton's interpreter, on small problems.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

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
from tiercel.products.fused.launch import split_count  # noqa: E402

pytestmark = pytest.mark.usefixtures("triton_here")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RESIDENT = Config("resident", 64, 64, 4, 2)
WIDE = Config("resident", 128, 128, 4, 2)
LOOPED = Config("looped", 64, 128, 4, 2)
SMALL = Config("small", 128, 16, 4, 2)

LAPLACIAN = EntrySpec("tl.exp2(-p0 * tl.sqrt(t0))", (1.4427,), rough=(True, False))
CUBIC = EntrySpec(
    "(p0 * u0 + p1) * (p0 * u0 + p1) * (p0 * u0 + p1)", (0.5, 1.0), bound=512.0
)
BOTH = EntrySpec("(1.0 + p0 * u0) / (1.0 + t0)", (0.5,), bound=16.0)
PAIR = EntrySpec("tl.exp2(-0.5 * t0) * (1.0 + u1)", groups=2, bound=16.0)

# What an entry is worth, from the squared distance and the scalar product of a group.
VALUES = {
    "gaussian": lambda t, u: torch.exp2(-0.5 * t[0]),
    "laplacian": lambda t, u: torch.exp2(-1.4427 * t[0].sqrt()),
    "cubic": lambda t, u: (0.5 * u[0] + 1.0) ** 3,
    "both": lambda t, u: (1.0 + 0.5 * u[0]) / (1.0 + t[0]),
    "pair": lambda t, u: torch.exp2(-0.5 * t[0]) * (1.0 + u[1]),
}
ENTRIES = {
    "gaussian": gaussian(),
    "laplacian": LAPLACIAN,
    "cubic": CUBIC,
    "both": BOTH,
    "pair": PAIR,
}


def points(n, d, seed, spread=1.0):
    values = np.random.default_rng(seed).normal(size=(n, d)) * spread / math.sqrt(d)
    return torch.tensor(values, dtype=torch.float32, device=DEVICE)


def dense(name, X, C):
    """Return a kernel matrix in float64; X and C are points, or lists of groups."""
    pairs = list(zip(X, C, strict=True)) if isinstance(X, list) else [(X, C)]
    pairs = [(x.double(), c.double()) for x, c in pairs]
    distances = [(x[:, None] - c[None]).square().sum(2) for x, c in pairs]
    return VALUES[name](distances, [x @ c.T for x, c in pairs])


def error(result, exact):
    return float((result.double() - exact).norm() / exact.norm())


def product(entry, X, C, V, config, scale=1.0, precision="auto"):
    X, C = [P if isinstance(P, list) else [P] for P in (X, C)]
    rows, columns = [prepare(x, scale) for x in X], [prepare(c, scale) for c in C]
    return apply(entry, rows, columns, V, config=config, precision=precision)


# Points in halves -----------------------------------------------------------------


def test_halves_add_up_to_the_points():
    X = points(70, 5, 0, spread=3.0)
    operand = prepare(X, 1024.0)
    both = operand.tiles.double().sum(1).reshape(-1, 64, 16).reshape(-1, 16)
    assert error(both[:70, :5] / 1024.0, X.double()) < 2.0**-24
    assert both[70:].abs().max() == 0
    assert both[:, 5:].abs().max() == 0


def test_chunks_lie_one_after_another():
    X = points(64, 130, 0)
    operand = prepare(X)
    assert operand.tiles.shape == (4, 2, 3, 64, 64)
    assert torch.equal(operand.tiles[0, 0, 1], X[:, 64:128].half())


# Products -------------------------------------------------------------------------

CONFIGS = [
    RESIDENT,
    WIDE,
    LOOPED,
    SMALL,
    replace(RESIDENT, columns=128),
    replace(LOOPED, rows=128, columns=64),
]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=st.sampled_from(CONFIGS),
    name=st.sampled_from(sorted(ENTRIES)),
    outputs=st.sampled_from([1, 3, 16, 32, 64, 70]),
    n=st.integers(1, 200),
    m=st.integers(1, 300),
    d=st.integers(1, 70),
    scale=st.sampled_from([1.0, 256.0]),
    precision=st.sampled_from(["auto", "auto", "fast"]),
)
def test_any_product_is_the_dense_one(config, name, outputs, n, m, d, scale, precision):
    entry = ENTRIES[name]
    if config.variant == "small":
        outputs, d, precision = 1, min(d, 8), "auto"
        if name in ("both", "pair"):
            name, entry = "laplacian", LAPLACIAN
    depth = d + 128 if config.variant == "looped" else d
    widths = [depth, depth // 2 + 64] if entry.groups == 2 else [depth]
    X = [points(n, width, 1 + i) for i, width in enumerate(widths)]
    C = [points(m, width, 3 + i) for i, width in enumerate(widths)]
    V = points(m, outputs, 5)
    K = dense(name, X, C)
    result = product(entry, X, C, V, config, scale, precision).double()
    size = (K.abs() @ V.double().abs()).norm()
    bound = 5e-3 if precision == "fast" else 1e-6
    assert float((result - K @ V.double()).norm() / size) < bound


@pytest.mark.parametrize("config", [RESIDENT, WIDE])
@pytest.mark.parametrize(("d", "outputs"), [(3, 1), (20, 1), (40, 3), (70, 17)])
def test_gaussian_with_norms_folded_out(config, d, outputs):
    X, C, V = points(150, d, 1), points(130, d, 2), points(130, outputs, 3)
    exact = dense("gaussian", X, C) @ V.double()
    assert foldable(prepare(X), prepare(C), outputs)
    assert error(product(gaussian(), X, C, V, config), exact) < 1e-6


@pytest.mark.parametrize("outputs", [1, 3])
def test_gaussian_of_spread_points_keeps_norms_in(outputs):
    X, C = points(150, 20, 1, 30.0), points(130, 20, 2, 30.0)
    C[:60] = X[:60] + 0.1 * C[:60]
    V = points(130, outputs, 3)
    scale = fitting_scale(float(X.abs().max()))
    assert not foldable(prepare(X), prepare(C), outputs)
    exact = dense("gaussian", X, C) @ V.double()
    assert error(product(gaussian(), X, C, V, RESIDENT, scale), exact) < 2e-4


@pytest.mark.parametrize("config", [RESIDENT, SMALL])
def test_laplacian_where_points_coincide(config):
    X, V = points(128, 3, 10), points(128, 1, 11)
    exact = dense("laplacian", X, X) @ V.double()
    bound = 2e-6 if config is SMALL else 2e-5
    assert error(product(LAPLACIAN, X, X, V, config, 1024.0), exact) < bound


def test_one_half_only_is_coarser():
    X, C, V = points(90, 12, 7), points(80, 12, 8), points(80, 1, 9)
    exact = dense("gaussian", X, C) @ V.double()
    result = product(gaussian(), X, C, V, RESIDENT, precision="fast")
    assert 1e-6 < error(result, exact) < 2e-3


@pytest.mark.parametrize("size", [1e-37, 1e-30, 1e20, 1e37])
def test_size_of_weights_does_not_matter(size):
    X, C, V = points(70, 5, 18), points(70, 5, 19), points(70, 4, 20)
    V[:, 1] = 0.0
    exact = dense("gaussian", X, C) @ V.double()
    result = product(gaussian(), X, C, V * size, RESIDENT).double()
    assert error(result / size, exact) < 1e-6
    assert result[:, 1].abs().max() == 0


def test_small_weights_keep_their_digits_beside_large_ones():
    X, C, V = points(70, 5, 18), points(900, 5, 19), points(900, 3, 20)
    V[1:] *= 1e-5
    C[0] = 40.0  # so far away that its weight counts for nothing
    exact = dense("gaussian", X, C) @ V.double()
    assert error(product(gaussian(), X, C, V, RESIDENT, 64.0), exact) < 2e-6


def test_transposed_product_swaps_operands():
    X, C, U = points(150, 8, 21), points(40, 8, 22), points(150, 1, 23)
    exact = dense("gaussian", X, C).T @ U.double()
    x, c = prepare(X), prepare(C)
    assert error(apply(gaussian(), [c], [x], U, config=RESIDENT), exact) < 1e-6


# Choices --------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ENTRIES))
@pytest.mark.parametrize("outputs", [1, 2])
def test_default_configuration_serves_every_entry(name, outputs):
    X = [points(60, 3, 21)] * ENTRIES[name].groups
    C = [points(40, 3, 22)] * ENTRIES[name].groups
    V = points(40, outputs, 23)
    exact = dense(name, X, C) @ V.double()
    assert error(product(ENTRIES[name], X, C, V, None, 256.0), exact) < 2e-6


def test_a_refused_configuration_gives_way(monkeypatch):
    from tiercel.products.fused import launch

    class OutOfResources(Exception):
        """Named as Triton names it."""

    def launched(*arguments):
        if arguments[-1].stages > 1:
            raise OutOfResources
        return arguments[-1]

    monkeypatch.setattr(launch, "_launch", launched)
    X, V = points(40, 30, 0), points(40, 1, 1)
    assert product(gaussian(), X, X, V, None).stages == 1
    with pytest.raises(OutOfResources):
        product(gaussian(), X, X, V, RESIDENT)


@pytest.mark.parametrize(("programs", "tiles"), [(1, 4), (128, 2**14), (8192, 256)])
def test_columns_are_cut_to_fill_the_device(monkeypatch, programs, tiles):
    class Properties:
        multi_processor_count = 132

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    splits = split_count(programs, tiles, torch.device("cuda"))
    assert 1 <= splits <= max(tiles // 16, 1)
    assert tiles * 64 / splits <= 2**16
    waves = programs * splits / (4 * 132)
    assert tiles < 64 or math.ceil(waves) / waves < 1.1


def test_looped_kernels_serve_what_is_not_resident():
    assert candidates(256, 200, 1, 1, True, False)[0].variant == "looped"
    assert candidates(128, 100, 1, 2, True, False)[0].variant == "resident"
    assert candidates(16, 3, 1, 1, True, True)[0].variant == "small"
    assert candidates(16, 3, 16, 1, True, True)[0].variant == "hopper"


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
    with pytest.raises(ValueError, match="empty"):
        prepare(points(0, 2, 0))
    with pytest.raises(ValueError, match="groups"):
        EntrySpec("t0", groups=3)
    with pytest.raises(ValueError, match="parameters"):
        EntrySpec("t0", (1.0,) * 9)


ON_DEVICE = [
    *itertools.product(["gaussian"], [3, 16, 31, 64, 100, 200], [1, 16, 40]),
    *itertools.product(["spread", "laplacian", "cubic"], [3, 40, 200], [1, 16]),
]


@pytest.mark.cuda
@pytest.mark.parametrize(("name", "d", "outputs"), ON_DEVICE)
def test_every_configuration_on_the_device(name, d, outputs):
    spread = 6.0 if name == "spread" else 1.0
    X, C = points(700, d, 1, spread), points(3000, d, 2, spread)
    C[:700] = X
    V = points(3000, outputs, 3)
    name = "gaussian" if name == "spread" else name
    exact = dense(name, X, C) @ V.double()
    scale = fitting_scale(float(X.abs().max()))
    if name == "gaussian" and spread == 1.0:
        scale = 1.0
    x, c = prepare(X, scale), prepare(C, scale)
    padded = {1: 1, 16: 16, 40: 64}[outputs]
    hopper = torch.cuda.get_device_capability()[0] == 9
    for config in candidates(x.depth, d, padded, 1, hopper, x.points is not None):
        result = apply(ENTRIES[name], [x], [c], V, config=config)
        bound = 2e-5 if name == "laplacian" else 2e-6 * spread**2
        assert error(result, exact) < bound, config
