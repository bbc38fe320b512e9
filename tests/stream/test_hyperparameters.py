"""Hyperparameters by marginal likelihood: what is found, kept, warned of, refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from tiercel.stream import hyperparameters
from tiercel.stream._evidence import sine_cosine_features
from tiercel.stream.hyperparameters import (
    SpectrumHyperparameters,
    gaussian_process_predict,
    optimize_gaussian_process,
    optimize_spectrum,
    ridge_equivalent,
)


def wave(m=150, n_outputs=1, seed=0):
    """Return a smooth function of the first of two inputs, noise 0.1, mean 5."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (m, 2)) * [1.0, 30.0]
    phases = np.arange(n_outputs)
    Y = 5 + np.sin(4 * X[:, :1] + phases) + 0.1 * rng.standard_normal((m, n_outputs))
    return X, Y


def spectrum(X, Y, **settings):
    return optimize_spectrum(X, Y, 20, random_state=0, **settings)


both = pytest.mark.parametrize("optimize", [spectrum, optimize_gaussian_process])


def cross(seed=0):
    """Return 500 noisy training samples and the noiseless grid of Cross 2D."""

    def f(X):
        a, b = X.T**2
        return np.max(
            [np.exp(-10 * a), np.exp(-50 * b), 1.25 * np.exp(-5 * (a + b))], axis=0
        )

    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (500, 2))
    axis = np.linspace(-1, 1, 41)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return X, f(X) + 0.1 * rng.standard_normal(500), grid, f(grid)


def spectrum_predict(hyper, X, y, X_test):
    def features(X):
        return sine_cosine_features(X, hyper.frequencies, hyper.signal)

    Phi = features(X)
    A = Phi.T @ Phi + hyper.noise**2 * np.eye(Phi.shape[1])
    return features(X_test) @ np.linalg.solve(A, Phi.T @ (y - hyper.offset)) + (
        hyper.offset
    )


@pytest.mark.parametrize(
    ("n_frequencies", "frequencies", "level"),
    [(100, "fixed", 0.034), (25, "optimized", 0.031)],
)
def test_cross_is_learned_to_the_published_level(n_frequencies, frequencies, level):
    X, y, grid, truth = cross()
    errors = []
    for draw in range(3):
        hyper = optimize_spectrum(X, y, n_frequencies, frequencies, random_state=draw)
        residuals = spectrum_predict(hyper, X, y, grid) - truth
        errors.append(np.mean(residuals**2) / np.var(truth))
    assert np.mean(errors) < level + 0.01  # about one standard deviation over draws
    assert 0.09 < hyper.noise < 0.12


def test_cross_is_learned_by_the_exact_process():
    X, y, grid, truth = cross()
    hyper = optimize_gaussian_process(X, y)
    mean, _ = gaussian_process_predict(hyper, X, y, grid)
    assert 0.018 < np.mean((mean - truth) ** 2) / np.var(truth) < 0.024
    assert hyper.noise == pytest.approx(0.1, rel=0.1)
    assert hyper.converged


@both
def test_the_irrelevant_input_gets_a_long_length_scale(optimize):
    X, Y = wave()
    hyper = optimize(X, Y)
    relative = hyper.length_scale / np.ptp(X, axis=0)
    assert relative[1] > 20 * relative[0]
    assert hyper.noise == pytest.approx(0.1, rel=0.15)
    np.testing.assert_allclose(hyper.offset, Y.mean(axis=0))


@both
def test_the_search_ends_lower_than_where_it_begins(optimize):
    X, Y = wave(n_outputs=3)
    few, many = optimize(X, Y, max_iter=1), optimize(X, Y)
    assert many.evidence < few.evidence - 10
    assert many.converged
    assert not few.converged
    assert "ITERATIONS" in few.message
    assert few.evaluations < many.evaluations


def test_the_evidence_belongs_to_the_values_returned():
    X, Y = wave(n_outputs=2)
    for frequencies in ("fixed", "optimized"):
        hyper = spectrum(X, Y, frequencies=frequencies)
        Phi = sine_cosine_features(X, hyper.frequencies, hyper.signal)
        C = Phi @ Phi.T + hyper.noise**2 * np.eye(len(X))
        centred = Y - hyper.offset
        expected = 0.5 * np.sum(centred * np.linalg.solve(C, centred))
        expected += np.linalg.slogdet(2 * np.pi * C)[1]  # a half for each output
        assert hyper.evidence == pytest.approx(expected, rel=1e-8)


