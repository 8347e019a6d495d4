"""Signs of life of a primary that is silent to this machine: then the link is broken, and not the primary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drkit.detect.agents import AgentNote
from drkit.detect.notes import Notes
from drkit.detect.votes import Says, Vote
from drkit.failover.context import Context, Progress
from drkit.failover.machine import StepName
from drkit.offsets.mm2_records import Heartbeat
from drkit.replicate.heartbeat_tail import HeartbeatTail

_FRESH_MS: Final = 10_000
"""A vote of so long ago says nothing of now."""
_RECENT_SECONDS: Final = 5.0
_RECENT_BEATS: Final = 3
"""After so many seconds, and so many intervals, without a heartbeat none is waited for."""
_WAIT_SECONDS: Final = 2.0
"""And two intervals: in that time the next heartbeat of a living primary arrives."""
_PAUSE_SECONDS: Final = 0.1


def signs_of_life(context: Context, notes: Notes) -> tuple[str, ...]:
    """What says that the primary works, in words; of one that has just fallen silent some seconds are waited.

    :param notes: the newest of observers and fence agents
    """
    return (*_moving(context), *_seen_alive(context, notes))


def _moving(context: Context) -> Iterator[str]:
    """A heartbeat that was written after we had found the primary silent, and has been copied.

    Where our clock is wrong, any that arrives now.
    """
    silent_ms, interval = context.wall(), context.flow.heartbeats_interval_seconds
    arrived: list[Heartbeat] = []
    tail = HeartbeatTail(context.target_settings, context.flow, context.wall, arrived.append)
    try:
        beat, is_ahead = tail.read(), bool(tail.ahead_seconds)
        is_fresh = beat is not None and beat.age_seconds <= max(_RECENT_SECONDS, _RECENT_BEATS * interval)
        if not is_fresh and not is_ahead:
            return
        context.tell(Progress(StepName.SNAPSHOT, "waiting for a sign of life: a heartbeat is fresh"))
        deadline = context.clock() + _WAIT_SECONDS + 2 * interval
        arrived.clear()
        while context.clock() < deadline:
            beat = tail.read()
            written = beat is not None and context.wall() - beat.age_seconds * 1000 > silent_ms
            if written or (is_ahead and arrived):
                yield "a heartbeat was written there and copied after it fell silent to this machine"
                return
            context.run(context.loop.sleep, _PAUSE_SECONDS)
    finally:
        tail.close()


def _seen_alive(context: Context, notes: Notes) -> Iterator[str]:
    if any(note.body.fenced for note in notes.all(AgentNote)):
        return  # an observer that still sees brokers sees fenced ones
    for note in notes.all(Vote):
        vote, age_ms = note.body, context.wall() - note.body.at_ms
        if vote.says is Says.ALIVE and abs(age_ms) < _FRESH_MS:
            yield f"the observer {vote.observer} saw it alive {max(0, age_ms) / 1000:.1f} s ago"
