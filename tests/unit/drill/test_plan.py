"""The plan of a drill: from the configuration or without, and as data."""

from __future__ import annotations

import pytest

from drkit.config import Settings
from drkit.drill.plan import DRILL_ID, new_drill_id, plan_drill, plan_kind
from drkit.errors import ConfigError

SIX = 1_795_845_600_000  # 28 November 2026, 06:00 UTC
CLUSTERS = {alias: {"bootstrap_servers": f"{alias}:9092"} for alias in ("a", "b")}
THERE, BACK = {"source": "a", "target": "b"}, {"source": "b", "target": "a"}


def settings(*flows: dict[str, str], **drill: object) -> Settings:
    table = {"name": "weekly", "kind": "bubble", "cron": "0 6 * * 1", **drill}
    return Settings.model_validate({
        "clusters": CLUSTERS, "flows": flows, "drills": [table], "failover": {"rpo_seconds": 12},
    })  # fmt: skip


def test_an_id_is_by_time_and_has_no_dot():
    first = new_drill_id("1a2b3c4d5e", lambda: SIX)
    assert first == "20261128t060000-1a2b3c"
    assert DRILL_ID.fullmatch(first)
    assert first < new_drill_id("000000", lambda: SIX + 1000)


def test_the_plan_of_a_configured_drill():
    found = settings(THERE, cut="lost", limits={"seconds": 10}, objectives={"rto_seconds": 5})
    plan = plan_drill(found, found.drills[0], "id")
    assert (plan.id, plan.name, plan.kind, plan.flow, plan.cut) == ("id", "weekly", "bubble", "a->b", "lost")
    assert (plan.limits.seconds, plan.limits.bytes_per_second) == (10, 1_000_000)
    assert (plan.objectives.rto_seconds, plan.objectives.rpo_seconds) == (5, 12)


def test_a_drill_names_its_flow_where_there_are_several():
    found = settings(THERE, BACK)
    with pytest.raises(ConfigError):
        plan_drill(found, found.drills[0], "id")
    named = settings(THERE, BACK, flow="b -> a")
    assert plan_drill(named, named.drills[0], "id").flow == "b->a"


def test_a_drill_without_a_table_has_the_defaults_of_its_kind():
    found = settings(THERE, BACK)
    plan = plan_kind(found, "readiness", found.flows[1], "id")
    assert (plan.name, plan.flow, plan.objectives.rpo_seconds) == ("readiness", "b->a", 12)
    assert plan_kind(found, "translation", found.flows[0], "id").objectives.rpo_seconds is None
