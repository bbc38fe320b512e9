"""The method by which every learner becomes C; its module is loaded when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_c(
    self: Any, path: Any, name: str = "model", learn: bool | str = True
) -> Path:
    """Write the model as a C99 header without dependencies, for the robot.

    Parameters
    ----------
    path, name, learn : as for `tiercel.stream.export_c`

    Returns
    -------
    Path
        Of the header.
    """
    from tiercel.stream.c_code import export_c

    return export_c(self, path, name, learn)
