"""What a model leaves behind, and models side by side."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import (
    FrozenPredictor,
    IncrementalClassifier,
    OutputGroups,
    RecursiveRidge,
    SparseSpectrumGP,
)

PHASE = FourierFeatures(Gaussian(1.0), 12, map="phase", random_state=0)
MODELS = [
    RecursiveRidge(ridge=0.1),
    RecursiveRidge(PHASE, ridge=0.1),
    RecursiveRidge(PHASE, ridge=0.1, dtype="float32", fit_intercept=False),
    SparseSpectrumGP(10, noise=0.1, signal=1.0, length_scale=1.0, random_state=0),
    SparseSpectrumGP(10, 0.1, 1.0, 1.0, trend=20.0, random_state=0),
]


def stream(rows=60, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    Y = np.sin(X @ rng.standard_normal((3, outputs))) + 2.0
    return X, Y[:, 0] if outputs == 1 else Y


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_frozen_model_predicts_the_same(model, outputs):
    X, y = stream(outputs=outputs)
    frozen = model.fit(X, y).freeze()
    tolerance = 1e-5 if model.dtype == "float32" else 1e-12
    np.testing.assert_allclose(frozen.predict(X), model.predict(X), atol=tolerance)
    one = model.predict_one(X[0])
    one = one[0] if isinstance(one, tuple) else one
    np.testing.assert_allclose(frozen.predict_one(X[0]), one, atol=10 * tolerance)
    again = FrozenPredictor.__new__(FrozenPredictor)
    again._restore_state(frozen._saved_state())
    np.testing.assert_array_equal(again.predict(X), frozen.predict(X))


@pytest.mark.parametrize("recode", [0.0, 0.7])
@pytest.mark.parametrize("features", [None, PHASE])
def test_a_frozen_classifier_gives_the_same_labels(recode, features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    labels = np.array(["none", "push", "pull"])[(X > 0.4).sum(1).clip(max=2)]
    model = IncrementalClassifier(features, ridge=0.1, recode=recode)
    model.partial_fit(X, labels, classes=["never", "none", "pull", "push"])
    frozen = model.freeze()
    np.testing.assert_array_equal(frozen.predict(X), model.predict(X))
    assert "never" not in frozen.classes_
    kept = [list(model.classes_).index(label) for label in frozen.classes_]
    np.testing.assert_allclose(
        frozen.scores(X), model.decision_function(X)[:, kept], atol=1e-12
    )


def test_a_frozen_answer_is_of_the_type_of_the_models():
    X, y = stream()
    ridge = RecursiveRidge().fit(X, y)
    assert type(ridge.freeze().predict_one(X[0])) is type(ridge.predict_one(X[0]))
    for labels in ((y > 2).astype(int), np.where(y > 2, "up", "down"), y > 2):
        model = IncrementalClassifier().fit(X, labels)
        one, frozen = model.predict_one(X[0]), model.freeze().predict_one(X[0])
        assert type(frozen) is type(one)
        assert frozen == one
    with pytest.raises(ValueError, match=r"x must have shape \(3,\), not \(2,\)"):
        ridge.freeze().predict_one(X[0, :2])


def test_a_frozen_model_is_small():
    X, y = stream()
    model = RecursiveRidge(PHASE).fit(X, y)
    held = model.freeze()._saved_state().values()
    numbers = sum(np.size(value) for value in held if isinstance(value, np.ndarray))
    assert numbers == 13 + 12 * 3 + 12  # weights, frequencies, phases


def test_other_features_cannot_be_frozen():
    X, y = stream()
    with pytest.raises(ValueError, match="PolynomialFeatures features cannot be"):
        RecursiveRidge(PolynomialFeatures()).fit(X, y).freeze()


@pytest.mark.parametrize("name", ["weights_", "frequencies", "phases"])
def test_a_frozen_state_that_does_not_fit_is_refused(name):
    X, y = stream()
    state = RecursiveRidge(PHASE).fit(X, y).freeze()._saved_state()
    state[name] = state[name][:-1]
    with pytest.raises(ValueError, match=r"fit|weights"):
        FrozenPredictor.__new__(FrozenPredictor)._restore_state(state)


@parametrize_with_checks([OutputGroups(RecursiveRidge())])
def test_groups_conform_to_scikit_learn(estimator, check):
    check(estimator)


def test_groups_are_models_of_their_own():
    X, Y = stream(80, 3)
    groups = OutputGroups(RecursiveRidge(PHASE, ridge=0.1), groups=[[2, 0], [1]])
    groups.fit(X[:40], Y[:40])
    for x, y in zip(X[40:], Y[40:], strict=True):
        groups.predict_update(x, y)
    for outputs in ([2, 0], [1]):
        alone = RecursiveRidge(PHASE, ridge=0.1).fit(X, Y[:, outputs])
        np.testing.assert_allclose(groups.predict(X)[:, outputs], alone.predict(X))
    np.testing.assert_allclose(groups.predict_one(X[3]), groups.predict(X[3:4])[0])


def test_groups_of_processes_have_their_own_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 1))
    Y = np.sin(3 * X) * [1.0, 50.0] + rng.standard_normal((300, 2)) * [0.1, 1.0]
    groups = OutputGroups(SparseSpectrumGP(20, random_state=0)).fit(X, Y)
    mean, std = groups.predict(X, return_std=True)
    assert mean.shape == std.shape == (300, 2)
    np.testing.assert_allclose(std.mean(0), [0.1, 1.0], rtol=0.2)
    one_mean, one_std = groups.predict_update(X[0], Y[0])
    np.testing.assert_allclose(one_mean, mean[0])
    np.testing.assert_allclose(one_std, std[0])


@pytest.mark.parametrize("model", [MODELS[0], MODELS[3]], ids=repr)
def test_one_output_that_comes_as_numbers_is_answered_by_numbers(model):
    X, y = stream()
    alone, groups = clone(model), OutputGroups(model)
    for x, target in zip(X, y, strict=True):
        expected, found = (
            alone.predict_update(x, target),
            groups.predict_update(x, target),
        )
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.shape(groups.predict_one(X[0])) == np.shape(alone.predict_one(X[0]))
    np.testing.assert_allclose(groups.predict(X), alone.predict(X))
    groups.partial_fit(X, y)


def test_bad_groups_and_samples_are_refused():
    X, Y = stream(20, 3)
    with pytest.raises(ValueError, match="each of the 3 outputs once"):
        OutputGroups(RecursiveRidge(), groups=[[0], [0, 1]]).fit(X, Y)
    groups = OutputGroups(RecursiveRidge()).fit(X, Y)
    before = groups.predict(X)
    for x, y in [(X[0], [1.0, 1.0, np.nan]), (X[0][:2], Y[0]), (X[0], Y[0][:2])]:
        with pytest.raises(ValueError, match=r"NaN|shape"):
            groups.predict_update(x, y)
    np.testing.assert_array_equal(groups.predict(X), before)


def test_groups_pass_weights_on():
    X, Y = stream(60, 2)
    weights = np.linspace(0.0, 3.0, 60)
    groups = OutputGroups(RecursiveRidge(PHASE, ridge=0.1))
    groups.partial_fit(X[:30], Y[:30], weights[:30])
    for sample in zip(X[30:], Y[30:], weights[30:], strict=True):
        groups.learn_one(*sample)
    alone = RecursiveRidge(PHASE, ridge=0.1).fit(X, Y, weights)
    np.testing.assert_allclose(groups.predict(X), alone.predict(X), atol=1e-10)
    before = groups.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        groups.predict_update(X[0], Y[0], -1.0)
    np.testing.assert_array_equal(groups.predict(X), before)


def test_groups_refuse_weights_that_their_models_do_not_know():
    X, Y = stream(60, 2)
    groups = OutputGroups(SparseSpectrumGP(5, 0.1, 1.0, 1.0))
    with pytest.raises(ValueError, match="SparseSpectrumGP takes no sample_weight"):
        groups.fit(X, Y, np.ones(60))
    with pytest.raises(ValueError, match="SparseSpectrumGP takes no sample_weight"):
        groups.fit(X, Y).predict_update(X[0], Y[0], 2.0)
