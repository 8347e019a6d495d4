"""What a failover moves, what it names, and what it refuses: by what is known, without a broker."""

from __future__ import annotations

from collections.abc import Mapping
import json
from typing import Any
from uuid import UUID

import pytest

from drkit.config import FlowSettings, RepointSettings, Settings
from drkit.detect.reasons import FailoverFacts
from drkit.detect.risk import Risk
from drkit.errors import ConfigError
from drkit.failover.checks.out_of_scope import (
    OutOfScope,
    Reach,
    SourceReader,
    left_groups,
    not_copied,
    outside,
    reach,
    unselected,
)
from drkit.failover.checks.preconditions import PreconditionInput, refusals
from drkit.failover.checks.scope import Basis, chosen
from drkit.failover.checks.survey import ClusterIdentity, Readings, Survey
from drkit.failover.core.context import Scope
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import ConfigurationRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.requests import TopicMetadata
from drkit.model import TopicPartition
from drkit.offsets.group_guard import StoredOffset
from drkit.pair.promotions import is_over, left_behind
from drkit.pair.view import PairRoles, Refusing
from tests.support.errors import sentence
from tests.support.stored import flow_state

FLOW = FlowSettings(source="a", target="b", topics=("orders", "pay", "quiet", "fresh"), groups=("g-.*",))
COPIED = ("orders", "pay", "quiet")
READS = {"g-shop": ("orders",), "g-both": ("orders", "pay"), "g-cash": ("pay",)}


def basis(*promoted: str) -> Basis:
    positions = {g: {TopicPartition(t, 0): StoredOffset(5) for t in topics} for g, topics in READS.items()}
    readings = Readings(PairRoles(frozenset(promoted)), positions, "source")
    return Basis(FLOW, {t: f"b.{t}" for t in COPIED}, readings)


def of(topic: str) -> UUID:
    return UUID(int=1000 + [*COPIED, "fresh", "heartbeats"].index(topic))


def state(*promoted: str, left_out: Mapping[str, str] | None = None) -> FlowState:
    """A flow that copied three topics, and heartbeats; a failover has opened some of them."""
    values: dict[str, Any] = {
        f"topic/{t}": {"target": f"b.{t}", "source_id": str(of(t)), "target_id": str(UUID(int=7))}
        for t in (*COPIED, "heartbeats")
    }
    values |= {f"role/{t}": {"role": "promoted", "term": 1, "run_id": "r", "at_ms": 1} for t in promoted}
    for topic, why in (left_out or {}).items():
        event = {"kind": "topic_left_out", "topic": topic, "partition": -1, "at_ms": 1, "reason": why}
        values[f"event/topic_left_out/{topic}/-1"] = event
    return flow_state(values)


def listed(*names: str, **ids: UUID) -> dict[str, TopicMetadata]:
    return {n: TopicMetadata(0, ids.get(n, of(n) if n in COPIED else UUID(int=9)), {}) for n in names}


# -- what moves --------------------------------------------------------------------------------------


def test_all_is_what_no_failover_has_moved_yet():
    found = chosen(basis("orders"), ())
    assert found.scope == Scope({"pay": "b.pay", "quiet": "b.quiet"}, ("g-both", "g-cash"), whole_flow=True)
    assert found.moved == ("orders",)
    assert found.notes()[0] == "already moved: orders"
    assert found.others == ()
    assert chosen(basis(), ()).moved == ()


def test_a_group_moves_what_is_left_of_its_topics():
    found = chosen(basis("orders"), ["g-both"])
    assert (list(found.scope.topics), found.scope.groups) == (["pay"], ("g-both", "g-cash"))
    assert (found.moved, found.others) == (("orders",), ("g-cash",))
    assert not found.scope.whole_flow


def test_a_topic_moves_with_all_its_readers_also_without_any():
    quiet = chosen(basis(), (), ["quiet"])
    assert quiet.scope == Scope({"quiet": "b.quiet"}, (), whole_flow=False)
    pay = chosen(basis(), (), ["pay"])
    assert (pay.scope.groups, pay.others) == (("g-both", "g-cash"), ("g-both", "g-cash"))
    beside = chosen(basis(), ["g-shop"], ["quiet"])
    assert list(beside.scope.topics) == ["orders", "quiet"]
    assert (beside.scope.groups, beside.others) == (("g-both", "g-shop"), ("g-both",))
    assert beside.to_json() == {"groups": ["g-shop"], "topics": ["quiet"], "moved": []}


