"""The proof of a fence: an ordinary producer's record is refused by every partition's leader.

A refusal proves the fence only if the canary could write without it. A canary without WRITE is refused with
and without a fence. A canary that passes every ACL (a super user) is refused by none.

The canary's batch is one that a healthy leader refuses last: its header counts one record more than it has.
The broker checks permission, leader, in-sync replicas and size (UnifiedLog) before the batch's count
(LogValidator), so the error "invalid record" shows that all of them are fine. The count comes before each
record's key and timestamp: the answer is the same in a compacted topic, and in one with limits on timestamps.
Nothing is appended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from drkit.clock import Seconds, monotonic, wall_ms
from drkit.config import ClusterSettings
from drkit.counted import counted, first_of
from drkit.errors import ClusterUnreachable, DrkitError, Refused
from drkit.failover.fencing.methods import may_write
from drkit.kafka import codes
from drkit.kafka.codes import LEADER_MOVES, MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED
from drkit.kafka.raw import RawCluster, RawError, connections
from drkit.kafka.requests import ALL, Append, metadata, produced
from drkit.model import TopicPartition
from drkit.topology.acl_scope import writers
from drkit.topology.acls import Acl
from drkit.wire import Record, encode, stamp

WRITABLE: Final = codes.INVALID_RECORD
_COUNT_AT: Final = 57
"""Byte offset of the record count in a batch's header."""
_UNCOMPRESSED: Final = 0
_TIMEOUT_MS: Final = 10_000
_NO_ANSWER: Final = -1
_AGAIN: Final = LEADER_MOVES | {_NO_ANSWER}
"""Codes after which a partition is asked again: a leader change, or no answer."""


async def write_codes(
    cluster: RawCluster, topics: Iterable[str], acks: int = ALL
) -> dict[TopicPartition, int]:
    """Return each leader's error code, −1 without an answer; with `acks` 1 lagging replicas are no error."""
    out: dict[TopicPartition, int] = {}
    names = sorted(topics)
    for _ in range(2):
        described = await metadata(cluster, names)
        by_node: dict[int, list[Append]] = {}
        for name, topic in described.items():
            for number, leader in topic.leaders.items():
                if out.get(TopicPartition(name, number), _NO_ANSWER) in _AGAIN:
                    append = Append(name, topic.topic_id, number, _impossible())
                    by_node.setdefault(leader.node, []).append(append)
        for codes_of_node in await cluster.loop.together(partial(_ask, cluster, acks), by_node.items()):
            out |= codes_of_node
        if not any(code in _AGAIN for code in out.values()):
            break
    return out


async def _ask(cluster: RawCluster, acks: int, batch: tuple[int, list[Append]]) -> dict[TopicPartition, int]:
    node, appends = batch
    silent = {TopicPartition(a.topic, a.partition): _NO_ANSWER for a in appends}
    if node < 0:
        return silent
    try:
        return silent | await produced(cluster, node, appends, timeout_ms=_TIMEOUT_MS, acks=acks)
    except RawError:
        return silent


def canary_batch() -> bytearray:
    """Return a batch of one record, to be stamped."""
    return encode([Record(0, wall_ms(), b"canary", b"canary")], _UNCOMPRESSED)


def _impossible() -> bytearray:
    batch = canary_batch()
    batch[_COUNT_AT : _COUNT_AT + 4] = (2).to_bytes(4, "big")
    return stamp(batch, -1, -1, -1, transactional=False)


def code_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    return "no answer" if code == _NO_ANSWER else codes.error_name(code)


_REFUSED: Final = frozenset({MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED})
BY_ACL: Final = frozenset({TOPIC_AUTHORIZATION_FAILED})
"""The answer under a fence by ACL, also where the size refuses the record: the authorizer comes first."""
_LET_IN: Final = frozenset({MESSAGE_TOO_LARGE, WRITABLE})
"""Answers of a broker whose authorizer has let the canary pass."""
_LEADER: Final = 1
"""acks: with all of them a leader that lacks replicas in sync refuses before it comes to a fence by size."""
_PAUSE_SECONDS: Final = 0.05
_CONNECT_MS: Final = 5000


