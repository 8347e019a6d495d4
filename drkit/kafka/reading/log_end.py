"""The end of a log that its current leader tells.

A broker that was frozen or cut off takes itself for the leader until it hears of its successor. Until then it
answers with the end that it knew, and what the successor has acknowledged is missing (decision 0036). So most
replicas are asked who leads: one of them acknowledged, and knows the leader epoch in which it did.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.counted import counted
from drkit.errors import ClusterUnreachable, DrkitError, Failed, NotAuthorized
from drkit.kafka import codes
from drkit.kafka.raw import EventLoop, Future, RawCluster, RawError
from drkit.kafka.requests import LATEST, PartitionLeader, list_offsets, metadata
from drkit.model import TopicPartition

T = TypeVar("T")
_ONE_MS: Final = 1000
"""A replica that does not answer in this time is left out."""
_FEW_SECONDS: Final = 3.0
"""Seconds to wait for most replicas; then those that answer count. A resumed broker is informed by then."""
_LEADER_MS: Final = 2000
"""Then the replicas are asked again who leads."""
_PAUSE_SECONDS: Final = 0.05


class LogEnds(NamedTuple):
    """Where a log ends."""

    replicated: int
    """The high watermark: all that was acknowledged is before it."""
    decided: int
    """The last stable offset, asked later: an open transaction hides what follows."""


class LogEndReader:
    """Asks for the ends of one partition again and again; for one thread.

    :param on: the cluster: its settings, for connections of its own, or existing connections
    """

    def __init__(self, on: ClusterSettings | RawCluster, at: TopicPartition) -> None:
        self._on, self._at = on, at
        self._cluster = on if isinstance(on, RawCluster) else None
        self.topic_id = UUID(int=0)
        """Id of the topic, or zero before the first answer."""
        self._replicas: tuple[int, ...] = ()
        self._few_since: float | None = None
        """Since when most replicas do not answer."""

    def ask(self, seconds: float) -> LogEnds:
        """The ends now, from the leader with the newest epoch that most replicas know.

        :param seconds: how long an answer is waited for
        :raises LogRestarted: the topic was created again
        :raises DrkitError: there was none; it says why
        """
        ends: LogEnds = self._run(self._ends, seconds)
        return ends

    def exists(self, seconds: float) -> bool:
        """Return whether the topic exists. Raises as :meth:`ask` does."""
        found: bool = self._run(self.is_there, seconds)
        return found

    async def is_there(self, cluster: RawCluster) -> bool:
        """Return whether the topic exists; for :meth:`patiently`."""
        found = (await metadata(cluster, [self._at.topic]))[self._at.topic]
        return found.error not in codes.NO_SUCH_TOPIC

    def _run(self, ask: Callable[[RawCluster], Awaitable[Any]], seconds: float) -> Any:
        if not isinstance(self._on, RawCluster) and self._cluster is None:
            self._cluster = RawCluster(EventLoop(), self._on, "log")
        assert self._cluster is not None  # noqa: S101  one of the two
        return self._cluster.loop.run(self.patiently, self._cluster, ask, seconds)

    def close(self) -> None:
        """Let go of the connections; a later question makes new ones."""
        if self._cluster is not None and self._cluster is not self._on:
            self._cluster.close()
            self._cluster.loop.close()
            self._cluster = None

    async def patiently(
        self, cluster: RawCluster, ask: Callable[[RawCluster], Awaitable[T]], seconds: float
    ) -> T:
        """Ask again until there is an answer. Raises as :meth:`ask` does."""
        deadline = monotonic() + seconds
        while True:
            try:
                await cluster.connected(max(1, round(1000 * (deadline - monotonic()))))
                return await ask(cluster)
            except (RawError, ClusterUnreachable, NoAnswerYet) as error:
                if monotonic() > deadline:
                    raise self._unknown(error) from error
            await cluster.loop.sleep(_PAUSE_SECONDS)

    async def _ends(self, cluster: RawCluster) -> LogEnds:
        return await self._ends_of(cluster, await self._leader(cluster))

    async def _ends_of(self, cluster: RawCluster, leader: PartitionLeader) -> LogEnds:
        found = []
        for committed in (False, True):
            answer = await list_offsets(
                cluster, leader.node, {self._at: LATEST}, committed=committed,
                epochs={self._at: leader.epoch}, timeout_ms=_LEADER_MS,
            )  # fmt: skip
            code = answer[self._at].error
            if code in codes.NOT_AUTHORIZED:
                raise self._refused(code)
            if code:  # also where it has not heard yet that it leads
                raise NoAnswerYet(codes.error_name(code))
            found.append(answer[self._at].offset)
        return LogEnds(*found)

    async def _leader(self, cluster: RawCluster) -> PartitionLeader:
        known = [] if self._replicas else [await self._view(cluster, None)]
        self._replicas = replicas = self._replicas or known[0].replicas
        if not known or len(replicas) > 1:
            views = await self._views(cluster, replicas)
            known += views
            self._count(len(views), len(replicas))
        newest = max(known, key=lambda leader: leader.epoch)
        self._replicas = newest.replicas
        if newest.node < 0:
            raise NoAnswerYet("it has no leader")
        return newest

    def _count(self, answered: int, replicas: int) -> None:
        """Refuse the word of a few as long as the others may still answer."""
        if 2 * answered > replicas:
            self._few_since = None
            return
        self._few_since = self._few_since or monotonic()
        if not answered:
            self._replicas = ()  # they may be others now
        if not answered or monotonic() - self._few_since < _FEW_SECONDS:
            raise NoAnswerYet(f"{answered} of {counted(replicas, 'replica')} answer")

    async def _views(self, cluster: RawCluster, replicas: tuple[int, ...]) -> list[PartitionLeader]:
        """What most of some brokers say; fewer where the others do not answer."""
        found: list[PartitionLeader] = []
        missing, enough = set(replicas), Future()

        async def ask(node: int) -> None:
            try:
                found.append(await self._view(cluster, node))
            except (RawError, DrkitError, NoAnswerYet):  # the others may answer
                return
            finally:
                missing.discard(node)
                few = self._few_since is not None and monotonic() - self._few_since > _FEW_SECONDS
                wanted = 0 if few else len(replicas) // 2
                if not enough.is_done and (not missing or len(found) > wanted):
                    enough.success(None)

        for node in replicas:
            cluster.loop.spawn(ask, node)
        await enough
        return list(found)

    async def _view(self, cluster: RawCluster, node: int | None) -> PartitionLeader:
        topic = (await metadata(cluster, [self._at.topic], node, timeout_ms=_ONE_MS))[self._at.topic]
        if topic.error in codes.NOT_AUTHORIZED:
            raise self._refused(topic.error)
        leader = topic.leaders.get(self._at.partition)
        if leader is None:
            raise NoAnswerYet(codes.error_name(topic.error))
        if self.topic_id.int and self.topic_id != topic.topic_id:
            raise self._restarted(f"it was created again, with id {topic.topic_id}")
        self.topic_id = topic.topic_id
        return leader

    def _restarted(self, evidence: str) -> LogRestarted:
        return LogRestarted("log_restarted", where=f"{self._at} on {self._on.alias}", evidence=evidence)

    def _refused(self, code: int) -> NotAuthorized:
        return NotAuthorized(
            "not_authorized_for_log_end",
            where=f"{self._at} on {self._on.alias}",
            evidence=codes.error_name(code),
        )

    def _unknown(self, why: Exception) -> Failed:
        evidence = why.evidence if isinstance(why, ClusterUnreachable) else str(why) or repr(why)
        return Failed("log_end_unknown", where=f"{self._at} on {self._on.alias}", evidence=evidence)


class LogRestarted(Failed):
    """The log is not the one that was read until now."""


class NoAnswerYet(Exception):
    """An answer without what was asked, so the question is repeated; the text is the evidence."""
