"""Recursive ridge regression against scikit-learn's and against dense algebra."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.linalg import FactorisationError
from tiercel.stream import RecursiveRidge

FOURIER = FourierFeatures(Gaussian(1.5), n_frequencies=15, random_state=0)
PHASE = FourierFeatures(Gaussian(1.5), n_frequencies=15, map="phase", random_state=0)
SCALED = FrozenEstimator(StandardScaler().fit([[0.0, 1.0, 2.0], [1.0, 4.0, 9.0]]))


def stream(rows: int, seed: int = 0, outputs: int = 1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    Y = np.column_stack([np.sin(X @ rng.standard_normal(3)) for _ in range(outputs)])
    Y += 2.0 + 0.1 * rng.standard_normal(Y.shape)
    weights = np.where(rng.random(rows) < 0.1, 0.0, rng.uniform(0.2, 3.0, rows))
    return X, Y[:, 0] if outputs == 1 else Y, weights


def dense(features, X, y, weights, ridge):
    phi = X if features is None else features.fit(X, y).transform(X)
    return Ridge(ridge, solver="cholesky").fit(phi, y, weights)


def assert_same(model, reference, tolerance=1e-9):
    scale = np.abs(reference.coef_).max()
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=tolerance * scale)
    np.testing.assert_allclose(
        model.intercept_, reference.intercept_, atol=tolerance * scale
    )


WIDE = FourierFeatures(Gaussian(5.0), n_frequencies=60, random_state=0)


@parametrize_with_checks([RecursiveRidge(), RecursiveRidge(WIDE, window=10_000)])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


@pytest.mark.parametrize("features", [None, FOURIER, PHASE, SCALED])
@pytest.mark.parametrize("outputs", [1, 3])
def test_fit_equals_batch_ridge(features, outputs):
    X, y, weights = stream(200, outputs=outputs)
    model = RecursiveRidge(features, ridge=0.3).fit(X, y, weights)
    assert_same(model, dense(features, X, y, weights, 0.3))


@pytest.mark.parametrize("features", [None, FOURIER, PHASE, SCALED])
@pytest.mark.parametrize("outputs", [1, 3])
def test_one_sample_at_a_time_equals_fit(features, outputs):
    X, y, weights = stream(120, outputs=outputs)
    model = RecursiveRidge(features, ridge=0.3)
    for sample in zip(X, y, weights, strict=True):
        model.predict_update(*sample)
    assert_same(model, dense(features, X, y, weights, 0.3))
    assert model.n_samples_seen_ == 120


@settings(max_examples=30)
@given(
    cuts=st.lists(st.integers(0, 150), max_size=6),
    order=st.randoms(use_true_random=False),
    outputs=st.integers(1, 3),
    intercept=st.booleans(),
)
def test_any_order_in_any_pieces_gives_the_same_model(cuts, order, outputs, intercept):
    X, y, weights = stream(150, outputs=outputs)
    rows = list(range(150))
    order.shuffle(rows)
    model = RecursiveRidge(FOURIER, ridge=0.05, fit_intercept=intercept)
    edges = [0, *sorted(cuts), 150]
    for start, stop in pairwise(edges):
        part = rows[start:stop]
        if part:
            model.partial_fit(X[part], y[part], weights[part])
    phi = FOURIER.fit(X).transform(X)
    reference = Ridge(0.05, fit_intercept=intercept).fit(phi, y, weights)
    assert_same(model, reference, 1e-8)


@settings(max_examples=20)
@given(seen=st.integers(1, 60), seed=st.integers(0, 5))
def test_what_comes_back_is_the_prediction_before_learning(seen, seed):
    X, y, _ = stream(seen + 1, seed)
    model = RecursiveRidge(FOURIER, ridge=0.1).partial_fit(X[:seen], y[:seen])
    expected = model.predict(X[seen:])[0]
    assert model.predict_one(X[seen]) == pytest.approx(expected, abs=1e-11)
    assert model.predict_update(X[seen], y[seen]) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("features", [None, FOURIER, PHASE])
def test_weights_and_kernel_give_the_same_predictions(features):
    """Primal and dual: phi'(Phi'Phi + ridge)^-1 Phi'y = k'(K + ridge)^-1 y."""
    X, Y, _ = stream(40, outputs=2)
    model = RecursiveRidge(features, ridge=0.3, fit_intercept=False).fit(X, Y)
    phi = X if features is None else features.fit(X).transform(X)
    K = phi @ phi.T
    dual = K @ np.linalg.solve(K + 0.3 * np.eye(40), Y)
    np.testing.assert_allclose(model.predict(X), dual, atol=1e-11)


def test_the_residual_sum_is_that_of_the_batch_problem():
    X, y, weights = stream(90, outputs=2)
    model = RecursiveRidge(ridge=0.7)
    for sample in zip(X, y, weights, strict=True):
        model.learn_one(*sample)
    errors = (weights[:, None] * (y - model.predict(X)) ** 2).sum(0)
    regularised = errors + 0.7 * (model.coef_**2).sum(1)
    np.testing.assert_allclose(model._recursion.state.rss, regularised, rtol=1e-11)


@pytest.mark.parametrize("outputs", [1, 3])
def test_removing_samples_undoes_learning_them(outputs):
    X, y, weights = stream(150, outputs=outputs)
    model = RecursiveRidge(FOURIER, ridge=0.1).fit(X, y, weights)
    model.remove(X[:100], y[:100], weights[:100])
    assert_same(model, dense(FOURIER, X[100:], y[100:], weights[100:], 0.1))
    assert model.n_samples_seen_ == 50


def test_removing_what_was_never_learned_is_refused():
    X, y, _ = stream(40)
    model = RecursiveRidge(ridge=0.1).fit(X, y)
    before = model.coef_
    with pytest.raises(FactorisationError, match="never learned"):
        model.remove([[50.0, 50.0, 50.0]], [1.0])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_samples_seen_ == 40


@settings(max_examples=20)
@given(cut=st.integers(1, 99), outputs=st.integers(1, 2), intercept=st.booleans())
def test_models_trained_apart_merge_into_one(cut, outputs, intercept):
    X, y, weights = stream(100, outputs=outputs)
    empty = RecursiveRidge(FOURIER, ridge=1e-3, fit_intercept=intercept)
    one = pickle.loads(pickle.dumps(empty)).fit(X[:cut], y[:cut], weights[:cut])
    other = pickle.loads(pickle.dumps(empty)).fit(X[cut:], y[cut:], weights[cut:])
    together = empty.fit(X, y, weights)
    one.merge(other)
    np.testing.assert_allclose(one.predict(X), together.predict(X), atol=1e-9)
    np.testing.assert_allclose(
        one._recursion.state.rss, together._recursion.state.rss, rtol=1e-7
    )
    assert one.n_samples_seen_ == 100


def test_merged_models_with_forgetting_keep_one_regulariser():
    X, y, _ = stream(60)
    models = [RecursiveRidge(ridge=0.5, forgetting=0.9) for _ in range(2)]
    models[0].fit(X[:30], y[:30])
    models[1].fit(X[30:], y[30:])
    moments = [moments_of(model) for model in models]
    priors = [model._recursion.state.prior.copy() for model in models]
    models[0].merge(models[1])
    ridge = np.diag([0.0, 0.5, 0.5, 0.5])  # in full: their turns are not those of one
    expected = moments[0] + moments[1] + ridge - np.diag(priors[0] + priors[1])
    np.testing.assert_allclose(moments_of(models[0]), expected, atol=1e-10)


def moments_of(model):
    return model._recursion.state.R.T @ model._recursion.state.R


def test_different_features_do_not_merge():
    X, y, _ = stream(30)
    one = RecursiveRidge(FOURIER).fit(X, y)
    other = FourierFeatures(Gaussian(1.5), n_frequencies=15, random_state=1)
    with pytest.raises(ValueError, match="differ in their features"):
        one.merge(RecursiveRidge(other).fit(X, y))


@pytest.mark.parametrize("outputs", [1, 2])
def test_moments_of_a_batch_are_taken_over(outputs):
    X, y, _ = stream(80, outputs=outputs)
    phi = np.column_stack([np.ones(70), X[10:]])
    model = RecursiveRidge(ridge=0.2).fit(X[:10], y[:10])
    squares = (y[10:] ** 2).sum(0)
    model.learn_moments(phi.T @ phi, phi.T @ y[10:], squares, 70)
    whole = RecursiveRidge(ridge=0.2).fit(X, y)
    assert_same(model, whole)
    np.testing.assert_allclose(
        model._recursion.state.rss, whole._recursion.state.rss, rtol=1e-8
    )


def test_ill_conditioned_features_keep_their_digits():
    """The stream of Gijsberts 2011 (section 4.3) where Sherman-Morrison shows 1e-7."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.3, 0.3, (5000, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.01 * rng.standard_normal(5000)
    features = FourierFeatures(Gaussian(1.0), 80, map="phase", random_state=0).fit(X)
    model = RecursiveRidge(features, ridge=1e-6, fit_intercept=False)
    for x, target in zip(X, y, strict=True):
        model.learn_one(x, target)
    phi = features.transform(X)
    rows = np.vstack([phi, 1e-3 * np.eye(80)])
    exact = np.linalg.lstsq(rows, np.append(y, np.zeros(80)), rcond=None)[0]
    assert np.abs(model.predict(X) - phi @ exact).max() < 1e-9


