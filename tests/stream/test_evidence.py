"""Evidence of Gaussian processes, against dense covariances and finite differences."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from tiercel.linalg import cholesky
from tiercel.stream import _evidence
from tiercel.stream._evidence import (
    gaussian_process_evidence,
    sine_cosine_features,
    sparse_spectrum_evidence,
)


def sparse_spectrum(theta, X, Y, directions=True):
    Xi = theta[5:].reshape(-1, 3)
    return sparse_spectrum_evidence(
        theta[0], theta[1], theta[2:5], Xi, X, Y, directions
    )


def exact(theta, X, Y):
    return gaussian_process_evidence(theta[0], theta[1], theta[2:5], X, Y)


def sparse_spectrum_covariance(theta, X):
    phases = X @ (theta[5:].reshape(-1, 3) / np.exp(theta[2:5])).T
    return np.exp(2 * theta[1]) * np.cos(phases[:, None] - phases[None]).mean(axis=2)


def exact_covariance(theta, X):
    Z = X / np.exp(theta[2:5])
    return np.exp(2 * theta[1] - 0.5 * cdist(Z, Z, "sqeuclidean"))


COVARIANCE = {sparse_spectrum: sparse_spectrum_covariance, exact: exact_covariance}
both = pytest.mark.parametrize("evidence", [sparse_spectrum, exact])


def problem(evidence, m, n_outputs=1, seed=0):
    """Return parameters (of four frequencies where there are any) and data."""
    rng = np.random.default_rng(seed)
    theta = np.append([-1.0, 0.3, -0.4, 0.2, 0.9], rng.standard_normal(12))
    X = rng.uniform(-1, 1, (m, 3)) + np.array([0.0, 5.0, -100.0])
    Y = rng.standard_normal((m, n_outputs))
    return (theta if evidence is sparse_spectrum else theta[:5]), X, Y


def negative_log_density(C, Y):
    _, logdet = np.linalg.slogdet(C)
    quadratic = np.sum(Y * np.linalg.solve(C, Y))
    return 0.5 * (quadratic + Y.shape[1] * (logdet + len(Y) * np.log(2 * np.pi)))


@both
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("m", [1, 5, 8, 30])  # fewer, as many, more than 8 features
def test_value_is_the_density_under_the_dense_covariance(evidence, m, n_outputs):
    theta, X, Y = problem(evidence, m, n_outputs)
    C = COVARIANCE[evidence](theta, X) + np.exp(2 * theta[0]) * np.eye(m)
    value, _ = evidence(theta, X, Y)
    assert value == pytest.approx(negative_log_density(C, Y), rel=1e-9)


@both
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("m", [2, 8, 30])
def test_gradient_is_that_of_finite_differences(evidence, m, n_outputs):
    theta, X, Y = problem(evidence, m, n_outputs, seed=1)
    step = 1e-5
    expected = [
        (evidence(theta + move, X, Y)[0] - evidence(theta - move, X, Y)[0]) / (2 * step)
        for move in step * np.eye(len(theta))
    ]
    _, gradient = evidence(theta, X, Y)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)


def test_gradient_without_directions_is_the_head_of_the_other():
    theta, X, Y = problem(sparse_spectrum, 20)
    value, gradient = sparse_spectrum(theta, X, Y)
    value_of_few, few = sparse_spectrum(theta, X, Y, directions=False)
    assert value_of_few == value
    np.testing.assert_array_equal(few, gradient[:5])


def test_exact_evidence_is_that_of_scikit_learn():
    theta, X, Y = problem(exact, 40, n_outputs=2)
    kernel = ConstantKernel() * RBF([1.0] * 3) + WhiteKernel()
    logs = np.array([2 * theta[1], *theta[2:], 2 * theta[0]])  # of variances
    reference = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, Y)
    value, gradient = reference.log_marginal_likelihood(logs, eval_gradient=True)
    ours, our_gradient = exact(theta, X, Y)
    assert ours == pytest.approx(-value, rel=1e-9)
    order = [2 * gradient[4], 2 * gradient[0], *gradient[1:4]]
    np.testing.assert_allclose(our_gradient, -np.array(order), rtol=1e-7)


def test_predictions_one_sample_ahead_add_up_to_the_evidence():
    theta, X, Y = problem(sparse_spectrum, 25)
    noise, signal = np.exp(theta[:2])
    Z = X / np.exp(theta[2:5])
    Phi, y = sine_cosine_features(Z, theta[5:].reshape(-1, 3), signal), Y[:, 0]
    total = 0.0
    for t, phi in enumerate(Phi):
        A = Phi[:t].T @ Phi[:t] + noise**2 * np.eye(8)
        error = y[t] - phi @ np.linalg.solve(A, Phi[:t].T @ y[:t])
        variance = noise**2 * (1 + phi @ np.linalg.solve(A, phi))
        total += 0.5 * np.log(2 * np.pi * variance) + error**2 / (2 * variance)
    assert sparse_spectrum(theta, X, Y)[0] == pytest.approx(total, rel=1e-10)


@given(
    evidence=st.sampled_from([sparse_spectrum, exact]),
    m=st.integers(1, 25),
    n_outputs=st.integers(1, 3),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=30)
def test_order_and_origin_do_not_matter_and_outputs_add_up(
    evidence, m, n_outputs, seed
):
    theta, X, Y = problem(evidence, m, n_outputs, seed)
    X = np.round(X * 2**20) / 2**20
    order = np.random.default_rng(seed).permutation(m)
    value, gradient = evidence(theta, X, Y)
    shuffled = evidence(theta, X[order] + 2.0**25, Y[order])  # no bit is lost
    apart = [evidence(theta, X, y[:, None]) for y in Y.T]
    for other, its_gradient in (shuffled, map(sum, zip(*apart, strict=True))):
        assert other == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(its_gradient, gradient, rtol=1e-8, atol=1e-8)


def test_many_frequencies_approach_the_exact_evidence():
    theta, X, Y = problem(exact, 30)
    C = exact_covariance(theta, X)
    Y = np.linalg.cholesky(C + 0.1 * np.eye(30)) @ Y
    Xi = np.random.default_rng(2).standard_normal((20_000, 3))
    approximate, gradient = sparse_spectrum(np.append(theta, Xi), X, Y, False)
    value, exact_gradient = exact(theta, X, Y)
    assert approximate == pytest.approx(value, rel=0.02)
    np.testing.assert_allclose(gradient, exact_gradient, rtol=0.1, atol=0.3)


def test_fewer_samples_than_features_is_a_matter_of_cost_only():
    # Every frequency twice: the same covariance, but 16 features for the 8 samples.
    theta, X, Y = problem(sparse_spectrum, 8, seed=3)
    repeated = np.append(theta, theta[5:])
    value, gradient = sparse_spectrum(theta, X, Y)
    other, other_gradient = sparse_spectrum(repeated, X, Y)
    assert other == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(other_gradient[:5], gradient[:5], rtol=1e-8)
    halves = other_gradient[5:].reshape(2, -1)
    np.testing.assert_allclose(halves.sum(axis=0), gradient[5:], rtol=1e-8)


@both
@pytest.mark.parametrize("m", [5, 30])
def test_jitter_counts_as_noise(evidence, m, monkeypatch):
    theta, X, Y = problem(evidence, m, seed=4)
    noise = np.exp(2 * theta[0])
    louder = np.append(0.5 * np.log(noise + 0.1), theta[1:])
    value, gradient = evidence(louder, X, Y)
    gradient[0] *= noise / (noise + 0.1)

    def with_jitter(A, overwrite):
        return replace(cholesky(A + 0.1 * np.eye(len(A))), jitter=0.1)

    monkeypatch.setattr(_evidence, "cholesky", with_jitter)
    other, its_gradient = evidence(theta, X, Y)
    assert other == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(its_gradient, gradient, rtol=1e-8)


def peak_of(call):
    call()
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_memory_is_a_few_design_matrices_or_a_few_kernel_matrices():
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((3000, 3)), rng.standard_normal((3000, 1))
    theta, _, _ = problem(sparse_spectrum, 1)
    peak = peak_of(lambda: sparse_spectrum(theta, X, Y))
    assert peak < 6 * 3000 * 8 * 8  # six arrays of 3000 x 8 numbers
    X, Y = rng.standard_normal((300, 200)), rng.standard_normal((300, 1))
    peak = peak_of(lambda: gaussian_process_evidence(0.0, 0.0, np.full(200, 2.0), X, Y))
    assert peak < 8 * 300 * 300 * 8