class Proof(NamedTuple):
    """The result of a canary on every partition."""

    refused: dict[TopicPartition, str]
    """Partitions that refuse the canary, and how."""
    without_leader: tuple[TopicPartition, ...]
    """Partitions that accept no writes for lack of a leader; a new leader knows the fence before it leads."""
    open: dict[TopicPartition, str]
    """Partitions that would take a record, or did not answer."""
    silent: frozenset[TopicPartition] = frozenset()
    """Partitions of `open` that did not answer, or whose leader moves."""

    @property
    def is_whole(self) -> bool:
        """Return whether no partition takes anything."""
        return not self.open

    @property
    def is_unknown(self) -> bool:
        """Return whether partitions did not answer, and none that did would take a record."""
        return bool(self.open) and self.open.keys() <= self.silent

    @property
    def taking(self) -> frozenset[TopicPartition]:
        """Partitions that would take a record."""
        return frozenset(self.open) - self.silent

    @property
    def in_words(self) -> str:
        """The state of the open partitions, in words. A silent one counts as unknown, not as writable."""
        if self.is_unknown:
            return f"does not answer in {counted(len(self.open), 'partition')}"
        return f"still takes writes in {counted(len(self.taking), 'partition')}"

    @property
    def places(self) -> str:
        """The open partitions, in words."""
        return first_of(f"{tp}: {why}" for tp, why in sorted(self.open.items()))


class Worth(Enum):
    """The value of a canary's refusals as a proof."""

    PROOF = "proof"
    """The canary may write without a fence, and ACLs apply to it."""
    NOTHING = "nothing"
    """No ACL lets the canary write to any of the topics: it is refused with and without a fence."""
    PASSES = "passes"
    """ACLs do not apply to the canary, as for a super user: only a fence without ACLs refuses it."""


class Rights(NamedTuple):
    """The input of a cluster's authorizer."""

    acls: Collection[Acl]
    """The cluster's ACLs, without those of fences."""
    principals: Collection[str]
    """The canary's principals on the cluster, or none if unknown."""
    is_open: bool | None
    """Whether a topic without ACLs is open to all principals, or None if unknown."""
    foreign: bool = False
    """Whether drkit applies no fence: then a topic that others may write needs a proof of its own."""


def worth(codes: Mapping[TopicPartition, int], rights: Rights) -> Worth:
    """Return what a canary's refusals are worth, by the error code of each partition's leader. Pure."""
    if not rights.principals:
        return Worth.PROOF  # the canary's principal is unknown
    given = {
        topic: may_write(topic, rights.acls, rights.principals, is_open=rights.is_open)
        for topic in {tp.topic for tp in codes}
    }
    if any(code in _LET_IN and given[tp.topic] is False for tp, code in codes.items()):
        return Worth.PASSES
    denied = {tp.topic for tp, code in codes.items() if code == TOPIC_AUTHORIZATION_FAILED}
    shut_out = {topic for topic in denied if given[topic] is False}
    if rights.foreign:
        open_ = any(writers(topic, rights.acls, (), is_open=rights.is_open) for topic in shut_out)
    else:
        open_ = bool(shut_out) and set(given.values()) == {False}
    return Worth.NOTHING if open_ else Worth.PROOF


