"""The streams that incremental learners are compared on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import datasets, robot_streams
from benchmarks.robot_streams import (
    GRAVITY,
    LENGTHS,
    MASSES,
    RECIPES,
    arm_dynamics,
    change_points,
    cross,
    cross_function,
    drifting_arm,
    share,
    sinusoids,
    stream,
)


def need(name):
    if not datasets.available(name):
        pytest.skip(f"the data set {name} is absent (see {datasets.VARIABLE})")


# What each robot's log becomes: samples of head and stream, inputs, outputs.
SHAPES = {
    "sarcos_test": (1112, 3337, 21, 7),
    "panda": (513, 1542, 21, 7),
    "wam": (625, 1876, 6, 3),
    "ur10e": (5131, 14869, 18, 6),
    "ur3_cobotops": (1838, 5517, 12, 6),
    "omav": (1249, 800, 6, 3),
    "f1tenth": (924, 2658, 6, 2),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_robots_stream_has_its_shape_and_the_heads_scale(name):
    need(name)
    found = stream(name)
    shape = (*map(len, (found.X_head, found.X)), found.X.shape[1], found.y.shape[1])
    assert shape == SHAPES[name]
    assert len(found.outputs) == found.y.shape[1]
    assert found.X_head.dtype == found.y.dtype == np.float64
    np.testing.assert_allclose(found.X_head.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(found.X_head.std(0), 1)
    assert all(np.isfinite(part).all() for part in (found.X, found.y, found.y_head))


def log(monkeypatch, recipe=None, **extras):
    """Have a made-up log read, whose inputs tell the row they came from."""
    rows = np.arange(100.0)
    X = np.stack([rows, np.full(100, 7.0), -rows], 1)
    data = datasets.Dataset(X, rows[:, None].copy(), extras)
    monkeypatch.setattr(datasets, "load", lambda name: data)
    monkeypatch.setitem(RECIPES, "log", recipe or robot_streams.Recipe("a log"))


def test_the_head_is_the_first_quarter_and_constant_columns_go(monkeypatch):
    log(monkeypatch)
    found = stream("log")
    np.testing.assert_array_equal(found.y_head[:, 0], np.arange(25))
    np.testing.assert_array_equal(found.y[:, 0], np.arange(25, 100))
    expected = (np.arange(25, 100) - 12) / np.arange(25).std()
    np.testing.assert_allclose(found.X, np.stack([expected, -expected], 1))


def test_the_head_ends_with_a_run_and_runs_are_thinned_apart(monkeypatch):
    runs = np.repeat([0, 1, 2], [13, 18, 69])
    every_tenth = robot_streams.Recipe("a log", every=10)
    log(monkeypatch, every_tenth, run=runs)
    found = stream("log")
    np.testing.assert_array_equal(found.y_head[:, 0], [0, 10])
    np.testing.assert_array_equal(found.y[:, 0], [13, 23, 31, 41, 51, 61, 71, 81, 91])


def test_a_log_that_is_too_long_is_cut_in_proportion(monkeypatch):
    log(monkeypatch)
    found = stream("log", limit=20)
    np.testing.assert_array_equal(found.y_head[:, 0], np.arange(5))
    np.testing.assert_array_equal(found.y[:, 0], np.arange(25, 40))
    assert share(100, 25, 1000) == (slice(0, 25), slice(25, 100))


def test_streams_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="there are: sarcos_test"):
        stream("nonsense")
    with pytest.raises(ValueError, match="8 samples or more"):
        stream("panda", limit=3)
    with pytest.raises(ValueError, match="2, 10 or 20"):
        cross(3, seed=0)


def test_no_load_and_no_push_is_in_the_ur10e_stream():
    need("ur10e")
    data = datasets.load("ur10e")
    rows = robot_streams.kept_rows(RECIPES["ur10e"], data)
    assert (np.diff(rows) > 0).all()
    assert data.extras["load"][rows].max() == 0
    assert set(data.extras["split"][rows]) == {0, 1}
    assert len(set(data.extras["run"][rows])) == 33


def test_the_variance_of_cross_is_that_of_its_function():
    axis = np.linspace(-1, 1, 401)
    squares = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    variance = cross_function(squares).var()
    targets = np.concatenate([cross(2, seed).y for seed in range(20)])
    assert targets.var() == pytest.approx(variance + 0.01, rel=0.03)
    data = cross(2, seed=0)
    assert data.X.shape == (500, 2)
    assert abs(data.X).max() <= 1
    residual = data.y - cross_function(data.X)
    assert residual.std() == pytest.approx(0.1, rel=0.1)
    np.testing.assert_array_equal(data.y_test, cross_function(data.X_test))


def test_cross_hides_its_two_inputs_in_ten_and_twenty():
    two, ten, twenty = (cross(dimensions, seed=3) for dimensions in (2, 10, 20))
    for small, large in ((two.X, ten.X), (two.X_test, ten.X_test)):
        np.testing.assert_allclose(small @ small.T, large @ large.T, atol=1e-12)
        assert abs(large).max(0).min() > 0.05  # each of the ten takes part
    assert (two.X_test.shape, ten.X_test.shape) == ((1681, 2), (1681, 10))
    np.testing.assert_array_equal(twenty.X[:, :10], ten.X)
    np.testing.assert_allclose(twenty.X[:, 10:].std(0), 0.05, rtol=0.15)
    np.testing.assert_array_equal(two.y, twenty.y)


def test_the_cross_has_two_ridges_and_a_bump_and_turns_counter_clockwise():
    points = np.array([[0, 0], [0, 1], [1, 0], [0.5, 0.5], [0.9, 0.2], [0.2, 0.9]])
    expected = [1.25, 1, 1, 1.25 * np.exp(-2.5), np.exp(-2), np.exp(-0.4)]
    np.testing.assert_allclose(cross_function(points), expected)
    quarter = cross_function(np.array([[0.3, 0.1]]), angle=np.pi / 2)
    np.testing.assert_allclose(quarter, cross_function(np.array([[-0.1, 0.3]])))


def test_regimes_follow_the_automaton_of_table_6_1():
    found = [change_points(seed).regimes for seed in range(40)]
    shares = np.array([np.bincount(r, minlength=4) for r in found]) / 5000
    np.testing.assert_allclose(shares.mean(0), [2 / 3, 1 / 9, 1 / 9, 1 / 9], atol=0.03)
    printed = np.array([0.7140, 0.0908, 0.0730, 0.1222])
    assert (abs(printed - shares.mean(0)) < 2 * shares.std(0)).all()
    episodes = [1 + np.count_nonzero(np.diff(r)) for r in found]
    assert np.mean(episodes) == pytest.approx(200 / 3, rel=0.1)  # 63 are printed
    for regimes in found:  # the others are reached from the base and lead to it
        before, after = regimes[:-1], regimes[1:]
        assert ((before == after) | (before == 0) | (after == 0)).all()


def test_regimes_change_the_function_as_they_should():
    found = change_points(seed=1)
    base = cross_function(found.X)
    residual = {r: (found.y - base)[found.regimes == r] for r in range(4)}
    assert residual[0].mean() == pytest.approx(0, abs=0.01)
    assert residual[0].std() == pytest.approx(0.1, rel=0.05)
    assert residual[1].mean() == pytest.approx(0.1, abs=0.02)
    wide = cross_function(found.X, (-10, -50, 1.25, -1.5))[found.regimes == 2]
    turned = cross_function(found.X, angle=np.pi / 6)[found.regimes == 3]
    assert (found.y[found.regimes == 2] - wide).std() == pytest.approx(0.1, rel=0.1)
    assert (found.y[found.regimes == 3] - turned).std() == pytest.approx(0.1, rel=0.1)
    assert residual[2].std() > 0.15
    assert residual[3].std() > 0.15
    assert (found.y_head - cross_function(found.X_head)).std() == pytest.approx(
        0.1, rel=0.1
    )


def test_the_trajectory_is_as_smooth_as_its_band_and_covers_the_square():
    paths = [change_points(seed).X for seed in range(10)]
    steps = np.mean([np.diff(path, axis=0) ** 2 for path in paths])
    # Frequencies are uniform up to 0.02; 2/(π√3) is the mean square of 2 φ(z).
    speed = (2 * np.pi * 0.02) ** 2 / 3
    assert steps == pytest.approx(speed * 2 / (np.pi * np.sqrt(3)), rel=0.1)
    assert abs(np.array(paths)).max() <= 1
    for path in paths:
        cells, _, _ = np.histogram2d(*path[:1000].T, bins=6, range=[[-1, 1]] * 2)
        assert (cells > 0).mean() > 0.9
    quarters, _ = np.histogram(paths, 4, (-1, 1))
    np.testing.assert_allclose(quarters / quarters.sum(), 0.25, atol=0.03)


def test_the_derivatives_of_the_curves_match_finite_differences():
    times = np.arange(2000) / 1000
    position, velocity, acceleration = sinusoids(
        np.random.default_rng(0), times, 2, fastest=2.0
    )
    slope = np.gradient(position, times, axis=0, edge_order=2)
    bend = np.gradient(velocity, times, axis=0, edge_order=2)
    np.testing.assert_allclose(velocity, slope, atol=2e-4 * abs(velocity).max())
    np.testing.assert_allclose(acceleration, bend, atol=2e-4 * abs(bend).max())


def centers(q):
    """Return where the rods' centers are, as complex numbers."""
    joints, places = 0.0, []
    for length, angle in zip(LENGTHS, np.cumsum(q), strict=True):
        places.append(joints + length / 2 * np.exp(1j * angle))
        joints = joints + length * np.exp(1j * angle)
    return np.array(places)


