"""Where the real data sets are: one ``name.npz`` each, in a folder outside the source.

The folder is the one that the environment variable ``TIERCEL_DATA`` names, else
``shared/data`` beside the repository. Nothing here downloads anything: a benchmark
that needs an absent set says so in its row, and a test skips.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

VARIABLE = "TIERCEL_DATA"
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass
class Dataset:
    """Inputs, targets, and whatever else the file holds: folds, runs, names."""

    X: np.ndarray
    y: np.ndarray
    extras: dict[str, np.ndarray] = field(default_factory=dict)


def folder() -> Path:
    """Return where data sets are looked for, whether or not it exists."""
    return Path(os.environ.get(VARIABLE) or BESIDE)


def find(name: str) -> Path | None:
    """Return the file of a data set, or None where it is absent."""
    path = folder() / f"{name}.npz"
    return path if path.is_file() else None


def available(name: str) -> bool:
    """Tell whether a data set is here."""
    return find(name) is not None


def load(name: str) -> Dataset:
    """Read a data set; without its file, raise an error that says where it belongs."""
    path = find(name)
    if path is None:
        raise FileNotFoundError(
            f"no data set {name!r}: there is no {name}.npz in {folder()}; set "
            f"{VARIABLE} to the folder that holds the data sets"
        )
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    return Dataset(arrays.pop("X"), arrays.pop("y"), arrays)
