"""Reproductions on streams: their parts, on small cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import change_points as changes
from benchmarks import cross
from benchmarks import robot_dynamics as dynamics
from benchmarks.robot_streams import RegimeStream, RobotStream
from benchmarks.robot_streams import cross as cross_data
from tiercel.stream import LocallyWeightedProjection, SparseSpectrumGP


def test_errors_are_shares_of_the_targets_variance():
    class Mean:
        def predict(self, X):
            return np.full(len(X), np.mean(data.y_test))

    data = cross_data(2, 3)
    test, training = cross.errors(Mean(), data)
    assert test == pytest.approx(1)
    assert training == pytest.approx(
        1 + (data.y.mean() - data.y_test.mean()) ** 2 / data.y.var()
    )


def test_noise_leaves_the_same_error_however_the_inputs_are_hidden():
    rows = [cross.truth(cross_data(n, cross.INSTANCE)) for n in (2, 10, 20)]
    two, ten, twenty = (row["training nMSE"] for row in rows)
    assert two == ten == twenty
    variance = cross_data(2, cross.INSTANCE).y.var()
    assert two == pytest.approx(0.01 / variance, rel=0.15)


def test_every_figure_of_others_stands_beside_a_row(monkeypatch):
    for name, value in {
        "DRAWS": 2,
        "ORDERS": 2,
        "STEPS": 1,
        "STEPS_OF_MANY": 1,
    }.items():
        monkeypatch.setattr(cross, name, value)
    monkeypatch.setattr(cross, "EPOCHS", (1, 10, 40))
    monkeypatch.setattr(cross, "TUNED_FOR", 1)
    rows = {row["method"]: row for row in cross.measure(2)}
    known = {(2, row["method"]) for row in rows.values()}
    shown = {key for key in cross.PRINTED if key[0] == 2 and "epoch 200" not in key[1]}
    assert shown <= known
    assert rows["non-fixed, D = 25"]["printed"] == cross.LEVEL
    assert "init_metric" in rows["LWPR, tuned, epoch 1"]["chosen"]


def test_the_greedy_search_chooses_one_setting_after_the_other(monkeypatch):
    def error(data, settings):
        rate, meta = settings["init_rate"], settings["meta_rate"]
        still = rate < 1e-20
        return (
            abs(settings["init_metric"] - (20 if still else 200))
            + abs(rate - 250)
            + (3 if meta is None else abs(meta - 48))
        )

    monkeypatch.setattr(cross, "one_step_ahead", error)
    best = {"init_metric": 20.0, "init_rate": 250.0, "meta_rate": 50.0}
    assert cross.tuned(cross_data(2, 0)) == best


def test_figures_count_what_they_say(monkeypatch):
    monkeypatch.setattr(changes, "VALIDATION", 4)
    monkeypatch.setattr(changes, "SOON", 2)
    regimes = np.array([0, 0, 0, 1, 1, 1, 0, 0, 2, 3])
    found = np.array([1, 0, 0, 0, 1, 1, 1, 0, 0, 1], bool)
    figures = changes.figures(found, regimes)
    assert figures["%"] == pytest.approx(40)
    assert figures[changes.REST] == pytest.approx(100 / 3)
    assert figures[changes.FALSE] == pytest.approx(40)
    assert figures[changes.DETECTED] == pytest.approx(60)
    assert figures[changes.LATE] == pytest.approx(30)
    assert figures["q1, shifted"] == pytest.approx(200 / 3)


def test_samples_that_raise_an_alarm_are_not_learned():
    random = np.random.default_rng(0)
    X, noise = random.uniform(-1, 1, (400, 1)), 0.1 * random.standard_normal(400)
    y = np.sin(3 * X[:, 0]) + noise
    base = SparseSpectrumGP(10, noise=0.1, signal=1.0, length_scale=0.5, random_state=0)
    base.fit(X[:200], y[:200])
    shifted = np.concatenate([y[200:300], y[300:] + 2])
    found = changes.alarms(base, (0.0, 0.5, 20, 5.0), X[200:], shifted)
    assert found[105:].all()
    assert found[:100].mean() < 0.1
    never = changes.alarms(base, (0.0, 0.0, 1, 1e9), X[200:], shifted)
    assert not never.any()
    assert base.n_samples_seen_ == 200  # each setting has a copy of its own


def test_the_setting_with_the_fewest_errors_on_the_first_samples_is_chosen(monkeypatch):
    def alarms(base, setting, X, y):
        return np.arange(len(X)) % 100 < setting[3]

    block, place = np.divmod(np.arange(5000), 100)
    regimes = np.where(place < 10, 1 + block % 3, 0)
    regimes[changes.VALIDATION :] = 0
    data = RegimeStream(*np.zeros((4, 5000)), regimes)
    monkeypatch.setattr(changes, "alarms", alarms)
    best, figures = changes.chosen(None, changes.ONE_BY_ONE, data)
    assert best == (0.0, 0.0, 1, 10.0)
    assert figures["%"] == pytest.approx(100 * 0.1 * 3 / 5)


def test_the_most_frequent_choices_are_named_and_the_others_counted():
    picks = [(0.0, 0.5, 20, 5.0)] * 2 + [(0.25, 1.0, M, 5.0) for M in (1, 2, 3)]
    assert changes.said(picks) == (
        "2 × (0, 0.5, 20, 5), 1 × (0.25, 1, 1, 5), 1 × (0.25, 1, 2, 5), 1 × others"
    )
    assert changes.said(picks[:2]) == "2 × (0, 0.5, 20, 5)"


def test_the_grid_is_that_of_the_print():
    assert len(set(changes.GRID)) == 5 * 4 * 7
    assert changes.PRINTED in changes.GRID
    assert all(a < b for a, b, _, _ in changes.GRID)


def test_pushes_have_the_sizes_they_are_named_after():
    kinds, torques = changes.pushes(np.random.default_rng(0))
    assert len(kinds) == 30_000
    assert np.mean(kinds == 0) == pytest.approx(0.5833, abs=1e-4)  # as in Table 6.2
    for kind, (size, _) in enumerate(changes.CONTACTS.values()):
        lengths = np.linalg.norm(torques[kinds == kind], axis=1)
        np.testing.assert_allclose(lengths, size)
    episodes = np.flatnonzero(np.diff(kinds, prepend=0) > 0)
    assert len(episodes) == changes.CYCLES * 5
    assert len(np.unique(torques[episodes] / torques[episodes][:, :1], axis=0)) == 10


def arm_head(n: int = 300) -> RobotStream:
    """Return a stream whose head holds noise that one can only learn by heart."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (2 * n, 2))
    y = np.stack([X[:, 0], np.sin(X[:, 1])], 1) + 0.5 * random.standard_normal(X.shape)
    return RobotStream(X[:n], y[:n], X[n:], y[n:], "", ("a", "b"))


