"""Who reads a topic of the old primary, by what its brokers tell. No broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.errors import ClusterUnreachable, NotAuthorized, Refused
from drkit.failover.old_primary import readers
from drkit.failover.old_primary.readers import Readers, planned_eviction, refuse_readers
from drkit.failover.returning.pre_delete_checks import PreDeleteChecks
from drkit.kafka.codes import GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED
from drkit.kafka.groups.asking import NO_ANSWER, Answered
from drkit.kafka.groups.member import Member, Reads
from drkit.kafka.groups.requests import Committed, GroupDescription, ListedGroup, Offsets
from drkit.model import TopicPartition

READ: Offsets = {TopicPartition("orders", 0): Committed(5)}
NOTHING = Answered[Offsets](0, {})


def reading(topic: str) -> Answered[GroupDescription]:
    member = Member("m", None, "app", "host", Reads(frozenset({topic})))
    return Answered(0, GroupDescription("Stable", "consumer", (member,)))


class Brokers:
    """Their answers about one group, and a return that copies the groups beginning with "shop-"."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, group: str, protocol: str,
        told: Answered[GroupDescription] | None, committed: Answered[Offsets] = NOTHING,
    ) -> None:  # fmt: skip
        listed = {group: ListedGroup(group, "Stable", protocol, protocol)}

        async def answer(found: Any) -> Any:
            return found

        def by(found: Any) -> Any:
            return lambda groups, **_: answer({g: found for g in groups if found is not None})

        groups = SimpleNamespace(
            listed=lambda: answer(listed), describe=by(told), describe_share=by(told), committed=by(committed)
        )
        monkeypatch.setattr(readers, "Groups", lambda _: groups)
        accepts = SimpleNamespace(accepts=lambda name: name.startswith("shop-"))
        monkeypatch.setattr(readers, "reverse_flow", lambda _: SimpleNamespace(group_filter=accepts))
        self.context: Any = SimpleNamespace(
            run=lambda do, *given: asyncio.run(do(*given)), clock=lambda: 0.0, run_id="r1",
            flow=SimpleNamespace(name="a->b", source="a"), pause=lambda _: None,
            effects=lambda _: {"hold": {}},
        )  # fmt: skip
        self.source: Any = SimpleNamespace(alias="a")

    def notes(self) -> list[str]:
        return refuse_readers(self.context, self.source, {"orders"}, evict=False)


@pytest.mark.parametrize("protocol", ["consumer", "share"])
@pytest.mark.parametrize("code", [GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED])
def test_a_group_of_others_that_may_not_be_seen_is_said(
    monkeypatch: pytest.MonkeyPatch, protocol: str, code: int
) -> None:
    """The second code is about the topics of its members: drkit may describe the group."""
    found = Brokers(monkeypatch, "billing", protocol, Answered(code))
    assert found.notes() == ["drkit cannot see whether 1 group reads there: billing"]


def test_one_that_has_read_the_topic_is_refused_although_its_members_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hidden = Answered[GroupDescription](TOPIC_AUTHORIZATION_FAILED)
    found = Brokers(monkeypatch, "billing", "consumer", hidden, Answered(0, READ))
    with pytest.raises(Refused) as caught:
        found.notes()
    assert caught.value.evidence == "billing: members of a consumer group"


def test_a_group_of_the_flow_that_may_not_be_seen_holds_it_with_the_right_that_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(NotAuthorized) as caught:
        Brokers(monkeypatch, "shop-1", "consumer", Answered(TOPIC_AUTHORIZATION_FAILED)).notes()
    assert "DESCRIBE on every topic that the group reads" in caught.value.hint


@pytest.mark.parametrize("committed", [NOTHING, Answered[Offsets](0, READ)])
def test_silence_is_no_answer(monkeypatch: pytest.MonkeyPatch, committed: Answered[Offsets]) -> None:
    with pytest.raises(ClusterUnreachable):
        Brokers(monkeypatch, "billing", "consumer", Answered(NO_ANSWER), committed).notes()


@pytest.mark.parametrize("protocol", ["share", "streams"])
def test_what_no_request_describes_is_said(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    found = Brokers(monkeypatch, "shop-app", protocol, None)
    assert found.notes() == ["drkit cannot see whether 1 group reads there: shop-app"]


@pytest.mark.parametrize(("protocol", "told"), [("connect", None), ("consumer", reading("others"))])
def test_others_are_not(
    monkeypatch: pytest.MonkeyPatch, protocol: str, told: Answered[GroupDescription] | None
) -> None:
    assert Brokers(monkeypatch, "shop-app", protocol, told).notes() == []


def test_a_plan_names_whom_it_removes_also_from_groups_that_the_flow_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Brokers(monkeypatch, "billing", "consumer", reading("orders"))
    [effect] = planned_eviction(found.context, found.source, {"orders"})
    assert effect == ("remove the members of 1 group", "a", "billing (app on host)")
    assert not planned_eviction(found.context, found.source, {"others"})


def test_who_was_removed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found, removed = Brokers(monkeypatch, "billing", "consumer", reading("orders")), list[str]()
    looks = iter([Readers({"billing": "app on host"}, frozenset(), ()), Readers({}, frozenset(), ())])
    monkeypatch.setattr(readers, "_settled", lambda *_: next(looks))
    monkeypatch.setattr(readers, "_rejoined", lambda *_: next(looks))
    monkeypatch.setattr(readers, "evict_members", lambda *given: removed.extend(given[3]))
    notes = refuse_readers(found.context, found.source, {"orders"}, evict=True)
    assert (removed, notes) == (["billing"], ["removed from groups on a: billing (app on host)"])


def test_an_old_primary_that_is_away_has_not_been_looked_at() -> None:
    context: Any = SimpleNamespace(
        source=lambda *_: None,
        flow=SimpleNamespace(name="a->b", source="a"),
        run_id="r1",
        effects=lambda _: {"hold": {}},
        source_error="gone",
    )
    with pytest.raises(ClusterUnreachable) as caught:
        PreDeleteChecks(context).unread({"orders"})
    assert "drkit reprotect --resume" in caught.value.hint
