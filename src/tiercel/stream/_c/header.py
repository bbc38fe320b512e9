"""What every header begins with: what it is, how it is used, and its sizes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from tiercel import __version__

OPENING = """\
#ifndef MODEL_TIERCEL_H
#define MODEL_TIERCEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "-ffast-math breaks the sines and the checks of this header"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ == 2
#error "doubles must have 64 bits throughout: compile with -msse2 -mfpmath=sse"
#endif
typedef char model_needs_64_bit_doubles[sizeof(double) == 8 ? 1 : -1];

#if defined(__GNUC__) || defined(_MSC_VER)
#define MODEL_RESTRICT __restrict
#elif defined(__cplusplus)
#define MODEL_RESTRICT
#else
#define MODEL_RESTRICT restrict
#endif

enum {
    MODEL_DONE = 0,
    MODEL_BAD_SAMPLE = 1,
    MODEL_BAD_WEIGHT = 2,  /*: classes */
    MODEL_BAD_WEIGHT = 2  /*: !classes */
    MODEL_BAD_LABEL = 3  /*: classes */
};
"""

CLOSING = "#endif\n"

LIMITS = {"d": 1e150, "f": 1e30}  # as the compiled loops have it
REALS = {"d": "double", "f": "float"}


def title(told: str, example: str, notes: list[str]) -> str:
    """Return the comment on top: what is told, an example, and paragraphs of notes."""
    first = f"{told}  Written by Tiercel {__version__}."
    wrapped = ["\n".join(textwrap.wrap(part, 74)) for part in (first, *notes)]
    wrapped.insert(1, textwrap.indent(example.rstrip(), "    "))
    lines = "\n\n".join(wrapped).split("\n")
    return "/" + "\n".join(f" * {line}".rstrip() for line in lines)[1:] + "\n */\n"


def sizes(named: dict[str, int]) -> str:
    """Return the declaration of sizes."""
    lines = [f"    MODEL_{name} = {value}" for name, value in named.items()]
    return "enum {\n" + ",\n".join(lines) + "\n};\n"


def counted(count: int, what: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "output"), counted(2000, "output")
    ('1 output', '2,000 outputs')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def named(labels: Sequence[Any]) -> str:
    """Return the labels of classes as a comment can hold them.

    Examples
    --------
    >>> named(["cup", 7])
    "0 is 'cup', 1 is 7"
    """
    shown = (ascii(label).replace("*", ".")[:40] for label in labels)
    return ", ".join(f"{place} is {label}" for place, label in enumerate(shown))
