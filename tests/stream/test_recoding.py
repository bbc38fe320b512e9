"""Recoding by class frequency: its rule, its choice along a stream, its references."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream._held_out import KEPT, HeldOut, place_of
from tiercel.stream._recoding import choose, factors, right_answers
from tiercel.stream.batch_references import ClassMoments, rebalanced, recoded
from tiercel.stream.incremental_classifier import IncrementalClassifier

RIDGES = [0.03, 1.0, 30.0]
AUTO: dict[str, Any] = {"ridge": RIDGES, "recode": "auto", "enough": 4}


def imbalanced(rows: int, classes: int = 4, seed: int = 0, spread: float = 1.2):
    """Return samples around one mean per class, the last class being rare."""
    rng = np.random.default_rng(seed)
    share = np.append(np.ones(classes - 1), 0.1)
    means = 2.0 * rng.standard_normal((classes, 4))
    y = rng.choice(classes, rows, p=share / share.sum())
    return means[y] + spread * rng.standard_normal((rows, 4)), y


# --- the rule, for the whole population ----------------------------------------


def densities(x: np.ndarray) -> np.ndarray:
    """Return those of the two classes of Camoriano 2017, Fig. 7.1, at points (n, 2)."""
    means, deviations = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([1.0, 0.3])
    squares = ((x[:, None] - means) ** 2).sum(2)
    return np.exp(-0.5 * squares / deviations**2) / (2 * np.pi * deviations**2)


GRID = np.stack(np.meshgrid(*[np.linspace(-3, 3, 61)] * 2), -1).reshape(-1, 2)


@pytest.mark.parametrize("frequent", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_recoding_restores_the_boundary_of_balanced_classes(frequent):
    prior = np.array([frequent, 1.0 - frequent])
    joint = densities(GRID) * prior
    posterior = joint / joint.sum(1, keepdims=True)
    balanced = densities(GRID).argmax(1)
    recoded = (posterior * factors(1000 * prior, 1.0)).argmax(1)
    np.testing.assert_array_equal(recoded, balanced)
    weighted = (posterior / prior) / (posterior / prior).sum(1, keepdims=True)
    np.testing.assert_array_equal(weighted.argmax(1), balanced)
    standard = (posterior * factors(1000 * prior, 0.0)).argmax(1)
    assert (standard != balanced).any() == (frequent > 0.5)


@settings(max_examples=30)
@given(
    table=st.lists(
        st.tuples(*[st.integers(1, 9)] * 3), min_size=2, max_size=6, unique=True
    ),
    more=st.integers(2, 7),
)
def test_rebalanced_and_recoded_rules_agree_where_the_features_are_expressive(
    table, more
):
    """Cells with an indicator each: least squares finds the probabilities there."""
    counts = np.array(table)
    for times in (1, more):
        counts[:, 0] *= times
        cells, labels = (np.repeat(i, counts.ravel()) for i in np.indices(counts.shape))
        Phi = np.eye(len(counts))[cells.ravel()]
        likelihoods = counts / counts.sum(0)
        best = likelihoods >= likelihoods.max(1, keepdims=True) * (1 - 1e-9)
        for W in (rebalanced(Phi, labels, 1e-9), recoded(Phi, labels, 1e-9)):
            assert best[np.arange(len(counts)), W.argmax(1)].all()


# --- batch references ----------------------------------------------------------


def test_rebalanced_is_ridge_regression_with_weights():
    X, y = imbalanced(300)
    Y = np.eye(4)[y]
    weights = (300 / np.bincount(y))[y]
    expected = Ridge(0.7, fit_intercept=False).fit(X, Y, weights).coef_.T
    np.testing.assert_allclose(rebalanced(X, y, 0.7), expected, atol=1e-11)


@pytest.mark.parametrize("recode", [0.0, 0.5, 1.0])
def test_recoded_is_ridge_regression_on_recoded_targets(recode):
    X, y = imbalanced(300)
    Y = np.eye(4)[y] * (300 / np.bincount(y)) ** recode
    expected = Ridge(0.7, fit_intercept=False).fit(X, Y).coef_.T
    np.testing.assert_allclose(recoded(X, y, 0.7, recode), expected, atol=1e-11)


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 200), max_size=5), seed=st.integers(0, 5))
def test_moments_by_class_give_both_solutions_from_any_pieces(cuts, seed):
    X, y = imbalanced(200, seed=seed)
    moments = ClassMoments()
    for start, stop in itertools.pairwise([0, *sorted(cuts), 200]):
        moments.add(X[start:stop], y[start:stop]) if stop > start else None
    columns = np.argsort(moments.classes_)
    ours = moments.rebalanced(0.3), moments.recoded(0.3, 0.6)
    theirs = rebalanced(X, y, 0.3), recoded(X, y, 0.3, 0.6)
    for W, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(W[:, columns], expected, atol=1e-10)


@pytest.mark.parametrize(
    ("Phi", "labels", "ridge"),
    [
        ([[np.nan]], [0], 1.0),
        ([1.0], [0], 1.0),
        ([[1.0]], [0, 1], 1.0),
        ([[1.0]], [None], 1.0),
        ([[1.0]], [0], 0.0),
    ],
)
@pytest.mark.parametrize("reference", [rebalanced, recoded])
def test_references_refuse_wrong_input(reference, Phi, labels, ridge):
    with pytest.raises(ValueError, match=r"Phi|label|ridge"):
        reference(Phi, labels, ridge)


@pytest.mark.parametrize("solution", ["rebalanced", "recoded"])
def test_moments_of_nothing_have_no_solution(solution):
    with pytest.raises(ValueError, match=r"call add\(Phi, labels\) first"):
        getattr(ClassMoments(), solution)(1.0)


# --- the choice ----------------------------------------------------------------


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    enough=st.integers(1, 6),
    loss=st.sampled_from([0.0, 0.0, 0.1, 0.3]),
)
def test_the_choice_is_the_largest_recoding_that_costs_no_more_than_allowed(
    seed, enough, loss
):
    rng = np.random.default_rng(seed)
    totals = rng.integers(0, 8, 5)
    right = rng.integers(0, totals + 1, (3, 6, 5))
    recodes = np.linspace(0.0, 1.0, 6)
    shares = totals * rng.integers(1, 9, 5)
    choice = choose(right, totals, shares, recodes, enough, loss)
    known = [t for t in range(5) if totals[t] >= enough]
    if not known:
        assert choice is None
        return
    accuracy = np.zeros((3, 6))
    for t in known:
        accuracy += right[:, :, t] / totals[t] * shares[t] / shares[known].sum()
    best = accuracy.max(0)
    last = max(a for a in range(6) if best[a] >= best[0] - loss - 1e-9)
    assert choice.recode == recodes[last]
    assert accuracy[choice.ridge, last] == pytest.approx(best[last])


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), unseen=st.booleans())
def test_right_answers_are_those_of_argmax(seed, unseen):
    rng = np.random.default_rng(seed)
    scores, truth = rng.standard_normal((2, 30, 4)), rng.integers(0, 4, 30)
    counts = rng.uniform(1.0, 100.0, 4)
    counts[3] = 0.0 if unseen else counts[3]
    recodes = np.array([0.0, 0.5, 1.0])
    right = right_answers(scores, truth, counts, recodes)
    seen = 3 if unseen else 4
    for ridge, (a, recode) in itertools.product(range(2), enumerate(recodes)):
        gamma = (counts.sum() / counts[:seen]) ** recode
        answers = (scores[ridge][:, :seen] * gamma).argmax(1)
        for t in range(4):
            assert right[ridge, a, t] == (answers[truth == t] == t).sum()


def oracle_table(X, y, held, ridges, recodes, classes):
    """Return the accuracy of each ridge and recoding by models of their own."""
    counts = np.array([(y[~held] == label).sum() for label in classes])
    known = [label for label in classes if (y[held] == label).sum() >= 4]
    tested = held & np.isin(y, known)
    table = np.zeros((len(ridges), len(recodes)))
    for i, ridge in enumerate(ridges):
        Y = (y[~held][:, None] == classes).astype(float)
        model = Ridge(ridge, solver="cholesky").fit(X[~held], Y)
        scores = model.predict(X[tested]).reshape(tested.sum(), -1)
        for j, recode in enumerate(recodes):
            answers = classes[(scores * counts**-recode).argmax(1)]
            table[i, j] = (answers == y[tested]).mean()
    return table


def test_the_table_is_that_of_models_trained_apart_on_what_was_not_held_out():
    X, y = imbalanced(260)
    model = IncrementalClassifier(**AUTO)
    turns, held, compared = np.zeros(4, int), np.zeros(260, bool), 0
    for n in range(260):
        model.learn_one(X[n], y[n])
        turns[y[n]] += 1
        held[n] = turns[y[n]] % 6 == 0
        table = model.validation_
        if table is not None and (held[n] or turns[y[n]] == 1):
            seen = X[: n + 1], y[: n + 1], held[: n + 1]
            expected = oracle_table(*seen, RIDGES, table["recode"], model.classes_)
            np.testing.assert_allclose(table["accuracy"], expected, atol=1e-12)
            compared += 1
    assert compared > 15
    assert model.class_counts_.sum() == (~held).sum()
    assert model.n_samples_seen_ == 260


def test_known_classes_never_do_worse_than_without_recoding():
    X, y = imbalanced(600, seed=3)
    model, chosen = IncrementalClassifier(**AUTO), set()
    for n in range(600):
        model.learn_one(X[n], y[n])
        if (table := model.validation_) is None:
            assert (model.ridge_, model.recode_) == (RIDGES[0], 0.0)
            continue
        at = (
            list(table["ridge"]).index(model.ridge_),
            list(table["recode"]).index(model.recode_),
        )
        assert table["accuracy"][at] >= table["accuracy"][:, 0].max() - 1e-12
        chosen.add(at)
    assert len(chosen) > 3


@settings(max_examples=12)
@given(cuts=st.lists(st.integers(0, 300), max_size=6), seed=st.integers(0, 5))
def test_rows_together_choose_as_they_do_one_by_one(cuts, seed):
    X, y = imbalanced(300, seed=seed)
    weights = np.random.default_rng(seed).choice(
        [0.0, 1.0, 2.5], 300, p=[0.1, 0.6, 0.3]
    )
    one, many = IncrementalClassifier(**AUTO), IncrementalClassifier(**AUTO)
    for row in zip(X, y, weights, strict=True):
        one.learn_one(*row)
    for start, stop in itertools.pairwise([0, *sorted(cuts), 300]):
        if stop > start:
            part = slice(start, stop)
            many.partial_fit(X[part], y[part], weights[part])
    assert (one.ridge_, one.recode_) == (many.ridge_, many.recode_)
    np.testing.assert_allclose(one.class_counts_, many.class_counts_)
    np.testing.assert_array_equal(
        one.validation_["accuracy"], many.validation_["accuracy"]
    )
    np.testing.assert_allclose(one._scores(X), many._scores(X), atol=1e-9)


def test_an_explicit_validation_set_decides_as_models_apart_would():
    X, y = imbalanced(700, seed=1)
    X, X_val, y, y_val = X[:400], X[400:], y[:400], y[400:]
    X_val, y_val = X_val[y_val < 3], y_val[y_val < 3]
    recodes = np.arange(21) / 20
    accuracy = np.zeros((3, 21))
    for (i, ridge), (j, recode) in itertools.product(
        enumerate(RIDGES), enumerate(recodes)
    ):
        apart = IncrementalClassifier(None, ridge, recode).fit(X, y)
        accuracy[i, j] = (apart.predict(X_val) == y_val).mean()
    model = IncrementalClassifier(None, RIDGES, "auto", hold_out=None).fit(X, y)
    assert (model.ridge_, model.recode_, model.validation_) == (RIDGES[0], 0.0, None)
    model.choose(X_val, y_val)
    np.testing.assert_allclose(model.validation_["accuracy"], accuracy, atol=1e-12)
    allowed = np.flatnonzero(accuracy.max(0) >= accuracy[:, 0].max() - 1e-12)[-1]
    assert model.recode_ == recodes[allowed]
    assert model.ridge_ == RIDGES[accuracy[:, allowed].argmax()]
    before = model.recode_
    model.partial_fit(X, y)
    assert model.recode_ == before
    assert model.class_counts_.sum() == 800


def test_a_validation_set_that_cannot_decide_is_refused():
    X, y = imbalanced(100)
    model = IncrementalClassifier(recode="auto", hold_out=None).fit(X, y)
    with pytest.raises(ValueError, match="not known: 7"):
        model.choose(X, np.full(100, 7))
    with pytest.raises(ValueError, match="enough=10"):
        model.choose(X[:9], y[:9])
    assert model.validation_ is None


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_the_chosen_recoding_finds_a_rare_class_at_no_cost(seed):
    X, y = imbalanced(5000, seed=seed)
    X, X_test, y, y_test = X[:2000], X[2000:], y[:2000], y[2000:]
    features = FourierFeatures(Gaussian(4.0), 40, random_state=0)
    found = []
    for recode in (0.0, "auto"):
        model = IncrementalClassifier(features, RIDGES, recode).fit(X, y)
        right = model.predict(X_test) == y_test
        found.append((right[y_test == 3].mean(), right.mean()))
    (rare, total), (rare_recoded, total_recoded) = found
    assert rare_recoded > rare + 0.03
    assert total_recoded > total - 0.01


def test_a_frequent_class_outweighs_a_rare_one_of_which_as_many_are_kept():
    right = np.array([[[50, 10], [49, 50]]])
    totals, recodes = np.array([50, 50]), np.array([0.0, 1.0])
    assert choose(right, totals, np.array([50, 50]), recodes, 10).recode == 1.0
    assert choose(right, totals, np.array([9000, 50]), recodes, 10).recode == 0.0


def test_classes_count_by_all_that_was_held_out_not_by_what_is_kept():
    X, y = imbalanced(6000, spread=2.5)
    model = IncrementalClassifier(**AUTO).partial_fit(X, y)
    models = model._models
    models.choose_by_held_out()
    truth, offered = models.held.truth, models.held.offered
    assert offered.max() > 5 * KEPT
    scores = models.held.scores(models.recursions, 4)
    answers = (scores[0] * factors(models.counts, 0.5)).argmax(1)
    rates = [(answers[truth == t] == t).mean() for t in range(4)]
    expected = np.average(rates, weights=offered)
    assert model.validation_["accuracy"][0, 10] == pytest.approx(expected)


# --- what is held out ----------------------------------------------------------


def test_a_stream_with_a_rhythm_holds_out_all_classes_alike():
    model = IncrementalClassifier(**AUTO)
    for t in range(720):
        model.learn_one([np.cos(t), np.sin(t)], t % 6)
    assert model.validation_["n_samples"].tolist() == [20] * 6
    assert model.class_counts_.tolist() == [100.0] * 6


def test_what_is_held_out_is_bounded_and_spread_over_the_history():
    held = HeldOut(1, np.dtype(float))
    for n in range(0, 20_000, 100):
        block = np.arange(n, n + 100, dtype=float)[:, None]
        held.add(block, np.array([0, 1] * 50))
    assert held.totals(2).tolist() == [KEPT, KEPT]
    age = np.sort(held.phi[: 2 * KEPT, 0]) / 20_000
    assert np.abs(age - (np.arange(2 * KEPT) + 0.5) / (2 * KEPT)).max() < 0.2
    assert (held.phi[: 2 * KEPT, 0] % 2 == held.truth).all()


def test_every_sample_has_the_same_chance_to_be_kept():
    kept = np.array([place_of(n) is not None for n in range(1, 20_001)])
    assert kept[:KEPT].all()
    for start in (100, 1000, 5000):
        expected = (KEPT / np.arange(start, 2 * start)).sum()
        found = kept[start - 1 : 2 * start - 1].sum()
        assert abs(found - expected) < 4 * np.sqrt(expected)
