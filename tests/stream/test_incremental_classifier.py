"""Incremental classification against closed forms over all classes."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from tiercel.features import FourierFeatures
from tiercel.io import load, save
from tiercel.kernels import Gaussian
from tiercel.stream.batch_references import recoded
from tiercel.stream.incremental_classifier import IncrementalClassifier

FOURIER = FourierFeatures(Gaussian(2.0), n_frequencies=20, random_state=0)
PRODUCTS = FrozenEstimator(PolynomialFeatures(2, include_bias=False).fit(np.eye(3)))
NAMES = np.array(["cup", "box", "ball", "lamp", "spoon"])
SELECTING: dict[str, Any] = {"ridge": [0.01, 1.0, 100.0], "recode": "auto", "enough": 3}


def stream(rows: int, classes: int = 4, seed: int = 0):
    """Return samples of classes that get rarer and rarer, around one mean each."""
    rng = np.random.default_rng(seed)
    share = 0.5 ** np.arange(classes)
    y = rng.choice(classes, rows, p=share / share.sum())
    X = rng.standard_normal((classes, 3))[y] * 1.5 + rng.standard_normal((rows, 3))
    weights = np.where(rng.random(rows) < 0.1, 0.0, rng.uniform(0.2, 3.0, rows))
    return X, NAMES[y], weights


def ridge_scores(model, features, X, y, weights, ridge, intercept=True):
    """Return the closed form's scores of X, a column for each of the model's classes.

    Centring with the weights leaves the intercept without a penalty.
    """
    phi = X if features is None else features.fit(X, y).transform(X)
    Y = (y[:, None] == model.classes_).astype(float)
    mean, center = np.zeros(phi.shape[1]), np.zeros(Y.shape[1])
    if intercept:
        mean, center = weights @ phi / weights.sum(), weights @ Y / weights.sum()
    root = np.sqrt(weights)[:, None]
    A, B = root * (phi - mean), root * (Y - center)
    W = np.linalg.solve(A.T @ A + ridge * np.eye(phi.shape[1]), A.T @ B)
    return (phi - mean) @ W + center


def all_scores(model, X):
    """Return the model's scores with one column per class, also of two."""
    return model._scores(X)


def follow(model, X, y, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    return [model.predict_update(*row) for row in zip(X, y.tolist(), weights, strict=1)]


def saved(model):
    """Return all that the model has learned."""
    return copy.deepcopy(model._saved_state()["models"])


def assert_same_state(a, b, where=""):
    """Compare what models saved bit for bit."""
    assert type(a) is type(b), where
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same_state(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            assert_same_state(one, other, f"{where}[{i}]")
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b, strict=True, err_msg=where)
    else:
        assert a == b, where


ANY = r"\w"  # what is refused here says why in many ways

REPEATS = {
    "check_sample_weight_equivalence_on_dense_data": "of two samples one may be held "
    "out, of one sample with weight 2 neither half"
}


@parametrize_with_checks(
    [
        IncrementalClassifier(),
        IncrementalClassifier(FOURIER, recode=1.0),
        IncrementalClassifier(ridge=[0.1, 1.0], recode="auto", hold_out=None),
    ]
)
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [IncrementalClassifier(**SELECTING)],
    expected_failed_checks=lambda estimator: REPEATS,
)
def test_scikit_learn_conformance_of_what_holds_samples_out(estimator, check):
    check(estimator)


# --- incremental equals batch --------------------------------------------------


@pytest.mark.parametrize("features", [None, FOURIER, PRODUCTS])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_step_equals_the_closed_form_over_the_classes_so_far(features, intercept):
    X, y, weights = stream(60)
    model = IncrementalClassifier(features, ridge=0.3, fit_intercept=intercept)
    for n in range(1, 61):
        model.learn_one(X[n - 1], y[n - 1], weights[n - 1] + 0.1)
        seen = X[:n], y[:n], weights[:n] + 0.1
        expected = ridge_scores(model, features, *seen, 0.3, intercept)
        np.testing.assert_allclose(all_scores(model, X[:n]), expected, atol=1e-9)


@settings(max_examples=25)
@given(
    cuts=st.lists(st.integers(0, 150), max_size=6),
    order=st.randoms(use_true_random=False),
    classes=st.integers(1, 5),
)
def test_any_order_in_any_pieces_gives_the_same_model(cuts, order, classes):
    X, y, weights = stream(150, classes)
    rows = list(range(150))
    order.shuffle(rows)
    model = IncrementalClassifier(FOURIER, ridge=0.05)
    edges = [0, *sorted(cuts), 150]
    for start, stop in itertools.pairwise(edges):
        if part := rows[start:stop]:
            model.partial_fit(X[part], y[part], weights[part])
    expected = ridge_scores(model, FOURIER, X, y, weights, 0.05)
    seen = np.isin(model.classes_, y[weights > 0])
    np.testing.assert_allclose(
        all_scores(model, X)[:, seen], expected[:, seen], atol=1e-8
    )


