"""Consumer groups over raw requests: list, describe, read and change committed offsets, delete.

Not with confluent-kafka: its client aborts the process when a frozen broker revives under an unanswered group
call. Classic groups and those of KIP-848; a group's error stays its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
import math
from typing import Any, Final, NamedTuple, TypeVar

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)

from drkit.clock import boottime
from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable, Failed, NotAuthorized
from drkit.kafka.codes import (
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
    error_name,
)
from drkit.kafka.groups.asking import (
    CALL_MS,
    NO_ANSWER,
    PASSES,
    TOO_LATE,
    Answered,
    Coordinators,
    list_everywhere,
)
from drkit.kafka.groups.member import Member, classic_member, consumer_member, share_member
from drkit.kafka.raw import RawCluster, RequestUnsupported, ask_once
from drkit.kafka.requests import by_partition, grouped
from drkit.model import TopicPartition

T = TypeVar("T")
_PACKAGE: Final = "drkit.kafka.schemas"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Asks for groups of the consumer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Contains their members."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Asks for share groups (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Contains their members."""


CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
"""Types of groups: the classic protocol, that of KIP-848, or share groups (KIP-932), without offsets."""
_DESCRIBING: Final[dict[str, tuple[Callable[[list[str]], Any], Callable[[Any], Member]]]] = {
    CLASSIC: (partial(DescribeGroupsRequest, include_authorized_operations=False), classic_member),
    CONSUMER: (partial(ConsumerGroupDescribeRequest, include_authorized_operations=False), consumer_member),
    SHARE: (partial(ShareGroupDescribeRequest, include_authorized_operations=False), share_member),
}
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
"""States of groups; a group that does not exist is dead."""
NOT_FOUND: Final = GROUP_ID_NOT_FOUND
"""Also the answer to a request for the other type of group."""
_OUTSIDE: Final = -1
"""As the generation of a commit: the client is no member of the group."""
_BY_NAME: Final = 9
"""The last version of OffsetFetch and OffsetCommit that names topics; later ones have ids."""
DESCRIBED: Final = 200
"""Groups of one request."""
_FETCHED: Final = 100
_GRANTS: Final = {
    GROUP_AUTHORIZATION_FAILED: "allow drkit's principal DESCRIBE and READ on groups",
    TOPIC_AUTHORIZATION_FAILED: "allow drkit's principal DESCRIBE on every topic that the group reads",
}
"""Error code → hint. The second one is the answer about a group whose member has such a topic."""


class ListedGroup(NamedTuple):
    """A group in a list."""

    group: str
    state: str
    """Kafka's name for it, such as Empty or Stable; empty if the broker does not report it."""
    type: str
    protocol: str
    """``consumer`` for consumers, ``connect`` for workers; empty for offsets stored without a member."""


class GroupDescription(NamedTuple):
    """A group and its members."""

    state: str
    type: str
    members: tuple[Member, ...]

    @property
    def static(self) -> tuple[Member, ...]:
        """The static members."""
        return tuple(m for m in self.members if m.instance is not None)


class Committed(NamedTuple):
    """A committed offset and the text that was stored with it."""

    offset: int
    metadata: str = ""


Offsets = dict[TopicPartition, Committed]


