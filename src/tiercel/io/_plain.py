"""Values without parts, as JSON: numbers, texts, bytes, numpy scalars, dtypes, types.

What JSON has itself stands there as it is; anything else is an object with one member,
whose name says what it is.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

LARGEST_INT = 2**53  # what every reader of JSON keeps exactly


class Unsaveable(TypeError):
    """A value has no place in a file; who knows where it stands adds that."""


#: Marks what has parts, or cannot be saved at all.
NOT_PLAIN = object()

SCALARS = {np.dtype(code).type: np.dtype(code).name for code in "?bBhHiIlLqQefd"}
SCALAR_NAMED = {name: np.dtype(name).type for name in SCALARS.values()}
TYPES = {kind.__name__: kind for kind in (bool, int, float, str, object)}
TYPES |= {f"numpy.{name}": scalar for name, scalar in SCALAR_NAMED.items()}
TYPE_NAMES = {kind: name for name, kind in TYPES.items()}
DTYPE = re.compile(r"[<>|=]?(?:[biufU]\d{0,9}|\?|O)")


def encode(value: Any) -> Any:
    """Return the JSON for ``value``, or ``NOT_PLAIN``."""
    found = ENCODERS.get(type(value))
    if found is not None:
        return found(value)
    if type(value) in SCALARS:
        return {"scalar": [SCALARS[type(value)], encode(value.item())]}
    if isinstance(value, np.dtype) and DTYPE.fullmatch(value.str):
        return {"dtype": value.str}
    if isinstance(value, type) and value in TYPE_NAMES:
        return {"type": TYPE_NAMES[value]}
    return NOT_PLAIN


def _encode_int(value: int) -> Any:
    return value if abs(value) <= LARGEST_INT else {"int": hex(value)}


def _encode_float(value: float) -> Any:
    return value if math.isfinite(value) else {"float": str(value)}


def _encode_str(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:  # halves of pairs, which JSON would join
        return {"characters": [ord(character) for character in value]}
    return value


ENCODERS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: None,
    bool: bool,
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
    np.str_: lambda value: {"scalar": ["str", _encode_str(str(value))]},
}


def decode_scalar(name: str, value: Any) -> Any:
    """Return the numpy scalar called ``name``."""
    if type(value) not in ((str,) if name == "str" else (bool, int, float)):
        raise ValueError(f"{value!r} is no {name}")
    return np.str_(value) if name == "str" else SCALAR_NAMED[name](value)


def decode_dtype(text: str) -> np.dtype:
    """Return the dtype that numpy writes as ``text``."""
    if not DTYPE.fullmatch(text):
        raise ValueError(f"{text!r} is no dtype that is saved")
    return np.dtype(text)


DECODERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": lambda text: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text],
    "characters": lambda codes: "".join(map(chr, codes)),
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "dtype": decode_dtype,
    "type": lambda name: TYPES[name],
}
