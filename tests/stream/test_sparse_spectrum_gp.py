"""The streaming Gaussian process against the dense one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from tiercel.stream import SparseSpectrumGP

GIVEN = {"noise": 0.2, "signal": 1.3, "length_scale": [0.7, 1.5], "offset": 3.0}
GIVEN["random_state"] = 0


def stream(rows: int, outputs: int = 1, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 2))
    Y = np.column_stack([np.sin(3 * X[:, 0] + k) + X[:, 1] for k in range(outputs)])
    Y += 3.0 + 0.2 * rng.standard_normal(Y.shape)
    return X, Y[:, 0] if outputs == 1 else Y


def dense(model, X, y, X_test, trend=None):
    """Return mean, std and negative log evidence of the process by its covariance."""
    hyper = model.hyperparameters_

    def features(X, index):
        angle = X @ hyper.frequencies.T
        scale = hyper.signal / np.sqrt(len(hyper.directions))
        phi = scale * np.column_stack([np.cos(angle), np.sin(angle)])
        if trend is None:
            return phi
        return np.column_stack([phi, hyper.signal * index / trend])

    phi = features(X, np.arange(len(X)))
    test = features(X_test, np.full(len(X_test), len(X)))
    K = phi @ phi.T + hyper.noise**2 * np.eye(len(X))
    centred = y.reshape(len(y), -1) - hyper.offset
    mean = test @ phi.T @ np.linalg.solve(K, centred) + hyper.offset
    shrunk = np.linalg.solve(K, phi @ test.T)
    variance = (test**2).sum(1) - ((test @ phi.T).T * shrunk).sum(0) + hyper.noise**2
    evidence = 0.5 * (centred * np.linalg.solve(K, centred)).sum()
    half_log_det = 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    evidence += centred.shape[1] * half_log_det
    return mean, np.sqrt(variance), evidence


@pytest.mark.filterwarnings("ignore:the search took all variation")
@parametrize_with_checks([SparseSpectrumGP(50, random_state=0, max_steps=20)])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("trend", [None, 50.0])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_stream_is_the_dense_process(outputs, trend, at_once):
    X, y = stream(80, outputs)
    X_test = stream(20, seed=1)[0]
    model = SparseSpectrumGP(20, trend=trend, **GIVEN)
    model.partial_fit(X[:40], y[:40])
    if at_once:
        model.partial_fit(X[40:], y[40:])
    else:
        for x, target in zip(X[40:], y[40:], strict=True):
            model.learn_one(x, target)
    mean, std, evidence = dense(model, X, y, X_test, trend)
    found, found_std = model.predict(X_test, return_std=True)
    np.testing.assert_allclose(found.reshape(mean.shape), mean, atol=1e-9)
    np.testing.assert_allclose(found_std, std, rtol=1e-9)
    assert model.evidence_ == pytest.approx(evidence, rel=1e-10)
    one_mean, one_std = model.predict_one(X_test[0])
    np.testing.assert_allclose(one_mean, mean[0] if outputs > 1 else mean[0, 0])
    assert one_std == pytest.approx(std[0], rel=1e-10)


@settings(max_examples=20)
@given(order=st.randoms(use_true_random=False), outputs=st.integers(1, 2))
def test_what_each_sample_costs_adds_up_to_the_evidence(order, outputs):
    """The prequential identity, in any order (Gijsberts 2011, section 4.2)."""
    X, y = stream(60, outputs)
    rows = list(range(60))
    order.shuffle(rows)
    model = SparseSpectrumGP(15, **GIVEN)
    total = 0.0
    for row in rows:
        mean, std = model.predict_update(X[row], y[row])
        errors = (y[row] - mean) / std
        total += np.sum(0.5 * np.log(2 * np.pi * std**2) + 0.5 * errors**2)
    _, _, evidence = dense(model, X, y, X[:1])
    assert total == pytest.approx(evidence, rel=1e-9)
    assert model.evidence_ == pytest.approx(evidence, rel=1e-9)


def test_the_error_bar_shrinks_to_the_noise_and_covers():
    X, y = stream(3000)
    model = SparseSpectrumGP(30, random_state=0).optimize(X[:400], y[:400])
    x, last = np.array([0.2, -0.1]), np.inf
    for t in range(400, 3000):
        model.predict_update(X[t], y[t])
        if t % 100 == 0:
            _, std = model.predict_one(x)
            assert std <= last + 1e-12
            last = std
    assert last == pytest.approx(model.hyperparameters_.noise, rel=0.05)
    assert model.hyperparameters_.noise == pytest.approx(0.2, rel=0.1)
    # 2,600 samples: the standard error of a share of 0.954 is 0.004.
    assert model.coverage_[2] == pytest.approx(0.954, abs=0.015)
    assert model.coverage_[1] == pytest.approx(0.683, abs=0.03)


def test_a_trend_follows_a_sensor_that_drifts():
    X, y = stream(2000)
    drifting = y + 0.002 * np.arange(2000)
    tuned = SparseSpectrumGP(20, **GIVEN).optimize(X[:300], y[:300])
    errors = {}
    for trend in (None, 1000.0):
        model = SparseSpectrumGP(20, trend=trend, **GIVEN)
        model.hyperparameters_ = tuned.hyperparameters_
        found = [
            model.predict_update(*pair)[0] for pair in zip(X, drifting, strict=True)
        ]
        errors[trend] = np.mean((found - drifting)[500:] ** 2)
    assert errors[1000.0] < 0.5 * errors[None]
    assert errors[1000.0] == pytest.approx(0.2**2, rel=0.15)


@pytest.mark.parametrize("tuning", ["fixed", "optimized", "proxy"])
def test_every_tuning_finds_the_noise(tuning):
    X, y = stream(300)
    model = SparseSpectrumGP(15, tuning=tuning, random_state=0).fit(X, y)
    assert model.hyperparameters_.noise == pytest.approx(0.2, rel=0.2)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.22


def test_optimize_learns_nothing_but_hyperparameters():
    X, y = stream(200)
    model = SparseSpectrumGP(15, random_state=0).optimize(X, y)
    _, std = model.predict_update(X[0], y[0])
    signal, noise = model.hyperparameters_.signal, model.hyperparameters_.noise
    assert std == pytest.approx(np.hypot(signal, noise))
    assert model.n_samples_seen_ == 1
    known = model.hyperparameters_
    model.reset()
    model.learn_one(X[1], y[1])
    assert model.hyperparameters_ is known


def test_without_hyperparameters_one_sample_is_too_few():
    with pytest.raises(ValueError, match=r"call optimize\(X, y\) or fit"):
        SparseSpectrumGP().predict_update([1.0, 2.0], 0.5)
    with pytest.raises(ValueError, match="together, or none"):
        SparseSpectrumGP(noise=0.1).fit(*stream(20))


@pytest.mark.parametrize("name", ["n_frequencies", "n_tune", "max_steps", "restarts"])
def test_a_bad_number_is_called_by_its_name(name):
    with pytest.raises(ValueError, match=name):
        SparseSpectrumGP(**{name: 0}).fit(*stream(20))
    with pytest.raises(ValueError, match="n_tune must be 2 or more"):
        SparseSpectrumGP(n_tune=1).fit(*stream(20))


@pytest.mark.parametrize("name", ["noise", "signal", "length_scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_bad_hyperparameters_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        SparseSpectrumGP(10, **{**GIVEN, name: value}).fit(*stream(20))


@pytest.mark.parametrize("copied", ["pickle", "state"])
def test_a_resumed_process_goes_on_bit_for_bit(copied):
    X, y = stream(120, 2)
    model = SparseSpectrumGP(20, trend=100.0, random_state=0).fit(X[:60], y[:60])
    if copied == "pickle":
        again = pickle.loads(pickle.dumps(model))
    else:
        again = SparseSpectrumGP(20, trend=100.0, random_state=0)
        again._restore_state(model._saved_state())
    for x, target in zip(X[60:], y[60:], strict=True):
        mean, std = model.predict_update(x, target)
        again_mean, again_std = again.predict_update(x, target)
        np.testing.assert_array_equal(mean, again_mean)
        assert std == again_std
    assert model.evidence_ == again.evidence_


def test_float32_state_is_of_float32_grade():
    X, y = stream(500)
    double = SparseSpectrumGP(20, random_state=0).fit(X, y)
    single = SparseSpectrumGP(20, random_state=0, dtype="float32").fit(X, y)
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=1e-3)


def test_with_given_hyperparameters_a_batch_is_its_rows():
    """Nothing is taken from the first batch that a first sample would not give."""
    X, y = stream(50)
    given = {**GIVEN, "offset": None}
    at_once = SparseSpectrumGP(10, **given).partial_fit(X, y)
    one_by_one = SparseSpectrumGP(10, **given)
    for x, target in zip(X, y, strict=True):
        one_by_one.learn_one(x, target)
    np.testing.assert_allclose(at_once.predict(X), one_by_one.predict(X), atol=1e-11)


def test_before_the_first_sample_the_prior_answers():
    X, y = stream(200, 2)
    model = SparseSpectrumGP(15, random_state=0).optimize(X, y)
    hyper = model.hyperparameters_
    mean, std = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(mean, np.tile(hyper.offset, (3, 1)))
    np.testing.assert_allclose(std, np.hypot(hyper.signal, hyper.noise))
    assert model.n_samples_seen_ == 0
    one_mean, one_std = model.predict_one(X[0])
    np.testing.assert_allclose(one_mean, hyper.offset)
    assert one_std == pytest.approx(std[0])
