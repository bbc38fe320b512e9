"""From templates to a header: names, lines that a model needs, numbers as text."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

WIDTH = 79
# "/*: trend */" at the end of a line keeps it for models with a trend, "/*: !trend */"
# for all others; "/*: if trend */" does so for all lines up to "/*: end */".
TAG = re.compile(r"^(.*?) */\*: (if )?(!?)(\w+) \*/$")


def fill(template: str, flags: Collection[str]) -> str:
    """Return a template's text with the lines that belong to ``flags``.

    Examples
    --------
    >>> print(fill("int all;\\nint some;  /*: a */\\nint rest;  /*: !a */", {"a"}))
    int all;
    int some;
    """
    lines, within = [], True
    for line in template.split("\n"):
        found = TAG.match(line)
        if not found:
            lines += [line] if within else []
            continue
        text, block, negated, flag = found.groups()
        wanted = (flag in flags) != bool(negated)
        if block or flag == "end":
            within = wanted or flag == "end"
        elif wanted and within:
            lines.append(text)
    return "\n".join(lines)


def rename(text: str, name: str) -> str:
    """Return C code with ``name`` in place of ``model``, which all names begin with."""
    text = re.sub(r"\bmodel([_.])", rf"{name}\1", text)
    return re.sub(r"\bMODEL_", f"{name.upper()}_", text)


def number(value: float | np.floating) -> str:
    """Return a number as C text that reads back exactly, in the number's own dtype.

    Examples
    --------
    >>> number(0.1), number(np.float32(0.1)), number(3.0)
    ('0.1', '0.1f', '3.0')
    """
    if np.isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"
    if isinstance(value, np.float32):
        return f"{value!s}f"
    return repr(float(value))


def constant(name: str, value: float) -> str:
    """Return the declaration of one number."""
    return f"static const double {name} = {number(value)};\n"


def table(declared: str, values: np.ndarray) -> str:
    """Return the declaration of a table, ``declared`` being its type and name.

    Examples
    --------
    >>> print(table("double a", np.eye(2)), end="")  # doctest: -NORMALIZE_WHITESPACE
    static const double a[2][2] = {{
        1.0, 0.0
    }, {
        0.0, 1.0
    }};
    """
    shape = "".join(f"[{length}]" for length in values.shape)
    return f"static const {declared}{shape} = {_braced(values)};\n"


def _braced(values: np.ndarray) -> str:
    if values.ndim > 1:
        return "{" + ", ".join(map(_braced, values)) + "}"
    words = [number(value) for value in values]
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > WIDTH:
            lines.append(line)
            line = ""
        line += f" {word}," if line else f"    {word},"
    return "\n".join(["{", *lines, line.rstrip(","), "}"])
