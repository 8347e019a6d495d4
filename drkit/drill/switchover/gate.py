"""The gate of a switchover drill: production can be moved, and brought home as far as is known."""

from __future__ import annotations

from collections.abc import Iterable

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.counted import first_of
from drkit.drill.plan import DrillPlan
from drkit.drill.readiness import refuse_unprotected
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import state_of
from drkit.failover.failback import FlowPair, situation, uncut, ways_of
from drkit.failover.proposal import Rehearsal
from drkit.failover.service import FailoverService
from drkit.flow_state.lease.watch import replicator_of


def switch_request(plan: DrillPlan) -> RunRequest:
    """Return the request of the failover to the target."""
    return RunRequest(planned=True, clients_cut=plan.clients_cut)


def rehearse_switchover(settings: Settings, plan: DrillPlan) -> Rehearsal:
    """Return the dry run of the failover to the target; check that a failback can follow. Change nothing.

    :raises ConfigError: no flow leads back
    :raises Refused: the failover would be refused, or production could not be brought home
    :raises DrkitError: a cluster does not answer
    """
    there = settings.one_flow(plan.flow)
    ways = ways_of(settings, there)
    if (now := situation(settings, ways)) is not None:
        raise Refused(
            "production_not_at_home",
            where=there.name,
            evidence=f"clients were moved to {there.target}; the next stage of the failback is {now.stage}",
            flow=there.name,
        )
    with FailoverService(settings, there) as service:
        rehearsal = service.rehearse((), switch_request(plan))
        for _, refusal in rehearsal.refusals:
            raise refusal
        topics = rehearsal.chosen.scope.topics
        if not plan.clients_cut and (by_size := service.switch_by_size(topics)):
            raise uncut(FlowPair(ways.back, there), by_size, "switchover")
    refuse_unprotected(settings, there)
    _refuse_no_way_home(settings, ways, topics.values())
    if not plan.clients_cut:
        with FailoverService(settings, ways.back) as service:
            if by_size := service.switch_by_size(topics.values()):
                raise uncut(ways, by_size)
    return rehearsal


def _refuse_no_way_home(settings: Settings, ways: FlowPair, topics: Iterable[str]) -> None:
    """Refuse to move production where nothing would copy it back. Raises Refused."""
    back = ways.back
    if left := [topic for topic in sorted(topics) if not back.copies(topic)]:
        raise Refused(
            "reverse_flow_leaves_out",
            where=back.name,
            evidence=first_of(left),
            flow_back=back.name,
            flow=ways.there.name,
        )
    with state_of(settings, back) as state:
        runner = replicator_of(state.records, wall_ms()) if state is not None else None
    if runner is None or not runner.alive:
        seen = f"the lease of {runner.host} is {runner.age_seconds:.0f} s old" if runner else "no lease"
        raise Refused("reverse_replicator_missing", where=back.name, evidence=seen, flow=back.name)
