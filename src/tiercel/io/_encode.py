"""Walk through a model, once, and write down what it consists of."""

from __future__ import annotations

from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tiercel.io import _arrays, _classes, _objects, _plain, _random

DEEPEST = 64  # lists in lists
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, np.ufunc)


class Encoder:
    """What the walk has found: ``objects``, each after its parts, and ``arrays``.

    Objects, generators, arrays and tensors that are met again are referred to, so that
    parts which share one still share it when they come back. Lists and dictionaries
    are written out where they stand.
    """

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._nodes: dict[int, Any] = {}
        self._kept: list[Any] = []  # so that no id is given twice
        self._open: set[int] = set()

    def encode(self, value: Any, path: str, depth: int = 0) -> Any:
        """Return the JSON for ``value``; ``path`` says where it stands, for errors."""
        node = _plain.encode(value)
        if node is not _plain.NOT_PLAIN:
            return node
        if id(value) in self._nodes:
            return self._nodes[id(value)]
        if id(value) in self._open:
            raise ValueError(f"{path} leads back to itself: cycles cannot be saved")
        if depth > DEEPEST:
            raise ValueError(f"{path} is nested deeper than {DEEPEST} levels")
        self._open.add(id(value))
        node = self._container(value, path, depth + 1)
        if node is None:
            node = self._nodes[id(value)] = self._leaf(value, path, depth + 1)
            self._kept.append(value)
        self._open.remove(id(value))
        return node

    def _container(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if kind is list:
            return self._each(value, path, depth)
        if kind in (tuple, set, frozenset):
            return {kind.__name__: self._each(value, path, depth)}
        if kind is slice:
            parts = (value.start, value.stop, value.step)
            return {"slice": self._each(parts, path, depth)}
        if kind is dict:
            pairs = []
            for key, item in value.items():
                place = f"{path}[{_label(key)}]"
                pairs.append(
                    [self.encode(key, place, depth), self.encode(item, place, depth)]
                )
            return {"dict": pairs}
        return None

    def _each(self, values: Iterable[Any], path: str, depth: int) -> list[Any]:
        return [self.encode(v, f"{path}[{i}]", depth) for i, v in enumerate(values)]

    def _leaf(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        try:
            if kind in (np.ndarray, np.memmap):
                if value.dtype == object:
                    return self._object_array(value, path, depth)
                return _arrays.encode_array(value, self._keeper(path))
            if _arrays.is_tensor(value):
                name, array = _arrays.encode_tensor(value)
                return {name: _arrays.encode_array(array, self._keeper(path))}
            if _arrays.SPARSE.get(kind.__name__) is kind:
                return self._sparse(value, path, depth)
            if kind in (np.random.Generator, np.random.RandomState):
                name = "generator" if kind is np.random.Generator else "random_state"
                return self._add({name: self._fields(_random.encode_rng(value), path)})
            return self._object(value, path)
        except _plain.Unsaveable as error:
            raise TypeError(f"{path}: {error}") from None

    def _keeper(self, path: str) -> _arrays.Keep:
        def keep(array: np.ndarray) -> str:
            name, n = path, 1
            while name in self.arrays:
                name, n = f"{path} ({n + 1})", n + 1
            self.arrays[name] = array
            return name

        return keep

    def _object_array(self, array: np.ndarray, path: str, depth: int) -> Any:
        columns = array.flags.f_contiguous and not array.flags.c_contiguous
        items = self._each(array.ravel(), path, depth)
        return {"objects": [list(array.shape), "F" if columns else "C", items]}

    def _sparse(self, matrix: Any, path: str, depth: int) -> Any:
        names = ("data", "indices", "indptr")
        parts = [self.encode(getattr(matrix, n), f"{path}.{n}", depth) for n in names]
        return {"sparse": [type(matrix).__name__, list(matrix.shape), *parts]}

    def _object(self, value: Any, path: str) -> Any:
        cls = type(value)
        if isinstance(value, FUNCTIONS):
            raise _plain.Unsaveable("functions cannot be saved")
        if isinstance(value, type | ModuleType):
            raise _plain.Unsaveable("classes and modules cannot be saved")
        if not _objects.can_be_rebuilt(cls):
            raise _plain.Unsaveable(
                f"a {cls.__module__}.{cls.__qualname__} cannot be saved"
            )
        entry: dict[str, Any] = {"class": _classes.class_name(cls)}
        parameters, state = _objects.taken_apart(value)
        if parameters is not None:
            _classes.check_parameters(entry["class"], parameters)
            entry["parameters"] = self._fields(parameters, path)
        entry["state"] = self._fields(state, path)
        return self._add(entry)

    def _fields(self, values: dict[str, Any], path: str) -> dict[str, Any]:
        return {name: self.encode(v, f"{path}.{name}") for name, v in values.items()}

    def _add(self, entry: dict[str, Any]) -> Any:
        self.objects.append(entry)
        return {"object": len(self.objects) - 1}


def _label(key: Any) -> str:
    try:
        label = ascii(key)
    except ValueError:  # thousands of digits
        label = type(key).__name__
    return label if len(label) < 50 else label[:46] + "..."
