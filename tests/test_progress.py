"""The progress bar: what it shows, how often, and where nobody watches."""

import io

from tiercel._progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(stream, **options):
    bar = ProgressBar("rows", stream=stream, **options)
    for done in range(1, 5):
        bar(done, 4, note=f"error {done}")
    return stream.getvalue().split("\r")[1:]


def test_a_terminal_sees_the_bar_grow():
    lines = drawn(Terminal(), every=0.0)
    assert [line.split("%")[0].split("]")[1].strip() for line in lines] == [
        "25",
        "50",
        "75",
        "100",
    ]
    assert "s left" in lines[0]
    assert lines[-1].rstrip().endswith("error 4")
    assert lines[-1].endswith("\n")


def test_the_bar_is_not_drawn_more_often_than_asked():
    lines = drawn(Terminal(), every=1e6)
    assert len(lines) == 2
    assert "25 %" in lines[0]
    assert "100 %" in lines[1]


def test_a_file_gets_the_finished_bar_alone():
    (line,) = drawn(io.StringIO(), every=0.0)
    assert "100 %" in line
