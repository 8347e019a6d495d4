"""A transactional producer spoken by hand: the caller times and orders each request.

AddPartitionsToTxn and EndTxn have at most version 3: from version 5 on a commit bumps the epoch (KIP-890),
which the caller would have to follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka.errors import for_code
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
)

from drkit.counted import first_of
from drkit.errors import Failed, NotAuthorized
from drkit.kafka.codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_MOVES,
    NOT_AUTHORIZED,
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    bare_name,
)
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import grouped
from drkit.model import TopicPartition

_VERSION = 3
_TRANSACTION_COORDINATOR = 1
_RETRY = COORDINATOR_MOVES | {CONCURRENT_TRANSACTIONS}
_PATIENCE = 150
_PAUSE_SECONDS = 0.02
_PAUSE_LIMIT_SECONDS = 0.5


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    id: int
    epoch: int


class TransactionFailed(Failed):
    """A step of a transaction was refused; `code` is Kafka's error code."""

    def __init__(self, code: str, /, *, kafka_code: int = -1, **given: Any) -> None:
        super().__init__(code, **given)
        self.kafka_code = kafka_code


async def new_producer_id(cluster: RawCluster) -> ProducerIdentity:
    """A fresh producer id without a transactional id (KIP-98), from any broker."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    answer = None
    for _ in range(_PATIENCE):
        answer = await cluster.send(request)
        if not answer.error_code:
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)
        if answer.error_code not in _RETRY:
            break
        await cluster.loop.sleep(_PAUSE_SECONDS)  # a broker just started has no block of ids yet
    code = answer.error_code if answer is not None else -1
    raise TransactionFailed(
        "no_producer_id", kafka_code=code, where=cluster.alias, evidence=f"Kafka error code {code}"
    )


class Transactions:
    """The coordinator's side of one transactional id."""

    def __init__(self, cluster: RawCluster, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator: int | None = None
        self.identity = ProducerIdentity(-1, -1)

    async def begin_epoch(self) -> ProducerIdentity:
        """InitProducerId: aborts what a predecessor left open and fences it."""
        answer = await self._ask(
            lambda: InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
            ),
            lambda a: [a.error_code],
            "InitProducerId",
        )
        self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return self.identity

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell the coordinator which partitions the transaction writes to."""
        topic_of = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics = [topic_of(name=t, partitions=numbers) for t, numbers in grouped(partitions)]

        def request() -> Any:
            return AddPartitionsToTxnRequest(
                max_version=_VERSION,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.identity.id,
                v3_and_below_producer_epoch=self.identity.epoch,
                v3_and_below_topics=topics,
            )

        refused = set[str]()

        def codes(answer: Any) -> list[int]:
            found = [
                (p.partition_error_code, t.name)
                for t in answer.results_by_topic_v3_and_below
                for p in t.results_by_partition
            ]
            refused.update(topic for code, topic in found if code == TOPIC_AUTHORIZATION_FAILED)
            # Where one partition is refused the others are not tried; they say nothing of why.
            return sorted((code for code, _ in found), key=OPERATION_NOT_ATTEMPTED.__eq__)

        try:
            await self._ask(request, codes, "AddPartitionsToTxn")
        except NotAuthorized as error:
            if refused:
                raise self._may_not_write(refused) from error
            raise

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; markers are written after the answer."""
        await self._ask(
            lambda: EndTxnRequest(
                max_version=_VERSION,
                transactional_id=self.transactional_id,
                producer_id=self.identity.id,
                producer_epoch=self.identity.epoch,
                committed=commit,
            ),
            lambda a: [a.error_code],
            "EndTxn",
        )

    def _may_not_write(self, topics: Iterable[str]) -> NotAuthorized:
        some = first_of(sorted(topics))
        return NotAuthorized(
            "not_authorized_to_write",
            where=self.cluster.alias,
            evidence=f"{bare_name(TOPIC_AUTHORIZATION_FAILED)} for {some}, asked as the transactional id"
            f" {self.transactional_id}",
            topics=some,
            cluster=self.cluster.alias,
        )

    async def _find(self) -> int:
        request = FindCoordinatorRequest(
            key_type=_TRANSACTION_COORDINATOR, coordinator_keys=[self.transactional_id]
        )
        answer = await self.cluster.send(request, timeout_ms=10_000)
        found = answer.coordinators[0]
        return int(found.node_id) if not found.error_code else -1

    async def _ask(self, request: Any, codes: Any, name: str) -> Any:
        """Send to the coordinator, again while it loads, moves or still writes markers."""
        pause, seen = _PAUSE_SECONDS, -1
        for _ in range(_PATIENCE):
            try:
                if self._coordinator is None or self._coordinator < 0:
                    self._coordinator = await self._find()
                if self._coordinator >= 0:
                    answer = await self.cluster.send(request(), self._coordinator, timeout_ms=15_000)
                    failed = [c for c in codes(answer) if c]
                    if not failed:
                        return answer
                    seen = failed[0]
                    if seen not in _RETRY:
                        break
                    if seen != 51:  # noqa: PLR2004 - CONCURRENT_TRANSACTIONS: the coordinator is right
                        self._coordinator = None
            except RawError as error:
                seen, self._coordinator = getattr(error, "errno", -1), None
            await self.cluster.loop.sleep(pause)
            pause = min(pause * 1.5, _PAUSE_LIMIT_SECONDS)
        if seen in NOT_AUTHORIZED:
            raise NotAuthorized(
                "not_authorized_for_transactions",
                where=self.cluster.alias,
                evidence=for_code(seen).__name__,
                name=name,
                transactional_id=self.transactional_id,
                cluster=self.cluster.alias,
            )
        raise TransactionFailed(
            "transaction_failed",
            kafka_code=seen,
            where=self.cluster.alias,
            evidence=f"{for_code(seen).__name__} ({seen})",
            name=name,
            transactional_id=self.transactional_id,
        )


_TIMEOUT_MS = 10_000


class Marker(NamedTuple):
    """The end of one producer's transaction on some partitions that one broker leads."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """As the leader remembers it; 0 where it knows none. A smaller one is refused."""
    partitions: tuple[TopicPartition, ...]
    commits: bool = False
    """An abort, if not."""


async def write_markers(
    cluster: RawCluster, node: int, markers: Iterable[Marker]
) -> Mapping[tuple[int, TopicPartition], int]:
    """Write markers; Kafka's error codes by producer id and partition.

    An answer without error means that the marker is replicated. May be repeated: each costs one offset.

    :raises RawError: no answer
    """
    marker_of = WriteTxnMarkersRequest.WritableTxnMarker
    wanted = []
    for m in markers:
        topic_of = marker_of.WritableTxnMarkerTopic
        topics = [topic_of(name=t, partition_indexes=numbers) for t, numbers in grouped(m.partitions)]
        wanted.append(
            marker_of(
                producer_id=m.producer_id,
                producer_epoch=m.epoch,
                transaction_result=m.commits,
                topics=topics,
                coordinator_epoch=m.coordinator_epoch,
            )
        )
    answer = await cluster.send(WriteTxnMarkersRequest(markers=wanted), node, timeout_ms=_TIMEOUT_MS)
    return {
        (m.producer_id, TopicPartition(t.name, p.partition_index)): p.error_code
        for m in answer.markers
        for t in m.topics
        for p in t.partitions
    }