def test_fit_equals_the_stream_but_for_the_order_of_classes():
    X, y, weights = stream(200)
    model = IncrementalClassifier(FOURIER, ridge=0.3, recode=0.5)
    batch = copy.deepcopy(model).fit(X, y, weights)
    follow(model, X, y, weights)
    assert batch.classes_.tolist() == sorted(set(y))
    assert model.classes_.tolist() == list(dict.fromkeys(y))
    columns = [model.classes_.tolist().index(label) for label in batch.classes_]
    np.testing.assert_allclose(
        batch.decision_function(X), model.decision_function(X)[:, columns], atol=1e-9
    )
    np.testing.assert_array_equal(batch.predict(X), model.predict(X))


def test_single_precision_follows_the_closed_form_at_its_own_grade():
    X, y, _ = stream(300)
    model = IncrementalClassifier(FOURIER, ridge=0.3, dtype="float32")
    follow(model, X, y)
    expected = ridge_scores(model, FOURIER, X, y, np.ones(300), 0.3)
    np.testing.assert_allclose(all_scores(model, X), expected, atol=2e-5)


def test_a_class_may_join_at_any_time_and_leaves_the_others_alone():
    X, y, _ = stream(80)
    late = IncrementalClassifier(ridge=0.3).partial_fit(X, y)
    before = all_scores(late, X)
    late._begun().enrol(["ladder"])
    np.testing.assert_array_equal(all_scores(late, X)[:, :4], before)
    early = IncrementalClassifier(ridge=0.3)
    early.partial_fit(X, y, classes=["ladder", *late.classes_[:4]])
    for model in (early, late):
        model.learn_one([9.0, 9.0, 9.0], "ladder")
    np.testing.assert_allclose(
        all_scores(early, X)[:, [1, 2, 3, 4, 0]], all_scores(late, X), atol=1e-13
    )


def test_time_and_memory_do_not_grow_with_the_stream():
    X, y, _ = stream(3000, classes=3)
    model = IncrementalClassifier(**SELECTING).partial_fit(X, y)
    size = len(pickle.dumps(saved(model)))
    model.partial_fit(X, y)
    assert abs(len(pickle.dumps(saved(model))) - size) < 50


def test_columns_in_reserve_double():
    model = IncrementalClassifier()
    room = []
    for label in range(20):
        model.learn_one([float(label)], label)
        room.append(model._models.recursions[0].n_outputs)
    assert sorted(set(room)) == [1, 2, 4, 8, 16, 32]
    assert model.classes_.tolist() == list(range(20))


# --- predictions before learning -----------------------------------------------


@settings(max_examples=20)
@given(
    seen=st.integers(2, 70),
    seed=st.integers(0, 5),
    recode=st.sampled_from([0.0, 0.4, 1.0, "auto"]),
)
def test_what_comes_back_is_the_prediction_before_learning(seen, seed, recode):
    X, y, _ = stream(seen + 1, seed=seed)
    model = IncrementalClassifier(FOURIER, 0.1, recode, enough=2)
    model.partial_fit(X[:seen], y[:seen])
    expected = model.predict(X[seen:])[0]
    assert model.predict_one(X[seen]) == expected
    assert model.predict_update(X[seen], y[seen]) == expected


def test_nothing_is_predicted_before_the_first_sample():
    model = IncrementalClassifier()
    with pytest.raises(NotFittedError):
        model.predict_one([0.0])
    assert model.predict_update([0.0], "a") is None
    assert model.predict_update([0.0], "b") == "a"
    weightless = IncrementalClassifier()
    assert weightless.predict_update([0.0], "a", 0.0) is None
    assert weightless.predict_update([0.0], "b") is None
    assert weightless.predict_update([0.0], "b") == "b"


def test_a_class_without_samples_is_never_predicted():
    X = np.array([[-1.0], [1.0], [0.2]])
    model = IncrementalClassifier(recode=1.0)
    model.partial_fit(X, ["a", "b", "b"], classes=["a", "b", "c"])
    scores = model.decision_function([[0.0], [1e3], [-1e3]])
    assert (scores[:, 2] == -np.inf).all()
    assert set(model.predict([[0.0], [1e3], [-1e3]])) == {"a", "b"}
    model.learn_one([0.0], "c")
    assert np.isfinite(model.decision_function([[0.0]])).all()


# --- labels --------------------------------------------------------------------

LABELS = st.one_of(
    st.text(max_size=5),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.tuples(st.integers(0, 3), st.text(max_size=2)),
    st.integers(-5, 5).map(np.int16),
    st.binary(max_size=3),
)


