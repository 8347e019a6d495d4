"""Requests of a replay to the new primary: leaders, ends, ranges of records, and refused batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from drkit.clock import monotonic
from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, DrkitError, Failed, NotAuthorized, Refused
from drkit.kafka import codes
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.reading.record_cursor import RecordCursor
from drkit.kafka.requests import (
    EARLIEST,
    LATEST,
    Append,
    TopicMetadata,
    fetch_one,
    list_offsets,
    metadata,
    produced,
)
from drkit.kafka.transactions import OpenProducer, open_in
from drkit.model import TopicPartition
from drkit.offset_map.left_open import left_open
from drkit.wire import Record, is_whole, split, stamp

AGAIN: Final = "run the same command again: what was appended is not appended again"
_MISFITS: Final = {
    codes.MESSAGE_TOO_LARGE: "batch_too_large",
    codes.RECORD_LIST_TOO_LARGE: "batch_too_large",
    codes.INVALID_TIMESTAMP: "record_too_old",
    codes.INVALID_RECORD: "record_refused",
}
"""Error of the broker → error for a batch that does not fit the settings of the topic."""
T = TypeVar("T")
MISSING: Final = UUID(int=0)
"""Id of a topic that does not exist."""
_FETCH_BYTES: Final = 4 << 20
_PATIENCE_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.1
_APPEND_MS: Final = 30_000
_NO_PRODUCER: Final = (-1, -1, -1)
_NEW_SECONDS: Final = 3.0
"""After this time a topic that a broker does not know is deleted; before, it may be new."""
TRANSACTION_MS: Final = 30_000
"""After a kill the coordinator ends what is open; until then readers of committed records wait."""
DECIDED_SECONDS: Final = 75.0
"""Longer than a transaction of drkit's own may take until its coordinator ends it."""


class ReplayTaken(Refused):
    """Another process replays into the partition, or this one was halted for too long."""


def taken(at: TopicPartition, alias: str, evidence: str) -> ReplayTaken:
    """Return the error of a replay that another process has fenced."""
    return ReplayTaken("replay_taken", where=f"{at} on {alias}", evidence=evidence)


def no_topic(topic: str, alias: str, evidence: str) -> Refused:
    """Return the error for a topic that was deleted or recreated since its promotion."""
    return Refused("replay_topic_recreated", where=f"{topic} on {alias}", evidence=evidence)


def refused_append(at: TopicPartition, alias: str, code: int, message: str | None) -> DrkitError:
    """Return the error for a batch that a leader did not accept."""
    evidence = error_name(code) + (f": {message}" if message else "")
    if code in codes.FENCED:
        return taken(at, alias, evidence)
    if code in codes.NOT_AUTHORIZED:
        return not_authorized("append to", at, alias, code)
    if code in codes.NO_SUCH_TOPIC:
        return no_topic(at.topic, alias, evidence)
    where = f"{at} on {alias}"
    if code in _MISFITS:
        return Refused(_MISFITS[code], where=where, evidence=evidence)
    return Failed("batch_refused", where=where, evidence=evidence)


def not_authorized(verb: str, at: TopicPartition, alias: str, code: int) -> NotAuthorized:
    """Return the error for a partition that drkit may not read or write."""
    where = f"{at} on {alias}"
    evidence = error_name(code)
    return NotAuthorized("not_authorized_to_replay", where=where, evidence=evidence, verb=verb, alias=alias)


class NotYet(Exception):
    """The question may be asked again; the text says what was answered."""


class Apart(NamedTuple):
    """Producers whose records are passed elsewhere."""

    ids: frozenset[int]
    take: Callable[[Record], None]