def test_fixed_directions_are_the_draw_and_optimized_ones_are_better():
    X, Y = wave()
    drawn = np.random.default_rng(0).standard_normal((20, 2))
    fixed = spectrum(X, Y, frequencies="fixed")
    optimized = spectrum(X, Y, frequencies="optimized")
    np.testing.assert_array_equal(fixed.directions, drawn)
    assert np.abs(optimized.directions - drawn).max() > 0.1
    assert optimized.evidence < fixed.evidence


@both
def test_units_of_inputs_and_outputs_carry_over(optimize):
    X, Y = wave()
    hyper, scaled = optimize(X, Y), optimize(X * [8.0, 0.25] - 3.0, 64 * Y + 1.0)
    assert scaled.noise == pytest.approx(64 * hyper.noise, rel=0.01)
    assert scaled.signal == pytest.approx(64 * hyper.signal, rel=0.01)
    # The other length scale has left the data: how far it goes is not determined.
    assert scaled.length_scale[0] == pytest.approx(8 * hyper.length_scale[0], rel=0.01)
    np.testing.assert_allclose(scaled.offset, 64 * hyper.offset + 1.0)


@both
def test_an_input_that_does_not_vary_keeps_length_scale_one(optimize):
    X, Y = wave()
    wider = np.insert(X, 1, 0.1, axis=1)
    wider[::2, 1] = np.nextafter(0.1, 1.0)  # no more than rounding
    hyper = optimize(wider, Y)
    assert hyper.length_scale[1] == 1.0
    assert hyper.noise == pytest.approx(0.1, rel=0.15)


def test_an_exact_process_is_blind_to_inputs_and_outputs_that_do_not_vary():
    X, Y = wave()
    hyper = optimize_gaussian_process(X, Y)
    constant = np.full(len(X), 7.0)
    constant[::2] = np.nextafter(7.0, 8.0)
    wider = optimize_gaussian_process(
        np.insert(X, 1, 0.1, axis=1), np.insert(Y, 0, constant, axis=1)
    )
    assert wider.evidence == pytest.approx(hyper.evidence, rel=1e-9)
    np.testing.assert_allclose(wider.length_scale[[0, 2]], hyper.length_scale, rtol=0.1)
    np.testing.assert_allclose(wider.offset, [7.0, *hyper.offset])


def test_more_searches_end_no_higher_and_the_first_is_the_same():
    X, Y = wave(60)
    for frequencies in ("fixed", "optimized"):
        once = optimize_spectrum(X, Y, 3, frequencies, random_state=3)
        again = optimize_spectrum(X, Y, 3, frequencies, random_state=3)
        often = optimize_spectrum(X, Y, 3, frequencies, restarts=4, random_state=3)
        assert once.evidence == again.evidence
        assert often.evidence <= once.evidence
        assert often.evaluations > once.evaluations
    assert often.evidence < once.evidence - 1e-6  # new directions


def test_a_start_is_taken_up_with_its_directions():
    X, Y = wave()
    proxy = optimize_gaussian_process(X, Y)
    np.testing.assert_array_equal(
        spectrum(X, Y, start=proxy).directions, spectrum(X, Y).directions
    )
    long = SpectrumHyperparameters(0.25, 1.0, 2 * np.ptp(X, axis=0))
    with pytest.warns(UserWarning, match="for noise"):
        one_step = spectrum(X, Y, start=long, max_iter=1)
    assert one_step.length_scale[0] > 3  # it began at 4
    first = spectrum(X, Y, frequencies="optimized", max_iter=20)
    further = optimize_spectrum(X, Y, 20, "optimized", start=first)
    assert further.evidence < first.evidence
    still = optimize_spectrum(X, Y, 20, start=first, max_iter=1)
    np.testing.assert_array_equal(still.directions, first.directions)
    assert still.evidence <= first.evidence


@pytest.mark.parametrize("draw", range(4))
def test_the_first_step_does_not_run_into_noise(draw):
    # Here the gradient at the start points far beyond the corner of all-noise.
    X, y, _, _ = cross()
    start = SpectrumHyperparameters(0.25 * y.std(), y.std(), 2 * np.ptp(X, axis=0))
    hyper = optimize_spectrum(X, y, 25, random_state=draw, start=start)
    assert hyper.noise**2 < 0.5 * y.var()


