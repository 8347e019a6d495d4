"""Names that others chose reach a terminal as text, and programs as they are."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit import observe
from drkit.cli.render import emit, emit_error
from drkit.cli.screens.failover import show_progress
from drkit.errors import Failed
from drkit.failover.core.context import StepProgress
from drkit.journal.machine import StepName
from drkit.visible import visible, visible_json, visible_lines
from tests.support.errors import made
from tests.support.failover.odd_groups import HARMFUL, ODD

EVIL = "\x1b]0;title\x07\x9b2J\r\x1b[1A\N{RIGHT-TO-LEFT OVERRIDE}[bold]x[/] end"


@given(st.text())
def test_no_text_does_anything_to_a_terminal(text: str):
    assert not HARMFUL.search(visible(text))
    assert "\n" not in visible(text)
    assert not HARMFUL.search(visible_lines(text).replace("\t", ""))


@given(st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
def test_programs_read_the_name_as_it_is(value: object):
    text = visible_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not HARMFUL.search(text)


# Default_Ignorable_Code_Point of Unicode 16 (DerivedCoreProperties.txt), and blanks that are not a space
_IGNORABLE = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
_BLANK = (0xA0, 0x1680, 0x2003, 0x202F, 0x2800, 0x3000, 0xFFF9)


def test_no_two_names_differ_by_what_is_not_drawn():
    for first, last in (*_IGNORABLE, *((b, b) for b in _BLANK)):
        for number in range(first, last + 1):
            name = f"orders{chr(number)}"
            assert visible(name).isascii(), hex(number)
            assert visible_lines(name).isascii(), hex(number)
            assert visible_json(json.dumps(name, ensure_ascii=False)).isascii(), hex(number)


def test_marks_do_not_cover_other_lines():
    grave = "\N{COMBINING GRAVE ACCENT}"
    assert visible(f"a{grave * 40}").count(grave) == 4
    assert visible(f"a{grave}b{grave}") == f"a{grave}b{grave}"


def test_what_is_readable_stays():
    for text in ("orders", "日本", "é", "हिन्दी", "ที่", "a b", "[bold]x[/bold]", "\N{GRINNING FACE}"):
        assert visible(text) == text


@pytest.mark.parametrize("as_json", [False, True])
def test_answers_errors_and_progress(capsys: pytest.CaptureFixture[str], as_json: bool):  # noqa: FBT001
    emit([{"group": EVIL, EVIL: 1, "nested": {EVIL: [EVIL]}}], as_json)
    emit({EVIL: EVIL, "deep": {EVIL: EVIL}, "rows": [{EVIL: EVIL}]}, as_json)
    emit(list(ODD), as_json)
    emit(EVIL, as_json)
    emit_error(made(Failed, EVIL, where=EVIL, evidence=f"{EVIL}\nmore", hint=EVIL), as_json=as_json)
    show_progress(StepProgress(StepName.REPOINT, EVIL, {"group": EVIL}))
    observe.setup("json" if as_json else "console")
    observe.event("note_dropped", key=EVIL)
    heard = capsys.readouterr()
    for text in (heard.out, heard.err):
        assert not [line for line in text.split("\n") if HARMFUL.search(line)]
        assert "[bold]x[/] end" in text