@pytest.mark.parametrize(
    ("groups", "topics", "what", "hint"),
    [
        (["g-shopp"], [], sentence("group_unknown", group="g-shopp"), "did you mean 'g-shop'?"),
        (["zzz"], [], sentence("group_unknown", group="zzz"), "drkit status shows the groups"),
        ([], ["quit"], sentence("topic_unknown", topic="quit"), "did you mean 'quiet'?"),
        ([], ["fresh"], sentence("topic_unknown", topic="fresh"), "drkit status shows the topics"),
    ],
)
def test_a_name_that_is_not_known_is_refused(groups: list[str], topics: list[str], what: str, hint: str):
    with pytest.raises(ConfigError, match=what) as caught:
        chosen(basis(), groups, topics)
    assert caught.value.hint == hint


def test_status_calls_a_flow_promoted_when_all_of_it_has_moved_part_by_part():
    assert not is_over(state(), FLOW)
    assert not is_over(state("orders", "pay"), FLOW), "drkit watch still guards the rest"
    assert is_over(state(*COPIED), FLOW), "heartbeats do not move"
    assert left_behind(state("orders"), FLOW), "it was not planned: the source was lost"
    assert not left_behind(state(), FLOW)
    assert is_over(flow_state({"promotion": {"term": 1, "run_id": "r", "at_ms": 1}}), FLOW)


# -- what does not move ------------------------------------------------------------------------------


def test_topics_of_the_flow_without_a_copy_are_named_with_the_reason():
    names = listed(*COPIED, "fresh", "heartbeats", "other", "__consumer_offsets")
    assert not_copied(FLOW, names, state()) == {"fresh": "it has no copy yet"}
    left = state(left_out={"fresh": "too few brokers"})
    assert not_copied(FLOW, names, left) == {"fresh": "it is left out: too few brokers"}
    assert not_copied(FLOW, None, left) == not_copied(FLOW, names, left), "known while the source is silent"
    assert not_copied(FLOW, None, state()) == {}
    excluded = FLOW.model_copy(update={"topics_exclude": ("fresh",)})
    assert not_copied(excluded, names, left) == {}


def test_a_topic_that_was_created_again_has_no_copy():
    names = listed(*COPIED, pay=UUID(int=3), orders=UUID(int=4))
    assert list(not_copied(FLOW, names, state("orders"))) == ["pay"], (
        "of the one that has moved nothing is asked"
    )
    assert "created again" in not_copied(FLOW, names, state())["pay"]
    names["pay"] = TopicMetadata(29, UUID(int=0), {})
    assert "pay" not in not_copied(FLOW, names, state()), "drkit may not see it"


NARROW = FLOW.model_copy(update={"topics": ("orders",), "groups": ("g-shop",)})
"""The file of another machine."""


def test_what_only_this_file_leaves_out_is_named():
    names = listed(*COPIED, "other")
    assert unselected(FLOW, names, state()) == {}
    assert list(unselected(NARROW, names, state())) == ["pay", "quiet"]
    assert list(unselected(NARROW, names, state("pay"))) == ["quiet"], "it was moved by another run"
    assert list(unselected(NARROW, listed("orders", "pay"), state())) == ["pay"], "the source has no quiet"
    assert list(unselected(NARROW, None, state())) == ["pay", "quiet"], "the source is silent"
    places = [TopicPartition("b.orders", 0), TopicPartition("b.gone", 0)]
    groups = left_groups(NARROW, {"g-shop": places, "g-both": places}, {"b.orders": "orders"})
    assert groups == {"g-both": SourceReader("", frozenset({"orders"}))}


