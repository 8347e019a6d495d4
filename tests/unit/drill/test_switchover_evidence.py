"""What is measured in a switchover drill, and its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drkit.drill.evidence import (
    SWITCHOVER,
    ClientOutage,
    DrillEvidence,
    GroupCommit,
    Move,
    PlannedMove,
    SwitchoverEvidence,
    VerdictLimits,
    measure_group_outages,
)
from drkit.drill.judge import judge
from drkit.drill.report import PlanReport, ScopeReport, build_report, check_report, read_report
from drkit.exercise.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.journal.machine import FAILOVER
from drkit.status.pair.model import PairState

LIMITS = VerdictLimits(rto_seconds=30.0)
STEPS = {str(step): 0.1 for step in FAILOVER.order}
THERE = PlannedMove("p->s", 6.0, STEPS, lost_records=0, groups=2, repeats={"billing": 3})
GOOD = SwitchoverEvidence(
    there=THERE,
    home=THERE._replace(flow="s->p"),
    outages=(
        ClientOutage("billing", "commit on s", 9.0, 5.0),
        ClientOutage("billing", "commit on p", 60.0, 4.0),
    ),
    pair_state=PairState.PROTECTED,
)


def commits(cluster: str, group: str, *seconds: float) -> list[GroupCommit]:
    return [GroupCommit(s, cluster, group) for s in seconds]


def test_outages_are_between_the_last_commit_and_the_first_one_on_the_other_side() -> None:
    """A commit on the old side after the move began belongs to the time before the outage."""
    seen = [
        *commits("p", "billing", 100.0, 105.0, 111.0, 140.0, 141.0),
        *commits("s", "billing", 118.0, 131.0, 134.0),
        *commits("p", "lazy", 101.0),
        *commits("s", "late", 120.0),
    ]
    outages, silent = measure_group_outages(seen, [Move("p", "s", 110.0), Move("s", "p", 132.0)])
    assert outages == (
        ClientOutage("billing", "commit on s", 11.0, 7.0),
        ClientOutage("billing", "commit on p", 34.0, 6.0),
    )
    assert silent == (("lazy", "s"), ("late", "p"))
    assert measure_group_outages([], [Move("p", "s", 110.0)]) == ((), ())


@pytest.mark.parametrize(
    ("changed", "word", "reason"),
    [
        ({}, PASS, ""),
        ({"stays": True, "home": None}, PASS, ""),
        ({"home": None}, FAIL, "production was not moved home"),
        ({"there": None, "home": None}, FAIL, "production was not moved"),
        ({"error": "HOME: no", "next_command": "drkit failback"}, FAIL, "HOME: no; continue: drkit failback"),
        ({"there": THERE._replace(lost_records=1)}, FAIL, "records lost by p->s: 1"),
        ({"there": THERE._replace(lost_records=None)}, INCONCLUSIVE, "records lost by p->s: unknown"),
        ({"home": THERE._replace(not_moved={"g": "why"})}, FAIL, "positions of groups, p->s: g: why"),
        ({"silent": (("g", "s"),)}, FAIL, "groups at work followed: g did not commit on s"),
        ({"outages": ()}, INCONCLUSIVE, "no group committed before the switchover: no outage was measured"),
        ({"pair_state": PairState.UNPROTECTED, "pair_reason": "why"}, FAIL, "the pair is unprotected: why"),
        ({"pair_state": PairState.UNKNOWN, "pair_reason": "why"}, INCONCLUSIVE, "the pair is unknown: why"),
        (
            {"outages": (ClientOutage("billing", "commit on s", 9.0, 31.0),)},
            FAIL,
            "billing could not commit on s for 31 s, rto_seconds = 30",
        ),
    ],
)  # fmt: skip
def test_the_verdict(changed: dict[str, Any], word: str, reason: str) -> None:
    verdict = judge(SWITCHOVER, DrillEvidence(switchover=replace(GOOD, **changed)), LIMITS)
    assert (verdict.word, verdict.reasons) == (word, (reason,) if reason else ())
    assert verdict.controls
    assert all(verdict.controls.values())


def test_a_drill_that_recorded_nothing_does_not_pass() -> None:
    assert judge(SWITCHOVER, DrillEvidence(), LIMITS).word == FAIL
    assert judge(SWITCHOVER, DrillEvidence(), VerdictLimits()).word == FAIL


def test_a_report_leaves_only_the_detection_unproven() -> None:
    evidence = DrillEvidence(switchover=GOOD)
    scope = ScopeReport(flow="p->s", source="p", target="s", topics=1, partitions=1, groups=2)
    plan = PlanReport(name="quarterly", objectives=LIMITS)
    report = build_report(SWITCHOVER, plan, evidence, id="d1", scope=scope)
    assert read_report(report.to_json()) == report
    assert check_report(report) == []
    assert [(u.step, u.exercised, u.proven_by) for u in report.not_proven] == [
        ("detection", "not exercised", "drkit chaos")
    ]
    assert [o.operation for o in report.rto] == ["commit on s", "commit on p"]
    assert report.rpo is not None
    assert (report.rpo.records, report.rpo.basis) == (0, "records of production")
    held = build_report(
        SWITCHOVER, plan, DrillEvidence(switchover=SwitchoverEvidence(error="x")), id="d", scope=scope
    )
    assert [u.step for u in held.not_proven] == [*FAILOVER.order, "detection", "rights of applications"]


def test_the_evidence_of_a_run_is_in_its_report() -> None:
    report = {
        "flow": "p->s",
        "seconds": {"OPEN": 1.0, "until_repointed": 6.2},
        "steps": [{"step": "LOCK", "seconds": 0.1}, {"step": "OPEN", "seconds": None}],
        "loss": {"exact": True, "records": 0},
        "groups": {"asked": ["a", "b"], "unavailable": {"b": {"t-0": "no place"}}, "repeats": {"a": 2}},
        "outside": {"groups": {"c": "another type"}},
    }
    move = PlannedMove.of(report)
    assert (move.seconds, move.steps, move.lost_records, move.groups) == (
        6.2,
        {"LOCK": 0.1, "OPEN": 0.0},
        0,
        2,
    )
    assert move.not_moved == {"b": "no place", "c": "another type"}
    assert PlannedMove.of(report | {"loss": {"exact": False, "records": 0}}).lost_records is None
    assert PlannedMove.of(report | {"loss": None}).lost_records is None
