"""``import tiercel`` is light: it loads a room when it is asked for, nothing sooner."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import tiercel

# What scikit-learn loads by itself (pandas and pyarrow too, where they are installed)
# comes with the core.
CORE = "import sklearn.base, sklearn.externals.array_api_compat, threadpoolctl"


def loaded_by(code: str, after: str = "") -> set[str]:
    """Return the packages that ``code`` loads in an interpreter that ran ``after``."""
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}; {after}\n"
        f"before = set(sys.modules); {code}\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_import_loads_nothing_but_the_standard_library():
    assert loaded_by("import tiercel") - {*sys.stdlib_module_names} == {"tiercel"}


@pytest.mark.parametrize(
    "room", [m.name for m in pkgutil.iter_modules(tiercel.__path__)]
)
def test_each_room_loads_without_optional_packages(room):
    loaded = loaded_by(f"import tiercel.{room}", after=CORE)
    assert loaded - {*sys.stdlib_module_names} <= {
        "tiercel",
        "numpy",
        "scipy",
        "sklearn",
    }


def test_public_names_are_found_where_they_live():
    assert set(tiercel.__all__) == {"__version__", *tiercel._HOMES}
    assert dir(tiercel) == sorted(tiercel.__all__)
    for name, home in tiercel._HOMES.items():
        found = getattr(tiercel, name)
        assert getattr(found, "__module__", found.__name__).startswith(home)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Kernelridge'"):
        tiercel.Kernelridge  # noqa: B018