class ActiveSide:
    """Requests to the new primary, on one loop; a silent or former leader is retried for 30 s."""

    def __init__(self, cluster: RawCluster) -> None:
        self.cluster = cluster
        self.alias = cluster.alias
        self._topics: dict[str, TopicMetadata] = {}
        self._missing: dict[str, float] = {}
        """Topic that a broker does not know → since when."""

    def run(self, question: Callable[..., Awaitable[Any]], *given: object) -> Any:
        """Connect, and return the answer to a question. Raises ClusterUnreachable if no broker answers."""

        async def ask() -> Any:
            await self.cluster.connected()
            return await question(*given)

        try:
            return self.cluster.loop.run(ask)
        except RawError as error:
            error.hint += f"; then {AGAIN}"
            raise

    async def patiently(self, ask: Callable[[], Awaitable[T]], at: TopicPartition) -> T:
        """Ask until there is an answer. Raises ClusterUnreachable if no leader answers within 30 s."""
        deadline = monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return await ask()
            except (RawError, NotYet) as error:
                self.forget(at.topic)
                if monotonic() > deadline:
                    raise ClusterUnreachable(
                        "partition_silent", where=f"{at} on {self.alias}", evidence=str(error) or repr(error)
                    ) from error
            await self.cluster.loop.sleep(PAUSE_SECONDS)

    def forget(self, topic: str) -> None:
        """Ask for the leaders of a topic again before the next request."""
        self._topics.pop(topic, None)

    async def topic_id(self, name: str) -> UUID:
        """Return the id of a topic. Raises as :meth:`leader` does."""
        return (await self._topic(name)).topic_id

    async def leader(self, at: TopicPartition, topic_id: UUID) -> int:
        """Return the broker that leads a partition.

        :raises Refused: the topic is another one, or has no such partition
        :raises NotYet: it has no leader at the moment
        :raises RawError: no answer
        """
        topic = await self._topic(at.topic)
        if topic.topic_id != topic_id:
            raise no_topic(at.topic, self.alias, f"it had the id {topic_id}, now {topic.topic_id}")
        leader = topic.leaders.get(at.partition)
        if leader is None:
            raise no_topic(at.topic, self.alias, f"it has no partition {at.partition}")
        if leader.node < 0:
            raise NotYet("it has no leader")
        return leader.node

    async def _topic(self, name: str) -> TopicMetadata:
        if name not in self._topics:
            topic = (await metadata(self.cluster, [name]))[name]
            if topic.error in codes.NOT_AUTHORIZED:
                raise not_authorized("see", TopicPartition(name, 0), self.alias, topic.error)
            since = self._missing.setdefault(name, monotonic())
            if topic.error in codes.NO_SUCH_TOPIC and monotonic() - since > _NEW_SECONDS:
                raise no_topic(name, self.alias, error_name(topic.error))
            if topic.error:
                raise NotYet(error_name(topic.error))
            self._missing.pop(name, None)
            self._topics[name] = topic
        return self._topics[name]

    async def opened(
        self, places: Mapping[TopicPartition, UUID], ids: Container[int] | None = None
    ) -> list[OpenProducer]:
        """Return the open transactions of some producers on some partitions, if their topics still exist.

        :param places: the partitions, each with the id of its topic
        :param ids: the producers, or None for all
        :raises NotYet: a partition has no leader at the moment
        :raises RawError: no answer
        """
        leaders = {}
        for tp, topic_id in places.items():
            with suppress(Refused):
                leaders[tp] = await self.leader(tp, topic_id)
        try:
            return await open_in(self.cluster, leaders, ids, complete=True)
        except RawError:
            self._topics.clear()
            raise

    async def hanging(self, places: Mapping[TopicPartition, UUID]) -> set[str]:
        """Return transactional ids with something open that has ended. Raises as :meth:`opened` does."""
        return set(await left_open(self.cluster, partial(self.opened, places)))

    async def start(self, at: TopicPartition, topic_id: UUID) -> int:
        """Return the log start of a partition. Raises DrkitError."""
        return await self._listed(at, topic_id, EARLIEST, committed=False)

    async def end(self, at: TopicPartition, topic_id: UUID, *, committed: bool = False) -> int:
        """Return the high watermark of a partition, or its last stable offset. Raises DrkitError."""
        return await self._listed(at, topic_id, LATEST, committed=committed)

    async def _listed(self, at: TopicPartition, topic_id: UUID, which: int, *, committed: bool) -> int:
        async def ask() -> int:
            node = await self.leader(at, topic_id)
            answer = (await list_offsets(self.cluster, node, {at: which}, committed=committed))[at]
            self._check(answer.error, at)
            return answer.offset

        return await self.patiently(ask, at)

    async def decided_end(self, at: TopicPartition, topic_id: UUID) -> int:
        """Return the end once every transaction before it is decided. Raises Refused if one hangs."""
        end, deadline = await self.end(at, topic_id), monotonic() + DECIDED_SECONDS
        while (stable := await self.end(at, topic_id, committed=True)) < end:
            hanging = first_of(sorted(await self.patiently(partial(self.hanging, {at: topic_id}), at)))
            if hanging or monotonic() > deadline:
                evidence = f"its coordinator has ended {hanging}" if hanging else f"{DECIDED_SECONDS:.0f} s"
                evidence = f"its last stable offset is {stable}, its end {end}: {evidence}"
                raise Refused("replay_open_transaction", where=f"{at} on {self.alias}", evidence=evidence)
            await self.cluster.loop.sleep(PAUSE_SECONDS)
        return end

    async def read(
        self,
        at: TopicPartition,
        topic_id: UUID,
        span: tuple[int, int],
        take: Callable[[Record], None],
        *,
        committed: bool = True,
        apart: Apart | None = None,
    ) -> bool:
        """Pass every record of a range to `take`; return whether compaction has removed none of them.

        :param span: half open; its end is not after the partition's
        :param committed: without records of aborted transactions
        :param apart: takes the records of some producers instead
        :raises Refused: retention has removed the beginning, or the topic is another one
        :raises DrkitError: the partition does not answer, or refuses
        """
        where, whole = f"{at} on {self.alias}", True
        ids = apart.ids if apart is not None else frozenset[int]()

        async def fetch(offset: int, most_bytes: int) -> Any:
            return await self.patiently(lambda: ask(offset, most_bytes), at)

        async def ask(offset: int, most_bytes: int) -> Any:
            node, topic = await self.leader(at, topic_id), (at.topic, topic_id)
            answer = await fetch_one(
                self.cluster, node, topic, at.partition, offset, committed=committed, max_bytes=most_bytes
            )
            if answer.error_code == codes.OFFSET_OUT_OF_RANGE:
                evidence = f"offset {offset} is needed, the log starts at {answer.log_start_offset}"
                raise Refused("replay_not_comparable", where=where, evidence=evidence)
            self._check(answer.error_code, at)
            if not answer.records:
                raise NotYet(f"no record at offset {offset}")
            return answer

        cursor = RecordCursor(where, fetch, span, committed=committed, fetch_bytes=_FETCH_BYTES, hint=AGAIN)
        while (step := await cursor.next()) is not None:
            whole = whole and is_whole(step.answer.records, step.position)
            headers = [h for h, _ in split(step.answer.records) if h.producer_id in ids] if ids else []
            for record in step.records:
                if apart is not None and any(h.base_offset <= record.offset < h.next_offset for h in headers):
                    apart.take(record)
                else:
                    take(record)
        return whole

    async def append(self, at: TopicPartition, topic_id: UUID, data: bytearray) -> None:
        """Append a batch outside of a transaction; a repeated one may be there twice. Raises DrkitError."""
        stamp(data, *_NO_PRODUCER, transactional=False)

        async def ask() -> None:
            node = await self.leader(at, topic_id)
            batch = Append(at.topic, topic_id, at.partition, data)
            code = (await produced(self.cluster, node, [batch], timeout_ms=_APPEND_MS))[at]
            if code in codes.APPEND_AGAIN:
                raise NotYet(error_name(code))
            if code:
                raise refused_append(at, self.alias, code, None)

        await self.patiently(ask, at)

    def _check(self, code: int, at: TopicPartition) -> None:
        if code in codes.NOT_AUTHORIZED:
            raise not_authorized("read", at, self.alias, code)
        if code:
            raise NotYet(error_name(code))
