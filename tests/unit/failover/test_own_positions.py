"""A group that has committed by itself on the standby: what a flag keeps, and what none does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

import pytest

from drkit.config import FlowSettings
from drkit.detect.reasons import FailoverFacts
from drkit.detect.risk import Risk
from drkit.errors import Refused
from drkit.failover.checks.out_of_scope import OutOfScope
from drkit.failover.checks.preconditions import PreconditionInput, refusals
from drkit.failover.checks.survey import ClusterIdentity, Survey
from drkit.failover.core.context import Context, Scope
from drkit.failover.core.request import RunRequest
from drkit.failover.groups.offsets import TargetGroup
from drkit.failover.steps.group_offsets import _decided
from drkit.flow_state.copied_topics import known_of
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark, StoredOffset
from tests.support.errors import sentence
from tests.support.stored import flow_state

SHOP: Final = Scope({"orders": "b.orders"}, ("g-shop",), whole_flow=False)
BOTH: Final = Scope({"orders": "b.orders", "pay": "b.pay"}, ("g-both",), whole_flow=False)


def refused(scope: Scope, request: RunRequest, **seen: Any) -> dict[str, Refused]:
    """The refusals of a target that is ready, by their names."""
    fields: dict[str, Any] = {
        "at_ms": 1, "source": ClusterIdentity("a", "1", "1"), "target": ClusterIdentity("b", "2", "2"),
        "source_error": "", "partitions": (), "positions": {}, "positions_from": "source",
        "positions_age_seconds": 0.0,
        "target_groups": {}, "facts": FailoverFacts(Risk(0.0, 0, exact=True, basis=""), 30.0),
        "replicator": None, "promoted": (), "outside": OutOfScope(), "reach": (), **seen,
    }  # fmt: skip
    return dict(refusals(PreconditionInput(Survey(**fields), scope, request, "a->b")))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("mark", ["", OffsetMark("b", 5, 3, 9).text()])
def test_a_position_of_its_own_in_a_return_is_refused_whatever_is_asked(mark: str, *, keep: bool):
    """A consumer that lives on the passive side: kept there, its group would repeat or skip records."""
    own = TargetGroup("Empty", (), {TopicPartition("b.orders", 0): StoredOffset(3, mark)})
    request = RunRequest(keep_positions=keep)
    found = refused(SHOP, request, target_groups={"g-shop": own}, begun_by_turn=frozenset({"b.orders"}))
    assert list(found) == ["failover-positions-in-return"]
    error = found["failover-positions-in-return"]
    assert "b.orders-0 at 3" in error.evidence
    assert "stop that consumer and delete these offsets" in error.hint
    assert "--keep-positions" not in f"{error.what} {error.evidence} {error.hint}"


def test_a_group_with_a_part_in_a_return_keeps_none_of_its_positions():
    """Its own commit is in another topic; the guard leaves the whole group where it is."""
    own = TargetGroup("Empty", (), {TopicPartition("b.pay", 0): StoredOffset(3)})
    mine = {"g-both": {TopicPartition("orders", 0): StoredOffset(5)}}
    seen: dict[str, Any] = {"target_groups": {"g-both": own}, "begun_by_turn": frozenset({"b.orders"})}
    keep = RunRequest(keep_positions=True)
    assert list(refused(BOTH, keep, positions=mine, **seen)) == ["failover-positions-in-return"]
    assert refused(BOTH, keep, **seen) == {}, "it has nothing in the topic of the return"


def test_without_a_return_a_flag_keeps_a_position_of_its_own():
    seen = {"g-shop": TargetGroup("Empty", (), {TopicPartition("b.orders", 0): StoredOffset(3)})}
    (error,) = refused(SHOP, RunRequest(), target_groups=seen).values()
    assert "--keep-positions" in error.hint
    assert refused(SHOP, RunRequest(keep_positions=True), target_groups=seen) == {}
    moved = StoredOffset(3, OffsetMark("a", 5, 3, 9).text())
    by_drkit = {"g-shop": TargetGroup("Empty", (), {TopicPartition("b.orders", 0): moved})}
    assert refused(SHOP, RunRequest(), target_groups=by_drkit, begun_by_turn=frozenset({"b.orders"})) == {}


@pytest.mark.parametrize("returns", [False, True])
def test_a_commit_after_the_gates_is_judged_in_the_same_way(*, returns: bool):
    """COMMIT_OFFSETS looks at the groups again."""
    begun = {"return/orders": {"promoted_by": "r", "run_id": "s", "at_ms": 1}} if returns else {}
    copy = {"target": "b.orders", "source_id": str(UUID(int=1)), "target_id": str(UUID(int=2))}
    translated = {
        "positions": {"g-shop": {"b.orders-0": [5, 5]}},
        "starts": {"b.orders-0": 0},
        "ends": {"b.orders-0": 9},
    }
    records = flow_state({"topic/orders": copy, **begun})
    context = SimpleNamespace(
        scope=SHOP, flow=FlowSettings(source="a", target="b"), request=RunRequest(keep_positions=True),
        result=lambda _step: translated, wall=lambda: 1,
        state=SimpleNamespace(records=records), known=known_of(records),
    )  # fmt: skip
    own = {"g-shop": TargetGroup("Empty", (), {TopicPartition("b.orders", 0): StoredOffset(3)})}
    if not returns:
        assert _decided(cast("Context", context), own)[1] == {}, "it stays where it is"
        return
    with pytest.raises(Refused) as caught:
        _decided(cast("Context", context), own)
    assert caught.value.code == "group_on_old_side"
    assert "--keep-positions" not in caught.value.hint


@pytest.mark.parametrize("planned", [True, False])
def test_a_standby_that_somebody_else_wrote_to_waits_for_a_person(*, planned: bool):
    """A failover without its old primary is not held up: what is missing counts as loss."""
    written = {TopicPartition("orders", 1): "at 70 by producer id 17"}
    found = refused(SHOP, RunRequest(planned=planned), written=written)
    assert ("failover-written-standby" in found) is planned
    if planned:
        error = found["failover-written-standby"]
        assert error.what == sentence("foreign_writes", partitions="1 partition has")
        assert error.evidence == "orders-1 at 70 by producer id 17"
