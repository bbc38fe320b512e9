"""Streams for learning one sample at a time: robots' logs, and synthetic ones.

:func:`stream` reads a robot's log and brings it into the form in which incremental
learners are compared: a head, from which hyperparameters are chosen, and after it the
stream itself, in the order of time. The logs are data sets of
:mod:`benchmarks.datasets`. The others are made here, from a seed: :func:`cross` and
:func:`change_points` after Gijsberts 2011, sections 5.1 and 6.2, and
:func:`drifting_arm`, a simulated arm whose force sensor drifts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from benchmarks import datasets
from benchmarks.datasets import Dataset


@dataclass
class RobotStream:
    """What comes first, for hyperparameters, and what is then predicted and learned.

    Inputs are standardised with the head's mean and deviation; outputs keep their
    units. ``note`` says what was done to the data and what to beware of.
    """

    X_head: np.ndarray
    y_head: np.ndarray
    X: np.ndarray
    y: np.ndarray
    note: str
    outputs: tuple[str, ...]  # names of the columns of y


@dataclass(frozen=True)
class Recipe:
    """What is kept of a log: which rows, which columns, every how many samples."""

    note: str
    every: int = 1
    rows: Callable[[Dataset], np.ndarray] | None = None  # all rows by default
    columns: tuple[int, ...] | None = None
    outputs: tuple[int, ...] | None = None


RECIPES = {
    "sarcos_test": Recipe(
        "SARCOS arm, inverse dynamics: the published test file alone, in the order of "
        "the file, which has no time stamps"
    ),
    "panda": Recipe(
        "Franka Emika Panda, inverse dynamics: one excitation run of 21 s, every 10th "
        "sample of 1 kHz; accelerations were smoothed in both directions of time",
        every=10,
    ),
    "wam": Recipe(
        "Barrett WAM, inverse dynamics: one run of 10 s at 250 Hz; inputs of joints 2 "
        "and 4, which move, and torques of joints 2, 4 and 6, which work against "
        "gravity (the rest is noise); a torque hardly changes from one sample to the "
        "next; accelerations were smoothed in both directions of time",
        columns=(1, 3, 8, 10, 15, 17),
        outputs=(1, 3, 5),
    ),
    "ur10e": Recipe(
        "UR10e, joint currents from joint motion: 33 runs over five months without "
        "payload or pushes, every 5th sample of 100 Hz; accelerations were smoothed "
        "in both directions of time",
        every=5,
        rows=lambda data: (data.extras["load"] == 0) & (data.extras["split"] != 3),
    ),
    "ur3_cobotops": Recipe(
        "UR3, joint currents from joint speeds and temperatures at 1 Hz; joint angles "
        "were not logged, so one row does not determine the currents"
    ),
    "omav": Recipe(
        "Multirotor, three outputs from the commanded wrench: two flights, every 4th "
        "sample of 200 Hz; outputs were filtered",
        every=4,
    ),
    "f1tenth": Recipe(
        "F1tenth race car, velocities from sensors on board: eight runs on different "
        "tyres, every 5th sample of 100 Hz",
        every=5,
    ),
}


def stream(name: str, limit: int = 20_000) -> RobotStream:
    """Return a robot's log as a head and a stream, of ``limit`` samples at most.

    The head is the first quarter of the samples; where there are several runs it ends
    with the run whose end is nearest to that. Of a log that is too long, the last
    samples of head and stream are left out, in proportion. Columns that are constant
    in the head are dropped.
    """
    if name not in RECIPES:
        raise ValueError(f"no stream {name!r}; there are: {', '.join(RECIPES)}")
    if limit < 8:
        raise ValueError(f"a stream has 8 samples or more; the limit is {limit}")
    recipe, data = RECIPES[name], datasets.load(name)
    rows = kept_rows(recipe, data)
    runs = data.extras["run"][rows] if "run" in data.extras else np.zeros(len(rows))
    head = head_length(runs)
    parts = share(len(rows), head, limit)
    X_head, X = (data.X[rows[part]].astype(float) for part in parts)
    y_head, y = (data.y[rows[part]].astype(float) for part in parts)
    if recipe.columns:
        X_head, X = X_head[:, recipe.columns], X[:, recipe.columns]
    chosen = list(recipe.outputs or range(y.shape[1]))
    labels = data.extras.get("target_names", [f"y{i + 1}" for i in range(y.shape[1])])
    names = tuple(str(labels[output]) for output in chosen)
    X_head, X = standardised(X_head, X)
    note = f"{recipe.note}. {len(X_head):,} samples for the head, {len(X):,} after it."
    return RobotStream(X_head, y_head[:, chosen], X, y[:, chosen], note, names)


def kept_rows(recipe: Recipe, data: Dataset) -> np.ndarray:
    """Return the numbers of the rows to keep, thinned within each run."""
    wanted = recipe.rows(data) if recipe.rows else np.ones(len(data.X), bool)
    rows = np.flatnonzero(wanted)
    runs = data.extras.get("run", np.zeros(len(data.X)))[rows]
    starts = np.flatnonzero(np.diff(runs, prepend=np.nan) != 0)
    return np.concatenate([run[:: recipe.every] for run in np.split(rows, starts[1:])])


def head_length(runs: np.ndarray) -> int:
    """Return how many samples the head has: a quarter, or the end of a run nearby."""
    quarter = len(runs) // 4
    ends = np.flatnonzero(np.diff(runs)) + 1
    return int(ends[np.argmin(abs(ends - quarter))]) if len(ends) else quarter


def share(total: int, head: int, limit: int) -> tuple[slice, slice]:
    """Return the samples of the head and of the stream, ``limit`` in all at most."""
    kept = min(total, limit)
    first = head * kept // total
    return slice(0, first), slice(head, head + kept - first)


def standardised(head: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the head's columns mean 0 and deviation 1, and treat the rest alike."""
    mean, deviation = head.mean(0), head.std(0)
    varying = deviation > 1e-7 * np.abs(head).max(0)
    mean, deviation = mean[varying], deviation[varying]
    return (head[:, varying] - mean) / deviation, (rest[:, varying] - mean) / deviation


