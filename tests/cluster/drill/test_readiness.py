"""The readiness drill on a real pair: it passes, names each refusal with its page, and changes nothing."""

from __future__ import annotations

from drkit.drill.evidence import READINESS, DrillEvidence, ReadinessFacts, VerdictLimits
from drkit.drill.judge import judge
from drkit.drill.run_drill import collect_readiness
from drkit.exercise.verdict import FAIL, PASS
from drkit.model import TopicPartition
from tests.support.drill.inventory import inventory
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

LIMITS = VerdictLimits(rpo_seconds=30.0)


def collect(world: World) -> ReadinessFacts:
    settings = world.settings
    facts, topics = collect_readiness(settings, settings.flows[0])
    assert topics == 1
    return facts


def verdict(facts: ReadinessFacts):
    return judge(READINESS, DrillEvidence(readiness=facts), LIMITS)


def test_a_healthy_pair_is_ready_and_each_problem_is_named(world: World) -> None:
    topic, group = world.name("orders"), world.name("billing")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    fill(world.source, topic, 50)
    at = TopicPartition(topic, 0)
    world.commit(world.source, group, {at: 5})
    world.replicate()
    world.copied([topic], {group: at})
    world.protected([topic])
    eventually(lambda: verdict(collect(world)).word == PASS, 60, lambda: str(verdict(collect(world))))
    before = inventory(world)
    facts = collect(world)
    assert (facts.pair_state, facts.groups, facts.loss_records) == ("protected", 1, 0)
    assert inventory(world)[world.source.alias] == before[world.source.alias]
    assert inventory(world)[world.target.alias]["groups"] == before[world.target.alias]["groups"]

    world.commit(world.target, group, {at: 3})
    facts = collect(world)
    assert [r.runbook for r in facts.refusals] == ["runbooks/failover-own-positions.md"]
    reasons = verdict(facts).reasons
    assert verdict(facts).word == FAIL
    assert any(group in r and "(drkit explain failover-own-positions)" in r for r in reasons), reasons

    world.stop_replicating()
    fill(world.source, topic, 20, first=50)
    eventually(lambda: collect(world).pair_state == "unprotected", 60, "an unprotected pair")
    facts = collect(world)
    assert facts.loss_records == 20
    assert any(r.startswith("the pair is unprotected: ") and topic in r for r in verdict(facts).reasons)
