"""Small classes of a user's own that are saved, and files that are taken apart."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from tiercel.io import load, save


class Holder(BaseEstimator):
    """An estimator with one parameter; what is set on it later is its state."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


class Factor(BaseEstimator):
    """Keeps a factor, and a buffer not worth saving; checks what it gets back."""

    def __init__(self, size: int = 2) -> None:
        self.size = size

    def fit(self) -> Factor:
        self.R_ = np.triu(np.arange(1.0, 1 + self.size**2).reshape(self.size, -1))
        self._buffer = np.empty(10**6)
        return self

    def _saved_state(self) -> dict[str, Any]:
        return {"R": self.R_} if hasattr(self, "R_") else {}

    def _restore_state(self, state: dict[str, Any]) -> None:
        if state["R"].shape != (self.size, self.size):
            raise ValueError(f"R is not {self.size} by {self.size}")
        self.R_ = state["R"]
        self._buffer = np.empty(10**6)


class Plain:
    """No constructor parameters: it restores itself."""

    def __init__(self, secret: int) -> None:
        self.secret = secret

    def _restore_state(self, state: dict[str, Any]) -> None:
        self.secret = state["secret"]


OWN = (Holder, Factor, Plain)


def round_trip(value: Any, folder: Path | str) -> Any:
    """Return what becomes of a value that is an attribute of a saved object."""
    holder = Holder()
    holder.fitted_ = value
    path = Path(folder, "value.safetensors")
    save(holder, path)
    return load(path, classes=OWN).fitted_


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are equal to the bit, and of the same types."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, np.floating)):
        return float(a).hex() == float(b).hex()
    if isinstance(a, (np.ndarray, np.generic)):
        layout = [(v.dtype, v.shape, v.flags.c_contiguous, v.flags.f_contiguous)
                  for v in (a, b)]  # fmt: skip
        if layout[0] != layout[1]:
            return False
        if a.dtype == object:
            return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the document of a file, and its header's JSON and the arrays as bytes."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header["__metadata__"]["document"] = json.loads(header["__metadata__"]["document"])
    return header, raw[8 + length :]


def forge(path: Path, header: dict[str, Any], data: bytes = b"") -> Path:
    """Write a file with a checksum that agrees, whatever it holds."""
    metadata = dict(header["__metadata__"], sha256="0" * 64)
    if not isinstance(metadata["document"], str):
        metadata["document"] = json.dumps(metadata["document"])
    text = json.dumps(dict(header, __metadata__=metadata), separators=(",", ":"))
    return sign(path, len(text).to_bytes(8, "little") + text.encode() + data)


def sign(path: Path, unsigned: bytes) -> Path:
    """Write bytes, the first 64 zeros of which stand for the checksum."""
    digest = hashlib.sha256(unsigned).hexdigest().encode()
    path.write_bytes(unsigned.replace(b"0" * 64, digest, 1))
    return path
