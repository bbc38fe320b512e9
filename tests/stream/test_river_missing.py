"""Where River is not installed, its adapters say so when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_it_is_loaded_when_asked_for_and_missed_only_then():
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import tiercel.stream.river as adapters\n"
        "print('river' in sys.modules)\n"
        "sys.modules['river'] = None\n"
        "try: adapters.Regressor\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "False",
        "Regressor needs River; install it with: pip install 'tiercel[river]'",
    ]


def test_other_names_are_no_attributes():
    from tiercel.stream import river

    assert dir(river) == river.__all__
    with pytest.raises(AttributeError, match="no attribute 'Clusterer'"):
        river.Clusterer  # noqa: B018