class Groups:
    """The groups of a cluster.

    :param cluster: connected
    """

    def __init__(self, cluster: RawCluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)
        self.keep = self._coordinators.keep

    async def listed(self, leave: Container[int] = ()) -> dict[str, ListedGroup]:
        """All groups that drkit's principal may see, from every broker.

        :raises DrkitError: a broker has an error that is not in `leave`, so groups may be missing
        """
        found, error = await list_everywhere(self._cluster)
        if error and error not in leave:
            raise failure(error, "list groups", self._cluster.alias)
        self.keep(len(found))
        return {
            g.group_id: ListedGroup(
                g.group_id, g.group_state or "", (g.group_type or "").lower(), g.protocol_type
            )
            for g in found
        }

    async def describe(self, groups: Iterable[str]) -> dict[str, Answered[GroupDescription]]:
        """Return state and members; a group that does not exist is dead and has none."""
        names = list(groups)
        out = await self._describe(names, CLASSIC)
        others = [g for g, a in out.items() if a.value is not None and a.value.state == DEAD]
        with suppress(RequestUnsupported):  # a cluster without KIP-848
            out |= await self._describe(others, CONSUMER)
        return out

    async def describe_share(self, groups: Iterable[str]) -> dict[str, Answered[GroupDescription]]:
        """Return state and members of share groups (KIP-932); empty if the brokers have no such request."""
        with suppress(RequestUnsupported):
            return await self._describe(groups, SHARE)
        return {}

    async def knows_consumer_groups(self) -> bool:
        """Return whether the cluster has the consumer group protocol (KIP-848)."""
        with suppress(RequestUnsupported):
            await self._describe(["drkit"], CONSUMER)
            return True
        return False

    async def _describe(self, groups: Iterable[str], kind: str) -> dict[str, Answered[GroupDescription]]:
        """Describe groups. Raises RequestUnsupported if the brokers have no groups of this kind."""
        request, member = _DESCRIBING[kind]

        async def ask(node: int, names: list[str]) -> dict[str, Answered[GroupDescription]]:
            answer = await self._cluster.send(request(names), node, timeout_ms=CALL_MS)
            # Brokers of 3.x list the request of KIP-848 and refuse it where the protocol is switched off.
            if any(g.error_code == UNSUPPORTED_VERSION for g in answer.groups):
                raise RequestUnsupported("request_unsupported", where=self._cluster.alias, evidence=kind)
            return {g.group_id: _described(g, kind, member) for g in answer.groups}

        return await self._coordinators.ask(groups, ask, per_request=DESCRIBED)

    async def committed(self, groups: Iterable[str], *, stable: bool = False) -> dict[str, Answered[Offsets]]:
        """All committed offsets of some groups; a group that does not exist has none.

        :param stable: answer UNSTABLE_OFFSET_COMMIT for a group to whose offsets an open transaction adds
        """
        fetch = partial(self._fetch, stable)
        return await self._coordinators.ask(groups, fetch, per_request=_FETCHED)

    async def offsets(self, groups: Iterable[str]) -> dict[str, Offsets]:
        """Return all committed offsets of some groups. Raises DrkitError if those of one are not returned."""
        return values_of(await self.committed(groups), "read the offsets of", self._cluster.alias)

    async def _fetch(self, stable: bool, node: int, groups: list[str]) -> dict[str, Answered[Offsets]]:  # noqa: FBT001
        wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=g, topics=None) for g in groups]
        request = OffsetFetchRequest(
            groups=wanted, require_stable=stable, min_version=8, max_version=_BY_NAME
        )
        answer = await self._cluster.send(request, node, timeout_ms=CALL_MS)
        return {g.group_id: _offsets(g) for g in answer.groups}

    async def alter(
        self, offsets: Mapping[str, Mapping[TopicPartition, Committed]], until: float = math.inf
    ) -> dict[str, Answered[dict[TopicPartition, int]]]:
        """Commit offsets from outside of the groups; a missing group is created.

        The value holds an error code per partition, 0 for a stored offset: a request may succeed and have
        stored nothing. No leader epoch is sent: one of the other cluster means nothing here.

        :param until: groups whose request is not sent by then are answered :data:`TOO_LATE`; as of
            :func:`drkit.clock.boottime`, for a process that was halted since it decided
        """
        ask = partial(self._commit, offsets, until)
        return await self._coordinators.ask([g for g, o in offsets.items() if o], ask, per_request=1)

    async def _commit(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, Committed]],
        until: float,
        node: int,
        groups: list[str],
    ) -> dict[str, Answered[dict[TopicPartition, int]]]:
        if boottime() > until:
            return {groups[0]: Answered(TOO_LATE)}
        topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
        by_topic: dict[str, list[Any]] = {}
        for at, committed in offsets[groups[0]].items():
            by_topic.setdefault(at.topic, []).append(
                topic_of.OffsetCommitRequestPartition(
                    partition_index=at.partition,
                    committed_offset=committed.offset,
                    committed_metadata=committed.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=groups[0],
            generation_id_or_member_epoch=_OUTSIDE,
            member_id="",
            topics=[topic_of(name=t, partitions=p) for t, p in by_topic.items()],
            max_version=_BY_NAME,
        )
        answer = await self._cluster.send(request, node, timeout_ms=CALL_MS)
        codes = by_partition(answer, lambda p: int(p.error_code))
        return {groups[0]: Answered(_common(codes.values()), codes)}

    async def store(
        self, offsets: Mapping[str, Mapping[TopicPartition, Committed]], until: float = math.inf
    ) -> dict[str, dict[TopicPartition, str]]:
        """Commit offsets and read them back; return those that are not there, with the reason, by group.

        :param until: as for :meth:`alter`
        """
        answers, stored = await self.alter(offsets, until), await self.committed(offsets)
        failed: dict[str, dict[TopicPartition, str]] = {}
        for group, positions in offsets.items():
            codes, read_back = answers[group].value or {}, stored[group].value or {}
            for tp, offset in positions.items():
                if code := codes.get(tp, answers[group].error):
                    late = "not sent: the look at the group is too old"
                    reason = late if code == TOO_LATE else f"Kafka error code {code}"
                    failed.setdefault(group, {})[tp] = reason
                elif read_back.get(tp) != offset:
                    failed.setdefault(group, {})[tp] = f"read back: {read_back.get(tp)}"
        return failed

    async def delete(self, groups: Iterable[str], until: float = math.inf) -> dict[str, int]:
        """Delete groups with their offsets; error codes, 0 also for a group that was gone before.

        :param until: as for :meth:`alter`
        """
        ask = partial(self._delete, until)
        found = await self._coordinators.ask(groups, ask, per_request=DESCRIBED)
        return {g: 0 if a.error == NOT_FOUND else a.error for g, a in found.items()}

    async def _delete(self, until: float, node: int, groups: list[str]) -> dict[str, Answered[None]]:
        if boottime() > until:
            return {group: Answered(TOO_LATE) for group in groups}
        answer = await self._cluster.send(DeleteGroupsRequest(groups_names=groups), node, timeout_ms=CALL_MS)
        return {r.group_id: Answered(r.error_code) for r in answer.results}

    async def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> Answered[dict[TopicPartition, int]]:
        """Delete some committed offsets of a group (KIP-496); error codes per partition."""
        topic_of = OffsetDeleteRequest.OffsetDeleteRequestTopic
        part_of = topic_of.OffsetDeleteRequestPartition
        topics = [
            topic_of(name=t, partitions=[part_of(partition_index=n) for n in numbers])
            for t, numbers in grouped(partitions)
        ]

        async def ask(node: int, names: list[str]) -> dict[str, Answered[dict[TopicPartition, int]]]:
            request = OffsetDeleteRequest(group_id=names[0], topics=topics)
            answer = await self._cluster.send(request, node, timeout_ms=CALL_MS)
            return {names[0]: Answered(answer.error_code, by_partition(answer, lambda p: int(p.error_code)))}

        return (await self._coordinators.ask([group], ask, per_request=1))[group]


def failure(code: int, what: str, where: str) -> Failed:
    """Convert the error code of a group call to one of drkit's errors."""
    kind = ClusterUnreachable if code in PASSES else NotAuthorized if code in _GRANTS else Failed
    evidence = "no answer" if code == NO_ANSWER else error_name(code)
    hint = _GRANTS.get(code, "")
    return kind("cluster_request_failed", where=where, evidence=evidence, hint=hint, what=what)


def values_of(
    answers: Mapping[str, Answered[T]], what: str, where: str, leave: Container[int] = ()
) -> dict[str, T]:
    """Return the values of groups, without errors in `leave`. Raises DrkitError: `what` has another error."""
    for group, answer in answers.items():
        if answer.value is None and answer.error not in leave:
            raise failure(answer.error, f"{what} the group {group}", where)
    return {group: answer.value for group, answer in answers.items() if answer.value is not None}


def _described(group: Any, kind: str, member: Callable[[Any], Member]) -> Answered[GroupDescription]:
    """Convert a broker's description of a group; one that does not exist is dead."""
    if group.error_code == NOT_FOUND or (not group.error_code and group.group_state == DEAD):
        return Answered(0, GroupDescription(DEAD, "", ()))
    if group.error_code:
        return Answered(group.error_code)
    return Answered(0, GroupDescription(group.group_state, kind, tuple(map(member, group.members))))


def _offsets(group: Any) -> Answered[Offsets]:
    if group.error_code == NOT_FOUND:
        return Answered(0, {})
    partitions = [(t.name, p) for t in group.topics for p in t.partitions]
    if error := group.error_code or next((p.error_code for _, p in partitions if p.error_code), 0):
        return Answered(error)
    committed = ((name, p) for name, p in partitions if p.committed_offset >= 0)
    return Answered(
        0,
        {
            TopicPartition(t, p.partition_index): Committed(p.committed_offset, p.metadata or "")
            for t, p in committed
        },
    )


def _common(codes: Iterable[int]) -> int:
    """Return the error code of a whole commit: one that passes, for a retry, the one they share, or 0."""
    distinct = set(codes)
    if passing := distinct & PASSES:
        return passing.pop()
    return distinct.pop() if len(distinct) == 1 else 0


_REASON: Final = "removed by drkit: the group is moved to another cluster"
_MIN_VERSION: Final = 3
"""The first version that names several members, static ones by their instance ids (KIP-345)."""


async def leave_groups(cluster: RawCluster, groups: Iterable[str]) -> dict[str, str]:
    """Remove every member from outside (KIP-345, KIP-848); a group without members is left alone.

    :returns: groups with members that stayed → reason
    """
    described = await Groups(cluster).describe(groups)
    unknown = {g: f"Kafka error code {a.error}" for g, a in described.items() if a.value is None}
    full = {g: a.value for g, a in described.items() if a.value is not None and a.value.members}

    async def leave(node: int, group: list[str]) -> dict[str, Answered[None]]:
        answer = await cluster.send(_leave_request(group[0], full[group[0]]), node, timeout_ms=CALL_MS)
        codes = [answer.error_code, *(m.error_code for m in answer.members)]
        return {group[0]: Answered(next((c for c in codes if c not in {NONE, UNKNOWN_MEMBER_ID}), 0))}

    answers = await Coordinators(cluster).ask(full, leave, per_request=1)
    return unknown | {g: error_name(a.error) for g, a in answers.items() if a.error}


def _leave_request(group: str, description: GroupDescription) -> LeaveGroupRequest:
    identity = partial(LeaveGroupRequest.MemberIdentity, reason=_REASON)
    # A static member is named by its instance alone: its member id changes when it restarts.
    ids = (("" if m.instance is not None else m.id, m.instance) for m in description.members)
    members = [identity(member_id=name, group_instance_id=instance) for name, instance in ids]
    return LeaveGroupRequest(group_id=group, members=members, min_version=_MIN_VERSION)


_PURPOSE: Final = "groups"


def group_members(settings: ClusterSettings, groups: Iterable[str]) -> dict[str, tuple[Member, ...]]:
    """Return the members of some groups; a group that does not exist has none.

    :raises NotAuthorized: drkit's principal may not describe one of them
    :raises ClusterUnreachable: no answer
    """
    what = "ask for the members of a group"
    answers = ask_once(settings, _PURPOSE, lambda c: Groups(c).describe(groups), what=what)
    found = values_of(answers, "ask for the members of", settings.alias)
    return {group: description.members for group, description in found.items()}


def listed_groups(settings: ClusterSettings) -> dict[str, ListedGroup]:
    """Return the groups that drkit's principal may see.

    :raises ClusterUnreachable: a broker does not answer, so groups may be missing
    """
    return ask_once(settings, _PURPOSE, lambda c: Groups(c).listed(), what="list groups")
