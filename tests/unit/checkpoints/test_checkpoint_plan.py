"""When all groups of a flow have to be looked at, and when only something is added."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from drkit.checkpoints.work import Terms
from drkit.flow_state.copied_topics import CopiedTopics, Producers

A, B = ("a", UUID(int=1), UUID(int=2)), ("b", UUID(int=3), UUID(int=4))
MINE = Producers(7, frozenset({7}), map_id="m")


def terms(topics: dict[str, tuple[str, UUID, UUID]], producers: Producers = MINE, **more: Any) -> Terms:
    made = Terms("primary", CopiedTopics(topics, producers), "checkpoints", "id", 1000, frozenset())
    return made._replace(**more)


BEFORE = terms({"a": A})


def test_topics_and_producers_that_are_added_change_nothing_of_the_others() -> None:
    assert BEFORE.widened(terms({"a": A, "b": B}))
    assert BEFORE.widened(terms({"a": A, "b": B}, MINE._replace(own=frozenset({7, 8}))))


@pytest.mark.parametrize(
    "later",
    [
        terms({"b": B}),
        terms({"a": B}),
        terms({"a": A, "b": B}, MINE._replace(current=8)),
        terms({"a": A, "b": B}, MINE._replace(own=frozenset())),
        terms({"a": A, "b": B}, MINE._replace(left_out=frozenset({9}))),
        terms({"a": A, "b": B}, MINE._replace(map_id="another")),
        terms({"a": A, "b": B}, promoted=frozenset({"a"})),
        terms({"a": A, "b": B}, topic_id="another"),
        terms({"a": A, "b": B}, refresh_ms=5),
    ],
)
def test_whatever_else_changes_is_for_every_group(later: Terms) -> None:
    assert not BEFORE.widened(later)