def test_the_parts_of_a_configuration_that_the_replicator_has_otherwise():
    def settings(flow: FlowSettings, **more: Any) -> Settings:
        plain = {"source": "a", "target": "b", "topics": list(flow.topics), "groups": list(flow.groups)}
        clusters = {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in "abc"}
        return Settings.model_validate(
            {"clusters": clusters, "flows": [plain, *more.pop("flows", [])], **more}
        )

    wide = settings(FLOW)
    own = wide.fingerprints(wide.flows[0])
    noted = ConfigurationRecord(own)
    assert noted.differences(own) == ()
    for other, parts in (
        (settings(NARROW), ("topics", "groups")),
        (settings(FLOW, flows=[{"source": "b", "target": "a"}]), ("flows",)),
        (settings(FLOW, failover={"fence": {"means": "none"}}), ("failover.fence",)),
        (settings(FLOW, failover={"repoint": [{"kind": "print"}]}), ("failover.repoint",)),
    ):
        assert noted.differences(other.fingerprints(other.flows[0])) == parts
    assert ConfigurationRecord({}).differences(own) == (), "of a release that knows fewer parts"
    note = "the flow's last replicator had another configuration of topics"
    assert note in OutOfScope(differs=("topics",)).notes()


def readers(**more: SourceReader) -> dict[str, SourceReader]:
    mine = {g: SourceReader("consumer", frozenset(topics)) for g, topics in READS.items()}
    return {**mine, **{g.replace("_", "-"): r for g, r in more.items()}}


def test_readers_of_moved_topics_that_remain_are_named_with_the_reason():
    some = readers(
        alien=SourceReader("consumer", frozenset({"orders"})),
        g_streams=SourceReader("streams", frozenset({"orders"})),
        g_late=SourceReader("consumer", frozenset({"orders"})),
        elsewhere=SourceReader("consumer", frozenset({"local"})),
        g_share=SourceReader("share", frozenset(), is_known=False),
        hidden=SourceReader("consumer", frozenset(), is_known=False),
    )
    scope = Scope({"orders": "b.orders"}, ("g-both", "g-shop"), whole_flow=False)
    found = outside(FLOW, scope, some, {}, state())
    assert (list(found.groups), found.late) == (["alien", "g-streams"], ("g-late",))
    assert "groups_exclude" in found.groups["alien"]
    assert "KIP-1071" in found.groups["g-streams"]
    assert found.unknown == ("g-share", "hidden")
    assert list(found.kinds) == ["g-share"]
    assert any("group g-share remains: share group (KIP-932)" in note for note in found.notes())
    assert json.loads(json.dumps(found.to_json())) == found.to_json(), "an entry is compared when read back"
    notes = "\n".join(found.notes())
    assert all(name in notes for name in ("alien", "g-late", "g-streams", "g-share, hidden"))


def test_other_topics_of_a_moved_group_are_named_also_those_outside_of_the_flow():
    some = readers(g_shop=SourceReader("consumer", frozenset({"orders", "local", "quiet", "heartbeats"})))
    scope = Scope({"orders": "b.orders"}, ("g-both", "g-shop"), whole_flow=False)
    found = outside(FLOW, scope, some, {}, state("quiet"))
    assert found.torn == {"g-both": ("pay",), "g-shop": ("local",)}, "quiet has moved before"
    assert "g-shop also reads local, which remains: it needs both clusters" in found.notes()


def test_what_remains_is_what_neither_moves_nor_has_moved():
    scope = Scope({"orders": "b.orders"}, ("g-both", "g-shop"), whole_flow=False)
    some = readers(
        alien=SourceReader("consumer", frozenset({"fresh"})),
        elsewhere=SourceReader("consumer", frozenset({"local"})),
        with_it=SourceReader("consumer", frozenset({"orders"})),
    )
    found = outside(FLOW, scope, some, {"fresh": "it has no copy yet"}, state("quiet"))
    assert (found.staying, found.staying_topics) == (("alien", "g-cash"), ("fresh", "pay"))
    rest = outside(FLOW, Scope({"pay": "b.pay"}, ("g-both", "g-cash"), whole_flow=False), readers(), {},
                   state("orders", "quiet"))  # fmt: skip
    assert (rest.staying, rest.staying_topics) == ((), ())


# -- whom the ways of telling reach ------------------------------------------------------------------