def test_a_start_out_of_bounds_is_brought_to_them():
    X, Y = wave()
    far = SpectrumHyperparameters(1e-30, 1e30, [1e30, 1e-30])
    with pytest.warns(UserWarning, match="for noise"):
        hyper = spectrum(X, Y, start=far, max_iter=1, restarts=2)
    assert np.isfinite(hyper.evidence)
    assert hyper.noise >= 1e-4 * Y.std() * (1 - 1e-9)


def test_only_the_subset_is_fitted():
    X, Y = wave(80)
    order = np.random.default_rng(1).permutation(80)
    rows, rest = order[:50], order[50:]
    X[rest], Y[rest] = 1e3, 1e6  # would spoil every fit
    hyper = optimize_gaussian_process(X, Y, n_subset=50, random_state=1)
    alone = optimize_gaussian_process(X[rows], Y[rows])
    assert hyper.evidence == pytest.approx(alone.evidence, rel=1e-9)
    np.testing.assert_allclose(hyper.offset, Y[rows].mean(axis=0))
    assert hyper.noise == pytest.approx(0.1, rel=0.2)


def test_kernel_ridge_with_the_equivalent_ridge_predicts_the_mean():
    X, Y = wave(n_outputs=2)
    hyper = optimize_gaussian_process(X, Y)
    X_test = np.random.default_rng(1).uniform(-1, 1, (30, 2)) * [1.0, 30.0]
    mean, _ = gaussian_process_predict(hyper, X, Y, X_test)
    kernel, ridge = ridge_equivalent(hyper)
    A, A_test = X / hyper.length_scale, X_test / hyper.length_scale
    scaled = KernelRidge(alpha=ridge, kernel="rbf", gamma=0.5).fit(A, Y - hyper.offset)
    np.testing.assert_allclose(scaled.predict(A_test) + hyper.offset, mean, rtol=1e-9)
    weights = np.linalg.solve(kernel(X) + ridge * np.eye(len(X)), Y - hyper.offset)
    np.testing.assert_allclose(kernel(X_test, X) @ weights + hyper.offset, mean)
    assert ridge == pytest.approx(hyper.noise**2 / hyper.signal**2)


def test_predictions_are_those_of_the_dense_formula_in_any_blocks(monkeypatch):
    X, Y = wave(40)
    hyper = SpectrumHyperparameters(0.2, 1.5, [0.7, 20.0], offset=5.0)
    A = X / hyper.length_scale
    K = 1.5**2 * rbf_kernel(A, gamma=0.5)
    inverse = np.linalg.inv(K[:25, :25] + 0.2**2 * np.eye(25))
    expected = 5.0 + K[25:, :25] @ inverse @ (Y[:25, 0] - 5.0)
    variance = 1.5**2 - np.sum(K[25:, :25] @ inverse * K[25:, :25], axis=1) + 0.2**2
    for block in (1024, 4):
        monkeypatch.setattr(hyperparameters, "BLOCK", block)
        mean, std = gaussian_process_predict(hyper, X[:25], Y[:25, 0], X[25:])
        np.testing.assert_allclose(mean, expected, rtol=1e-10)
        np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-9)
    columns, _ = gaussian_process_predict(hyper, X[:25], Y[:25], X[25:])
    np.testing.assert_allclose(columns, mean[:, None])


def test_standard_deviations_cover_new_observations():
    X, Y = wave(400)
    hyper = optimize_gaussian_process(X[:200], Y[:200])
    mean, std = gaussian_process_predict(hyper, X[:200], Y[:200], X[200:])
    inside = np.abs(mean - Y[200:]) < 2 * std[:, None]
    assert 0.9 < inside.mean() < 0.99  # 0.954 of normal errors


@pytest.mark.parametrize(("m", "warned"), [(63, True), (64, False)])
def test_many_parameters_for_the_samples_are_warned_of(m, warned):
    # 2 + 2 + 14 * 2 = 32 parameters, which may be half as many as the samples.
    X, Y = wave(m)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimize_spectrum(X, Y, 14, "optimized", max_iter=1)
    overfit = [w for w in caught if "32 parameters are optimised on" in str(w.message)]
    assert len(overfit) == warned
    assert all(w.filename == __file__ for w in overfit)


