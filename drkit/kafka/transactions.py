"""Transactions by hand: a producer whose steps are single requests, markers, and open transactions (KIP-664).

The caller times and orders each step; no retry hides a fenced or unknown result. AddPartitionsToTxn and
EndTxn have at most version 3: from version 5 on a commit bumps the epoch (KIP-890), which the caller would
have to follow.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, NamedTuple

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
from drkit.offsets.map_record import SEQUENCE_MODULUS
from drkit.wire import stamp

_VERSION = 3
_TRANSACTION_COORDINATOR = 1
_RETRY = COORDINATOR_MOVES | {CONCURRENT_TRANSACTIONS}
_PATIENCE = 150
_PAUSE_SECONDS = 0.02
_PAUSE_LIMIT_SECONDS = 0.5
_LOG: Final = "__transaction_state"
"""The coordinators' log: each leader of one of its partitions is a coordinator."""
_CALL_MS: Final = 10_000
_TRIES: Final = 20
_ABORT_PAUSE_SECONDS: Final = 0.1
_COMMITS: Final = "PrepareCommit"
_ABORTS: Final = frozenset({"PrepareAbort", "PrepareEpochFence"})
_ON_ITS_WAY_MS: Final = 5_000
_KEEPS: Final = 60_000
"""Milliseconds. The next producer of this id sets its own timeout."""


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
    """Return a new producer id without a transactional id (KIP-98), from any broker."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    code = -1
    for _ in range(_PATIENCE):
        answer = await cluster.send(request)
        if not (code := answer.error_code):
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)
        if code not in _RETRY:
            break
        await cluster.loop.sleep(_PAUSE_SECONDS)  # a broker just started has no block of ids yet
    raise TransactionFailed("no_producer_id", kafka_code=code, where=cluster.alias, evidence=error_name(code))


class Transactions:
    """The coordinator's side of one transactional id."""

    def __init__(self, cluster: RawCluster, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator: int | None = None
        self.identity = ProducerIdentity(-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

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
        self._sequences.clear()
        return self.identity

    def stamp(self, at: TopicPartition, data: bytearray, records: int) -> None:
        """Make a batch the next one of this epoch in a partition."""
        sequence = self._sequences.get(at, 0)
        stamp(data, *self.identity, sequence, transactional=True)
        self._sequences[at] = (sequence + records) % SEQUENCE_MODULUS

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction, before anything is written to them."""
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
            errors = [
                (p.partition_error_code, t.name)
                for t in answer.results_by_topic_v3_and_below
                for p in t.results_by_partition
            ]
            refused.update(topic for code, topic in errors if code == TOPIC_AUTHORIZATION_FAILED)
            # After a refusal the other partitions are not tried; their code does not show the reason.
            return sorted((code for code, _ in errors), key=OPERATION_NOT_ATTEMPTED.__eq__)

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
        pause, code, silence = _PAUSE_SECONDS, -1, ""
        for _ in range(_PATIENCE):
            try:
                if self._coordinator is None or self._coordinator < 0:
                    self._coordinator = await _coordinator(self.cluster, self.transactional_id)
                if self._coordinator >= 0:
                    answer = await self.cluster.send(request(), self._coordinator, timeout_ms=15_000)
                    failed = [c for c in codes(answer) if c]
                    if not failed:
                        return answer
                    code, silence = failed[0], ""
                    if code not in _RETRY:
                        break
                    if code != CONCURRENT_TRANSACTIONS:  # with this one the coordinator is right
                        self._coordinator = None
            except RawError as error:
                code, silence, self._coordinator = -1, error.evidence, None
            await self.cluster.loop.sleep(pause)
            pause = min(pause * 1.5, _PAUSE_LIMIT_SECONDS)
        if code in NOT_AUTHORIZED:
            raise NotAuthorized(
                "not_authorized_for_transactions",
                where=self.cluster.alias,
                evidence=bare_name(code),
                name=name,
                transactional_id=self.transactional_id,
                cluster=self.cluster.alias,
            )
        raise TransactionFailed(
            "transaction_failed",
            kafka_code=code,
            where=self.cluster.alias,
            evidence=silence or error_name(code),
            name=name,
            transactional_id=self.transactional_id,
        )


class Marker(NamedTuple):
    """The end of one producer's transaction on some partitions that one broker leads."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """The leader's last one for this producer, or 0 if it knows none. A smaller one is refused."""
    partitions: tuple[TopicPartition, ...]
    commits: bool = False
    """True to commit, False to abort."""


async def write_markers(
    cluster: RawCluster, node: int, markers: Iterable[Marker]
) -> Mapping[tuple[int, TopicPartition], int]:
    """Write markers, which needs ALTER on the cluster; return Kafka's error codes.

    The leader then refuses every older epoch of the producer. An answer without error means that the marker
    is replicated. May be repeated: each costs one offset.

    :raises RawError: no answer
    """
    marker_of = WriteTxnMarkersRequest.WritableTxnMarker
    topic_of = marker_of.WritableTxnMarkerTopic
    requested = [
        marker_of(
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
            transaction_result=marker.commits,
            topics=[topic_of(name=t, partition_indexes=n) for t, n in grouped(marker.partitions)],
            coordinator_epoch=marker.coordinator_epoch,
        )
        for marker in markers
    ]
    answer = await cluster.send(WriteTxnMarkersRequest(markers=requested), node, timeout_ms=_CALL_MS)
    return {
        (marker.producer_id, TopicPartition(t.name, p.partition_index)): p.error_code
        for marker in answer.markers
        for t in marker.topics
        for p in t.partitions
    }


class OpenProducer(NamedTuple):
    """A producer that holds back a partition's last stable offset."""

    at: TopicPartition
    node: int
    """The partition's leader."""
    producer_id: int
    state: ProducerState

    async def end(self, cluster: RawCluster, epoch: int, *, commits: bool) -> int:
        """Write the marker that its coordinator has left out; return Kafka's error code.

        :param epoch: the producer's newest; with it the marker also fences appends that may be in flight
        :raises RawError: no answer
        """
        marker = Marker(self.producer_id, epoch, max(0, self.state.coordinator_epoch), (self.at,), commits)
        return (await write_markers(cluster, self.node, [marker])).get((self.producer_id, self.at), -1)


class Owner(NamedTuple):
    """A producer, as its coordinator knows it."""

    transactional_id: str
    state: str
    """Kafka's name of the transaction's state."""

    @property
    def is_decided(self) -> bool:
        """Return whether its transaction has ended; the markers may not have reached the partitions yet."""
        return self.state in {_COMMITS, *_ABORTS}

    @property
    def commits(self) -> bool:
        """Return whether the decision is a commit."""
        return self.state == _COMMITS


class Owners(NamedTuple):
    """Owners of some producers, from the coordinators that answer."""

    owners: dict[int, Owner]
    silent: str
    """Coordinators without an answer, and the reasons; if empty, missing producers have no coordinator."""


class Ongoing(NamedTuple):
    """The current transaction of a producer, as its coordinator describes it."""

    owner: Owner
    timeout_ms: int
    """After this time the coordinator aborts it."""
    started_ms: int
    """−1 if it has no transaction."""
    partitions: frozenset[TopicPartition]
    """Its partitions; once it is decided, only those without a marker."""


async def open_on(cluster: RawCluster, topics: Iterable[str]) -> list[OpenProducer]:
    """Return open transactions on topics. Raises RawError if a leader does not answer."""
    described = await metadata(cluster, sorted(topics))
    partitions = partitions_of(described)
    return await open_in(cluster, {tp: n for tp in partitions if (n := leader_of(described, tp)) >= 0})


async def open_in(
    cluster: RawCluster,
    leaders: Mapping[TopicPartition, int],
    of: Container[int] | None = None,
    *,
    complete: bool = False,
) -> list[OpenProducer]:
    """Return open transactions on some partitions.

    :param leaders: the partitions, each with the broker that leads it
    :param of: the producers, or None for all
    :param complete: a partition whose leader refuses to answer is an error, and is not left out
    :raises RawError: a leader does not answer
    """
    opened: list[OpenProducer] = []
    for node in dict.fromkeys(leaders.values()):
        led = [tp for tp, leader in leaders.items() if leader == node]
        for tp, (error, producers) in (await describe_producers(cluster, node, led)).items():
            if error and complete:
                raise RawError(f"{tp}: {error_name(error)}")
            every = (OpenProducer(tp, node, i, s) for i, s in sorted(producers.items()) if s.open_since >= 0)
            opened += [o for o in every if not error and (of is None or o.producer_id in of)]
    return opened


async def owners(cluster: RawCluster, producers: Iterable[int]) -> dict[int, Owner]:
    """Return the owners of producers, asked of every known broker; ids without one are left out."""
    return (await _owners(cluster, cluster.nodes(), producers))[0]


async def all_owners(cluster: RawCluster, producers: Iterable[int]) -> Owners:
    """Return the owners and the silent coordinators. Raises RawError if no broker answers."""
    leaders = (await metadata(cluster, [_LOG]))[_LOG].leaders
    coordinators = {leader.node for leader in leaders.values() if leader.node >= 0}
    # A broker that has just come back is not among those known.
    known, silent = await _owners(cluster, {*cluster.nodes(), *coordinators}, producers)
    missing = [f"{_LOG}-{p} has no leader" for p, leader in sorted(leaders.items()) if leader.node < 0]
    relevant = sorted(node for node in silent if node in coordinators or not leaders)
    missing += [f"broker {node}: {silent[node]}" for node in relevant]
    return Owners(known, "; ".join(missing))


async def ongoing(cluster: RawCluster, producers: Iterable[int]) -> dict[int, Ongoing]:
    """Return the transactions of producers, as their coordinators describe them.

    A producer without a coordinator, or with a transactional id that drkit may not DESCRIBE, is left out;
    brokers before Kafka 3.0 do not know the request.
    """
    return {
        t.producer_id: Ongoing(
            Owner(t.transactional_id, t.transaction_state),
            t.transaction_timeout_ms,
            t.transaction_start_time_ms,
            frozenset(TopicPartition(x.topic, p) for x in t.topics for p in x.partitions),
        )
        for t in (await _described(cluster, producers=producers)).values()
    }


async def hanging(cluster: RawCluster, now_ms: int, topics: Container[str] | None = None) -> dict[str, int]:
    """Transactional ids whose decided transaction waits for markers, and their coordinators.

    A coordinator whose marker was refused for its size never sends it again, and answers its producer with
    CONCURRENT_TRANSACTIONS until the broker is restarted.

    :param now_ms: of the cluster's clocks; a marker that is a few seconds old may still be on its way
    :param topics: those whose markers it waits for, or None for all
    :raises RawError: no broker answers
    """
    return {
        t.transactional_id: node
        for (node, _), t in (await _described(cluster, states=[_COMMITS, *sorted(_ABORTS)])).items()
        if t.transaction_start_time_ms < now_ms - _ON_ITS_WAY_MS
        and (topics is None or any(x.topic in topics for x in t.topics))
    }


async def transactional_ids(cluster: RawCluster) -> frozenset[str]:
    """Return all transactional ids. Raises RawError if a broker is silent or still loads its log."""
    ids: set[str] = set()
    for node in cluster.nodes():
        answer = await _listed(cluster, node)
        if answer.error_code:
            raise RawError(f"{error_name(answer.error_code)} from broker {node}")
        ids |= {t.transactional_id for t in answer.transaction_states}
    return frozenset(ids)


async def _listed(
    cluster: RawCluster, node: int, producers: Iterable[int] = (), states: Iterable[str] = ()
) -> Any:
    """Send ListTransactions to one broker: for all it coordinates, or for some producers or states."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=sorted(set(producers)), max_version=1
    )
    return await cluster.send(request, node, timeout_ms=_CALL_MS)


async def _owners(
    cluster: RawCluster, nodes: Iterable[int], producers: Iterable[int]
) -> tuple[dict[int, Owner], dict[int, str]]:
    """Return the owners of producers, and the brokers without a complete answer, each with the reason."""
    producer_ids = list(producers)
    answers, silent = await cluster.ask_each(nodes, lambda node: _listed(cluster, node, producer_ids))
    reasons = {node: str(error) for node, error in silent.items()}
    reasons |= {node: error_name(a.error_code) for node, a in answers.items() if a.error_code}
    states = (t for a in answers.values() for t in a.transaction_states)
    return {t.producer_id: Owner(t.transactional_id, t.transaction_state) for t in states}, reasons


async def _described(
    cluster: RawCluster, producers: Iterable[int] = (), states: Iterable[str] = ()
) -> dict[tuple[int, str], Any]:
    """List and describe transactions; return them by broker and transactional id."""
    producer_ids = list(producers)

    async def ask(node: int) -> list[Any]:
        listed = (await _listed(cluster, node, producer_ids, states)).transaction_states
        if not listed:
            return []
        request = DescribeTransactionsRequest(transactional_ids=sorted(t.transactional_id for t in listed))
        return list((await cluster.send(request, node, timeout_ms=_CALL_MS)).transaction_states)

    # A broker that is down coordinates nothing now.
    answers, _ = await cluster.ask_each(cluster.nodes(), ask)
    return {
        (node, t.transactional_id): t
        for node, described in answers.items()
        for t in described
        if not t.error_code
    }


async def abort(cluster: RawCluster, transactional_id: str) -> int:
    """Have the coordinator abort what is open under an id, and refuse its producer from then on.

    Returns Kafka's error code, 0 if the abort is decided; its markers may not be written yet.
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
    coordinator = (await cluster.send(request, timeout_ms=_CALL_MS)).coordinators[0]
    return int(coordinator.node_id) if not coordinator.error_code else -1