SHOP = Scope({"orders": "b.orders"}, ("g-shop",), whole_flow=False)
REST = OutOfScope(staying=("g-cash",), staying_topics=("pay",))


def way(**more: Any) -> RepointSettings:
    return RepointSettings.model_validate({"kind": "file", "path": "/e.json", **more})


@pytest.mark.parametrize(
    ("settings", "groups", "others"),
    [
        ({}, ("g-shop",), (("g-cash",), ("pay",))),
        ({"groups": ["g-.*"]}, ("g-shop",), (("g-cash",), ())),
        ({"groups": ["g-shop"]}, ("g-shop",), ((), ())),
        ({"topics": ["orders"]}, (), ((), ())),
        ({"topics": ["orders", "pay"]}, (), ((), ("pay",))),
        ({"groups": ["g-shop"], "topics": ["pay"]}, ("g-shop",), ((), ("pay",))),
        ({"groups": [".*"], "topics": ["orders"]}, ("g-shop",), (("g-cash",), ())),
        ({"kind": "print", "path": None}, ("g-shop",), ((), ())),
    ],
)
def test_whom_a_way_reaches(settings: dict[str, Any], groups: tuple[str, ...], others: tuple[Any, ...]):
    [found] = reach([way(**settings)], SHOP, REST)
    assert (found.groups, (found.other_groups, found.other_topics)) == (groups, others)


def test_a_way_that_is_not_used_reaches_no_client():
    ways = [way(groups=["g-cash"]), way(topics=["pay"])]
    assert reach(ways, SHOP, REST) == ()
    assert len(reach(ways, SHOP._replace(whole_flow=True), REST)) == 2, "whatever is limited, all moves"
    quiet = Scope({"quiet": "b.quiet"}, (), whole_flow=False)
    assert [r.unlimited for r in reach([*ways, way()], quiet, REST)] == [True], "for producers alone"


def test_a_proposal_says_who_is_sent_to_the_target():
    [found] = reach([way()], SHOP, REST)
    assert found.in_words() == (
        "file /e.json: every client that follows it; also groups that remain: g-cash; producers of topics "
        "that remain: pay"
    )
    [found] = reach([way(groups=["g-shop"])], SHOP, REST)
    assert found.in_words() == "file /e.json: groups g-shop"


# -- what is refused ---------------------------------------------------------------------------------


def gates(scope: Scope, request: RunRequest, **seen: Any) -> dict[str, Any]:
    """The refusals of a target that is ready, by gate."""
    fields: dict[str, Any] = {
        "at_ms": 1, "source": ClusterIdentity("a", "1", "1"), "target": ClusterIdentity("b", "2", "2"),
        "source_error": "", "partitions": (), "positions": {}, "positions_from": "source",
        "positions_age_seconds": 0.0,
        "target_groups": {}, "facts": FailoverFacts(Risk(0.0, 0, exact=True, basis=""), 30.0),
        "replicator": None, "promoted": (), "outside": OutOfScope(), "reach": (), **seen,
    }  # fmt: skip
    found = refusals(PreconditionInput(Survey(**fields), scope, request, "a->b"))
    return {gate: error for gate, error in found if gate != "failover-planned-not-possible"}


def test_what_has_moved_is_refused_by_its_name_and_everything_in_one_sentence():
    whole = chosen(basis(*COPIED), ()).scope
    assert list(whole.topics) == sorted(COPIED)
    error = gates(whole, RunRequest(), promoted=COPIED)["failover-already-promoted"]
    assert error.code == "all_promoted"
    assert "orders, pay, quiet" in error.evidence
    again = chosen(basis("orders"), ["g-shop"]).scope
    error = gates(again, RunRequest(), promoted=("orders",))["failover-already-promoted"]
    assert error.code == "promoted"
    assert gates(chosen(basis("orders"), ()).scope, RunRequest()) == {}
    denied = Refusing(frozenset({"orders"}))
    error = gates(again, RunRequest(), promoted=("orders",), refusing=denied)["failover-already-promoted"]
    assert (error.code, error.evidence) == ("promoted_refuses", "orders")
    hidden = Refusing(unknown="not authorized")
    error = gates(whole, RunRequest(), promoted=COPIED, refusing=hidden)["failover-already-promoted"]
    assert (error.code, "unknown: not authorized" in error.evidence) == ("all_promoted", True)


