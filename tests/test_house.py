"""The rules of docs/house.md, read off the source: who may import whom, and when."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# threadpoolctl is small, and scikit-learn has loaded it already.
LIGHT = {*sys.stdlib_module_names, "tiercel", "numpy", "scipy", "sklearn"}
LIGHT |= {"threadpoolctl"}
LIGHT_IN = {"products/fused": {"torch", "triton"}}
PICKLES = {"pickle", "cloudpickle", "dill", "shelve", "marshal"}


def read_rooms(page: str) -> dict[str, set[str]]:
    """Return what each room may import, from the table of docs/house.md."""
    rooms: dict[str, set[str]] = {}
    for names, _, permitted in re.findall(
        r"^\| (`.*?) \| (.*) \| (.*) \|$", page, re.M
    ):
        above = set(rooms)
        allowed = (
            above
            if permitted == "all above"
            else set(re.findall(r"`(\w+)`", permitted))
        )
        assert allowed <= above, f"{names} may only import what stands above it"
        rooms |= {name: allowed for name in re.findall(r"`(\w+)`", names)}
    return rooms


def imported(node: ast.AST, package: str) -> list[str]:
    """Return the absolute names that an import statement in ``package`` asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parents = package.split(".")[: 1 - node.level or None] if node.level else []
        base = ".".join([*parents, *([node.module] if node.module else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    return []


def run_when_loaded(node: ast.AST) -> Iterator[ast.AST]:
    """Walk over what runs when a module is loaded: no functions, no type checking."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from run_when_loaded(child)


def breaches(source: Path, rooms: dict[str, set[str]]) -> list[str]:
    """Return each breach of the house's rules below ``source``, with file and line."""
    found = []
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        package = ".".join(["tiercel", *inside.parts[:-1]])
        room = inside.with_suffix("").parts[0]
        folder = inside.parent.as_posix()
        light = LIGHT | LIGHT_IN.get(folder, set())
        tree = ast.parse(path.read_text(encoding="utf-8"))

        def report(node: ast.AST, what: str, inside: Path = inside) -> None:
            found.append(f"{inside.as_posix()}:{getattr(node, 'lineno', 1)}: {what}")

        if not room.startswith("_") and room not in rooms:
            report(tree, f"{room} has no place in docs/house.md")
        for node in ast.walk(tree):
            for name in imported(node, package):
                top, _, rest = name.partition(".")
                other = rest.partition(".")[0]
                if top in PICKLES:
                    report(node, f"imports {top}")
                if top != "tiercel" or room == "__init__" or other == room:
                    continue
                if other in rooms and other not in rooms.get(room, set()):
                    report(node, f"{room} may not import {other}")
                if other not in rooms and not other.startswith("_"):
                    report(node, "imports through the front door")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                report(node, "allows pickle")
        for node in run_when_loaded(tree):
            for name in imported(node, package):
                if (top := name.partition(".")[0]) not in light:
                    report(node, f"imports {top} when it is loaded")
    return found


ROOMS = read_rooms((ROOT / "docs" / "house.md").read_text(encoding="utf-8"))


def test_the_source_keeps_the_rules_of_the_house():
    assert breaches(ROOT / "src" / "tiercel", ROOMS) == []


def test_the_table_gives_each_room_what_its_row_says():
    assert ROOMS["kernels"] == set()
    assert ROOMS["products"] == {"kernels", "linalg"}
    assert ROOMS["stream"] == {"kernels", "linalg", "features"}
    assert ROOMS["vision"] == ROOMS["robots"] == ROOMS["guide"] | {"guide"}
    assert ROOMS["testing"] == set(ROOMS) - {"testing"}


@pytest.mark.parametrize(
    ("file", "code", "expected"),
    [
        ("linalg/a.py", "from tiercel.products import plan", "linalg may not import"),
        ("linalg/a.py", "import tiercel.batch.ridge", "linalg may not import batch"),
        ("linalg/a.py", "from tiercel import products", "linalg may not import"),
        (
            "linalg/a.py",
            "from ..products import plan",
            "linalg may not import products",
        ),
        ("linalg/a.py", "from .. import products", "linalg may not import products"),
        ("linalg/b/a.py", "from ...products.x import y", "linalg may not import"),
        ("linalg/a.py", "def f():\n    import tiercel.io", "a.py:2: linalg may not"),
        ("wind/a.py", "import tiercel.robots", "wind may not import robots"),
        ("_arrays.py", "import tiercel.kernels", "_arrays may not import kernels"),
        ("batch/a.py", "from tiercel import KernelRidge", "through the front door"),
        ("batch/a.py", "import tiercel", "through the front door"),
        ("attic/a.py", "", "attic has no place"),
        (
            "batch/a.py",
            "try:\n    import torch\nexcept E:\n    pass",
            "imports torch when",
        ),
        ("products/a.py", "import triton.language as tl", "imports triton when"),
        ("products/fused/a.py", "import numba", "imports numba when it is loaded"),
        ("io/a.py", "def f():\n    import pickle", "a.py:2: imports pickle"),
        ("io/a.py", "load(path, allow_pickle=True)", "allows pickle"),
    ],
)
def test_a_breach_is_found(tmp_path, file, code, expected):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(code)
    (breach,) = breaches(tmp_path, ROOMS)
    assert expected in breach


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("__init__.py", "from tiercel import kernels\nfrom tiercel.batch import A"),
        (
            "batch/a.py",
            "from tiercel.products import plan\nfrom . import b\nimport numpy",
        ),
        ("batch/a.py", "from tiercel._arrays import namespace\nfrom .b import c"),
        ("batch/a.py", "def f():\n    import torch"),
        ("batch/a.py", "if TYPE_CHECKING:\n    import torch"),
        ("products/fused/a.py", "import triton\nfrom ..tiles import t"),
        ("testing/a.py", "from tiercel.cli import main"),
    ],
)
def test_what_is_allowed_passes(tmp_path, file, code):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(code)
    assert breaches(tmp_path, ROOMS) == []
