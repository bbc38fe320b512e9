"""Fitted models as C code: one header for the robot, which learns there too."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tiercel.stream._c import text
from tiercel.stream._c.learner import learner_code
from tiercel.stream._c.predictor import predictor_code
from tiercel.stream._c.source import source_of, weights_of
from tiercel.stream.frozen import FrozenPredictor


def export_c(
    model: Any,
    path: str | os.PathLike[str],
    name: str = "model",
    learn: bool | str = True,
) -> Path:
    """Write a fitted streaming model as a C99 header without dependencies.

    The header holds static functions over a struct of fixed size: no allocation, no
    library but the C one. ``<name>_predict_update`` does what the model's does in
    Python, operation by operation: the numbers are the same to the last bit where the
    compiler does not contract products and sums (``-ffp-contract=off``; at ``-std=c99``
    gcc does not), else to rounding. It is C++ as well.

    Parameters
    ----------
    model : RecursiveRidge, SparseSpectrumGP, IncrementalClassifier, FrozenPredictor
        Fitted, with Fourier features or none. A classifier goes on with the ridge and
        the recoding in use and with the classes that it knows; labels are their places
        in ``classes_``.
    path : path
        Of the file, ``arm.h`` say; what is there is replaced.
    name : str
        What all names in the header begin with, so that several models go together.
    learn : bool or "fresh"
        True: the header goes on learning from where the model stands. Its numbers are
        in the file: 1000 features make 12 MB of text and take 4 MB of flash.
        "fresh": it learns too, but begins with nothing learned. False: it predicts
        means (scores) from weights and keeps no state, as of a `FrozenPredictor`
        whatever ``learn`` is.

    Returns
    -------
    Path
        Of the file.

    Examples
    --------
    >>> import tempfile
    >>> from tiercel.stream import RecursiveRidge
    >>> model = RecursiveRidge(ridge=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     header = export_c(model, f"{folder}/arm.h", "arm").read_text()
    >>> "arm_predict_update(" in header
    True
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise ValueError(
            "name begins all names in the C code: a letter, then letters, digits and "
            f"underscores, not {name!r}"
        )
    if learn not in (True, False, "fresh"):
        raise ValueError(f"learn must be True, False or 'fresh', not {learn!r}")
    if learn and not isinstance(model, FrozenPredictor):
        code = learner_code(source_of(model), fresh=learn == "fresh")
    else:
        code = predictor_code(weights_of(model))
    path = Path(path)
    path.write_text(text.rename(code, name), encoding="ascii")
    return path