@settings(max_examples=30)
@given(labels=st.lists(LABELS, min_size=1, max_size=12))
def test_any_hashable_value_may_be_a_label(labels):
    model, counts = IncrementalClassifier(ridge=1e-3), Counter(labels)
    inputs = dict(zip(counts, np.eye(12), strict=False))
    for label in labels:
        model.learn_one(inputs[label], label)
    assert list(model.classes_) == list(counts)
    assert model.class_counts_.tolist() == list(counts.values())
    assert [model.predict_one(x) for x in inputs.values()] == list(counts)
    assert list(model.predict(list(inputs.values()))) == list(counts)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [(["a", "bc"], "<U2"), ([3, 1], int), ([True, False], bool), (["a", 1], object)],
)
def test_classes_have_the_type_of_their_labels(labels, dtype):
    model = IncrementalClassifier().partial_fit(np.eye(2), labels)
    assert model.classes_.dtype == dtype
    assert model.classes_.tolist() == labels
    assert [type(label) for label in model.classes_.tolist()] == [*map(type, labels)]


def test_labels_that_are_equal_are_one_class():
    model = IncrementalClassifier().partial_fit([[0.0], [1.0]], [1, 2])
    model.learn_one([0.0], 1.0).learn_one([0.0], True).learn_one([1.0], np.uint8(2))
    assert model.classes_.tolist() == [1, 2]
    assert model.class_counts_.tolist() == [3, 2]


@pytest.mark.parametrize("label", [None, 0.5, np.nan, [1], {"a": 1}, np.zeros(2)])
def test_what_cannot_name_a_class_is_refused(label):
    model = IncrementalClassifier().learn_one([0.0], "a")
    with pytest.raises(ValueError, match="label"):
        model.learn_one([0.0], label)
    assert model.n_samples_seen_ == 1


# --- bad input -----------------------------------------------------------------


def begun(settings):
    """Return a model of which the next sample of its first class may be held out."""
    X, y, _ = stream(100)
    model = IncrementalClassifier(FOURIER, **settings).partial_fit(X, y)
    while settings and not model._models._is_held(0):
        model.learn_one(X[0], model.classes_[0])
    return model, model.classes_[0]


@pytest.mark.parametrize("settings", [{}, SELECTING])
@pytest.mark.parametrize("label", ["known", "new"])
@pytest.mark.parametrize(
    ("x", "weight"),
    [
        ([np.nan, 0.0, 0.0], 1.0),
        ([np.inf, 0.0, 0.0], 1.0),
        ([1e200, 0.0, 0.0], 1.0),
        ([0.0, 0.0], 1.0),
        (["a", "b", "c"], 1.0),
        ([0.0, 0.0, 0.0], -1.0),
        ([0.0, 0.0, 0.0], np.nan),
    ],
)
def test_a_rejected_sample_leaves_the_model_untouched(settings, x, label, weight):
    model, first = begun(settings)
    model.learn_one(np.zeros(3), "also new")  # so that there is room for the new one
    before = saved(model)
    with pytest.raises(ValueError, match=ANY):
        model.learn_one(x, first if label == "known" else label, weight)
    assert_same_state(before, saved(model))


def test_a_rejected_first_sample_begins_nothing():
    model = IncrementalClassifier(FOURIER)
    for bad in (([np.nan], "a"), ([0.0], None), ([[0.0]], "a"), (0.0, "a")):
        with pytest.raises(ValueError, match=ANY):
            model.learn_one(*bad)
        with pytest.raises(NotFittedError):
            model.predict([[0.0]])
    assert model.learn_one([0.0, 1.0], "a").n_features_in_ == 2


@pytest.mark.parametrize(
    "bad",
    [
        {"ridge": 0.0},
        {"ridge": []},
        {"ridge": [1.0, -1.0]},
        {"ridge": "many"},
        {"recode": 1.5},
        {"recode": "some"},
        {"recode": np.nan},
        {"hold_out": 1},
        {"hold_out": 2.5},
        {"enough": 0},
        {"enough": 51},
        {"allowed_loss": -0.1},
        {"dtype": "float16"},
    ],
)
def test_wrong_parameters_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        IncrementalClassifier(**bad).fit([[0.0], [1.0]], [0, 1])


def test_wrong_rows_are_refused_before_anything_is_learned():
    X, y, _ = stream(50)
    model = IncrementalClassifier().partial_fit(X, y)
    before = saved(model)
    wrong = X.copy()
    wrong[3, 0] = np.nan
    for rows, labels, weights in [
        (wrong, y, None),
        (X[:, :2], y, None),
        (X, y[:-1], None),
        (X, np.linspace(0.1, 0.9, 50), None),
        (X, y, -np.ones(50)),
        (X * 1e200, y, None),
    ]:
        with pytest.raises(ValueError, match=ANY):
            model.partial_fit(rows, labels, weights)
        assert_same_state(before, saved(model))
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X[:, :2], y, -np.ones(50))
    assert_same_state(before, saved(model))
    assert model.n_features_in_ == 3


