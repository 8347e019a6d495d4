"""What is said to a return that has begun topics: the same again, or it is refused. No broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.runs import refuse_late_choices
from drkit.journal.machine import FAILOVER, RETURN
from tests.support.errors import coded

SAID = RunRequest(dispositions={"*": "discard", "a": "replay"}, methods={"a": "trim"})


def run_of(**more: Any) -> Any:
    known = {
        "table": RETURN, "is_final": True, "run_id": "r", "request": SAID.to_json(),
        "scope": {"topics": {"a": "a", "b": "b"}},
    }  # fmt: skip
    return SimpleNamespace(**known | more)


@pytest.mark.parametrize(
    "added",
    [
        RunRequest(dispositions={"b": "quarantine"}),
        RunRequest(dispositions={"a": "discard"}),
        RunRequest(methods={"b": "rebuild"}),
    ],
)
def test_another_choice_is_refused_once_topics_may_have_begun(added: RunRequest) -> None:
    with pytest.raises(Refused, check=coded("decided_too_late")) as caught:
        refuse_late_choices(run_of(), added)
    assert caught.value.hint.startswith("drkit reprotect --abort")
    refuse_late_choices(run_of(is_final=False), added)
    refuse_late_choices(run_of(table=FAILOVER), added)


def test_a_typing_error_is_refused_before_it_is_journalled() -> None:
    """A run keeps what was said: with a topic that does not return it could only be aborted."""
    with pytest.raises(Refused, check=coded("choice_of_other_topic")):
        refuse_late_choices(run_of(is_final=False), RunRequest(dispositions={"ordres": "replay"}))
    several = RunRequest(dispositions={"ordres": "replay", "b": "discard"}, reason="why")
    with pytest.raises(Refused) as caught:
        refuse_late_choices(run_of(is_final=False), several)
    command = "drkit reprotect --resume --disposition b=discard --reason why"
    assert caught.value.hint == f"these do: a, b; without that choice: {command}"


def test_the_same_again_and_what_a_replay_needs_are_taken() -> None:
    refuse_late_choices(run_of(), SAID._replace(same="content", clients_cut="the listener"))
    refuse_late_choices(run_of(), RunRequest(dispositions={"b": "discard"}))
