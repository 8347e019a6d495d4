"""What is measured in a bubble, and its verdict; and the record of a drill as plain data."""

from __future__ import annotations

from dataclasses import replace
import json
from typing import Any

import pytest

from drkit.chaos.facts import CheckResult
from drkit.chaos.history import PRIMARY, STANDBY, Acked, Consumed, Event, ScenarioHistory
from drkit.chaos.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.config.tables.drills import DrillLimits, DrillObjectives
from drkit.drill.bubble_result import (
    BubbleResult,
    ClientOutage,
    MeasuredLoss,
    judge_bubble,
    measure_loss,
    measure_outages,
)
from drkit.drill.inventory import InventoryComparison
from drkit.drill.plan import DrillPlan
from drkit.drill.record import CleanupState, DrillRecord, MadeItem, owed
from drkit.flow_state.processes import this_process
from tests.support.chaos.minimal import TP, log

PLAN = DrillPlan(
    id="20261128t060000-1a2b3c",
    name="weekly",
    kind="bubble",
    flow="primary->standby",
    objectives=DrillObjectives(rto_seconds=10.0, rpo_seconds=5.0),
    limits=DrillLimits(),
)
GOOD = BubbleResult(
    plan=PLAN,
    outages=(ClientOutage("reader", "consume", 3.0), ClientOutage("follower", "produce", 2.0)),
    loss=MeasuredLoss(0, 0.0),
    checks=(CheckResult("once, in order", 3, []),),
    controls={"a copied record dropped": True},
    inventory={"source": InventoryComparison(), "target": InventoryComparison()},
)


def acked(cluster: str, number: int, seconds: float, by: str = "follower") -> Event:
    return Acked(cluster, *TP, number, f"{by} {number}", seconds=seconds, by=by)


def consumed(cluster: str, number: int, seconds: float) -> Event:
    return Consumed(cluster, *TP, "reader", number, f"{number}", seconds=seconds, by="reader")


def test_outages_are_per_client_and_operation():
    events = [
        acked(PRIMARY, 1, 1.0),
        acked(PRIMARY, 2, 2.5),
        consumed(PRIMARY, 1, 2.0),
        acked(PRIMARY, 9, 9.0, "writer"),
        acked(STANDBY, 3, 6.0, "follower 2"),
        acked(STANDBY, 4, 7.0, "follower 2"),
        consumed(STANDBY, 2, 7.25),
    ]
    expected = (ClientOutage("follower", "produce", 3.5), ClientOutage("reader", "consume", 5.25))
    assert measure_outages(ScenarioHistory(events)) == expected


def test_the_loss_is_what_the_target_lacks():
    events = [acked(PRIMARY, number, float(number)) for number in range(5)]
    copied = log("follower 0", "follower 1")
    assert measure_loss(ScenarioHistory([*events, *copied])) == MeasuredLoss(3, 2.0)
    everything = log(*(f"follower {number}" for number in range(5)))
    assert measure_loss(ScenarioHistory([*events, *everything])) == MeasuredLoss(0, 0.0)
    assert measure_loss(ScenarioHistory(events)) is None


@pytest.mark.parametrize(
    ("change", "checked", "verdict", "reason"),
    [
        ({}, PASS, PASS, ""),
        ({}, FAIL, FAIL, "a reason"),
        ({}, INCONCLUSIVE, INCONCLUSIVE, "a reason"),
        ({"outages": (*GOOD.outages[:1], ClientOutage("follower", "produce", 11.0))}, PASS, FAIL, "follower"),
        ({"outages": GOOD.outages[:1]}, PASS, INCONCLUSIVE, "no client resumed to produce"),
        ({"loss": MeasuredLoss(9, 6.0)}, PASS, FAIL, "6 s of records are lost"),
        ({"loss": None}, PASS, INCONCLUSIVE, "the loss is unknown"),
        ({"controls": None}, PASS, INCONCLUSIVE, "no control was run"),
        ({"controls": {"two records swapped": False}}, PASS, INCONCLUSIVE, "control not caught"),
        ({"cleanup_problems": ("topic t: refused",)}, PASS, FAIL, "not cleaned up: topic t"),
        ({"inventory": None}, PASS, INCONCLUSIVE, "not compared"),
        ({"inventory": {"source": InventoryComparison(ours_left=("topic t",))}}, PASS, FAIL, "left on the"),
        ({"inventory": {"source": InventoryComparison(unknown=("ACL",))}}, PASS, INCONCLUSIVE, "unknown on"),
        ({"inventory": {"source": InventoryComparison(changed_by_others=("topic t",))}}, PASS, PASS, ""),
    ],
)
def test_the_verdict(change: dict[str, Any], checked: str, verdict: str, reason: str):
    judged = judge_bubble(replace(GOOD, **change), checked, [] if checked == PASS else ["a reason"])
    assert judged.verdict == verdict
    assert reason in "; ".join(judged.reasons)
    assert bool(judged.reasons) is bool(reason)
    json.dumps(judged.to_json())


def test_a_record_is_read_back():
    made = (
        MadeItem("source", "topic", "t"),
        MadeItem("target", "topic", "t"),
        MadeItem("target", "group", "g"),
    )
    record = DrillRecord(
        plan=PLAN,
        made=made,
        steps=({"step": "GATE", "seconds": 1.0},),
        reasons=("why",),
        holder=this_process(),
    )
    known = record.with_ids("source", {"t": "id-1", "other": "id-2"})
    assert [item.topic_id for item in known.made] == ["id-1", "", ""]
    assert known.with_ids("source", {"t": "id-9"}) == known
    assert DrillRecord.from_json(json.loads(json.dumps(known.to_json()))) == known
    assert owed([record, replace(record, cleanup=CleanupState.DONE)]) == [record]
    with pytest.raises(ValueError, match="not the record of a drill"):
        DrillRecord.from_json({"plan": PLAN.to_json()})


@pytest.mark.parametrize(
    ("change", "is_running"),
    [
        ({}, True),
        ({"verdict": PASS}, False),
        ({"holder": replace(this_process(), born=1)}, False),
        ({"holder": replace(this_process(), host="elsewhere")}, True),
        ({"holder": replace(this_process(), host="elsewhere"), "written_ms": -300_000}, False),
    ],
)
def test_a_drill_that_runs_is_not_cleaned_up(change: dict[str, Any], *, is_running: bool):
    record = replace(DrillRecord(plan=PLAN, holder=this_process()), **change)
    assert record.is_running(0) is is_running
