"""A standby that takes over: from SIGKILL of the holder's processes to the next record on the target.

Two ``drkit replicate --standby`` on one host, under load. All processes of the one that holds the lease are
killed, Spark's among them; then another one is started, which waits, and that is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
import os
from pathlib import Path
import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from drkit.config import ClusterSettings
from drkit.flow_state.records import StandbyRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from tests.bench.load import steady
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.replicator import Command, Flow, Running, running
from tests.bench.topics import Topics
from tests.bench.waiting import pause, until

GOAL_SECONDS: Final = 3.0
TOPIC: Final = "takeover"
PARTITIONS: Final = 8
RATE: Final = 1000
"""Records a second."""
_PATIENCE: Final = 180.0
_SETTLE_SECONDS: Final = 5.0
_ON_ITS_WAY_SECONDS: Final = 0.05
"""What was sent before the kill is appended by then."""
_LOOK_SECONDS: Final = 0.005


@dataclass(frozen=True, slots=True)
class TakeoverRun:
    """One kill; seconds."""

    seconds: float
    """From the kill until the next record is on the target."""
    load: float
    """Of the machine, over the minute before."""


class _Standby(Drkit):
    """drkit as a standby."""

    def prepare(self, flow: Flow) -> Command:
        command = super().prepare(flow)
        return Command([*command.argv, "--standby"], command.env)


def measure(
    source: LocalCluster, target: LocalCluster, folder: Path, rounds: int, tell: Callable[[str], None]
) -> Iterator[TakeoverRun]:
    """Kill holders.

    :raises TimeoutError: a standby did not become ready, or did not take over
    """
    Topics(source.bootstrap()).create(TOPIC)
    settings = ClusterSettings(alias="target", bootstrap_servers=target.bootstrap())

    def start(name: str) -> Running:
        flow = Flow(source.bootstrap(), target.bootstrap(), TOPIC, "none", folder / f"takeover-{name}")
        return stack.enter_context(running(_Standby(), flow))

    with ExitStack() as stack:
        end = _End(target)
        stack.callback(end.close)
        stack.enter_context(steady(source.bootstrap(), TOPIC, RATE))
        holder = start("first")
        until(lambda: end.now() > 0, _PATIENCE, "the first records")
        state = stack.enter_context(StateTopic(settings, "source"))
        for number in range(rounds):
            standby = start(str(number))
            until(lambda: _is_ready(state), _PATIENCE, "a standby that is ready")
            pause(_SETTLE_SECONDS, "the new holder is at work")
            run = _kill(holder, end)
            tell(f"    the next record {run.seconds:.2f} s after the kill, at load {run.load:.1f}")
            yield run
            holder = standby


def _kill(holder: Running, end: _End) -> TakeoverRun:
    began = time.monotonic()
    holder.kill()
    pause(_ON_ITS_WAY_SECONDS, "what the killed one has sent arrives")
    before = end.now()
    until(lambda: end.now() > before, _PATIENCE, "a record of the standby", every=_LOOK_SECONDS)
    return TakeoverRun(time.monotonic() - began, os.getloadavg()[0])


def _is_ready(state: StateTopic) -> bool:
    state.load()
    return any(record.ready for record in state.all(StandbyRecord).values())


class _End:
    """How far the target is."""

    def __init__(self, target: LocalCluster) -> None:
        settings = {"bootstrap.servers": target.bootstrap(), "group.id": TOPIC, "log_level": 0}
        self._consumer = Consumer(settings)

    def now(self) -> int:
        """The sum of the ends of all partitions; 0 while the topic is not there."""
        try:
            ends = [
                self._consumer.get_watermark_offsets(TopicPartition(TOPIC, p), 10) for p in range(PARTITIONS)
            ]
        except KafkaException:
            return 0
        return sum(found[1] for found in ends if found is not None)

    def close(self) -> None:
        self._consumer.close()
