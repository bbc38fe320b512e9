"""Save a model, load it, and tell what a file holds."""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Callable, Iterable
from io import BufferedReader
from typing import Any

import numpy as np
import sklearn

from tiercel import __version__
from tiercel.io import _atomic, _classes, _file
from tiercel.io._decode import Decoder
from tiercel.io._encode import Encoder

PathLike = str | os.PathLike[str]


def save(model: Any, path: PathLike) -> None:
    """Save a model to a file, from which ``load`` makes an equal one.

    The file takes the place of an older one in a single step, once it is safely on
    disk: whatever happens meanwhile, one complete file is there.

    Parameters
    ----------
    model : estimator, kernel or feature map of Tiercel, or a scikit-learn estimator
        Pipelines and other objects that hold such objects will do, and so do classes of
        your own (see :mod:`tiercel.io`).
    path : str or Path
        The file, in a folder that exists.

    Raises
    ------
    TypeError
        Some part cannot be saved; the message says which, and nothing is written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tiercel.kernels import Gaussian, Linear
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "kernel.safetensors")
    ...     save(0.5 * Gaussian(length_scale=np.array([1.0, 2.0])) + Linear(), path)
    ...     load(path)
    Sum(left=Scaled(base=Gaussian(length_scale=array([1., 2.])), factor=0.5),
        right=Linear())
    """
    target = _atomic.checked_target(path)
    encoder = Encoder()
    try:
        root = encoder.encode(model, "model")
    except RecursionError:
        raise ValueError("model holds objects in objects, too deep to save") from None
    if not (
        isinstance(root, dict) and "object" in root and "class" in encoder.objects[-1]
    ):
        raise TypeError(f"save takes a model, not a {type(model).__name__}")
    document = {"versions": _versions(), "objects": encoder.objects}
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    with _atomic.replacing(target) as file:
        _file.write(file, text, encoder.arrays)


def load(path: PathLike, *, classes: Iterable[type] = ()) -> Any:
    """Load a model that ``save`` has written, ready to predict and to go on learning.

    No file, whoever wrote it, makes this run code: it may name public classes of
    Tiercel, some of scikit-learn, and those in ``classes``; nothing else is imported.
    The whole file is checked before the first object is built.

    Parameters
    ----------
    path : str or Path
    classes : iterable of classes
        Further classes to trust: kernels and estimators of your own that the model
        holds. They are found by their name, even if they have moved to another module.

    Returns
    -------
    model
        Tensors are on the CPU, whatever device they were saved from.

    Raises
    ------
    ValueError
        The file is truncated, damaged, foreign, of a newer format, or it names a class
        that is not trusted. The message says which.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tiercel.kernels import Kernel
    >>> class Brownian(Kernel):
    ...     __module__ = "my_kernels"  # where you would import it from
    ...     def evaluate(self, X, Z):
    ...         return np.minimum(X, Z.T)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(2.0 * Brownian(), Path(folder, "kernel.safetensors"))
    ...     load(Path(folder, "kernel.safetensors"), classes=[Brownian])
    Scaled(base=Brownian(), factor=2.0)
    """
    trusted = _classes.trusted_classes(classes)

    def build(file: BufferedReader) -> Any:
        header = _file.read_header(file)
        arrays = _file.read_arrays(file, header)
        document = _document(header)
        changed = _changed(document)
        return Decoder(arrays, trusted, changed).build(document["objects"])

    return _reading(path, build)


def describe(path: PathLike) -> dict[str, Any]:
    """Tell what a file holds and who wrote it, without building the model.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    dict
        ``class`` of the model, ``classes`` of all objects in it, ``versions`` of the
        libraries that wrote it, ``format``, size in ``bytes`` and ``intact``: whether
        the checksum of the whole file agrees.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tiercel.kernels import Gaussian
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(2.0 * Gaussian(), Path(folder, "kernel.safetensors"))
    ...     facts = describe(Path(folder, "kernel.safetensors"))
    >>> facts["class"], facts["intact"]
    ('tiercel.kernels.Scaled', True)
    """

    def read(file: BufferedReader) -> dict[str, Any]:
        header = _file.read_header(file)
        intact = _file.checksum_agrees(file, header)
        document = _document(header)
        names = [name.replace(":", ".") for name in _class_names(document)]
        return {
            "class": names[-1],
            "classes": sorted(set(names)),
            "versions": document["versions"],
            "format": header.format,
            "bytes": file.tell(),
            "intact": intact,
        }

    return _reading(path, read)


def _reading(path: PathLike, read: Callable[[BufferedReader], Any]) -> Any:
    """Return what ``read`` makes of the file; its errors say which file it is."""
    with open(path, "rb") as file:
        try:
            return read(file)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            reason = f"{os.fspath(path)} cannot be loaded: {error}"
            raise ValueError(reason) from error


def _versions() -> dict[str, str]:
    return {
        "tiercel": __version__,
        "sklearn": sklearn.__version__,  # type: ignore[attr-defined]
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _document(header: _file.Header) -> dict[str, Any]:
    document = _file.parse(header.document)
    for name, kind in (("versions", dict), ("objects", list)):
        if not isinstance(document.get(name), kind):
            raise ValueError(f"it is damaged: its document has no proper {name}")
    return document


def _class_names(document: dict[str, Any]) -> list[str]:
    return [entry["class"] for entry in document["objects"] if "class" in entry]


def _changed(document: dict[str, Any]) -> set[str]:
    """Return the libraries of another version than wrote the file; warn of sklearn's.

    Tiercel keeps the promise of its format; scikit-learn's attributes are its own.
    """
    written, here = document["versions"], _versions()
    changed = {
        name for name in ("tiercel", "sklearn") if written.get(name) != here[name]
    }
    used = {name.split(".")[0] for name in _class_names(document)}
    if "sklearn" in changed & used:
        warnings.warn(
            "the file holds estimators of scikit-learn "
            f"{written.get('sklearn')}, but this is {here['sklearn']}: they may "
            "predict differently, or not at all",
            UserWarning,
            stacklevel=5,
        )
    return changed
