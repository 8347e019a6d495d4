"""Every page is executed, or listed with the reason why it is not; the executor sees what a page has."""

from __future__ import annotations

import pytest

from tests.support.runbooks.catalogue import SAMPLE, STAGES, unstaged
from tests.support.runbooks.page import filled, page_named, page_names

FEWER_THAN = 25
UNTYPED_AT_MOST = 32
UNTYPED = {
    "divergence-classes": {
        "it is clean",
        "it is gone",
        "it is more",
        "it is recreated",
        "it is regressed",
        "it is regrown",
        "it is unknown",
    },
    "export-altered": {
        "a return is held, and the original is put back",
        "the old primary still has its records",
        "the records are lost",
    },
    "export-place": {"a return is held"},
    "failover-another-orchestrator": {"its machine is gone, and every second counts"},
    "failover-data-loss": {"a failover is held", "a switchover is held"},
    "failover-fence-owned": {"no other cluster takes writes"},
    "failover-journal-lost": {"the journal is older than the end of its run", "the topic is back"},
    "failover-no-exact-position": {"a failover is held"},
    "failover-repoint-others": {"everything follows one file"},
    "failover-standby-begins-later": {"a run is held"},
    "failover-target-away": {
        "the run was about to open the target, and the target is back",
        "the run was about to open the target, and the target is lost",
    },
    "fence-owed": {"it never comes back"},
    "pair-both-closed": {
        "the source alone has the fence on record",
        "the target is away, and a switchover was under way",
    },
    "pair-both-open": {"a return is held"},
    "planned-switchover": {"the old primary has an authorizer"},
    "replay-same-or-other": {"a return is held"},
    "reprotect-fence-refuses-drkit": {"drkit failback was refused"},
    "reprotect-not-ready": {"other topics are to return meanwhile", "replicas are not in sync"},
    "reprotect-undecided": {"the old primary has an authorizer"},
}
"""Branches that no stage types, by page."""


def test_every_page_is_staged_or_listed() -> None:
    listed = unstaged()
    assert set(STAGES) | set(listed) == set(page_names())
    assert not set(STAGES) & set(listed)
    assert len(listed) < FEWER_THAN
    assert all(reason.strip() for reason in listed.values())


def test_the_sample_has_stages() -> None:
    assert set(SAMPLE) <= set(STAGES)


def test_every_branch_is_typed_or_listed() -> None:
    """The list may only shrink: a new branch needs a stage, and one that is typed now leaves the list."""
    branches = {name: page_named(name).branches() for name in STAGES}
    for name, stage in STAGES.items():
        assert branches[name].issuperset(stage.branches), f"{name} has no such branch"
    untyped = {name: branches[name].difference(stage.branches) for name, stage in STAGES.items()}
    assert {name: left for name, left in untyped.items() if left} == UNTYPED
    assert sum(map(len, UNTYPED.values())) <= UNTYPED_AT_MOST


@pytest.mark.parametrize("name", page_names())
def test_a_page_has_commands_and_something_that_is_printed(name: str) -> None:
    page = page_named(name)
    assert page.commands
    assert page.sentences or name in STAGES


def test_branches_are_read_from_comments() -> None:
    page = page_named("failover-data-loss")
    assert page.branches() == {"no run is held", "a failover is held", "a switchover is held"}
    assert page.lines(["a failover is held"]) == [
        "drkit status",
        'drkit failover --resume --accept-data-loss "its power is off"',
    ]
    with pytest.raises(AssertionError, match="no branch"):
        page.lines(["the moon is full"])


def test_placeholders_are_filled() -> None:
    values = {"TOPIC": "orders", "G": "shop", "primary->standby": "a->b"}
    line = "drkit failover --flow 'primary->standby' --group G --topic TOPIC"
    assert filled(line, values) == "drkit failover --flow 'a->b' --group shop --topic orders"
    assert filled("drkit watch --once 10", {}) == "drkit watch --once 1"
