"""scikit-learn around a model and Tiercel inside of scikit-learn: both come back."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from holders import OWN, Holder, forge, parts
from scipy import sparse
from sklearn import kernel_approximation, preprocessing
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils.validation import check_is_fitted

from tiercel.io import _classes, describe, load, save
from tiercel.kernels import Gaussian, Linear


class KernelMean(RegressorMixin, BaseEstimator):
    """A learner that holds a kernel."""

    def __init__(self, kernel=None):
        self.kernel = kernel

    def fit(self, X, y):
        self.X_, self.y_ = np.asarray(X), np.asarray(y)
        self.n_features_in_ = self.X_.shape[1]
        return self

    def predict(self, X):
        K = self.kernel(np.asarray(X), self.X_)
        return K @ self.y_ / K.sum(axis=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def data():
    rng = np.random.default_rng(0)
    return rng.random((40, 3)), rng.random(40)


def loaded(model, path):
    save(model, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load(path, classes=[KernelMean])


def prepared(name):
    """Return a fitted estimator of the list and rows to transform, and its output."""
    X, y = data()
    cls = getattr(preprocessing, name, None) or getattr(kernel_approximation, name)
    labels = np.array(["b", "a", "c", "a"] * 10, dtype=object)
    table = np.array([["x", 1.5], ["y", 2.5], ["x", None], [np.nan, 1.5]], dtype=object)
    if name in ("LabelBinarizer", "LabelEncoder"):
        return cls().fit(labels), labels
    if name == "MultiLabelBinarizer":
        return cls().fit([("a", "c"), ("b",)]), [("c", "b")]
    if name == "OneHotEncoder":
        return cls(sparse_output=False, handle_unknown="ignore").fit(table), table
    if name == "OrdinalEncoder":
        return cls(dtype=np.float32, encoded_missing_value=-1).fit(table), table
    if name == "TargetEncoder":
        return cls(random_state=0).fit(labels[:, None], y), labels[:, None]
    if name == "QuantileTransformer":
        return cls(n_quantiles=20, random_state=0).fit(X), X
    if name == "KBinsDiscretizer":
        return cls(quantile_method="averaged_inverted_cdf").fit(X), X
    if name == "KernelCenterer":
        return cls().fit(X @ X.T), X @ X.T
    if name in _classes.SKLEARN["sklearn.kernel_approximation"]:
        few = {"n_components": 10, "random_state": 0}
        return cls(**({} if name == "AdditiveChi2Sampler" else few)).fit(X), X
    return cls().fit(X), X


@pytest.mark.parametrize(
    "name",
    sorted(
        _classes.SKLEARN["sklearn.preprocessing"]
        | _classes.SKLEARN["sklearn.kernel_approximation"]
    ),
)
def test_each_transformer_on_the_list_transforms_as_before(name, path):
    transformer, X = prepared(name)
    found = loaded(transformer, path)
    expected, again = transformer.transform(X), found.transform(X)
    if sparse.issparse(expected):
        expected, again = expected.toarray(), again.toarray()
    np.testing.assert_array_equal(again, expected)
    assert repr(clone(found)) == repr(clone(transformer))


def test_every_class_on_the_list_is_where_it_says():
    for home, names in _classes.SKLEARN.items():
        for name in names:
            cls = _classes.find_class(f"{home}:{name}", {})
            assert _classes.class_name(cls) == f"{home}:{name}"


def test_a_pipeline_in_front_of_a_learner_predicts_as_before(path):
    X, y = data()
    model = make_pipeline(
        preprocessing.StandardScaler(),
        KernelMean(0.5 * Gaussian(np.ones(3)) + Linear()),
    )
    model.set_params(kernelmean__kernel__left__factor=0.25)
    found = loaded(model.fit(X, abs(y)), path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert found.named_steps["kernelmean"].kernel.left.factor == 0.25
    assert describe(path)["class"] == "sklearn.pipeline.Pipeline"
    check_is_fitted(found)


def test_nested_pipelines_unions_and_targets_come_back(path):
    X, y = data()
    union = FeatureUnion([
        ("fourier", kernel_approximation.RBFSampler(random_state=0)),
        ("plain", "passthrough"),
    ])  # fmt: skip
    model = TransformedTargetRegressor(
        make_pipeline(union, KernelMean(Gaussian())),
        transformer=preprocessing.QuantileTransformer(n_quantiles=10),
    ).fit(X, y)
    found = loaded(model, path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


def test_a_column_transformer_on_a_table_comes_back(path):
    table = pd.DataFrame({"a": [1.0, 2, 3], "b": ["x", "y", "x"], "c": [3, 1, 2]})
    model = ColumnTransformer(
        [("s", preprocessing.StandardScaler(), ["a"]),
         ("o", preprocessing.OneHotEncoder(), ["b"])],
        remainder=preprocessing.MinMaxScaler(),
    ).set_output(transform="pandas")  # fmt: skip
    model.set_params(o__sparse_output=False)
    model.fit(table)
    found = loaded(model, path)
    pd.testing.assert_frame_equal(found.transform(table), model.transform(table))
    assert list(found.feature_names_in_) == ["a", "b", "c"]


def test_a_frozen_model_keeps_its_own_way_of_saving(path):
    X, y = data()
    model = FrozenEstimator(KernelMean(Gaussian()).fit(X, y))
    found = loaded(model, path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


def test_functions_in_a_pipeline_are_named(path):
    model = make_pipeline(preprocessing.FunctionTransformer(np.log), Holder())
    with pytest.raises(
        TypeError, match=r"model\.steps\[0\]\[1\]\.func: functions cannot be saved"
    ):
        save(model, path)


def test_pipelines_that_read_pickles_are_refused(path, tmp_path):
    model = make_pipeline(Holder(), memory=str(tmp_path / "cache"))
    with pytest.raises(
        TypeError, match=r"model: a pipeline with a cache cannot be sav"
    ):
        save(model, path)
    save(model.set_params(memory=None), path)
    header, arrays = parts(path)
    pipeline = header["__metadata__"]["document"]["objects"][-1]
    pipeline["parameters"]["memory"] = "cache"
    forge(path, header, arrays)
    with pytest.raises(ValueError, match="a pipeline with a cache"):
        load(path, classes=OWN)


def test_another_version_of_scikit_learn_is_told(path, monkeypatch):
    X, _ = data()
    save(preprocessing.StandardScaler().fit(X), path)
    monkeypatch.setattr("sklearn.__version__", "99.0")
    with pytest.warns(UserWarning, match=r"of scikit-learn \d.*, but this is 99.0"):
        found = load(path)
    np.testing.assert_array_equal(found.mean_, X.mean(axis=0))
    save(Holder(Gaussian()), path)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(path, classes=OWN)  # holds nothing of scikit-learn's
