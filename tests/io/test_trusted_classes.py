"""A file names classes; it gets those that Tiercel, its list or the caller trusts."""

from __future__ import annotations

import inspect
import sys
import types

import numpy as np
import pytest
from holders import OWN, Factor, Holder, Plain, forge, parts
from sklearn.neighbors import KernelDensity

import tiercel.kernels
from tiercel.io import _classes, describe, load, save
from tiercel.kernels import Gaussian, Kernel


class Brownian(Kernel):
    """A kernel of a user's own."""

    def evaluate(self, X, Z):
        return np.minimum(X, Z.T)


@pytest.fixture
def path(tmp_path):
    save(Gaussian(), tmp_path / "model")
    return tmp_path / "model"


def rename(path, name, **entry):
    """Have the only object of the file be of another class."""
    header, data = parts(path)
    header["__metadata__"]["document"]["objects"] = [{"class": name, **entry}]
    return forge(path, header, data)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "os.system",
        "subprocess:Popen",
        "builtins:eval",
        "builtins:object",
        "sklearn.utils:Bunch",
        "sklearn.utils._testing:SkipTest",
        "sklearn.preprocessing:scale",
        "sklearn.preprocessing._data:StandardScaler",
        "sklearn.preprocessing:StandardScaler.fit",
        "sklearn.svm:SVC",
        "tiercel.io:save",
        "tiercel.io.model:save",
        "tiercel.io:_file",
        "tiercel.kernels:_Pair",
        "tiercel.kernels.algebra:_Pair",
        "tiercel.kernels.stationary:Gaussian",
        "tiercel.kernels:Gaussian.fit",
        "tiercel.kernels:annotations",
        "tiercel.kernels:squared_distances",
        "tiercel.kernels:Pullback",
        "tiercel.products:KernelOperator",
        "tiercel.linalg:FactorisationError",
        "tiercel._arrays:np",
        "tiercel.__main__:X",
        "tiercel.absent:Model",
        "tiercel.kernels.:Gaussian",
        "tiercel:kernels",
        "Gaussian",
        "",
        ":",
    ],
)
def test_other_names_are_refused_before_anything_is_called(name, path):
    rename(path, name, parameters={}, state={})
    with pytest.raises(ValueError, match=r"cannot be loaded: .*\(object 0\): "):
        load(path)
    rename(path, name, state={})
    with pytest.raises(ValueError, match=r"cannot be loaded: .*\(object 0\): "):
        load(path, classes=OWN)


def test_a_module_that_a_file_names_is_not_imported(path, tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("class Trap: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"trap\.Trap does not belong to Tiercel"):
        load(rename(path, "trap:Trap", state={}))
    assert "trap" not in sys.modules


def test_own_classes_are_loaded_when_they_are_named(tmp_path):
    kernel = 2.0 * Brownian() + Gaussian(0.5)
    save(kernel, tmp_path / "m")
    assert describe(tmp_path / "m")["class"] == "tiercel.kernels.Sum"
    with pytest.raises(
        ValueError,
        match=r"test_trusted_classes\.Brownian does not belong to Tiercel; if you "
        r"trust it, import it and pass classes=\[Brownian\]",
    ):
        load(tmp_path / "m")
    X = np.array([[1.0], [3.0]])
    found = load(tmp_path / "m", classes=[Brownian])
    np.testing.assert_array_equal(found(X), kernel(X))


def test_a_class_that_has_moved_is_found_by_its_name(tmp_path):
    moved = type("Brownian", (Brownian,), {"__module__": "elsewhere"})
    also = type("Brownian", (Brownian,), {"__module__": "here"})
    save(moved(), tmp_path / "m")
    assert type(load(tmp_path / "m", classes=[Brownian])) is Brownian
    assert type(load(tmp_path / "m", classes=[Brownian, moved])) is moved
    with pytest.raises(ValueError, match="does not belong to Tiercel"):
        load(tmp_path / "m", classes=[Brownian, also])


def test_estimators_of_scikit_learn_beyond_the_list_can_be_trusted(tmp_path):
    save(KernelDensity(bandwidth=0.5), tmp_path / "m")
    with pytest.raises(ValueError, match=r"pass classes=\[KernelDensity\]"):
        load(tmp_path / "m")
    assert load(tmp_path / "m", classes=[KernelDensity]).bandwidth == 0.5


def test_classes_takes_classes(path):
    with pytest.raises(TypeError, match="classes must hold classes, not 'Brownian'"):
        load(path, classes=["Brownian"])


def test_what_tiercel_keeps_to_itself_is_not_saved(tmp_path):
    private = type("Private", (Kernel,), {"__module__": "tiercel.kernels.algebra"})
    with pytest.raises(
        TypeError, match=r"model\.value: tiercel\.kernels\.algebra\.Private is not publ"
    ):
        save(Holder(private()), tmp_path / "m")
    with pytest.raises(TypeError, match=r"a holders\.Nothing cannot be saved"):
        save(Holder(type("Nothing", (), {"__module__": "holders"})()), tmp_path / "m")


def test_what_is_no_model_is_not_saved(tmp_path):
    for value in ([Gaussian()], {"a": 1}, 3, np.ones(2), np.random.default_rng()):
        with pytest.raises(TypeError, match="save takes a model, not a"):
            save(value, tmp_path / "m")
    with pytest.raises(TypeError, match="model: classes and modules cannot be saved"):
        save(Gaussian, tmp_path / "m")


def test_state_of_an_objects_choosing_is_all_that_is_kept(tmp_path):
    save(Factor(3).fit(), tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 2000
    found = load(tmp_path / "m", classes=OWN)
    np.testing.assert_array_equal(found.R_, [[1, 2, 3], [0, 5, 6], [0, 0, 9]])
    assert found._buffer.shape == (10**6,)


def test_an_unfitted_object_is_not_asked_to_restore(tmp_path):
    save(Factor(3), tmp_path / "m")
    found = load(tmp_path / "m", classes=OWN)
    assert vars(found) == {"size": 3}


def test_objects_without_parameters_restore_themselves(tmp_path):
    save(Holder(Plain(7)), tmp_path / "m")
    assert load(tmp_path / "m", classes=OWN).value.secret == 7


def test_state_must_be_a_dict_of_names(tmp_path):
    for state in ([1], {1: 2}, None):
        model = Holder()
        wrong = type("Wrong", (Holder,), {"_saved_state": lambda self, s=state: s})
        model.value = wrong()
        with pytest.raises(
            TypeError, match=r"model\.value: _saved_state of Wrong must"
        ):
            save(model, tmp_path / "m")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "Gaussian misses the parameters length_scale"),
        ({"length_scale": 1.0, "nu": 1}, "Gaussian does not know the parameters nu"),
        (None, "object 0"),
        ([1.0], "object 0"),
    ],
)
def test_parameters_must_be_those_of_the_class(parameters, message, path):
    rename(path, "tiercel.kernels:Gaussian", parameters=parameters, state={})
    with pytest.raises(ValueError, match=message):
        load(path)