def test_lwpr_is_tuned_by_samples_it_has_not_learned_and_begins_with_the_head():
    data = arm_head()
    model = dynamics.tuned_lwpr(data)
    assert model.n_samples_seen_ == len(data.X_head)
    errors = {}
    for metric in dynamics.LWPR_SEARCH["init_metric"]:
        other = LocallyWeightedProjection(
            generate_below=0.2,
            add_threshold=0.9,
            input_range=np.ptp(data.X_head, axis=0),
            init_metric=metric,
        )
        answers = []
        for x, y in zip(data.X_head, data.y_head, strict=True):
            answers.append(other.predict_one(x) if answers else np.zeros(2))
            other.learn_one(x, y)
        errors[metric] = np.mean((np.array(answers) - data.y_head) ** 2)
    assert model.init_metric == min(errors, key=errors.__getitem__)
    assert model.init_metric < 50  # the choice of who learns the noise by heart


def test_rivers_learners_have_learned_the_head():
    pytest.importorskip("river")
    rows = {row["method"]: row["% nMSE"] for row in dynamics.river(arm_head())}
    data = arm_head()
    design = np.column_stack([data.X, np.ones(len(data.X))])
    fit = design @ np.linalg.lstsq(design, data.y, rcond=None)[0]
    least = 100 * (((fit - data.y) ** 2).mean(0) / data.y.var(0)).mean()
    assert rows["River, BayesianLinearRegression"] == pytest.approx(least, rel=0.05)
    assert least < rows["River, LinearRegression, rate 0.003"] < 1.2 * least
