"""The way home of a pair: which of its stages is next, from what both clusters have on record.

The old primary becomes the standby; clients move back to it, as planned; then the other cluster becomes its
standby again. Nothing is remembered between two looks: each stage leaves records on the clusters.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from drkit.config import FlowSettings, Settings
from drkit.counted import first_of
from drkit.errors import ConfigError, Refused
from drkit.failover.checks.unreplayed import not_replayed
from drkit.failover.core.machine import FAILOVER, RETURN
from drkit.failover.core.reverse import state_of
from drkit.failover.journal.entries import RunLog
from drkit.failover.returning.waiting import returned, waiting
from drkit.failover.service import FailoverService
from drkit.flow_state.unreplayed import unreplayed
from drkit.status.pair.model import PairState, PairTopic


class HomeStage(StrEnum):
    """What is done next."""

    RETURN = "return"
    """The old primary becomes the standby of the new one."""
    SWITCH = "switch"
    """It is copied to; once it is in step, clients move back to it."""
    TURN = "turn"
    """Clients are back; the other cluster becomes the standby."""


class Situation(NamedTuple):
    """Where a pair is on its way home."""

    stage: HomeStage
    is_under_way: bool
    """Whether a run of this stage is open, and has to be continued."""


class Ways(NamedTuple):
    """Both directions of a pair, by where its home is."""

    there: FlowSettings
    """The flow whose source is the home of the clients."""
    back: FlowSettings


def ways_of(settings: Settings, there: FlowSettings) -> Ways:
    """Both directions of a flow's pair.

    :param there: the flow that was failed over
    :raises ConfigError: no flow leads back
    """
    for flow in settings.flows:
        if (flow.source, flow.target) == (there.target, there.source):
            return Ways(there, flow)
    raise ConfigError(
        f"no flow copies from {there.target} to {there.source}",
        where="[[flows]]",
        evidence=f"there is {first_of(f.name for f in settings.flows)}",
        hint=f'add it: [[flows]] source = "{there.target}", target = "{there.source}"',
    )


def situation(settings: Settings, ways: Ways) -> Situation | None:
    """What is next; None: clients are at home, and nothing is left to do.

    :raises Refused: a failover is under way
    :raises DrkitError: a cluster does not answer
    """
    there, back = ways
    opened = {flow: _open_run(settings, flow) for flow in (there.name, back.name)}
    if (run := opened[there.name]) is not None:
        if run.table is FAILOVER:
            raise _failing_over(there, run)
        return Situation(HomeStage.RETURN, is_under_way=True)
    if (run := opened[back.name]) is not None:
        return Situation(HomeStage.TURN if run.table is RETURN else HomeStage.SWITCH, is_under_way=True)
    if waiting(settings, back, there):
        return Situation(HomeStage.TURN, is_under_way=False)
    if waiting(settings, there, back):
        return Situation(HomeStage.RETURN, is_under_way=False)
    if returned(settings, there, back):
        return Situation(HomeStage.SWITCH, is_under_way=False)
    return None


def refuse_unreplayed(settings: Settings, ways: Ways) -> None:
    """Refuse to bring clients home without records that a return was to append where they are now.

    :raises Refused: there are some
    :raises DrkitError: the cluster does not answer
    """
    with state_of(settings, ways.there) as state:
        found = unreplayed(state.records) if state is not None else []
    if found:
        raise not_replayed(ways.there.name, found)


def nothing_to_do(there: FlowSettings) -> Refused:
    """The refusal where nothing is left to do from the beginning."""
    return Refused(
        "there is nothing to fail back",
        where=f"flow {there.name}",
        evidence=f"no topic is active on {there.target} because of a failover of this flow",
        hint="drkit status says who is active and what protects it",
    )


def not_in_step(topics: tuple[PairTopic, ...], back: FlowSettings) -> list[PairTopic]:
    """The topics that a switchover back would move, and whose copy is not in step. Pure.

    :param topics: of the pair
    """
    return [t for t in topics if t.active == back.source and t.state is not PairState.PROTECTED]


def _open_run(settings: Settings, name: str) -> RunLog | None:
    flow = settings.one_flow(name)
    with state_of(settings, flow) as state:
        if state is None:
            return None
    with FailoverService(settings, flow) as service:
        return service.under_way


def _failing_over(there: FlowSettings, run: RunLog) -> Refused:
    return Refused(
        "a failover is under way",
        where=f"flow {there.name}",
        evidence=f"run {run.run_id}: {run.state}",
        hint=f"{FAILOVER.command} --resume" + (f", or {FAILOVER.command} --abort" * run.abortable),
    )
