"""Tiercel: learning with kernels, from a control loop to tables of a billion rows.

A tiercel is a male falcon: small, fast, made to fly from a hand. Everything in this
library minimises a regularised loss over functions spanned by kernels, or by a finite
map of the input. The library is a house of rooms, each of which answers one question:

``kernels``
    How alike are two points? Kernels, their sums and products, gradients, spectra.
``linalg``
    How is the algebra done? Conjugate gradient, Cholesky factors and their updates.
``features``
    Which finite map stands in for the kernel? Random Fourier features.
``stream``
    What do I learn from one sample at a time, at constant cost? Recursive ridge
    regression, Gaussian processes, classes that appear on the way.
``io``
    How do data get in and models out? ``tiercel.save`` and ``tiercel.load``.
``plots``
    What happened? Learning curves.
``products``
    How do I multiply with a kernel matrix that is never stored? On CPUs and GPUs,
    from memory or from disk, within a memory budget.
``testing``
    How do I know that mine is right? Conformance checks for your own kernels.

Rooms are loaded when they are first asked for, so ``import tiercel`` costs next to
nothing; torch and numba are loaded only by the calls that need them.

Examples
--------
>>> import numpy as np
>>> import tiercel
>>> kernel = tiercel.kernels.Gaussian(length_scale=2.0)
>>> kernel(np.array([[0.0, 0.0]]), np.array([[0.0, 2.0]]))
array([[0.60653066]])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiercel import features, io, kernels, linalg, plots, products, stream, testing
    from tiercel.io import load, save

__version__ = "0.1.0.dev0"

# Where each public name lives; a room lives in itself.
_HOMES = {
    "features": "tiercel.features",
    "io": "tiercel.io",
    "kernels": "tiercel.kernels",
    "linalg": "tiercel.linalg",
    "load": "tiercel.io",
    "plots": "tiercel.plots",
    "products": "tiercel.products",
    "save": "tiercel.io",
    "stream": "tiercel.stream",
    "testing": "tiercel.testing",
}

__all__ = [
    "__version__",
    "features",
    "io",
    "kernels",
    "linalg",
    "load",
    "plots",
    "products",
    "save",
    "stream",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tiercel' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    found = home if home.__name__ == f"tiercel.{name}" else getattr(home, name)
    globals()[name] = found  # so that the next look-up does not come here
    return found


def __dir__() -> list[str]:
    return __all__
