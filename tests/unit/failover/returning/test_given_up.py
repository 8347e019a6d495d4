"""A disposition for records that were given up: refused by name, unless a topic has others. No broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.failover.old_primary.lost_tail import Gone, Saved
from drkit.failover.returning.compare import NeedsMethod
from drkit.failover.returning.replays import left_notes, refuse_dispositions
from drkit.flow_state.records import (
    IncompleteRecord,
    Role,
    RoleRecord,
    SavedTailRecord,
    TailRecord,
    UnreplayedRecord,
)
from tests.support.errors import coded

MANIFEST = "/saved/r1-5a/manifest.json"
SAVED = SavedTailRecord("r1", 1, 3, UUID(int=1), {0: (100, 112)}, {0: 12}, MANIFEST, "ab")
GIVEN_UP = UnreplayedRecord(
    "r1", 1, 12, MANIFEST, "ab", "replay", ended="given up", ended_ms=1_700_000_000_000,
    reason="ticket 4711", by="ann@ops1",
)  # fmt: skip
TAIL = NeedsMethod(PartitionDivergence("t", 1, DivergenceState.DIVERGED, 50, 53, records=3), "diverged")
EMPTIED = NeedsMethod(TAIL.tail._replace(partition=0, records=0, emptied=12), "emptied")
BY_NAME = {"t": "replay"}


def context(dispositions: dict[str, str], ended: UnreplayedRecord = GIVEN_UP, term: int = 3) -> Any:
    """A return of a topic that an aborted one has emptied."""
    role = RoleRecord(Role.PROMOTED, term, "f1", 1, {0: 100})
    tail = TailRecord("r1", 1, 12, {0: (100, 112)}, MANIFEST, "ab")
    values: dict[type, dict[str, Any]] = {
        RoleRecord: {"t": role}, UnreplayedRecord: {"t/r1-5a": ended}, SavedTailRecord: {"t/r1-5a": SAVED},
        TailRecord: {"t": tail}, IncompleteRecord: {"t": IncompleteRecord("r1", 1, {0: 112})},
    }  # fmt: skip
    return SimpleNamespace(
        request=RunRequest(dispositions=dispositions), run_id="", named_topics=(), until_export=False,
        flow=FlowSettings(source="a", target="b", topics=(".*",)),
        scope=SimpleNamespace(topics={"t": "t"}), result=lambda _: {},
        state=SimpleNamespace(all=values.__getitem__, get=lambda kind, topic: values[kind].get(topic)),
    )  # fmt: skip


@pytest.mark.parametrize(("said", "option"), [("replay", ""), ("quarantine", " --to-quarantine")])
def test_a_disposition_of_records_that_were_given_up_is_refused_with_who_when_and_why(
    said: str, option: str
) -> None:
    with pytest.raises(Refused, check=coded("given_up")) as caught:
        refuse_dispositions(context({"t": said}), [EMPTIED], {})
    assert caught.value.evidence == (
        f"t: 12 records of {MANIFEST} given up by ann@ops1 at 2023-11-14T22:13:20Z: ticket 4711"
    )
    assert caught.value.hint == (
        "leave out --disposition t: drkit reprotect --flow 'a->b'; to append the records all the same, from"
        f" their export: drkit replay --from {MANIFEST} --topic t --sha256 ab{option}"
    )


@pytest.mark.parametrize(
    ("dispositions", "ended", "term"),
    [
        ({"t": "discard"}, GIVEN_UP, 3),
        ({"*": "replay"}, GIVEN_UP, 3),
        ({}, GIVEN_UP, 3),
        (BY_NAME, GIVEN_UP, 4),
        (BY_NAME, UnreplayedRecord("r1", 1, 12, MANIFEST, "ab", "replay", ended="replayed"), 3),
    ],
    ids=["the same again", "for every topic", "nothing", "of a failover before", "they were appended"],
)
def test_other_choices_are_taken(dispositions: dict[str, str], ended: UnreplayedRecord, term: int) -> None:
    refuse_dispositions(context(dispositions, ended, term), [EMPTIED], {})


def test_a_topic_with_other_records_needs_its_disposition() -> None:
    refuse_dispositions(context(BY_NAME), [EMPTIED, TAIL], {})
    undecided = Gone("t", (Saved("t", "r2-5a", SAVED),), 3, {}, 0)
    refuse_dispositions(context(BY_NAME), [EMPTIED], {"t": undecided})


def test_what_was_given_up_is_noted_and_the_export_of_the_run_itself_is_not_called_left() -> None:
    [note] = left_notes(context({"*": "replay"}), ["t"])
    assert note.startswith("given up (ticket 4711), no disposition of this return appends it:")
    own = context({})
    own.result = lambda _: {"manifest": MANIFEST}
    own.state.all = {RoleRecord: own.state.all(RoleRecord), UnreplayedRecord: {}, SavedTailRecord: {}}.get
    assert left_notes(own, ["t"]) == []
