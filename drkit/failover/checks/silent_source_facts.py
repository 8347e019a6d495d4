"""Facts about a silent primary for the table of reasons, as this machine knows them.

Votes count by the rules of `drkit watch`: fresh, not from the future, read from the topics on the target and
on the third cluster. This process's own view counts if there are fewer observers than configured.
"""

from __future__ import annotations

from collections.abc import Iterator
import socket
from typing import Final

from drkit.detect.agents import AgentNote
from drkit.detect.notes import Notes, Speakers
from drkit.detect.noticeboard import read_notes
from drkit.detect.reasons import FailoverFacts
from drkit.detect.risk import Risk
from drkit.detect.seen import Sight
from drkit.detect.votes import Heard, Tally, Vote, VoteRules, tally
from drkit.errors import DrkitError
from drkit.failover.core.context import Context, StepProgress
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster, reach
from drkit.status.heartbeat_tail import HeartbeatTail

_RECENT_SECONDS: Final = 5.0
_RECENT_BEATS: Final = 3
"""Without a heartbeat for `_RECENT_SECONDS` and this number of intervals, none is awaited."""
_WAIT_SECONDS: Final = 2.0
"""With two intervals added, the time in which the next heartbeat of a living primary arrives."""
_SETTLE_SECONDS: Final = 1.0
"""Heartbeats that arrive after this time were not in flight when the primary became silent."""
_PAUSE_SECONDS: Final = 0.1


def facts_of(
    context: Context,
    notes: Notes,
    risk: Risk,
    unready: tuple[str, ...],
    unprotected: tuple[str, ...] = (),
    *,
    silent: bool,
) -> FailoverFacts:
    """Return the facts against a failover; waits some seconds if the primary has just become silent.

    :param notes: the newest notes of observers, fence agents and people on the target
    :param unready: why the target cannot take over
    :param unprotected: topics that are incomplete on the target
    """
    paused = (notes.pause,) if notes.pause else ()
    rpo = context.settings.failover.rpo_seconds
    found = FailoverFacts(risk, rpo, paused=paused, unready=unready, unprotected=unprotected)
    if not silent:
        context.kept.quiet = None
        return found
    tail = context.beats
    beat = tail.read()
    ahead = f"the newest heartbeat is {tail.ahead_seconds:,.0f} s ahead of this machine's clock"
    votes, fenced = counted(context, (notes, *_third(context)))
    here = f"here: {context.source_error}"
    return found._replace(
        moving=tuple(_moving(context, tail)),
        no_heartbeat=() if beat is not None or tail.ahead_seconds else (f"none is in {tail.topic}", here),
        clocks=(ahead, here) if tail.ahead_seconds else (),
        alive=(*votes.in_words(), here) if votes.alive and not fenced else (),
        undecided=() if votes.is_decided else (*votes.in_words(), here),
    )


def counted(context: Context, boards: tuple[Notes, ...]) -> tuple[Tally, bool]:
    """Return the valid votes, and whether enough fence agents report a proven fence."""
    settings, wall = context.settings, context.wall()
    watch, agent = settings.watch, settings.fence_agent
    rules = VoteRules(watch.vote_ttl_seconds, watch.clock_margin_seconds, watch.observer_count)
    heard = [Heard(note.body, 0.0, wall, live=True) for b in boards for note in b.all(Vote)]
    sight = Sight.BLIND if context.source_refuses else Sight.GONE
    own = Vote(socket.gethostname(), "", 0, wall, sight)
    low, high = -1000 * watch.clock_margin_seconds, 1000 * agent.ttl_seconds
    fenced = {
        note.body.agent
        for b in boards
        for note in b.all(AgentNote)
        if note.body.fenced and low <= wall - note.body.at_ms <= high
    }
    auto = settings.failover.mode == "auto"
    return tally(own, heard, 0.0, rules, votes=False), auto and 0 < agent.agent_count <= len(fenced)


def _third(context: Context) -> Iterator[Notes]:
    """Yield the notes on the third cluster: an observer may reach it, but not the target."""
    alias = context.settings.watch.third
    if alias is None:
        return
    reached = reach(context.settings.cluster(alias))
    if reached.silence:
        return
    try:
        yield read_notes(Cluster.connect(reached.settings), context.flow, Speakers.of(context.settings))
    except DrkitError as error:
        context.tell(StepProgress(StepName.SNAPSHOT, f"the votes on {alias} cannot be read: {error.what}"))


def _moving(context: Context, tail: HeartbeatTail) -> Iterator[str]:
    """Yield evidence that a heartbeat was written and copied after the primary became silent here.

    An arrival counts whatever its timestamp: the clock of the heartbeat's producer may be wrong.
    """
    kept, wall, began = context.kept, context.wall(), context.clock()
    before, kept.quiet = kept.quiet, None
    if before is not None and began - before[0] >= _SETTLE_SECONDS and tail.arrivals > before[1]:
        yield "heartbeats were copied since the last look"
        return
    interval = context.flow.heartbeats_interval_seconds
    beat, recent = tail.newest(), max(_RECENT_SECONDS, _RECENT_BEATS * interval)
    if tail.ahead_seconds or (beat is not None and beat.age_seconds <= recent):
        context.tell(
            StepProgress(StepName.SNAPSHOT, "waiting: a heartbeat is fresh, so the primary may live")
        )
        settled: int | None = None
        while context.clock() < began + _WAIT_SECONDS + 2 * interval:
            tail.read()
            if settled is None and context.clock() >= began + _SETTLE_SECONDS:
                settled = tail.arrivals
            written_since = tail.newest_ms is not None and tail.newest_ms > wall
            if written_since or (settled is not None and tail.arrivals > settled):
                yield "a heartbeat was written there and copied after it fell silent to this machine"
                return
            context.run(context.loop.sleep, _PAUSE_SECONDS)
    kept.quiet = context.clock(), tail.arrivals