# --- a life after the process --------------------------------------------------


@settings(max_examples=15)
@given(
    cut=st.integers(1, 120),
    selecting=st.booleans(),
    features=st.sampled_from([None, FOURIER]),
)
def test_a_stream_resumes_bit_for_bit(cut, selecting, features):
    X, y, weights = stream(121, 5)
    model = IncrementalClassifier(features, **(SELECTING if selecting else {}))
    follow(model, X[:cut], y[:cut], weights[:cut])
    resumed = IncrementalClassifier(**model.get_params(deep=False))
    resumed._restore_state(copy.deepcopy(model._saved_state()))
    assert_same_state(saved(model), saved(resumed))
    answers = [follow(m, X[cut:], y[cut:], weights[cut:]) for m in (model, resumed)]
    assert answers[0] == answers[1]
    assert_same_state(saved(model), saved(resumed))
    assert pickle.loads(pickle.dumps(model)).predict_one(X[0]) == model.predict_one(
        X[0]
    )


def test_models_resumed_from_one_state_go_their_own_ways():
    X, y, _ = stream(1500, classes=2)
    model = IncrementalClassifier(**SELECTING).partial_fit(X, y)
    state, before = model._saved_state(), saved(model)
    others = [IncrementalClassifier(**SELECTING) for _ in range(2)]
    for other in others:
        other._restore_state(state)
    follow(others[0], X, y)
    for same in (model, others[1]):
        assert_same_state(before, saved(same))
    assert_same_state(before, state["models"])


def spoilt(state, path, value):
    state = copy.deepcopy(state)
    inner = state["models"]
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return state


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["labels"], ["cup"]),
        (["labels"], ["cup", "cup", "box", "ball"]),
        (["counts"], np.full(4, np.nan)),
        (["turns"], np.zeros(3, int)),
        (["validated"], np.zeros(9, int)),
        (["accuracy"], np.zeros((1, 1))),
        (["chosen"], 3),
        (["recursions"], []),
        (["recursions", 0, "rotated"], np.zeros((4, 3))),
        (["recursions", 1, "factor"], np.zeros(2)),
        (["held", "phi"], np.zeros((3, 4))),
        (["held", "truth"], np.full(3, 10**12)),
        (["held", "offered"], np.zeros(9, int)),
    ],
)
def test_a_state_that_does_not_fit_is_refused(path, value):
    X, y, _ = stream(150)
    model = IncrementalClassifier(**SELECTING).partial_fit(X, y)
    state = spoilt(model._saved_state(), path, value)
    fresh = IncrementalClassifier(**SELECTING)
    with pytest.raises(ValueError, match=ANY):
        fresh._restore_state(state)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


@pytest.mark.parametrize(
    "change",
    [
        {"ridge": 0.5},
        {"ridge": [0.01, 1.0]},
        {"recode": 0.0},
        {"hold_out": 3},
        {"enough": 4},
        {"allowed_loss": 0.1},
        {"fit_intercept": False},
        {"dtype": "float32"},
    ],
    ids=repr,
)
def test_parameters_changed_in_midstream_are_not_saved(change, tmp_path):
    X, y, _ = stream(60)
    model = IncrementalClassifier(**SELECTING).fit(X, y)
    before = model.get_params()
    with pytest.raises(ValueError, match="parameters were changed"):
        save(model.set_params(**change), tmp_path / "model")
    save(model.set_params(**before), tmp_path / "model")
    assert_same_state(saved(load(tmp_path / "model")), saved(model))


@pytest.mark.parametrize("features", [Gaussian(1.0), FourierFeatures, "fourier", 3])
def test_what_makes_no_features_is_named(features):
    model = IncrementalClassifier(features)
    with pytest.raises(TypeError, match="features must be None or a transformer"):
        model.learn_one([1.0], "a")
    assert not hasattr(model, "n_features_in_")


def test_reset_forgets_samples_and_classes():
    X, y, _ = stream(50)
    model = IncrementalClassifier(**SELECTING).partial_fit(X, y).reset()
    with pytest.raises(NotFittedError):
        _ = model.classes_
    assert model.warm_up().learn_one([0.0], 7).classes_.tolist() == [7]


def test_recoding_equals_the_batch_solution_with_recoded_targets():
    X, y, _ = stream(120)
    for recode in (0.0, 0.3, 1.0):
        model = IncrementalClassifier(ridge=0.7, recode=recode, fit_intercept=False)
        W = recoded(X, y, 0.7, recode)
        scores = model.fit(X, y).decision_function(X)
        np.testing.assert_allclose(scores, X @ W, atol=1e-9)
