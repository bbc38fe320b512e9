"""Which classes a file may name. A class that is not found here is never imported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tiercel.io._plain import Unsaveable

# scikit-learn's estimators whose fitted state is plain numbers, texts and arrays.
SKLEARN = {
    "sklearn.preprocessing": {
        "Binarizer", "FunctionTransformer", "KBinsDiscretizer", "KernelCenterer",
        "LabelBinarizer", "LabelEncoder", "MaxAbsScaler", "MinMaxScaler",
        "MultiLabelBinarizer", "Normalizer", "OneHotEncoder", "OrdinalEncoder",
        "PolynomialFeatures", "PowerTransformer", "QuantileTransformer",
        "RobustScaler", "StandardScaler", "TargetEncoder",
    },
    "sklearn.kernel_approximation": {
        "AdditiveChi2Sampler", "Nystroem", "PolynomialCountSketch", "RBFSampler",
        "SkewedChi2Sampler",
    },
    "sklearn.compose": {"ColumnTransformer", "TransformedTargetRegressor"},
    "sklearn.frozen": {"FrozenEstimator"},
    "sklearn.pipeline": {"FeatureUnion", "Pipeline"},
}  # fmt: skip

ROOM = re.compile(r"tiercel\.[a-z]\w*")


def class_name(cls: type) -> str:
    """Return the name under which a file knows ``cls``, as ``module:name``.

    Classes of Tiercel, and those of scikit-learn listed here, go by the module that
    offers them; raise TypeError for a class that Tiercel keeps to itself.
    """
    home = ".".join(cls.__module__.split(".")[:2])
    name = f"{home}:{cls.__qualname__}"
    if home.startswith("tiercel."):
        if _of_tiercel(home, cls.__qualname__) is not cls:
            raise Unsaveable(
                f"{cls.__module__}.{cls.__qualname__} is not public in {home}; the "
                "object that holds it must leave it out of its _saved_state"
            )
        return name
    if cls.__qualname__ in SKLEARN.get(home, ()):
        return name
    return f"{cls.__module__}:{cls.__qualname__}"


def find_class(name: str, trusted: dict[str, type]) -> type:
    """Return the class that a file calls ``name``, or raise ValueError."""
    home, _, qualname = name.partition(":")
    if qualname in SKLEARN.get(home, ()):
        return getattr(import_module(home), qualname)
    if home.split(".")[0] == "tiercel":
        found = _of_tiercel(home, qualname)
        if found is None:
            raise ValueError(f"this Tiercel has no public class {home}.{qualname}")
        return found
    alike = [cls for cls in trusted.values() if cls.__qualname__ == qualname]
    if name in trusted:
        return trusted[name]
    if len(alike) == 1:  # it may have moved since
        return alike[0]
    raise ValueError(
        f"the class {home}.{qualname} does not belong to Tiercel; if you trust it, "
        f"import it and pass classes=[{qualname.split('.')[-1]}]"
    )


def check_parameters(name: str, parameters: dict[str, Any]) -> None:
    """Raise where a parameter would have a model read pickles, as joblib's cache is."""
    if name == "sklearn.pipeline:Pipeline" and parameters.get("memory") is not None:
        raise Unsaveable(
            "a pipeline with a cache cannot be saved, because the cache consists of "
            "pickles; use set_params(memory=None)"
        )


def trusted_classes(classes: Iterable[type]) -> dict[str, type]:
    """Return the classes that a caller trusts, by the names that files give them."""
    found = list(classes)
    for cls in found:
        if not isinstance(cls, type):
            raise TypeError(f"classes must hold classes, not {cls!r}")
    return {f"{cls.__module__}:{cls.__qualname__}": cls for cls in found}


def _of_tiercel(home: str, name: str) -> Any:
    """Return the class that the front door of a room offers under ``name``, or None."""
    if not ROOM.fullmatch(home):
        return None
    try:
        room = import_module(home)
    except ModuleNotFoundError:
        return None
    found = getattr(room, name) if name in getattr(room, "__all__", ()) else None
    if not isinstance(found, type) or f"{found.__module__}.".find(f"{home}.") != 0:
        return None
    return found
