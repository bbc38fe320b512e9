"""Exported C code, compiled by gcc, against the model in Python."""

from __future__ import annotations

import copy
import itertools
import re

import numpy as np
import pytest
from c_programs import FLAGS, LEARNER, STRICT, Frozen, Learner, build, needs_gcc
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import PolynomialFeatures

from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import RecursiveRidge, SparseSpectrumGP
from tiercel.stream.c_code import export_c

N = 10_000
SEEN = 60


def waves(map, n_frequencies=15):
    return FourierFeatures(Gaussian(1.0), n_frequencies, map=map, random_state=0)


def ridge(map=None, **options):
    features = None if map is None else waves(map)
    return RecursiveRidge(features, ridge=0.1, **options)


def gp(**options):
    return SparseSpectrumGP(8, 0.1, 1.0, 1.5, random_state=0, **options)


def stream(n_outputs, n=N, seed=0):
    """Return inputs and targets; a one-dimensional y for one output."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    Y = 2.0 + np.sin(X @ rng.standard_normal((3, n_outputs)))
    Y += 0.1 * rng.standard_normal(Y.shape)
    return X, Y[:, 0] if n_outputs == 1 else Y


def fitted(model, n_outputs=1):
    return model.fit(*stream(n_outputs, SEEN, seed=1))


def in_python(model, X, Y, weights=None):
    """Return means and, of a process, standard deviations, before each sample."""
    weighted = [()] * len(X) if weights is None else [(w,) for w in weights]
    found = [
        model.predict_update(x, y, *weight)
        for x, y, weight in zip(X, Y, weighted, strict=True)
    ]
    if isinstance(found[0], tuple):
        means, stds = zip(*found, strict=True)
        return np.array(means).reshape(len(X), -1), np.array(stds)
    return np.array(found).reshape(len(X), -1), None


LEARNERS = {
    "inputs": (lambda: ridge(), 1),
    "inputs, no intercept": (lambda: ridge(fit_intercept=False), 3),
    "inputs, forgetting": (lambda: ridge(forgetting=0.99), 3),
    "phase": (lambda: ridge("phase"), 3),
    "phase, forgetting": (lambda: ridge("phase", forgetting=0.9), 1),
    "phase, float32": (lambda: ridge("phase", dtype="float32"), 1),
    "sincos": (lambda: ridge("sincos"), 1),
    "sincos, no intercept": (lambda: ridge("sincos", fit_intercept=False), 3),
    "sincos, float32, forgetting": (
        lambda: ridge("sincos", dtype="float32", forgetting=0.999),
        3,
    ),
    "many frequencies": (lambda: RecursiveRidge(waves("phase", 70), ridge=0.1), 1),
}


@needs_gcc
@pytest.mark.parametrize("name", LEARNERS)
def test_ten_thousand_updates_agree_with_python_to_the_last_bit(name, tmp_path):
    make, n_outputs = LEARNERS[name]
    model = fitted(make(), n_outputs)
    X, Y = stream(n_outputs)
    weights = np.random.default_rng(2).choice([1.0, 1.0, 0.0, 0.3, 7.0], N)
    means, leverages = Learner(model, tmp_path).follow(X, Y, weights)
    expected = copy.deepcopy(model)._recursion.follow(X, Y.reshape(N, -1), weights)
    np.testing.assert_array_equal(means, expected[0])
    np.testing.assert_array_equal(leverages, expected[1])
    by_calls = in_python(model, X[:500], Y[:500], weights[:500])[0]
    np.testing.assert_array_equal(means[:500], by_calls)


@needs_gcc
@pytest.mark.parametrize(
    ("options", "n_outputs"),
    [({}, 1), ({"trend": 500.0}, 3), ({"dtype": "float32", "trend": 500.0}, 1)],
)
def test_a_process_predicts_the_same_means_and_deviations(options, n_outputs, tmp_path):
    model = fitted(gp(**options), n_outputs)
    X, Y = stream(n_outputs)
    means, stds = Learner(model, tmp_path).follow(X, Y, np.ones(N))
    expected, deviations = in_python(model, X, Y)
    np.testing.assert_array_equal(means, expected)
    np.testing.assert_array_equal(stds, deviations)


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_compiler_that_contracts_agrees_to_rounding(dtype, tmp_path):
    model = fitted(ridge("phase", dtype=dtype))
    X, y = stream(1)
    flags = ["-O3", "-march=native", "-ffp-contract=fast"]
    means, _ = Learner(model, tmp_path, flags=flags).follow(X, y, np.ones(N))
    expected, _ = in_python(model, X, y)
    tolerance = 1e-11 if dtype == "float64" else 2e-3
    np.testing.assert_allclose(means, expected, rtol=0, atol=tolerance)


@needs_gcc
@pytest.mark.parametrize("make", [lambda: ridge("phase"), lambda: gp(trend=100.0)])
def test_predict_and_update_are_the_halves_of_predict_update(make, tmp_path):
    model = fitted(make(), 3)
    X, Y = stream(3, 50)
    robot = Learner(model, tmp_path)
    for x, y in zip(X, Y, strict=True):
        status, mean, spread = robot.predict(x)
        learned = copy.deepcopy(model).predict_update(x, y)
        before = model.predict_one(x)
        assert status == 0
        if isinstance(before, tuple):
            before, learned, std = before[0], learned[0], before[1]
            assert spread == std
        np.testing.assert_array_equal(mean, before)
        np.testing.assert_allclose(mean, learned, rtol=0, atol=1e-11)
        assert robot.update(x, y) == 0
        model.predict_update(x, y)


@needs_gcc
def test_the_leverage_is_that_of_the_dense_factor(tmp_path):
    model = fitted(ridge("phase"))
    robot, (X, _) = Learner(model, tmp_path), stream(1, 20)
    for x in X:
        _, _, leverage = robot.predict(x)
        expected = model._recursion.leverages(x[None])[0]
        np.testing.assert_allclose(leverage, expected, rtol=1e-10)


@needs_gcc
@pytest.mark.parametrize("make", [lambda: ridge(), lambda: ridge("phase"), gp])
def test_a_fresh_start_is_that_of_an_empty_model(make, tmp_path):
    model = fitted(make(), 3)
    X, Y = stream(3, 200)
    robot = Learner(model, tmp_path, "fresh")
    _, mean, spread = robot.predict(X[0])
    offset = model._offset
    np.testing.assert_array_equal(mean, np.zeros(3) + offset)
    if isinstance(model, SparseSpectrumGP):
        # Nothing is known: noise and signal, both of the hyperparameters.
        np.testing.assert_allclose(spread, np.hypot(0.1, 1.0), rtol=1e-14)
    else:
        assert spread == np.inf  # the intercept goes unpenalised
    means, _ = robot.follow(X, Y, np.ones(len(X)))
    model._recursion = model._empty(model._map(3), 3)
    expected, _ = in_python(model, X, Y)
    np.testing.assert_array_equal(means, expected)


@needs_gcc
def test_a_fresh_start_forgets_like_an_empty_model(tmp_path):
    model = fitted(ridge("phase", forgetting=0.95))
    X, y = stream(1, 500)
    means, _ = Learner(model, tmp_path, "fresh").follow(X, y, np.ones(len(X)))
    model._recursion = model._empty(model._map(3), 1)
    np.testing.assert_array_equal(means, in_python(model, X, y)[0])


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_robot_at_rest_forgets_as_python_does(dtype, tmp_path):
    """What has faded below all meaning is set to zero, in both."""
    model = fitted(ridge("phase", forgetting=0.5, dtype=dtype))
    X, y = np.tile(0.3, (3000, 3)), np.full(3000, 2.0)
    means, _ = Learner(model, tmp_path).follow(X, y, np.ones(3000))
    expected, _ = in_python(model, X, y)
    np.testing.assert_array_equal(means, expected)
    R = np.abs(model._recursion.state.R)
    assert not np.any((R > 0) & (np.finfo(dtype).tiny > R))


BAD = [np.nan, np.inf, -np.inf, 2e150]


@needs_gcc
@pytest.mark.parametrize("make", [lambda: ridge("phase", forgetting=0.99), gp])
def test_refused_samples_leave_every_byte_of_the_state(make, tmp_path):
    robot = Learner(fitted(make(), 3), tmp_path)
    x, y = [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]
    robot.update(x, y)
    before = robot.state()
    for i, value in [(i, value) for i in range(3) for value in BAD]:
        bad = [value if j == i else 0.5 for j in range(3)]
        untouched = [robot.predict(bad)]
        untouched += [robot.predict_update(*pair) for pair in [(bad, y), (x, bad)]]
        assert robot.update(bad, y) == robot.update(x, bad) == 1
        for status, mean, spread in untouched:
            assert (status, *mean, spread) == (1, 7.0, 7.0, 7.0, 7.0)
    for weight in [-1.0, np.nan, np.inf, 1e-31, 1e31]:
        status, mean, spread = robot.predict_update(x, y, weight)
        assert (status, *mean, spread) == (2, 7.0, 7.0, 7.0, 7.0)
    assert robot.state() == before


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("map", [None, "sincos"])
def test_what_python_refuses_is_refused(map, dtype, tmp_path):
    model = fitted(ridge(map, dtype=dtype))
    robot = Learner(model, tmp_path)
    scales, refused = [1.0, 1e20, 1e29, 1e31, 1e140, 1e149, 1e151], []
    for x, y, weight in itertools.product(scales, scales, [0.0, 1e-20, 1.0, 1e4, 1e25]):
        inputs, target = np.array([0.1, -x, 0.2]), -y
        kept = copy.deepcopy(model)
        try:
            kept.predict_update(inputs, target, weight)
            good = True
        except ValueError:
            good = False
        robot.library.reset()
        assert (robot.update(inputs, target, weight) == 0) == good
        refused.append(not good)
    assert 0 < sum(refused) < len(refused)


@needs_gcc
def test_an_intercept_that_was_forgotten_is_forgotten_alike(tmp_path):
    model = fitted(ridge("phase", forgetting=0.5))
    X, y = stream(1, 600)
    weights = np.where(np.arange(600) % 300 < 280, 0.0, 1.0)
    means, leverages = Learner(model, tmp_path).follow(X, y, weights)
    expected = model._recursion.follow(X, y[:, None], weights)
    assert np.isinf(leverages).any()
    np.testing.assert_array_equal(means, expected[0])
    np.testing.assert_array_equal(leverages, expected[1])


@needs_gcc
def test_single_precision_refuses_what_it_cannot_square(tmp_path):
    robot = Learner(fitted(ridge(dtype="float32")), tmp_path)
    before = robot.state()
    assert robot.update([1e30, 0.0, 0.0], 1.0) == 1
    assert robot.update([0.0, 0.0, 0.0], -1e30) == 1
    assert robot.state() == before
    assert robot.update([0.9e30, 0.0, 0.0], 1.0) == 0
    assert np.isfinite(robot.predict([1.0, 1.0, 1.0])[1]).all()


@needs_gcc
def test_angles_beyond_the_polynomials_are_left_to_the_library(tmp_path):
    model = fitted(ridge("sincos"))
    robot, x = Learner(model, tmp_path), np.array([1e8, -3e7, 2e9])
    np.testing.assert_allclose(robot.predict(x)[1], model.predict_one(x), rtol=1e-12)


@needs_gcc
@pytest.mark.parametrize(
    "make",
    [lambda: ridge("phase", dtype="float32", forgetting=0.9), gp, lambda: ridge()],
)
def test_what_the_comment_says_of_the_size_is_true(make, tmp_path):
    robot = Learner(fitted(make(), 3), tmp_path)
    said = re.search(r"Memory: ([\d,]+) bytes of state", robot.header.read_text())
    assert int(said[1].replace(",", "")) == robot.library.size()


FROZEN_MODELS = {
    "inputs": lambda: ridge(),
    "inputs, window": lambda: ridge(window=50),
    "phase, float32": lambda: ridge("phase", dtype="float32"),
    "sincos": lambda: ridge("sincos", fit_intercept=False),
    "many frequencies": lambda: RecursiveRidge(waves("phase", 70), ridge=0.1),
    "process with a trend": lambda: gp(trend=30.0),
}


@needs_gcc
@pytest.mark.parametrize("name", FROZEN_MODELS)
def test_a_frozen_header_predicts_what_the_model_does(name, tmp_path):
    model, (X, _) = fitted(FROZEN_MODELS[name](), 3), stream(3, 100)
    status, means = Frozen(model, tmp_path, learn=False).predict(X, 3)
    expected = model.predict(X)
    eps = np.finfo(model.dtype).eps
    assert status == 0
    np.testing.assert_allclose(means, expected, rtol=0, atol=2000 * eps)
    if name == "phase, float32":
        _, again = Frozen(model.freeze(), tmp_path).predict(X, 3)
        np.testing.assert_array_equal(again, means)


@needs_gcc
@pytest.mark.parametrize("map", [None, "phase"])
def test_a_frozen_header_refuses_what_is_not_finite(map, tmp_path):
    robot = Frozen(fitted(ridge(map)), tmp_path, learn=False)
    for value in BAD:
        status, means = robot.predict(np.array([[0.0, value, 0.0]]), 1)
        assert (status, means[0, 0]) == (1, 7.0)


@needs_gcc
def test_headers_are_cpp_too_and_go_together(tmp_path):
    export_c(fitted(ridge("phase", forgetting=0.9)), tmp_path / "arm.h", "arm")
    export_c(fitted(gp(trend=9.0)), tmp_path / "leg.h", "leg")
    export_c(fitted(ridge("sincos")), tmp_path / "eye.h", "eye", learn=False)
    headers = "".join(f'#include "{name}.h"\n' for name in ("arm", "leg", "eye", "arm"))
    for standard in ("c++98", "c++20"):
        flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-O2"]
        build(tmp_path, f'{headers}extern "C" {{\n{LEARNER}}}\n', flags, "g++")
    build(tmp_path, headers + LEARNER, [*STRICT, "-O0"])


@needs_gcc
def test_fast_math_is_refused(tmp_path):
    export_c(fitted(ridge("phase")), tmp_path / "arm.h", "arm")
    with pytest.raises(AssertionError, match="breaks the sines"):
        build(tmp_path, LEARNER, [*FLAGS, "-ffast-math"])


@pytest.mark.parametrize("learn", [True, False, "fresh"])
def test_the_same_model_gives_the_same_text(learn, tmp_path):
    texts = set()
    for name in ("a", "b"):
        model = fitted(ridge("phase", forgetting=0.9))
        before = model._recursion.arrays()
        texts.add(export_c(model, tmp_path / name, "arm", learn).read_bytes())
        for key, value in model._recursion.arrays().items():
            np.testing.assert_array_equal(value, before[key])
    assert len(texts) == 1


def test_a_header_of_weights_is_small(tmp_path):
    model = fitted(RecursiveRidge(waves("phase", 100), ridge=0.1))
    sizes = [
        len(export_c(model, tmp_path / "arm.h", learn=learn).read_bytes())
        for learn in (True, "fresh", False)
    ]
    assert sizes == sorted(sizes, reverse=True)
    # 3 x 100 frequencies, 100 phases and 100 weights of at most 25 characters.
    assert sizes[2] < 500 * 25 + 6000


@pytest.mark.parametrize("name", ["", "1arm", "arm.h", "a-b", "_arm", "ärm", "a b"])
def test_names_that_are_none_in_c_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="begins all names"):
        export_c(fitted(ridge()), tmp_path / "arm.h", name)
    assert not list(tmp_path.iterdir())


def test_models_that_cannot_be_exported_say_why(tmp_path):
    path = tmp_path / "arm.h"
    with pytest.raises(NotFittedError):
        export_c(ridge(), path)
    with pytest.raises(ValueError, match="no C code for PolynomialFeatures"):
        export_c(fitted(RecursiveRidge(PolynomialFeatures(2))), path)
    with pytest.raises(ValueError, match="use forgetting, or learn=False"):
        export_c(fitted(ridge(window=20)), path)
    with pytest.raises(TypeError, match="not FourierFeatures"):
        export_c(waves("phase"), path)
    with pytest.raises(ValueError, match="learn must be"):
        export_c(fitted(ridge()), path, learn="empty")
    assert not path.exists()
