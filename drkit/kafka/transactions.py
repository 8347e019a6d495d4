"""Transactions by hand: a producer whose steps are single requests, markers, and open transactions (KIP-664).

The caller times and orders each step; no retry hides a fenced or unknown result. AddPartitionsToTxn and
EndTxn have at most version 3: from version 5 on a commit bumps the epoch (KIP-890), which the caller would
have to follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka.errors import for_code
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
)

from drkit.counted import first_of
from drkit.errors import Failed, NotAuthorized
from drkit.kafka import codes
from drkit.kafka.codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_MOVES,
    NOT_AUTHORIZED,
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    bare_name,
    error_name,
)
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import (
    ProducerState,
    describe_producers,
    grouped,
    leader_of,
    metadata,
    partitions_of,
)
from drkit.model import TopicPartition

_VERSION = 3
_TRANSACTION_COORDINATOR = 1
_RETRY = COORDINATOR_MOVES | {CONCURRENT_TRANSACTIONS}
_PATIENCE = 150
_PAUSE_SECONDS = 0.02
_PAUSE_LIMIT_SECONDS = 0.5
_LOG: Final = "__transaction_state"
"""The coordinators' log: the leader of a partition of it is a coordinator."""
_CALL_MS: Final = 10_000
_TRIES: Final = 20
_ABORT_PAUSE_SECONDS: Final = 0.1
_COMMITS: Final = "PrepareCommit"
_ABORTS: Final = frozenset({"PrepareAbort", "PrepareEpochFence"})
_ON_ITS_WAY_MS: Final = 5_000
_KEEPS: Final = 60_000
"""Milliseconds. The time limit of later transactions under this id is the next producer's to choose."""


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

    async def _ask(self, request: Any, codes: Any, name: str) -> Any:
        """Send to the coordinator, again while it loads, moves or still writes markers."""
        pause, seen = _PAUSE_SECONDS, -1
        for _ in range(_PATIENCE):
            try:
                if self._coordinator is None or self._coordinator < 0:
                    self._coordinator = await _coordinator(self.cluster, self.transactional_id)
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
    answer = await cluster.send(WriteTxnMarkersRequest(markers=wanted), node, timeout_ms=_CALL_MS)
    return {
        (m.producer_id, TopicPartition(t.name, p.partition_index)): p.error_code
        for m in answer.markers
        for t in m.topics
        for p in t.partitions
    }


class OpenProducer(NamedTuple):
    """A producer that holds back a partition's last stable offset."""

    node: int
    """The partition's leader."""
    producer_id: int
    state: ProducerState


class Owner(NamedTuple):
    """What its coordinator knows of a producer."""

    transactional_id: str
    state: str
    """Kafka's name of it."""

    @property
    def is_decided(self) -> bool:
        """Whether its transaction has ended; the markers may not have reached the partitions yet."""
        return self.state in {_COMMITS, *_ABORTS}

    @property
    def commits(self) -> bool:
        """Whether the decision is a commit."""
        return self.state == _COMMITS


class Owners(NamedTuple):
    """What the coordinators that answer know of some producers."""

    owners: dict[int, Owner]
    silent: str
    """Which coordinators do not answer, and why; empty: producers that are left out have no coordinator."""


class Ongoing(NamedTuple):
    """The current transaction of a producer, as its coordinator describes it."""

    owner: Owner
    timeout_ms: int
    """After this time the coordinator aborts it."""
    started_ms: int
    """−1: it has none."""
    partitions: frozenset[TopicPartition]
    """What belongs to it; once it is decided, only what has no marker yet."""


async def open_on(cluster: RawCluster, topics: Iterable[str]) -> dict[TopicPartition, list[OpenProducer]]:
    """Open transactions by partition, as the leaders that answer see them. Raises RawError if no answer."""
    found = await metadata(cluster, sorted(topics))
    leaders = {at: leader_of(found, at) for at in partitions_of(found)}
    return await open_in(cluster, {at: node for at, node in leaders.items() if node >= 0})


async def open_in(
    cluster: RawCluster, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[OpenProducer]]:
    """Open transactions of some partitions.

    :param leaders: the partitions, each with the broker that leads it
    :raises RawError: no answer
    """
    found: dict[TopicPartition, list[OpenProducer]] = {}
    for node in dict.fromkeys(leaders.values()):
        some = [at for at, leader in leaders.items() if leader == node]
        for at, (error, producers) in (await describe_producers(cluster, node, some)).items():
            opened = [OpenProducer(node, i, s) for i, s in sorted(producers.items()) if s.open_since >= 0]
            if opened and not error:
                found[at] = opened
    return found


async def owners(cluster: RawCluster, producers: Iterable[int]) -> dict[int, Owner]:
    """What coordinators know of producers, asked of every broker known; other ids are left out."""
    return (await _owners(cluster, cluster.nodes(), producers))[0]


async def all_owners(cluster: RawCluster, producers: Iterable[int]) -> Owners:
    """The same, and whether every coordinator has answered. Raises RawError if no broker answers."""
    leaders = (await metadata(cluster, [_LOG]))[_LOG].leaders
    coordinators = {leader.node for leader in leaders.values() if leader.node >= 0}
    # A broker that has just come back is not among those known.
    found, silent = await _owners(cluster, {*cluster.nodes(), *coordinators}, producers)
    missing = [f"{_LOG}-{p} has no leader" for p, leader in sorted(leaders.items()) if leader.node < 0]
    missing += [
        f"broker {node}: {why}" for node, why in sorted(silent.items()) if node in coordinators or not leaders
    ]
    return Owners(found, "; ".join(missing))


