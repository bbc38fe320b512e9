"""Classifiers as C code, compiled by gcc, against the model in Python."""

from __future__ import annotations

import re

import numpy as np
import pytest
from c_programs import STRICT, Classifier, build, needs_gcc

from tiercel.features import FourierFeatures
from tiercel.kernels import Gaussian
from tiercel.stream import FrozenPredictor
from tiercel.stream.c_code import export_c
from tiercel.stream.incremental_classifier import IncrementalClassifier

LABELS = ["cup", "box", 7, "ball", "pen"]
N = 3000

pytestmark = needs_gcc


def classifier(map=None, **options):
    features = None
    if map is not None:
        features = FourierFeatures(Gaussian(1.0), 15, map=map, random_state=0)
    return IncrementalClassifier(features, **options)


def stream(n=N, seed=0):
    """Return inputs around one place per class, some of which are rare."""
    rng = np.random.default_rng(seed)
    columns = rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    return np.eye(5, 3)[columns] * 1.5 + rng.standard_normal((n, 3)), columns


def fitted(model, n=80):
    """Return a model that has met all five classes, in order."""
    X, columns = stream(n, seed=1)
    return model.partial_fit(X, as_labels(columns), classes=LABELS)


def as_labels(columns):
    labels = np.empty(len(columns), object)
    labels[:] = [LABELS[column] for column in columns]
    return labels


MODELS = {
    "inputs": lambda: classifier(),
    "recoded": lambda: classifier(recode=0.7),
    "phase, recoded": lambda: classifier("phase", recode=1.0),
    "sincos, float32": lambda: classifier("sincos", recode=0.5, dtype="float32"),
    "chosen": lambda: classifier(ridge=[0.1, 99.0], recode="auto", hold_out=None),
}


@pytest.mark.parametrize("name", MODELS)
def test_answers_along_a_stream_are_those_of_python(name, tmp_path):
    model = fitted(MODELS[name](), 400)
    if name == "chosen":
        X, columns = stream(200, seed=3)
        assert model.choose(X, as_labels(columns)).recode_ > 0.0
    robot = Classifier(model, tmp_path)
    X, columns = stream()
    weights = np.random.default_rng(2).choice([1.0, 1.0, 0.0, 0.3], N)
    for x, column, weight in zip(X, columns, weights, strict=True):
        status, _, answer = robot.predict_update(x, int(column), weight)
        expected = model.predict_update(x, LABELS[column], weight)
        assert (status, LABELS[answer]) == (0, expected)
    _, scores, _ = robot.predict(X[0])
    expected = model.decision_function(X[:1])[0]
    np.testing.assert_allclose(
        scores, expected, rtol=0, atol=1e4 * np.finfo(model.dtype).eps
    )


@pytest.mark.parametrize("recode", [0.0, 0.5])
def test_predict_and_update_are_the_halves_of_predict_update(recode, tmp_path):
    model = fitted(classifier("phase", recode=recode))
    one, two = Classifier(model, tmp_path), Classifier(model, tmp_path)
    X, columns = stream(200)
    for x, column in zip(X, columns, strict=True):
        _, apart, answer = one.predict(x)
        assert one.update(x, int(column)) == 0
        _, together, same = two.predict_update(x, int(column))
        np.testing.assert_allclose(apart, together, rtol=0, atol=1e-11)
        assert answer == same


def test_a_class_of_which_nothing_was_learned_is_never_the_answer(tmp_path):
    model = classifier().fit([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], ["a", "b"])
    model.partial_fit([[0.0, 1.0, 0.0]], ["a"], classes=["c"])
    for learn in (True, False):
        _, scores, answer = Classifier(model, tmp_path, learn).predict([0.0, 0.0, 1.0])
        assert scores[2] == -np.inf
        assert answer == 0
    robot = Classifier(model, tmp_path)
    for _ in range(20):
        assert robot.update([5.0, 5.0, 5.0], 2) == 0
    assert robot.predict([5.0, 5.0, 5.0])[2] == 2


