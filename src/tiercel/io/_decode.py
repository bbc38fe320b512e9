"""Build a model from what a file says it consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tiercel.io import _arrays, _classes, _objects, _plain, _random
from tiercel.io._encode import DEEPEST


class Decoder:
    """The objects of a file, built one after the other: parts come first.

    ``arrays`` are those of the file by name, ``trusted`` the classes that the caller
    named, ``changed`` the libraries that had another version when the file was written.
    """

    def __init__(
        self,
        arrays: dict[str, np.ndarray],
        trusted: dict[str, type],
        changed: set[str],
    ) -> None:
        self._raw = dict(arrays)
        self._arrays: dict[str, np.ndarray] = {}
        self._trusted = trusted
        self._changed = changed
        self._objects: list[Any] = []
        self._kinds: dict[str, Callable[[Any, int], Any]] = {
            "object": self._object,
            "tuple": lambda content, depth: tuple(self._each(content, depth)),
            "set": lambda content, depth: set(self._each(content, depth)),
            "frozenset": lambda content, depth: frozenset(self._each(content, depth)),
            "slice": lambda content, depth: slice(*self._each(content, depth)),
            "dict": self._dict,
            "scalar": self._scalar,
            "array": lambda content, depth: self._array(*content),
            "text": lambda content, depth: self._array(*content, text=True),
            "swapped": self._swapped,
            "objects": self._object_array,
            "tensor": self._tensor("tensor"),
            "bfloat16": self._tensor("bfloat16"),
            "sparse": self._sparse,
        }

    def build(self, entries: list[Any]) -> Any:
        """Return the last of the objects, which holds the others."""
        for number, entry in enumerate(entries):
            try:
                self._objects.append(self._build_one(entry))
            except (ImportError, MemoryError):
                raise
            except Exception as error:
                name = entry.get("class") if isinstance(entry, dict) else None
                what = str(name or "part").replace(":", ".")
                reason = f"it misses {error}" if isinstance(error, KeyError) else error
                raise ValueError(f"{what} (object {number}): {reason}") from error
        return self._objects[-1]

    def _build_one(self, entry: dict[str, Any]) -> Any:
        if "generator" in entry:
            return _random.decode_generator(self._fields(entry["generator"]))
        if "random_state" in entry:
            return _random.decode_random_state(self._fields(entry["random_state"]))
        name = entry["class"]
        cls = _classes.find_class(name, self._trusted)
        if not _objects.can_be_rebuilt(cls):
            raise ValueError("its class has no way to be rebuilt from a file")
        parameters = None
        if "parameters" in entry:
            parameters = self._fields(entry["parameters"])
            _classes.check_parameters(name, parameters)
        return _objects.put_together(
            cls,
            parameters,
            self._fields(entry["state"]),
            same_version=name.split(".")[0] not in self._changed,
        )

    def _fields(self, nodes: dict[str, Any]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in nodes.items()}

    def decode(self, node: Any, depth: int = 0) -> Any:
        """Return the value for which ``node`` stands."""
        if depth > DEEPEST + 1:  # a number may stand in a node that says its type
            raise ValueError(f"its values are nested deeper than {DEEPEST} levels")
        if isinstance(node, list):
            return self._each(node, depth + 1)
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind in _plain.DECODERS:
            return _plain.DECODERS[kind](content)
        return self._kinds[kind](content, depth + 1)

    def _each(self, nodes: list[Any], depth: int) -> list[Any]:
        return [self.decode(node, depth) for node in nodes]

    def _dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        return {self.decode(k, depth): self.decode(v, depth) for k, v in pairs}

    def _scalar(self, content: list[Any], depth: int) -> Any:
        name, node = content
        return _plain.decode_scalar(name, self.decode(node, depth))

    def _object(self, number: Any, depth: int) -> Any:
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise ValueError(f"it holds object {number}, which does not come before it")
        return self._objects[number]

    def _array(self, name: str, order: str, *, text: bool = False) -> np.ndarray:
        if name not in self._arrays:
            array = self._raw.pop(name)
            array = _arrays.decode_text(array) if text else array
            self._arrays[name] = np.asfortranarray(array) if order == "F" else array
        return self._arrays[name]

    def _swapped(self, node: Any, depth: int) -> np.ndarray:
        array = self.decode(node, depth)
        return array.astype(array.dtype.newbyteorder("S"))

    def _object_array(self, content: list[Any], depth: int) -> np.ndarray:
        shape, order, nodes = content
        flat = np.empty(len(nodes), dtype=object)
        for i, node in enumerate(nodes):
            flat[i] = self.decode(node, depth)
        if min(shape, default=0) < 0:
            raise ValueError(f"an array cannot have the shape {shape}")
        array = flat.reshape(shape)
        return np.asfortranarray(array) if order == "F" else array

    def _tensor(self, kind: str) -> Callable[[Any, int], Any]:
        def make(node: Any, depth: int) -> Any:
            return _arrays.decode_tensor(kind, self.decode(node, depth))

        return make

    def _sparse(self, content: list[Any], depth: int) -> Any:
        name, shape, *parts = content
        return _arrays.decode_sparse(name, shape, *self._each(parts, depth))
