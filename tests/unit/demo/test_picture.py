"""The drawing at the start of the demo fits a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Console

from drkit.demo.acts import _PICTURE


def test_no_line_of_the_picture_is_broken():
    console = Console(width=80)
    with console.capture() as shown:
        console.print(_PICTURE, highlight=False, markup=False)
    assert [line.rstrip() for line in shown.get().splitlines()] == [*_PICTURE.split("\n")[:-1], ""]
