"""A replicator that starts, and one that is killed and starts again: until a record is on the target.

Both under load: the start of one that has copied nothing yet, then SIGKILL of all its processes and a start
at once. Beside it what its processes hold in memory when they have come to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
import os
import time
from typing import Final

from tests.bench.load import steady
from tests.bench.peers.replicator import Flow, Peer, Running, running
from tests.bench.topics import EndOffsets, Topics
from tests.bench.waiting import moments, pause_until, until

TOPIC: Final = "start"
RATE: Final = 1000
"""Records a second."""
GOAL_PSS: Final = 1.1e9
"""Bytes that all processes of drkit hold with two tasks."""
_PATIENCE: Final = 180.0
_SETTLE_SECONDS: Final = 15.0
_ON_ITS_WAY_SECONDS: Final = 0.05
"""What was sent before the kill is appended by then."""
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class ReplicatorStart:
    """A start and a restart; seconds."""

    peer: str
    round: int
    first: float
    """From the start of the process until a record is on the target."""
    cpu: float
    """Processor time of all its processes until then."""
    again: float
    """From SIGKILL, with a start at once, until the next record is on the target."""
    pss_bytes: int
    """Of all its processes, pages that they share counted once."""
    load: float
    """Of the machine, over the minute before."""


def measure(
    peers: Sequence[Peer],
    flow: Flow,
    rounds: int,
    wipe: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[ReplicatorStart]:
    """Start and kill each replicator in turn.

    :param flow: what they copy; its folder has one for each run
    :param wipe: empties both clusters
    :raises TimeoutError: nothing arrived
    :raises ReplicatorDied: it ended by itself
    """
    for number in range(1, rounds + 1):
        for peer in peers:
            wipe()
            Topics(flow.source).create(TOPIC)
            with steady(flow.source, TOPIC, RATE):
                folder = flow.folder / f"{number}-{peer.name}"
                run = _measured(peer, replace(flow, folder=folder), number)
            tell(
                f"    round {number} {peer.name}: first record after {run.first:.1f} s, {run.cpu:.1f} CPU s; "
                f"after SIGKILL {run.again:.1f} s; {run.pss_bytes / 1e6:,.0f} MB"
            )
            yield run
    wipe()


def _measured(peer: Peer, flow: Flow, number: int) -> ReplicatorStart:
    ends = EndOffsets(flow.target, TOPIC)
    load = os.getloadavg()[0]
    with running(peer, flow) as replicator:
        first = _until_more(replicator, ends, 0, replicator.started_at)
        cpu = replicator.tree.cpu_seconds()
        pss = _rest(replicator)
        began = time.monotonic()
        replicator.kill()
    pause_until(began + _ON_ITS_WAY_SECONDS, "what the killed one has sent arrives")
    before = ends.appended()
    with running(peer, flow) as replicator:
        again = _until_more(replicator, ends, before, began)
    return ReplicatorStart(peer.name, number, first, cpu, again, pss, load)


def _until_more(replicator: Running, ends: EndOffsets, before: int, since: float) -> float:
    """Seconds since a moment until more is on the target than before."""
    until(
        lambda: ends.appended() > before, _PATIENCE, "a record on the target",
        every=_LOOK_SECONDS, check=replicator.check,
    )  # fmt: skip
    return time.monotonic() - since


def _rest(replicator: Running) -> int:
    """Wait; the most memory that was seen meanwhile."""
    most = 0
    for _ in moments(_SETTLE_SECONDS, every=1.0):
        replicator.check()
        most = max(most, replicator.tree.pss_bytes())
    return most
