"""The Python code in README.md and docs/ runs as it stands there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def run_page(path: Path) -> int:
    """Run the page's Python blocks in order, in one namespace; return how many ran.

    A block that starts with ``>>>`` is checked as a doctest, any other is executed.
    Either way a failure names the page and the line.
    """
    text = path.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = list(BLOCK.finditer(text))
    for block in blocks:
        code, line = block[1], text.count("\n", 0, block.start(1))
        if code.startswith(">>>"):
            test = doctest.DocTest([], names, path.name, str(path), line, code)
            test.examples = doctest.DocTestParser().get_examples(code, path.name)
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            doctest.DebugRunner(optionflags=flags).run(test, clear_globs=False)
        else:
            exec(compile("\n" * line + code, str(path), "exec"), names)
    return len(blocks)


@pytest.mark.parametrize(
    "path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_the_code_of_the_page_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a page may write files
    assert run_page(path) >= (path.name == "README.md")


def test_blocks_share_their_names(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\na = 1\n```\ntext\n```python\n>>> a + 1\n2\n```\n")
    assert run_page(page) == 2


def test_a_failure_names_the_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\na = 1\nassert a == 2\n```\n")
    with pytest.raises(AssertionError) as failure:
        run_page(page)
    assert failure.traceback[-1].path == page
    assert failure.traceback[-1].lineno + 1 == 5


def test_a_wrong_doctest_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n")
    with pytest.raises(doctest.DocTestFailure):
        run_page(page)