@dataclass
class TrainTest:
    """Noisy samples to learn from, and a grid with the true values."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def cross_function(
    X: np.ndarray, shape: tuple[float, ...] = (-10, -50, 1.25, -5), angle: float = 0
) -> np.ndarray:
    """Return the Cross function, two ridges and a bump, turned by ``angle``.

    With (u, v) the rotated input it is the largest of exp(a u²), exp(b v²) and
    c exp(d (u² + v²)), where (a, b, c, d) is the ``shape`` (Gijsberts 2011, section
    6.2).
    """
    a, b, c, d = shape
    u = np.cos(angle) * X[:, 0] - np.sin(angle) * X[:, 1]
    v = np.sin(angle) * X[:, 0] + np.cos(angle) * X[:, 1]
    bump = c * np.exp(d * (u**2 + v**2))
    return np.maximum(np.maximum(np.exp(a * u**2), np.exp(b * v**2)), bump)


def cross(dimensions: int, seed: int) -> TrainTest:
    """Return Cross 2D, 10D or 20D (Gijsberts 2011, section 5.1).

    500 inputs are uniform on [-1, 1]², their targets have noise of deviation 0.1; the
    test set is a grid of 41 × 41 points without noise. 10D hides the two inputs in a
    random rotation of ten, eight of which are 0; 20D adds ten inputs of pure noise,
    of deviation 0.05. The same seed gives all three the same points and targets.
    """
    if dimensions not in (2, 10, 20):
        raise ValueError(f"Cross has 2, 10 or 20 dimensions, not {dimensions}")
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (500, 2))
    y = cross_function(X) + 0.1 * random.standard_normal(500)
    axis = np.linspace(-1, 1, 41)
    X_test = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    y_test = cross_function(X_test)
    if dimensions > 2:
        rotation = random_rotation(random, 10)[:, :2]
        X, X_test = X @ rotation.T, X_test @ rotation.T
    if dimensions > 10:
        X, X_test = (
            np.hstack([part, 0.05 * random.standard_normal((len(part), 10))])
            for part in (X, X_test)
        )
    return TrainTest(X, y, X_test, y_test)


def random_rotation(random: np.random.Generator, n: int) -> np.ndarray:
    """Draw a rotation of n dimensions, all alike probable."""
    Q, R = np.linalg.qr(random.standard_normal((n, n)))
    Q *= np.sign(np.diag(R))
    Q[:, -1] *= np.sign(np.linalg.det(Q))
    return Q


@dataclass
class RegimeStream:
    """A head from the base regime, then a stream whose regime changes unannounced."""

    X_head: np.ndarray
    y_head: np.ndarray
    X: np.ndarray
    y: np.ndarray
    regimes: np.ndarray  # of the stream: 0 base, 1 shifted, 2 widened, 3 turned


def change_points(
    seed: int,
    n: int = 5000,
    head: int = 1000,
    leave_base: float = 0.01,
    leave_other: float = 0.02,
) -> RegimeStream:
    """Return the Change-Point Cross 2D stream (Gijsberts 2011, section 6.2).

    The regime stays what it is but for an exit with probability ``leave_base`` or
    ``leave_other`` at each sample; from the base it goes to one of three others,
    equally probable, and from these back. Inputs move along a smooth trajectory that
    visits all of [-1, 1]² alike; its highest frequency is one cycle in 50 samples.
    Targets have noise of deviation 0.1.
    """
    random = np.random.default_rng(seed)
    position, _, _ = sinusoids(random, np.arange(head + n), 2, fastest=0.02)
    X = 2 * ndtr(position) - 1  # of a normal variable: uniform
    regimes = np.zeros(head + n, int)
    for t in range(head + 1, head + n):
        before = regimes[t - 1]
        leaves = random.random() < (leave_other if before else leave_base)
        other = 0 if before else random.integers(1, 4)
        regimes[t] = other if leaves else before
    base = cross_function(X)
    variants = (
        base,
        base + 0.1,
        cross_function(X, shape=(-10, -50, 1.25, -1.5)),
        cross_function(X, angle=np.pi / 6),
    )
    y = np.choose(regimes, variants) + 0.1 * random.standard_normal(head + n)
    return RegimeStream(X[:head], y[:head], X[head:], y[head:], regimes[head:])


def sinusoids(
    random: np.random.Generator, times: np.ndarray, outputs: int, fastest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return smooth random curves of variance 1, their first and second derivatives.

    Each is a sum of 30 sinusoids with random phases and with frequencies between 0 and
    ``fastest``, in cycles per unit of time; its values are close to normal.
    """
    rates = 2 * np.pi * random.uniform(0, fastest, (30, outputs))
    phases = random.uniform(0, 2 * np.pi, (30, outputs))
    angles = rates * times[:, None, None] + phases
    scale = np.sqrt(2 / 30)
    position = scale * np.sin(angles).sum(1)
    velocity = scale * (rates * np.cos(angles)).sum(1)
    acceleration = -scale * (rates**2 * np.sin(angles)).sum(1)
    return position, velocity, acceleration