def test_float32_state_is_of_float32_grade():
    X, y, _ = stream(400)
    single = RecursiveRidge(FOURIER, ridge=0.1, dtype="float32")
    double = RecursiveRidge(FOURIER, ridge=0.1)
    for x, target in zip(X, y, strict=True):
        single.learn_one(x, target)
        double.learn_one(x, target)
    assert single._recursion.state.R.dtype == np.float32
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=2e-4)


@pytest.mark.parametrize("copied", ["pickle", "state"])
@pytest.mark.parametrize("options", [{}, {"forgetting": 0.95}, {"window": 12}])
def test_a_resumed_model_goes_on_bit_for_bit(copied, options):
    X, y, _ = stream(100, outputs=2)
    model = RecursiveRidge(FOURIER, ridge=0.1, **options).fit(X[:50], y[:50])
    if copied == "pickle":
        again = pickle.loads(pickle.dumps(model))
    else:
        again = RecursiveRidge(FOURIER, ridge=0.1, **options)
        again._restore_state(model._saved_state())
    for x, target in zip(X[50:], y[50:], strict=True):
        np.testing.assert_array_equal(
            model.predict_update(x, target), again.predict_update(x, target)
        )
    np.testing.assert_array_equal(model.coef_, again.coef_)


@pytest.mark.parametrize("name", ["factor", "rotated", "prior", "rss", "within"])
def test_a_state_that_does_not_fit_is_refused(name):
    X, y, _ = stream(30)
    state = RecursiveRidge(FOURIER).fit(X, y)._saved_state()
    state["recursion"][name] = state["recursion"][name][:-1]
    with pytest.raises(ValueError, match=r"fit|shape"):
        RecursiveRidge(FOURIER)._restore_state(state)


