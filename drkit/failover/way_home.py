"""The way home of a pair: which of its stages is next, from what both clusters have on record.

The old primary becomes the standby; clients move back to it, as planned; then the other cluster becomes its
standby again. Nothing is remembered between two looks: each stage leaves records on the clusters. Some topics
can go home before the others: each stage is of these alone then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from drkit.config import FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.errors import DrkitError, Refused, Usage
from drkit.failover.checks.foreign_writes import refusal, stopped
from drkit.failover.core.machine import FAILOVER, RETURN
from drkit.failover.core.reverse import not_replayed, records_of, required_opposite, state_of
from drkit.failover.fencing.methods import SIZE
from drkit.failover.journal.entries import RunLog
from drkit.failover.returning.scope import returned, waiting
from drkit.failover.service import FailoverService
from drkit.flow_state.records import GenerationRecord
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
    topics: frozenset[str] = frozenset()
    """The topics that go home, by their name on both sides; empty: all."""

    def has(self, topics: Iterable[str]) -> bool:
        """Whether some of these go home."""
        return any(not self.topics or topic in self.topics for topic in topics)


def ways_of(settings: Settings, there: FlowSettings, topics: Collection[str] = ()) -> Ways:
    """Return both directions of the pair of a failed over flow. Raises ConfigError: none leads back."""
    return Ways(there, required_opposite(settings, there), frozenset(topics))


def situation(settings: Settings, ways: Ways) -> Situation | None:
    """What is next; None: clients are at home, and nothing is left to do.

    :raises Refused: a failover is under way
    :raises DrkitError: a cluster does not answer
    """
    there, back, _ = ways
    opened = {flow: _open_run(settings, flow) for flow in (there.name, back.name)}
    if (run := opened[there.name]) is not None:
        if run.table is FAILOVER:
            raise Refused(
                "failover_under_way",
                where=f"flow {there.name}",
                evidence=f"run {run.run_id}: {run.state}",
                hint=run.table.next_commands(abortable=run.abortable),
            )
        return Situation(HomeStage.RETURN, is_under_way=True)
    if (run := opened[back.name]) is not None:
        return Situation(HomeStage.TURN if run.table is RETURN else HomeStage.SWITCH, is_under_way=True)
    if ways.has(waiting(settings, back, there)):
        return Situation(HomeStage.TURN, is_under_way=False)
    if ways.has(waiting(settings, there, back)):
        return Situation(HomeStage.RETURN, is_under_way=False)
    if ways.has(returned(settings, there, back)):
        return Situation(HomeStage.SWITCH, is_under_way=False)
    return None


def refuse_unknown(settings: Settings, ways: Ways) -> None:
    """Refuse topics that the flow never copied. Raises Usage; DrkitError: the cluster does not answer."""
    if not ways.topics:
        return
    known = records_of(settings, ways.there).all(GenerationRecord).keys()
    if unknown := sorted(ways.topics - known):
        raise Usage(
            "topic_unknown",
            where=f"--topic, flow {ways.there.name}",
            evidence=f"it has copied {counted(len(known), 'topic')} of {ways.there.source}",
            hint="drkit status shows the topics",
            topic=unknown[0],
        )


def refuse_unreplayed(settings: Settings, ways: Ways) -> None:
    """Refuse to move clients home without records that were to be replayed. Raises Refused or DrkitError."""
    if found := unreplayed(records_of(settings, ways.there), ways.topics or None):
        raise not_replayed(ways.there.name, found)


def refuse_stopped(settings: Settings, ways: Ways) -> None:
    """Refuse to wait for a copy that stopped: another client wrote there. Raises Refused or DrkitError."""
    if found := stopped(records_of(settings, ways.back), ways.topics):
        raise refusal(ways.back.name, ways.back.target, found)


def refuse_uncut(settings: Settings, ways: Ways, clients_cut: str) -> None:
    """Refuse to bring clients home where the other cluster could not become the standby afterwards.

    :param clients_cut: how clients are kept off the side that they leave; empty: it was not said
    :raises Refused: its fence would have to be lifted, and nothing else would keep clients off
    """
    if clients_cut:
        return
    found: list[str] = []
    with suppress(DrkitError), FailoverService(settings, ways.back) as service:  # the switchover says it
        topics = returned(settings, ways.there, ways.back)
        found = service.switch_by_size([t for t in topics if ways.has([t])])
    if found:
        raise uncut(ways, found)


def uncut(ways: Ways, topics: Collection[str], switchover: str = "switchover home") -> Refused:
    """The refusal where the switchover home would fence by size.

    :param topics: those that it would fence so
    :param switchover: in words
    """
    left, home = ways.back.source, ways.back.target
    return Refused(
        "switchover_fence_refuses_drkit",
        where=f"{left}: {first_of(sorted(topics))}",
        evidence=f"{SIZE} = 0 on {left} would have to be lifted before {ways.there.name} copies to it:"
        f" clients would be on {home}, and nothing would protect it",
        switchover=switchover,
        left=left,
    )


def nothing_to_do(ways: Ways) -> Refused:
    """The refusal where nothing is left to do from the beginning."""
    there = ways.there
    which = f"none of {first_of(sorted(ways.topics))}" if ways.topics else "no topic"
    return Refused(
        "nothing_to_fail_back",
        where=f"flow {there.name}",
        evidence=f"{which} is active on {there.target} because of a failover of this flow",
    )


def going_home(topics: Iterable[PairTopic], ways: Ways) -> list[PairTopic]:
    """The topics of a pair that go home, or have. Pure."""
    return [t for t in topics if ways.has([t.topic])]


def not_in_step(topics: Iterable[PairTopic], back: FlowSettings) -> list[PairTopic]:
    """Return the topics that fail back and whose copy is not in step. Pure."""
    return [t for t in topics if t.active == back.source and t.state is not PairState.PROTECTED]


def _open_run(settings: Settings, name: str) -> RunLog | None:
    flow = settings.one_flow(name)
    with state_of(settings, flow) as state:
        if state is None:
            return None
    with FailoverService(settings, flow) as service:
        return service.under_way