async def ongoing(cluster: RawCluster, producers: Iterable[int]) -> dict[int, Ongoing]:
    """The transactions of producers, as their coordinators describe them.

    A producer without a coordinator, or whose transactional id drkit may not DESCRIBE, is left out;
    before Kafka 3.0 no broker answers this.
    """
    found = {}
    for t in (await _described(cluster, producers=producers)).values():
        partitions = frozenset(TopicPartition(x.topic, p) for x in t.topics for p in x.partitions)
        owner = Owner(t.transactional_id, t.transaction_state)
        timeout, started = t.transaction_timeout_ms, t.transaction_start_time_ms
        found[t.producer_id] = Ongoing(owner, timeout, started, partitions)
    return found


async def hanging(cluster: RawCluster, topics: Iterable[str], now_ms: int) -> dict[str, int]:
    """Transactional ids whose decided transaction waits for markers in some topics, and their coordinators.

    A coordinator whose marker was refused for its size never sends it again, and answers its producer with
    CONCURRENT_TRANSACTIONS until the broker is restarted.

    :param now_ms: of the cluster's clocks; a marker that is a few seconds old may still be on its way
    :raises RawError: no broker answers
    """
    names = set(topics)
    return {
        t.transactional_id: node
        for (node, _), t in (await _described(cluster, states=[_COMMITS, *sorted(_ABORTS)])).items()
        if t.transaction_start_time_ms < now_ms - _ON_ITS_WAY_MS and any(x.topic in names for x in t.topics)
    }


async def transactional_ids(cluster: RawCluster) -> frozenset[str]:
    """Return the transactional ids that all coordinators know.

    :raises RawError: a broker does not answer, or still loads its part of the log
    """
    found: set[str] = set()
    for node in cluster.nodes():
        answer = await _listed(cluster, node)
        if answer.error_code:
            raise RawError(f"{error_name(answer.error_code)} from broker {node}")
        found |= {t.transactional_id for t in answer.transaction_states}
    return frozenset(found)


async def _listed(
    cluster: RawCluster, node: int, producers: Iterable[int] = (), states: Iterable[str] = ()
) -> Any:
    """One broker's answer to ListTransactions: of all it coordinates, or of some producers or states."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=sorted(set(producers)), max_version=1
    )
    return await cluster.send(request, node, timeout_ms=_CALL_MS)


async def _owners(
    cluster: RawCluster, nodes: Iterable[int], producers: Iterable[int]
) -> tuple[dict[int, Owner], dict[int, str]]:
    """What brokers know of producers; and the brokers without a whole answer, each with the reason."""
    wanted = list(producers)
    answers, silent = await cluster.ask_each(nodes, lambda node: _listed(cluster, node, wanted))
    why = {node: str(error) for node, error in silent.items()}
    why |= {node: error_name(a.error_code) for node, a in answers.items() if a.error_code}
    states = (t for a in answers.values() for t in a.transaction_states)
    return {t.producer_id: Owner(t.transactional_id, t.transaction_state) for t in states}, why


async def _described(
    cluster: RawCluster, producers: Iterable[int] = (), states: Iterable[str] = ()
) -> dict[tuple[int, str], Any]:
    """The transactions that coordinators list and describe, by broker and transactional id."""
    wanted = list(producers)

    async def ask(node: int) -> list[Any]:
        listed = (await _listed(cluster, node, wanted, states)).transaction_states
        if not listed:
            return []
        request = DescribeTransactionsRequest(transactional_ids=sorted(t.transactional_id for t in listed))
        return list((await cluster.send(request, node, timeout_ms=_CALL_MS)).transaction_states)

    # A broker that is down coordinates nothing now.
    answers, _ = await cluster.ask_each(cluster.nodes(), ask)
    return {(node, t.transactional_id): t for node, some in answers.items() for t in some if not t.error_code}


async def abort(cluster: RawCluster, transactional_id: str) -> int:
    """Have the coordinator abort what is open under an id, and refuse its producer from then on.

    Returns when that is decided, not when the markers are written. Kafka's error code, 0 for done.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_KEEPS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )
    code = -1
    for _ in range(_TRIES):
        try:
            node = await _coordinator(cluster, transactional_id)
            if node >= 0:
                code = int((await cluster.send(request, node, timeout_ms=_CALL_MS)).error_code)
        except RawError:
            code = -1
        if code not in {*codes.COORDINATOR_MOVES, -1}:
            break
        await cluster.loop.sleep(_ABORT_PAUSE_SECONDS)
    # With CONCURRENT_TRANSACTIONS the abort is decided, its markers are being written.
    return 0 if code == codes.CONCURRENT_TRANSACTIONS else code


async def _coordinator(cluster: RawCluster, transactional_id: str) -> int:
    request = FindCoordinatorRequest(key_type=_TRANSACTION_COORDINATOR, coordinator_keys=[transactional_id])
    found = (await cluster.send(request, timeout_ms=_CALL_MS)).coordinators[0]
    return int(found.node_id) if not found.error_code else -1