@pytest.mark.parametrize(
    ("x", "y", "weight"),
    [
        ([np.nan, 0.0, 0.0], 1.0, 1.0),
        ([np.inf, 0.0, 0.0], 1.0, 1.0),
        ([1e200, 0.0, 0.0], 1.0, 1.0),
        ([0.0, 0.0], 1.0, 1.0),
        ([[0.0, 0.0, 0.0]], 1.0, 1.0),
        (["a", "b", "c"], 1.0, 1.0),
        ([1j, 0.0, 0.0], 1.0, 1.0),
        ([0.0, 0.0, 0.0], np.nan, 1.0),
        ([0.0, 0.0, 0.0], [1.0, 2.0], 1.0),
        ([0.0, 0.0, 0.0], "much", 1.0),
        ([0.0, 0.0, 0.0], 1.0, -1.0),
        ([0.0, 0.0, 0.0], 1.0, np.inf),
    ],
)
@pytest.mark.parametrize("features", [None, FOURIER, SCALED])
def test_a_bad_sample_is_refused_and_leaves_no_trace(features, x, y, weight):
    X, targets, _ = stream(30)
    model = RecursiveRidge(features, ridge=0.1).fit(X, targets)
    before = pickle.dumps(model._recursion.arrays())
    with pytest.raises(ValueError, match=r"\w"):
        model.predict_update(x, y, weight)
    assert pickle.dumps(model._recursion.arrays()) == before
    fresh = RecursiveRidge(features)
    if weight == 1.0 and len(np.shape(x)) == 1 and len(x) == 3 and np.ndim(y) == 0:
        with pytest.raises(ValueError, match=r"\w"):
            fresh.predict_update(x, y)
        assert fresh._recursion is None


@pytest.mark.parametrize(
    "options",
    [
        {"ridge": 0.0},
        {"ridge": -1.0},
        {"ridge": np.nan},
        {"ridge": "much"},
        {"forgetting": 0.0},
        {"forgetting": 1.1},
        {"window": 1},
        {"window": 2.5},
        {"window": 10, "forgetting": 0.9},
        {"dtype": "int32"},
    ],
)
def test_bad_parameters_are_refused_before_work_starts(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        RecursiveRidge(**options).predict_update([1.0], 1.0)


def test_a_kernel_is_no_feature_map():
    model = RecursiveRidge(Gaussian(1.0))
    with pytest.raises(TypeError, match=r"such as FourierFeatures\(Gaussian\(\)\)"):
        model.predict_update([1.0], 1.0)
    assert not hasattr(model, "n_features_in_")


def test_memory_stays_the_same_to_the_byte():
    X, y, _ = stream(2000)
    model = RecursiveRidge(FOURIER, forgetting=0.99).partial_fit(X[:1], y[:1])
    sizes = []
    for x, target in zip(X, y, strict=True):
        model.predict_update(x, target)
        sizes.append(sum(a.nbytes for a in model._recursion.arrays().values()
                         if hasattr(a, "nbytes")))  # fmt: skip
    assert len(set(sizes)) == 1


def test_rows_that_a_transformer_makes_huge_are_refused_as_a_whole():
    X, y, _ = stream(30)
    cubes = FunctionTransformer(np.exp)
    model = RecursiveRidge(cubes, ridge=0.1).fit(X, y)
    before = model.coef_
    X[7] = 600.0
    with pytest.raises(ValueError, match="FunctionTransformer made holds values"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_samples_seen_ == 30