def worth_of(
    settings: ClusterSettings, canary: Mapping[str, str], topics: Collection[str], rights: Rights
) -> Worth:
    """Ask every partition once; return what the canary's refusals are worth.

    :param canary: client properties of an ordinary producer, or empty for drkit's own
    :raises Refused: the refusals are worth nothing
    :raises DrkitError: the canary cannot connect at all
    """
    with connections("canary", settings.with_client(canary)) as (cluster,):
        cluster.loop.run(cluster.connect, _CONNECT_MS)
        try:
            codes: dict[TopicPartition, int] = cluster.loop.run(_codes, cluster, topics)
        except RawError:
            return Worth.PROOF  # no answer yet; the proof asks again and reports
    value = worth(codes, rights)
    if value is Worth.NOTHING:
        who = ", ".join(sorted(rights.principals))
        evidence = (
            f"no ACL gives WRITE on {'each' if rights.foreign else 'any'} of {len(topics)} topics to {who}"
        )
        raise Refused("canary_not_authorized", where=settings.alias, evidence=evidence, who=who)
    return value


def prove(
    settings: ClusterSettings,
    canary: Mapping[str, str],
    topics: Collection[str],
    seconds: float = 0.0,
    clock: Seconds = monotonic,
    refusals: Collection[int] = _REFUSED,
) -> Proof:
    """Ask every partition until all refuse or `seconds` have passed; return the last result. Appends nothing.

    :param canary: client properties of an ordinary producer, or empty for drkit's own
    :param refusals: the answers that count as refused
    :raises DrkitError: the canary cannot connect at all
    """
    with connections("canary", settings.with_client(canary)) as (cluster,):
        loop = cluster.loop
        loop.run(cluster.connect, _CONNECT_MS)
        deadline = clock() + seconds
        while True:
            proof = _prove_once(cluster, topics, refusals)
            if proof.is_whole or clock() >= deadline:
                return proof
            loop.run(loop.sleep, _PAUSE_SECONDS)


def _prove_once(cluster: RawCluster, topics: Collection[str], refusals: Collection[int]) -> Proof:
    loop = cluster.loop
    try:
        codes: dict[TopicPartition, int] = loop.run(_codes, cluster, topics)
        silent = [tp for tp, code in codes.items() if code == _NO_ANSWER]
        known = loop.run(metadata, cluster, sorted({tp.topic for tp in silent})) if silent else {}
    except RawError as error:
        whole = {TopicPartition(t, -1): str(error) for t in topics}
        return Proof({}, (), whole, frozenset(whole))
    alone = tuple(
        sorted(tp for tp in silent if tp.topic in known and known[tp.topic].leaders[tp.partition].node < 0)
    )
    refused = {tp: code_name(code) for tp, code in codes.items() if code in refusals}
    rest = {tp: code_name(c) for tp, c in codes.items() if tp not in refused and tp not in alone}
    unknown = frozenset(tp for tp in rest if codes[tp] == _NO_ANSWER or codes[tp] in LEADER_MOVES)
    return Proof(refused, alone, rest, unknown)


def unproven(proof: Proof, where: str, then: str) -> DrkitError:
    """Return the error of a fence that is up and not proven; `then`: the command to suggest."""
    if proof.is_unknown:
        return ClusterUnreachable(
            "fence_unproven", where=where, evidence=proof.places, state=proof.in_words, then=then
        )
    partitions = counted(len(proof.taking), "partition")
    return Refused("fence_leaks", where=where, evidence=proof.places, partitions=partitions, then=then)


async def _codes(cluster: RawCluster, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Return each leader's error code; a topic hidden from the canary has one code, for partition −1."""
    codes = await write_codes(cluster, topics, _LEADER)
    unseen = set(topics) - {tp.topic for tp in codes}
    known = await metadata(cluster, sorted(unseen)) if unseen else {}
    return codes | {
        TopicPartition(name, -1): TOPIC_AUTHORIZATION_FAILED
        for name, topic in known.items()
        if topic.error == TOPIC_AUTHORIZATION_FAILED
    }


def canary_name(settings: ClusterSettings, canary: Mapping[str, str]) -> str:
    """Return the canary's name, to be printed."""
    return canary.get("sasl.username") or (
        "a producer of its own" if canary else f"drkit on {settings.alias}"
    )