LENGTHS = np.array([0.30, 0.25, 0.15])  # of the arm's links, in m
MASSES = np.array([2.0, 1.5, 0.7])  # of the links, slender rods, in kg
GRAVITY = 9.81


def arm_dynamics(
    q: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the force at the base (N) and the joint torques (Nm) of a planar arm.

    Three rods hang one from another in a vertical plane; joint angles are relative,
    the first from the horizontal. In the absolute angles θ, Lagrange's equations are
    Σⱼ Aᵢⱼ (cos(θᵢ - θⱼ) θ̈ⱼ + sin(θᵢ - θⱼ) θ̇ⱼ²) + Iᵢ θ̈ᵢ + g bᵢ cos θᵢ = τᵢ - τᵢ₊₁,
    with A and b from the masses and the distances to the rods' centers.
    """
    reach = np.tril(np.tile(LENGTHS, (3, 1)), -1) + np.diag(LENGTHS / 2)
    A, b = reach.T @ (MASSES[:, None] * reach), MASSES @ reach
    angle, rate, gain = (np.cumsum(a, 1) for a in (q, velocity, acceleration))
    between = angle[:, :, None] - angle[:, None, :]
    inertial = np.einsum("ij,tij,tj->ti", A, np.cos(between), gain)
    inertial += np.einsum("ij,tij,tj->ti", A, np.sin(between), rate**2)
    own = MASSES * LENGTHS**2 / 12 * gain + GRAVITY * b * np.cos(angle)
    torques = np.cumsum((inertial + own)[:, ::-1], 1)[:, ::-1]
    along, across = np.cos(angle), np.sin(angle)
    sideways = (-across * gain - along * rate**2) @ b
    upwards = (along * gain - across * rate**2) @ b + GRAVITY * MASSES.sum()
    return np.stack([sideways, upwards], 1), torques


def drifting_arm(
    seed: int, n: int = 20_000, noise: float = 0.1, drift: float = 0.4
) -> RobotStream:
    """Return the stream of a simulated arm whose force sensor drifts.

    It stands in for the iCub's data (Gijsberts 2011, section 5.3), which are not
    public. The arm of :func:`arm_dynamics` moves along smooth random trajectories and
    is sampled at 50 Hz; inputs are its joint angles, velocities and accelerations.
    The offsets of the two forces grow steadily, but not evenly, from 0 to ``drift``
    times the force's deviation, up or down; torques do not drift. All five outputs
    have Gaussian noise of ``noise`` times their deviation.
    """
    random = np.random.default_rng(seed)
    times = np.arange(n) / 50
    position, velocity, acceleration = sinusoids(random, times, 3, fastest=0.5)
    q = np.array([-1.2, 0.8, 0.4]) + 0.5 * position
    clean = np.hstack(arm_dynamics(q, 0.5 * velocity, 0.5 * acceleration))
    deviation = clean.std(0)
    pace, _, _ = sinusoids(random, times, 2, fastest=5 / times[-1])
    offset = np.cumsum(np.exp(0.5 * pace), 0)
    offset = random.choice([-1, 1], 2) * (offset - offset[0]) / (offset[-1] - offset[0])
    y = clean + noise * deviation * random.standard_normal(clean.shape)
    y[:, :2] += drift * deviation[:2] * offset
    head = n // 4
    X = np.hstack([q, 0.5 * velocity, 0.5 * acceleration])
    X_head, X = standardised(X[:head], X[head:])
    note = (
        "simulated planar arm of three joints at 50 Hz, whose force sensor drifts; it "
        "stands in for the iCub's data, which are not public. "
        f"{head:,} samples for the head, {n - head:,} after it."
    )
    names = ("F_x", "F_y", "tau1", "tau2", "tau3")
    return RobotStream(X_head, y[:head], X, y[head:], note, names)
