"""Every page is executed, or listed with the reason why it is not; the executor sees what a page has."""

from __future__ import annotations

import pytest

from tests.support.runbooks.catalogue import SAMPLE, STAGES, unstaged
from tests.support.runbooks.page import filled, page_named, page_names

FEWER_THAN = 25


def test_every_page_is_staged_or_listed() -> None:
    listed = unstaged()
    assert set(STAGES) | set(listed) == set(page_names())
    assert not set(STAGES) & set(listed)
    assert len(listed) < FEWER_THAN
    assert all(reason.strip() for reason in listed.values())


def test_the_sample_has_stages() -> None:
    assert set(SAMPLE) <= set(STAGES)


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