def test_a_class_that_gained_or_lost_its_parameters_is_refused(path):
    header, data = parts(path)
    del header["__metadata__"]["document"]["objects"][0]["parameters"]
    with pytest.raises(ValueError, match="it has or had no get_params"):
        load(forge(path, header, data))
    save(Holder(Plain(7)), path)
    header, data = parts(path)
    header["__metadata__"]["document"]["objects"][0]["parameters"] = {"secret": 7}
    with pytest.raises(ValueError, match="it has or had no get_params"):
        load(forge(path, header, data), classes=OWN)


def test_a_parameter_that_a_later_version_added_takes_its_default(path, monkeypatch):
    rename(path, "tiercel.kernels:Gaussian", parameters={}, state={})
    monkeypatch.setattr("tiercel.io.model.__version__", "99.0")
    assert load(path).length_scale == 1.0
    rename(path, "tiercel.kernels:Sum", parameters={}, state={})
    with pytest.raises(ValueError, match="Sum misses the parameters left, right"):
        load(path)


def test_only_classes_at_a_front_door_are_found(monkeypatch):
    def offer(home, name, module, listed=True):
        room = types.ModuleType(home)
        room.__all__ = [name] if listed else []
        setattr(room, name, type(name, (Kernel,), {"__module__": module}))
        monkeypatch.setitem(sys.modules, home, room)
        return _classes.find_class(f"{home}:{name}", {})

    assert offer("tiercel.attic", "Model", "tiercel.attic.deep").__name__ == "Model"
    assert offer("tiercel.attic", "Model", "tiercel.attic").__name__ == "Model"
    for home, module, listed in [
        ("tiercel.attic", "tiercel.attic.deep", False),
        ("tiercel.attic", "tiercel.atticus", True),
        ("tiercel.attic", "subprocess", True),
        ("tiercel._attic", "tiercel._attic", True),
        ("tiercel.attic.deep", "tiercel.attic.deep", True),
    ]:
        with pytest.raises(ValueError, match="this Tiercel has no public class"):
            offer(home, "Model", module, listed)


def test_each_kernel_of_the_front_door_comes_back(tmp_path):
    scales, part = np.array([0.5, 2.0]), Gaussian(3.0)
    given = {"length_scale": scales, "left": part, "right": part, "base": part}
    given |= {"factor": 0.25, "alpha": 0.1}
    for name in tiercel.kernels.__all__:
        cls = getattr(tiercel.kernels, name)
        if isinstance(cls, type) and issubclass(cls, Kernel):
            names = inspect.signature(cls).parameters
            kernel = cls(**{n: v for n, v in given.items() if n in names})
            save(kernel, tmp_path / "m")
            assert repr(load(tmp_path / "m")) == repr(kernel)
