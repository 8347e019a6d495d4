"""What the plan of a return says beside its rows. No broker."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from drkit.cli.screens.outlook import asked_of, next_of, notes_of, row_of, when_cleared
from drkit.config import FlowSettings
from drkit.failover.core.request import RunRequest
from drkit.failover.new_primary.costs import CopyRate
from drkit.failover.returning.return_plan import Missing, Outlook, TopicOutlook
from tests.support.errors import sentence

FLOW = FlowSettings(source="primary", target="standby", topics=[".*"])


def outlook(**more: Any) -> TopicOutlook:
    """A topic with a tail of four records."""
    return TopicOutlook("t", 0, False, 2, 30, 100, only_old=4, **more)  # noqa: FBT003


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"early_groups": ("g at 3",)}, ["t: trim would leave without a position: g at 3"]),
        (
            {"appended": 4, "late_groups": ("g at 50 of t-0",)},
            [
                "t: 4 records of primary stay there, and are appended to standby",
                "t: keep holds the way home until these have read what is appended: g at 50 of t-0",
            ],
        ),
    ],
)
def test_what_a_method_asks_of_groups_is_named(more: dict[str, Any], said: list[str]) -> None:
    assert list(notes_of([outlook(**more)], FLOW)) == said


def test_a_kept_tail_is_no_volume_to_copy_back() -> None:
    row = row_of(outlook(methods={"keep": 2}, copies=30, appended=4))
    assert (row["method"], row["copies"], row["delta"]) == ("keep", "30", "30")


MISSING = Missing(
    dispositions=("t",), histories=("old t",), export_to=True, reason=True, clients_cut="no ACL: it is so",
    undecided="t: what becomes of 4 records",
)  # fmt: skip
SAID = RunRequest(
    clients_cut="the listener is closed", dispositions={"t": "replay", "*": "discard"}, methods={"t": "trim"},
    reason="ticket 4711", export_to="/to here", export_format="jsonl", same="content", copy_limit=7,
    give_up_history=("t",), new_primary="abc", evict_readers=True,
)  # fmt: skip
COMMAND = "drkit reprotect --flow 'primary->standby'"


def plan(missing: Missing = MISSING, refused: tuple[str, ...] = (), **more: Any) -> Outlook:
    return Outlook([outlook(**more)], CopyRate(1 << 20), missing, refused)


def test_the_command_names_what_is_missing() -> None:
    [line, later] = next_of(plan(), FLOW)
    assert line == (
        f'{COMMAND} --clients-cut "HOW" --export-to PLACE'
        " --disposition 't=discard|replay|quarantine'"
        " --give-up-history 'old t' --reason \"WHY\""
    )
    assert later == (
        "to keep and export them now, and decide later:"
        f' {COMMAND} --clients-cut "HOW" --export-to PLACE --until-export'
    )


def test_records_that_an_export_alone_has_need_a_disposition_and_no_place() -> None:
    found = plan(Missing(dispositions=("t",), undecided="x"), exported=24)
    found.topics[0] = TopicOutlook(
        "t", 0, planned=False, partitions=2, delta=30, whole=100, only_old=0, exported=24
    )
    assert row_of(found.topics[0])["only on the old"] == "0 (0 B), 24 in an export alone"
    assert next_of(found, FLOW) == [f"{COMMAND} --disposition 't=discard|replay|quarantine'"]


def test_the_command_says_again_what_was_said() -> None:
    [line] = next_of(plan(Missing()), FLOW, SAID, ["t", "two words"])
    assert shlex.split(line)[4:] == [
        "--topic", "t", "--topic", "two words", "--clients-cut", "the listener is closed",
        "--export-to", "/to here", "--format", "jsonl", "--new-primary", "abc", "--evict-readers",
        "--disposition", "t=replay", "--disposition", "*=discard", "--method", "t=trim",
        "--give-up-history", "t", "--same", "content", "--copy-limit", "7", "--reason", "ticket 4711",
    ]  # fmt: skip
    [away] = next_of(plan(Missing(), unknown="no answer"), FLOW, SAID, ["t"])
    assert shlex.split(away)[-1] == "--plan"
    assert "--clients-cut 'the listener is closed'" in away


def test_the_plan_says_why_the_return_would_not_begin() -> None:
    assert list(asked_of(plan(refused=("the method trim: g at 3; take another",)))) == [
        "state how clients are kept away (--clients-cut): no ACL: it is so",
        "name a place (--export-to): records that only the old primary has are exported first",
        "decide (--disposition): t: what becomes of 4 records",
        "would not begin: the method trim: g at 3; take another",
    ]
    assert list(asked_of(plan(Missing()))) == []


def test_what_would_be_refused_is_not_offered_as_if_it_ran() -> None:
    """A topic that refuses stops also a return that is decided later; replicas that lag do not."""
    waits = "once nothing above refuses it: "
    for saves in (False, True):
        found = plan(refused=(sentence("fewer_partitions"),))
        found = found._replace(saves=saves)
        lines = [*next_of(found, FLOW), f"to keep it: {COMMAND} --hold"]
        line, later, hold = when_cleared(found, lines)
        assert line == waits + lines[0]
        assert later == waits * (not saves) + lines[1]
        assert hold == lines[2], "that begins no return"
    assert list(when_cleared(plan(), lines)) == lines


def test_what_is_gone_and_what_was_left_is_named() -> None:
    more = {"gone": "24 records are in an export alone (/m.json)", "left": ("given up (why), …",)}
    assert list(notes_of([outlook(**more)], FLOW)) == [f"t: {more['gone']}", f"t: {more['left'][0]}"]
