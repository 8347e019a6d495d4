"""What a person decides about a return: read from options, asked on a terminal, never assumed. No broker."""

from __future__ import annotations

import io
import sys
from typing import Any

import click
import pytest

from drkit.cli.actions.back import choices, reprotect
from drkit.cli.actions.back.choices import Decisions, decided_on_terminal, request_of, said_of
from drkit.errors import Usage
from drkit.failover.core.request import RunRequest
from drkit.failover.returning.deciding import Undecided
from tests.support.errors import coded, sentence

PLACE = "drkit reprotect"


def given(**more: Any) -> Decisions:
    """The options, most of them not given."""
    nothing: dict[str, Any] = {
        "topics": (), "dispositions": (), "methods": (), "reason": "", "export_to": "", "export_format": None,
        "same": None, "give_up_history": (), "copy_limit": "", "clients_cut": "", "new_primary": "",
        "evict_readers": False,
    }  # fmt: skip
    found: Decisions = {**nothing, **more}  # type: ignore[typeddict-item]
    return found


def undecided(**topics: int) -> Undecided:
    error = Undecided("decision_missing", where="p", hint="say it")
    error.topics, error.needs_reason = topics, True
    return error


def test_options_become_the_request_and_nothing_is_added() -> None:
    assert request_of(given(), PLACE) == RunRequest()
    request = request_of(
        given(dispositions=("a=b=replay", "*=discard"), methods=("a=trim",), same="none"), PLACE
    )
    assert request.dispositions == {"a=b": "replay", "*": "discard"}
    assert (request.methods, request.same) == ({"a": "trim"}, "none")
    assert said_of(given(dispositions=("a=replay",), topics=("a",))) == ["--topic", "--disposition"]


@pytest.mark.parametrize(("said", "found"), [("1", 1), ("800MB", 800_000_000), ("1.5GiB", 3 << 29)])
def test_a_size_has_a_unit_or_is_bytes(said: str, found: int) -> None:
    assert request_of(given(copy_limit=said), PLACE).copy_limit == found


@pytest.mark.parametrize("said", ["0", "-1", "many", "5 topics", "nan", "inf", "0.2"])
def test_what_is_no_size_is_refused(said: str) -> None:
    with pytest.raises(Usage, match=sentence("size_malformed", option="--copy-limit")):
        request_of(given(copy_limit=said), PLACE)


def test_a_request_survives_the_journal() -> None:
    request = request_of(given(dispositions=("a=replay",), give_up_history=("a",), reason="why"), PLACE)
    assert RunRequest.from_json(request.to_json()) == request


def test_each_topic_is_asked_for_until_there_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\nkeep\nreplay\nquarantine\nticket 7\n"))
    found = decided_on_terminal(undecided(b=2, a=1), RunRequest(dispositions={"c": "discard"}), PLACE)
    assert found.dispositions == {"c": "discard", "a": "replay", "b": "quarantine"}
    assert found.reason == "ticket 7"
    assert "a: 1 record that the new primary does not have" in capsys.readouterr().err


def test_a_reason_that_was_given_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert decided_on_terminal(undecided(), RunRequest(reason="why"), PLACE).reason == "why"


def test_without_a_terminal_nothing_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(Usage, check=coded("no_terminal")):
        decided_on_terminal(undecided(a=1), RunRequest(reason="why"), PLACE)

    def work(_request: RunRequest) -> dict[str, Any]:
        raise undecided(a=1)

    with pytest.raises(Undecided):
        reprotect.decided_with(work, RunRequest(), PLACE, yes=False)


@pytest.mark.parametrize("yes", [True, False])
def test_on_a_terminal_it_is_asked_and_done_unless_yes_was_said(
    monkeypatch: pytest.MonkeyPatch, *, yes: bool
) -> None:
    seen: list[RunRequest] = []

    def work(request: RunRequest) -> dict[str, Any]:
        seen.append(request)
        if "a" not in request.dispositions:
            raise undecided(a=1)
        return {"state": "done"}

    monkeypatch.setattr(reprotect, "can_ask", lambda: True)
    monkeypatch.setattr(choices, "answered", lambda *_, **__: "discard")
    if yes:
        with pytest.raises(Undecided):
            reprotect.decided_with(work, RunRequest(), PLACE, yes=True)
        return
    assert reprotect.decided_with(work, RunRequest(), PLACE, yes=False) == {"state": "done"}
    assert seen[-1].dispositions == {"a": "discard"}


class Desk:
    """A service whose return waits until something is decided about the topic a.

    :param holds: it has kept or exported something, so that its run is held; else it has ended
    """

    def __init__(self, *, holds: bool = True) -> None:
        self.begun: list[bool] = []
        self.resumed: list[RunRequest] = []
        self.under_way = object() if holds else None

    def begin_return(
        self, request: RunRequest, _confirm: Any = None, *, topics: Any, decides_later: bool = False,
        until_export: bool = False,
    ) -> Any:  # fmt: skip
        assert topics == ()
        self.begun.append(decides_later or until_export)
        if not request.dispositions:
            raise undecided(a=1)
        assert self.under_way is None
        return {"state": "done", "decided": request.dispositions}

    def resume(self, request: RunRequest) -> dict[str, Any]:
        self.resumed.append(request)
        return {"state": "done"}


@pytest.mark.parametrize(
    ("terminal", "yes", "hold"),
    [(True, False, False), (True, True, False), (False, False, False), (True, False, True)],
)
def test_what_is_asked_is_kept_and_exported_before(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool, yes: bool, hold: bool
) -> None:
    """The old primary's retention does not wait for an answer: the return is held until the decision."""
    monkeypatch.setattr(reprotect, "can_ask", lambda: terminal)
    monkeypatch.setattr(choices, "answered", lambda *_, **__: "discard")
    desk: Any = Desk()

    def begin() -> dict[str, Any]:
        return reprotect.begun(desk, RunRequest(), PLACE, topics=(), yes=yes, until_export=hold)

    if terminal and not yes and not hold:
        assert begin() == {"state": "done"}
        assert (desk.begun, desk.resumed[0].dispositions) == ([True], {"a": "discard"})
        return
    with pytest.raises(Undecided):
        begin()
    assert (desk.begun, desk.resumed) == ([hold], [])


def test_an_answer_counts_where_nothing_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run had ended, and to resume it was refused: the answers were thrown away."""
    monkeypatch.setattr(reprotect, "can_ask", lambda: True)
    monkeypatch.setattr(choices, "answered", lambda *_, **__: "discard")
    desk: Any = Desk(holds=False)
    report = reprotect.begun(desk, RunRequest(), PLACE, topics=(), yes=False)
    assert report == {"state": "done", "decided": {"a": "discard"}}
    assert (desk.begun, desk.resumed) == ([True, False], [])


def test_an_interrupt_at_a_question_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> str:
        raise click.Abort

    monkeypatch.setattr("drkit.cli.questions.answer", interrupted)
    with pytest.raises(click.Abort):
        decided_on_terminal(undecided(a=1), RunRequest(), PLACE)
    assert "nothing was decided" in capsys.readouterr().err