@pytest.mark.parametrize("map", [None, "phase"])
def test_a_fresh_start_has_no_answer_and_then_learns(map, tmp_path):
    model = fitted(classifier(map, recode=0.5))
    robot = Classifier(model, tmp_path, "fresh")
    status, scores, answer = robot.predict([0.0, 0.0, 0.0])
    assert (status, answer) == (0, -1)
    assert (scores == -np.inf).all()
    again, (X, columns) = classifier(map, recode=0.5), stream(300)
    again.partial_fit(X[:1], ["cup"], [0.0], classes=LABELS)  # known, not learned
    for x, column in zip(X, columns, strict=True):
        guess = again.predict_update(x, LABELS[column])
        _, _, answer = robot.predict_update(x, int(column))
        assert guess == (None if answer < 0 else LABELS[answer])


def test_refused_samples_leave_every_byte_of_the_state(tmp_path):
    robot = Classifier(fitted(classifier("phase", recode=0.3)), tmp_path)
    x = [0.1, 0.2, 0.3]
    robot.update(x, 1)
    before = robot.state()
    refused = [robot.predict([0.0, value, 0.0]) for value in (np.nan, np.inf, 2e150)]
    refused += [robot.predict_update([np.nan, 0.0, 0.0], 0)]
    refused += [robot.predict_update(x, label) for label in (-1, 5)]
    refused += [robot.predict_update(x, 0, weight) for weight in (-1.0, np.nan, 1e31)]
    assert [status for status, _, _ in refused] == [1, 1, 1, 1, 3, 3, 2, 2, 2]
    assert {value for _, scores, answer in refused for value in (*scores, answer)} == {
        7
    }
    assert robot.state() == before


@pytest.mark.parametrize("name", ["inputs", "phase, recoded", "sincos, float32"])
def test_a_frozen_classifier_gives_the_same_scores(name, tmp_path):
    model, (X, _) = fitted(MODELS[name](), 200), stream(100)
    robot = Classifier(model, tmp_path, learn=False)
    for x, expected in zip(X, model.decision_function(X), strict=True):
        status, scores, answer = robot.predict(x)
        tolerance = 1e4 * np.finfo(model.dtype).eps
        np.testing.assert_allclose(scores, expected, rtol=0, atol=tolerance)
        assert (status, answer) == (0, int(scores.argmax()))


def test_the_comment_tells_sizes_and_labels_and_compiles_whatever_they_are(tmp_path):
    model = classifier().fit(np.eye(3), ["*/ int", "/* ä", "\\"])
    robot = Classifier(model, tmp_path)
    told = robot.header.read_text()
    said = re.search(r"Memory: ([\d,]+) bytes of state", told)
    assert int(said[1].replace(",", "")) == robot.library.size()
    recoded = Classifier(fitted(classifier(recode=0.5)), tmp_path)
    told = recoded.header.read_text()
    assert "0 is 'cup', 1 is 'box', 2 is 7" in " ".join(
        told.replace("\n *", "").split()
    )
    said = re.search(r"Memory: ([\d,]+) bytes of state", told)
    assert int(said[1].replace(",", "")) == recoded.library.size()


def test_classifiers_are_cpp_too(tmp_path):
    model = fitted(classifier("sincos", recode=0.5))
    export_c(model, tmp_path / "arm.h", "arm")
    export_c(model, tmp_path / "eye.h", "eye", learn=False)
    source = '#include "arm.h"\n#include "eye.h"\n'
    for compiler, flags in [
        ("g++", ["-std=c++98", "-Wall", "-Wextra", "-Werror"]),
        ("gcc", STRICT),
    ]:
        build(tmp_path, source, flags, compiler)


def test_a_frozen_predictor_with_classes_is_exported_as_a_classifier(tmp_path):
    model = fitted(classifier("phase"))
    recursion = model._models.recursions[0]
    weights = recursion.weights()[:, :5]
    frozen = FrozenPredictor(recursion.map, weights, classes=model.classes_)
    robot, (X, _) = Classifier(model, tmp_path, learn=False), stream(20)
    text = export_c(frozen, tmp_path / "eye.h", "arm").read_text()
    assert text == robot.header.read_text()
    for x in X:
        assert LABELS[robot.predict(x)[2]] == model.predict_one(x)
