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
from drkit.failover.core.machine import StepName
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


def test_what_is_readable_stays():
    for text in ("orders", "日本", "é", "a b", "[bold]x[/bold]", "\N{GRINNING FACE}"):
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
