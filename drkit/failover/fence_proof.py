"""The proof of a fence: an ordinary producer's record is refused by every partition's leader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from drkit.clock import Seconds, monotonic
from drkit.config import ClusterSettings
from drkit.failover.writable import code_name, write_codes
from drkit.kafka.one_shot import connections
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.requests import metadata
from drkit.model import TopicPartition

_REFUSED: Final = frozenset({10, 29})
"""MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED."""
_PAUSE_SECONDS: Final = 0.05
_CONNECT_MS: Final = 5000
_NO_ANSWER: Final = -1


class Proof(NamedTuple):
    """What the canary was told."""

    refused: dict[TopicPartition, str]
    """Partitions that refuse it, and how."""
    without_leader: tuple[TopicPartition, ...]
    """Nobody can write there; a leader to come knows of the fence before it leads."""
    open: dict[TopicPartition, str]
    """Partitions that would take a record, or did not answer."""

    @property
    def is_whole(self) -> bool:
        """Whether no partition takes anything."""
        return not self.open


def prove(
    settings: ClusterSettings,
    canary: Mapping[str, str],
    topics: Collection[str],
    seconds: float = 0.0,
    clock: Seconds = monotonic,
) -> Proof:
    """Ask every partition, again until all refuse or the time is over. Nothing is ever appended.

    :param canary: client properties of an ordinary producer; empty: drkit's own
    :raises DrkitError: the canary cannot connect at all
    """
    with connections("canary", settings.with_client(canary)) as (cluster,):
        loop = cluster.loop
        loop.run(cluster.connect, _CONNECT_MS)
        deadline = clock() + seconds
        while True:
            found = _asked(loop, cluster, topics)
            if found.is_whole or clock() >= deadline:
                return found
            loop.run(loop.sleep, _PAUSE_SECONDS)


def _asked(loop: EventLoop, cluster: RawCluster, topics: Collection[str]) -> Proof:
    try:
        codes: dict[TopicPartition, int] = loop.run(write_codes, cluster, topics)
        silent = [at for at, code in codes.items() if code == _NO_ANSWER]
        known = loop.run(metadata, cluster, sorted({at.topic for at in silent})) if silent else {}
    except RawError as error:
        return Proof({}, (), {TopicPartition(t, -1): type(error).__name__ for t in topics})
    alone = tuple(
        sorted(at for at in silent if at.topic in known and known[at.topic].leaders[at.partition].node < 0)
    )
    refused = {at: code_name(code) for at, code in codes.items() if code in _REFUSED}
    rest = {at: code_name(c) for at, c in codes.items() if at not in refused and at not in alone}
    return Proof(refused, alone, rest)


def canary_name(settings: ClusterSettings, canary: Mapping[str, str]) -> str:
    """Who the canary is, in words."""
    return canary.get("sasl.username") or (
        "a producer of its own" if canary else f"drkit on {settings.alias}"
    )