def test_a_switchover_of_everything_waits_for_topics_without_a_copy():
    scope, missing = (
        chosen(basis(), ()).scope,
        OutOfScope(not_copied={"fresh": "why", "new": "it has no copy yet"}),
    )
    [(gate, error)] = gates(scope, RunRequest(planned=True), outside=missing).items()
    assert gate == "failover-topics-not-copied"
    assert error.what == sentence("not_copied", topics="2 topics")
    assert error.evidence == "fresh: why"
    assert "--leave-behind fresh" in error.hint
    one = RunRequest(planned=True, leave_behind=("fresh",))
    assert "new" in gates(scope, one, outside=missing)[gate].evidence
    assert gates(scope, one._replace(leave_behind=("fresh", "new")), outside=missing) == {}
    assert gates(scope, RunRequest(), outside=missing) == {}, "unplanned they are named"
    assert gates(SHOP, RunRequest(planned=True), outside=missing) == {}


@pytest.mark.parametrize("planned", [False, True])
def test_what_this_file_leaves_behind_is_refused_without_its_name(*, planned: bool):
    """The replicator's file has two topics and two groups more."""
    scope = chosen(basis(), ()).scope
    reasons = {"not_copied": {"pay": "topics leave it out"}, "groups": {"g-cash": "groups leave it out"}}
    left = OutOfScope(**reasons, by_file=("pay", "g-cash"))  # type: ignore[arg-type]
    request = RunRequest(planned=planned)
    [(gate, error)] = gates(scope, request, outside=left).items()
    assert (gate, error.code) == ("failover-topics-not-copied", "left_by_configuration")
    assert "g-cash, pay" in error.where
    assert error.evidence == "g-cash: groups leave it out"
    assert "--leave-behind g-cash --leave-behind pay" in error.hint
    one = request._replace(leave_behind=("pay",))
    assert "g-cash" in gates(scope, one, outside=left)[gate].hint
    both = request._replace(leave_behind=("pay", "g-cash"))
    assert gates(scope, both, outside=left) == {}
    assert gates(SHOP, request, outside=left) == {}, "it was named"
    shared = (Reach("file /e.json", unlimited=True, groups=("g-shop",), other_topics=("pay",)),)
    assert "failover-repoint-others" in gates(scope, both, outside=left, reach=shared)


def test_a_second_successor_of_one_primary_is_refused():
    scope, elsewhere = chosen(basis(), ()).scope, {"orders": "a->c"}
    error = gates(scope, RunRequest(), moved_elsewhere=elsewhere)["failover-already-promoted"]
    assert (error.code, error.evidence) == ("promoted_elsewhere", "orders: a->c")
    assert "--despite-signs-of-life" in error.hint
    request = RunRequest(despite_signs_of_life="c burnt")
    assert gates(scope, request, moved_elsewhere=elsewhere) == {}


def test_a_way_that_reaches_more_than_what_moves_is_refused():
    limited = Reach("file /e.json", unlimited=False, groups=("g-shop",))
    shared = (limited._replace(unlimited=True, other_groups=("g-cash",), other_topics=("pay",)),)
    [(gate, error)] = gates(SHOP, RunRequest(), reach=shared).items()
    assert gate == "failover-repoint-others"
    assert error.evidence == "groups that remain: g-cash; producers of topics that remain: pay"
    assert "file /e.json" in error.where
    assert all(x in error.hint for x in ("groups or topics", "--all", "--repoint-others"))
    assert gates(SHOP, RunRequest(repoint_others=True), reach=shared) == {}
    assert gates(SHOP._replace(whole_flow=True), RunRequest(), reach=shared) == {}
    assert gates(SHOP, RunRequest(), reach=(limited,)) == {}


def test_what_is_accepted_by_name_survives_the_journal():
    request = RunRequest(planned=True, leave_behind=("fresh",), repoint_others=True)
    assert RunRequest.from_json(request.to_json()) == request
    assert json.loads(json.dumps(request.to_json())) == request.to_json()
    assert RunRequest.from_json({}) == RunRequest()
