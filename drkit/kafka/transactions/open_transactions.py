"""Open transactions, as coordinators and partition leaders know them (KIP-664); aborting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer.transaction import InitProducerIdRequest

from drkit.kafka import codes
from drkit.kafka.codes import error_name
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import ProducerState, describe_producers, leader_of, metadata, partitions_of
from drkit.model import TopicPartition

_TRANSACTION: Final = 1
_LOG: Final = "__transaction_state"
"""The coordinators' log: the leader of a partition of it is a coordinator."""
_TIMEOUT_MS: Final = 10_000
_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.1
_COMMITS: Final = "PrepareCommit"
_ABORTS: Final = frozenset({"PrepareAbort", "PrepareEpochFence"})
_ON_ITS_WAY_MS: Final = 5_000
_KEEPS: Final = 60_000
"""Milliseconds. The time limit of later transactions under this id is the next producer's to choose."""


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
    """Open transactions by partition, as the leaders that answer see them.

    :raises RawError: no answer
    """
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
    """The same, and whether every coordinator has answered.

    :raises RawError: no broker answers
    """
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
    return await cluster.send(request, node, timeout_ms=_TIMEOUT_MS)


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
        return list((await cluster.send(request, node, timeout_ms=_TIMEOUT_MS)).transaction_states)

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
                code = int((await cluster.send(request, node, timeout_ms=_TIMEOUT_MS)).error_code)
        except RawError:
            code = -1
        if code not in {*codes.COORDINATOR_MOVES, -1}:
            break
        await cluster.loop.sleep(_PAUSE_SECONDS)
    # With CONCURRENT_TRANSACTIONS the abort is decided, its markers are being written.
    return 0 if code == codes.CONCURRENT_TRANSACTIONS else code


async def _coordinator(cluster: RawCluster, transactional_id: str) -> int:
    request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])
    found = (await cluster.send(request, timeout_ms=_TIMEOUT_MS)).coordinators[0]
    return int(found.node_id) if not found.error_code else -1