def moving(q, velocity, step=1e-6):
    """Return the velocities of the rods' centers."""
    return (centers(q + step * velocity) - centers(q - step * velocity)) / (2 * step)


def lagrangian(q, velocity):
    spin = MASSES * LENGTHS**2 / 12 @ np.cumsum(velocity) ** 2
    kinetic = (MASSES @ abs(moving(q, velocity)) ** 2 + spin) / 2
    return kinetic - GRAVITY * MASSES @ centers(q).imag


def test_torques_are_those_of_a_finite_difference_lagrangian():
    random = np.random.default_rng(0)
    h, axes = 1e-4, np.eye(3)
    for _ in range(5):
        q, velocity, acceleration = random.standard_normal((3, 3))

        def momentum(t, q=q, v=velocity, a=acceleration):
            at, rate = q + v * t + a * t * t / 2, v + a * t
            ends = [
                (lagrangian(at, rate + h * e), lagrangian(at, rate - h * e))
                for e in axes
            ]
            return np.array([up - down for up, down in ends]) / (2 * h)

        force = [
            lagrangian(q + h * e, velocity) - lagrangian(q - h * e, velocity)
            for e in axes
        ]
        expected = (momentum(1e-3) - momentum(-1e-3)) / 2e-3 - np.array(force) / (2 * h)
        _, torques = arm_dynamics(q[None], velocity[None], acceleration[None])
        np.testing.assert_allclose(torques[0], expected, rtol=1e-4, atol=1e-4)