@both
def test_noise_without_a_function_is_warned_of_and_nothing_else(optimize):
    X, Y = wave()
    noise = np.random.default_rng(9).standard_normal((150, 2))
    with pytest.warns(
        UserWarning, match=r"took all variation of Y for noise.*restarts"
    ):
        optimize(X, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimize(X, Y)


@both
def test_bad_samples_are_refused(optimize):
    X, Y = wave(10)
    with pytest.raises(ValueError, match="X holds NaN"):
        optimize(np.where(X > 0, np.nan, X), Y)
    with pytest.raises(ValueError, match="Y holds NaN"):
        optimize(X, np.full(10, np.inf))
    for wrong in (Y[:9], Y[:, :0], Y[:, :, None], 1.0):
        with pytest.raises(ValueError, match=r"Y must have shape \(10,\) or \(10, T\)"):
            optimize(X, wrong)
    with pytest.raises(ValueError, match="at least 2 samples"):
        optimize(X[:1], Y[:1])
    with pytest.raises(ValueError, match="X must have two dimensions"):
        optimize(X[:, 0], Y)
    with pytest.raises(TypeError, match=r"X is sparse; pass X.toarray\(\)"):
        optimize(sparse.csr_array(X), Y)
    with pytest.raises(ValueError, match="Y does not vary"):
        optimize(X, np.full((10, 2), 0.1))
    for name in ("restarts", "max_iter"):
        for value in (0, 1.5, True):
            with pytest.raises(ValueError, match=f"{name} must be a whole number"):
                optimize(X, Y, **{name: value})


def test_bad_settings_are_refused():
    X, Y = wave(10)
    with pytest.raises(ValueError, match="n_frequencies must be a whole number from 1"):
        optimize_spectrum(X, Y, 0)
    with pytest.raises(ValueError, match='"fixed" or "optimized", not \'free\''):
        optimize_spectrum(X, Y, 5, "free")
    with pytest.raises(ValueError, match="n_subset must be at least 2"):
        optimize_gaussian_process(X, Y, n_subset=1)
    narrow = SpectrumHyperparameters(1.0, 1.0, [1.0])
    with pytest.raises(ValueError, match="X has 2 columns, but there are 1 length sc"):
        optimize_spectrum(X, Y, 5, start=narrow)
    drawn = SpectrumHyperparameters(1.0, 1.0, [1.0, 1.0], np.ones((4, 2)))
    with pytest.raises(ValueError, match="start has 4 directions, but n_frequencies"):
        optimize_spectrum(X, Y, 5, start=drawn)
    for train, test, name in ((X, X[:, :1], "X_test"), (X[:, :1], X, "X_train")):
        with pytest.raises(ValueError, match=f"{name} has 1 columns, but there are 2"):
            gaussian_process_predict(drawn, train, Y, test)
    two = SpectrumHyperparameters(1.0, 1.0, [1.0, 1.0], offset=[0.0, 0.0])
    with pytest.raises(ValueError, match="Y_train has 1 outputs, but the hyperparam"):
        gaussian_process_predict(two, X, Y, X)


def test_hyperparameters_are_checked_when_made():
    for noise, signal, message in (
        (0.0, 1.0, "noise must be positive"),
        (1.0, -1.0, "signal must be positive"),
        (np.nan, 1.0, "noise holds NaN"),
        (1.0, [1.0, 1.0], "signal must be one number"),
    ):
        with pytest.raises(ValueError, match=message):
            SpectrumHyperparameters(noise, signal, [1.0])
    for length_scale in (1.0, [], [[1.0]]):
        with pytest.raises(ValueError, match="length_scale must hold one number per i"):
            SpectrumHyperparameters(1.0, 1.0, length_scale)
    with pytest.raises(ValueError, match="length_scale must be positive"):
        SpectrumHyperparameters(1.0, 1.0, [1.0, 0.0])
    with pytest.raises(ValueError, match="directions has 1 columns, but there are 2"):
        SpectrumHyperparameters(1.0, 1.0, [1.0, 1.0], [[1.0]])
    with pytest.raises(ValueError, match="offset must hold one number, or one per"):
        SpectrumHyperparameters(1.0, 1.0, [1.0], offset=[[0.0]])
    with pytest.raises(ValueError, match="an exact model have no frequencies"):
        _ = SpectrumHyperparameters(1.0, 1.0, [1.0]).frequencies
