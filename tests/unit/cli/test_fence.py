"""What ``drkit fence pay`` prints. Pure."""

from __future__ import annotations

from contextlib import nullcontext
import json
from typing import Any

import click
import pytest

from drkit.cli.actions import fence
from drkit.cli.session import Session
from drkit.failover.pending_fences import TAKEN_AWAY, DueFences, Fences, TopicFence


def test_a_fence_that_was_put_up_has_no_row_for_a_debt():
    told: dict[str, Any] = {
        "paid": True, "proven": True, "how": "acl", "debt": "", "details": {"refused": 0},
        "notes": ["a is fenced by acl"], "next": "drkit divergence",
    }  # fmt: skip
    assert fence._filled(told) == {name: value for name, value in told.items() if name != "debt"}
    assert fence._filled({"paid": True, "notes": []}) == {"paid": True}


@pytest.mark.parametrize("fence_", ["acl", TAKEN_AWAY])
def test_a_fence_that_somebody_took_away_has_a_command(fence_: str):
    topics = tuple(TopicFence(t, f, "yes", promoted=True) for t, f in (("a", "acl"), ("b", fence_)))
    said = fence.next_of(Fences("p->s", "p", topics, None, None, ""))
    assert said == (
        "find out who took away the fence of b; drkit fence pay --flow 'p->s' asks, and puts it up again"
        if fence_ == TAKEN_AWAY
        else ""
    )


def test_a_silent_cluster_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "nothing listens"
    topics = tuple(TopicFence(t, "owed", why, promoted=True) for t in ("a", "b"))
    monkeypatch.setattr(fence, "_service", lambda *_, **__: nullcontext())
    monkeypatch.setattr(
        "drkit.failover.pending_fences.shown", lambda _: Fences("p->s", "p", topics, None, None, why)
    )
    with click.Context(click.Command("show"), obj=Session()):
        fence.show(None)
    text = capsys.readouterr().out
    assert (text.count(why), text.count("unknown")) == (1, 2)


@pytest.mark.parametrize(("dry_run", "said"), [(True, []), (False, {"paid": False, "owed": "nothing"})])
def test_a_dry_run_is_a_list_in_json_also_where_nothing_is_pending(
    capsys: pytest.CaptureFixture[str], *, dry_run: bool, said: object
) -> None:
    """It was a list where there was work, and an object where there was none."""
    with click.Context(click.Command("pay"), obj=Session(as_json=True)):
        fence._nothing(dry_run=dry_run)
    assert json.loads(capsys.readouterr().out) == said


def test_a_person_is_asked_only_about_what_a_person_has_done() -> None:
    assert not fence._question(DueFences(pending=frozenset("a"), lift=frozenset("b")), "p")
    asked = fence._question(DueFences(taken_away=frozenset("a"), off_record=frozenset("b")), "p")
    assert asked == (
        "The fence of a on p was lifted outside drkit. The fence of b on p is no longer recorded:"
        " clients may write there. Refuse them again?"
    )