def test_the_force_is_the_rate_of_momentum_and_the_weight():
    q, velocity, acceleration = np.random.default_rng(1).standard_normal((3, 3))

    def momentum(t):
        at = q + velocity * t + acceleration * t * t / 2
        return MASSES @ moving(at, velocity + acceleration * t)

    rate = (momentum(1e-3) - momentum(-1e-3)) / 2e-3
    force, _ = arm_dynamics(q[None], velocity[None], acceleration[None])
    expected = [rate.real, rate.imag + GRAVITY * MASSES.sum()]
    np.testing.assert_allclose(force[0], expected, rtol=1e-4)


def test_the_arms_forces_drift_and_its_torques_do_not():
    n = 4000
    clean = drifting_arm(0, n, noise=0, drift=0)
    drifts = drifting_arm(0, n, noise=0, drift=0.4)
    truth = np.concatenate([clean.y_head, clean.y])
    offset = np.concatenate([drifts.y_head, drifts.y]) - truth
    np.testing.assert_array_equal(offset[:, 2:], 0)
    np.testing.assert_allclose(offset[0], 0)
    np.testing.assert_allclose(abs(offset[-1, :2]), 0.4 * truth[:, :2].std(0))
    pace = np.diff(offset[:, :2], axis=0)
    assert (np.sign(pace) == np.sign(pace[0])).all()
    assert (abs(pace).max(0) < 10 * 0.4 * truth[:, :2].std(0) / n).all()


def test_the_arms_noise_is_a_tenth_of_each_output():
    clean, noisy = drifting_arm(1, 8000, noise=0), drifting_arm(1, 8000)
    deviation = np.concatenate([clean.y_head, clean.y])[:, 2:].std(0)
    noise = (noisy.y - clean.y)[:, 2:].std(0)
    np.testing.assert_allclose(noise, 0.1 * deviation, rtol=0.05)
    assert (noisy.X_head.shape, noisy.y.shape) == ((2000, 9), (6000, 5))
    np.testing.assert_allclose(noisy.X_head.std(0), 1)


def test_seeds_make_streams():
    for make in (drifting_arm, change_points):
        first, again, other = make(0, 800), make(0, 800), make(1, 800)
        np.testing.assert_array_equal(first.y, again.y)
        assert not np.array_equal(first.y, other.y)
    assert not np.array_equal(cross(10, 0).X, cross(10, 1).X)
