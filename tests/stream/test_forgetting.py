"""Windows and fading: what a model holds is what dense algebra says it should."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import RecursiveRidge, _window

FOURIER = FourierFeatures(Gaussian(1.0), n_frequencies=10, random_state=0)


def stream(rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(rows)


@pytest.mark.parametrize("seen", [5, 20, 33, 60, 100])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_window_holds_its_last_samples(seen, at_once):
    X, y = stream(seen)
    model = RecursiveRidge(FOURIER, ridge=0.1, window=20)
    if at_once:
        model.fit(X, y)
    else:
        for x, target in zip(X, y, strict=True):
            model.predict_update(x, target)
    last = slice(max(0, seen - 20), seen)
    reference = Ridge(0.1).fit(FOURIER.fit(X).transform(X[last]), y[last])
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-10)
    assert model.n_samples_seen_ == min(seen, 20)


def test_samples_of_weight_zero_pass_through_a_window():
    X, y = stream(50)
    weights = np.tile([1.0, 0.0, 2.0], 17)[:50]
    model = RecursiveRidge(ridge=0.1, window=15).fit(X, y, weights)
    reference = Ridge(0.1).fit(X[-15:], y[-15:], weights[-15:])
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-11)


def test_rounding_errors_of_a_window_do_not_add_up():
    """With a small ridge a removal loses digits; the heir brings them back."""
    X, y = stream(3000)
    model = RecursiveRidge(FOURIER, ridge=1e-7, window=25, fit_intercept=False)
    errors = []
    for t in range(3000):
        model.learn_one(X[t], y[t])
        if t >= 500 and t % 50 == 0:
            last = slice(t - 24, t + 1)
            rows = np.vstack([FOURIER.fit(X).transform(X[last]), 10**-3.5 * np.eye(20)])
            w = np.linalg.lstsq(rows, np.append(y[last], np.zeros(20)), rcond=None)[0]
            errors.append(np.abs(model.coef_ - w).max() / np.abs(w).max())
    assert max(errors) < 1e-6
    assert np.median(errors[-10:]) < 10 * np.median(errors[:10]) + 1e-12


def test_where_a_removal_fails_the_window_is_learned_anew(monkeypatch):
    X, y = stream(40)
    model = RecursiveRidge(FOURIER, ridge=0.1, window=15).fit(X[:25], y[:25])

    def refuse(self, weight=1.0):
        raise _window.FactorisationError("cannot")

    monkeypatch.setattr(type(model._recursion), "remove", refuse)
    model.learn_one(X[25], y[25])
    reference = Ridge(0.1).fit(FOURIER.fit(X).transform(X[11:26]), y[11:26])
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-10)
    assert model.n_samples_seen_ == 15


@pytest.mark.parametrize("forgetting", [0.999, 0.97, 0.7, 0.01])
@pytest.mark.parametrize("intercept", [True, False])
def test_old_samples_fade_and_the_ridge_does_not(forgetting, intercept):
    X, y = stream(150)
    model = RecursiveRidge(
        FOURIER, ridge=0.4, forgetting=forgetting, fit_intercept=intercept
    )
    phi = FOURIER.fit(X).transform(X)
    phi = np.column_stack([np.ones(150), phi]) if intercept else phi
    for t in range(150):
        model.predict_update(X[t], y[t])
        prior = model._recursion.state.prior
        ridge = np.full(phi.shape[1], 0.4)
        ridge[: int(intercept)] = 0.0
        assert np.all(prior >= 0.5 * ridge)
        assert np.all(prior <= ridge)
    fading = forgetting ** np.arange(149, -1, -1)
    A = phi.T @ (fading[:, None] * phi) + np.diag(prior)
    exact = np.linalg.solve(A, phi.T @ (fading * y))
    np.testing.assert_allclose(model._recursion.weights()[:, 0], exact, atol=1e-8)


def test_fading_follows_a_world_that_changes():
    X, y = stream(1000)
    y[500:] *= -1.0
    errors = {}
    for forgetting in (1.0, 0.98):
        model = RecursiveRidge(FOURIER, ridge=0.1, forgetting=forgetting)
        found = [model.predict_update(x, t) - t for x, t in zip(X, y, strict=True)]
        errors[forgetting] = np.mean(np.square(found[700:]))
    assert errors[0.98] < 0.1 * errors[1.0]
