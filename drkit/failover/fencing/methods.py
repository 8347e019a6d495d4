"""The two fences that keep producers off topics of a cluster that answers, by ACL or by size.

The ACLs follow Kafka's StandardAuthorizer: a DENY wins, then an ALLOW. A topic without ACLs is closed, or on
an open cluster open to all principals. Super users pass every ACL. The flow's state on the target records a
fence before it is applied. The record identifies ACLs and settings as drkit's own: they are never copied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
import time
from typing import Any, Final

from drkit.clock import monotonic
from drkit.config import ClusterSettings
from drkit.counted import first_of
from drkit.errors import Refused, raise_refused
from drkit.flow_state.records import ConfigsRecord, FenceAclsRecord, FenceSizesRecord, GuardAclsRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import NoAuthorizer, create_acls, delete_acls, is_open, list_acls, own_principals
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, topic_configs
from drkit.status.pair.reading import refusing_by_size
from drkit.topology.acls import (
    EVERYBODY,
    Acl,
    AclOperation,
    Permission,
    ResourceKind,
    from_json,
    to_json,
    topic_acl,
)
from drkit.topology.topic_configs import MAX_MESSAGE_BYTES, NOTHING_PASSES, own_value

_WRITES: Final = frozenset({AclOperation.WRITE, AclOperation.ALL})
_SEEN_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05
_STILL_ALLOWED: Final = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)


def fence_acls(
    topics: Iterable[str],
    existing: Collection[Acl],
    *,
    is_open: bool,
    own: Collection[str] = (),
    spare_own: bool = False,
) -> frozenset[Acl]:
    """Return the ACLs to create.

    :param existing: the cluster's ACLs, without the fence's own
    :param is_open: whether a topic without ACLs is open to all principals
    :param own: drkit's principals
    :param spare_own: drkit may still write; otherwise it is fenced like every principal
    """
    return frozenset(
        acl
        for topic in topics
        for acl in _of_topic(topic, existing, is_open=is_open, own=own, spare=spare_own)
    )


def refusing_own(fence: Iterable[Acl], own: Collection[str]) -> list[Acl]:
    """Return the ACLs of a fence that refuse drkit itself; those on all principals do too."""
    return sorted(a for a in fence if a.denies and a.principal in {*own, EVERYBODY})


def bare_topics(topics: Iterable[str], existing: Collection[Acl]) -> list[str]:
    """Return the topics without ACLs; the cluster's settings decide who may use them."""
    return [topic for topic in topics if not _on(topic, existing)]


def may_write(
    topic: str, existing: Collection[Acl], principals: Collection[str], *, is_open: bool | None
) -> bool | None:
    """Return whether an ACL lets one of these principals write, ignoring the DENYs of fences.

    :param is_open: whether a topic without ACLs is open to all principals, or None if unknown
    :returns: None for a topic without ACLs if `is_open` is unknown
    """
    of_topic = _on(topic, existing)
    if not of_topic:
        return is_open
    who = {*principals, EVERYBODY}
    return any(not a.denies and a.operation in _WRITES and a.principal in who for a in of_topic)


def _of_topic(
    topic: str, existing: Collection[Acl], *, is_open: bool, own: Collection[str], spare: bool
) -> Iterator[Acl]:
    of_topic = _on(topic, existing)
    if not of_topic:
        if is_open:
            # Any ACL closes the topic, so all principals get their read access back.
            yield from (topic_acl(topic, EVERYBODY, o, Permission.ALLOW) for o in _STILL_ALLOWED)
            if spare:
                yield from (topic_acl(topic, p, AclOperation.ALL, Permission.ALLOW) for p in own)
        return
    writers = {a.principal for a in of_topic if not a.denies and a.operation in _WRITES}
    fenced = writers - set(own) if spare else writers | set(own)
    yield from (topic_acl(topic, p, AclOperation.WRITE, Permission.DENY) for p in sorted(fenced))


def _on(topic: str, existing: Collection[Acl]) -> list[Acl]:
    return [a for a in existing if a.resource is ResourceKind.TOPIC and a.covers(topic)]


ACL: Final = "acl"
SIZE: Final = MAX_MESSAGE_BYTES
Details = Mapping[str, Any]


def recorded_acls(state: StateTopic, kind: type[FenceAclsRecord] = FenceAclsRecord) -> frozenset[Acl]:
    """Return the ACLs of fences, or of another kind of record, from the flow's state."""
    record = state.get(kind)
    return record.acls if record is not None else frozenset()


def recorded_sizes(state: StateTopic) -> dict[str, str | None]:
    """Return the topics fenced by size with their previous values, from the flow's state."""
    record = state.get(FenceSizesRecord)
    return dict(record.topics) if record is not None else {}


class AclFence:
    """The cluster's authorizer refuses producers.

    :param spare_own: drkit may still write, since another principal proves the fence
    """

    name, stands_in = ACL, ""

    def __init__(self, settings: ClusterSettings, state: StateTopic, *, spare_own: bool) -> None:
        self._settings, self._state, self._spare = settings, state, spare_own

    def details(self, topics: Collection[str]) -> dict[str, Any]:
        """Return what :meth:`apply` would create now, as plain data, enough to remove it."""
        recorded = recorded_acls(self._state)
        others = list_acls(self._settings).acls - recorded
        found, bare = is_open(Cluster.connect(self._settings)), bare_topics(topics, others)
        if found is None and bare:
            alias, names = self._settings.alias, first_of(bare)
            evidence = f"no ACL is on {names}, and brokers hide allow.everyone.if.no.acl.found"
            raise Refused("acl_fence_opens", where=alias, evidence=evidence, alias=alias)
        own = own_principals(self._settings)
        acls = fence_acls(topics, others, is_open=bool(found), own=own, spare_own=self._spare)
        if self._spare and acls:
            self._refuse_own(acls, own)
        # Existing ACLs belong to someone else and must remain when the fence is removed.
        acls -= others
        return {"acls": to_json(acls | {a for a in recorded if a.name in topics})}

    def _refuse_own(self, acls: Collection[Acl], own: Collection[str]) -> None:
        """Refuse a DENY on drkit: it wins over every ALLOW, so drkit could not copy back."""
        alias = self._settings.alias
        if not own:
            evidence = "no own_principal is set, and the client's properties do not tell it"
            raise Refused("acl_fence_principal_unknown", where=alias, evidence=evidence, alias=alias)
        if found := refusing_own(acls, own):
            raise Refused("acl_fence_refuses_drkit", where=alias, evidence=first_of(found))

    def apply(self, details: Details) -> None:
        """Apply the fence. Raises DrkitError."""
        acls = from_json(details["acls"])
        record_acls(self._state, recorded_acls(self._state) | acls)
        raise_acls(self._settings, acls)


class SizeFence:
    """Topics accept no record (``max.message.bytes`` = 0), including drkit's own and transaction markers.

    :param stands_in: why it replaces a fence by ACL that could not be chosen; empty if it does not
    """

    name = SIZE

    def __init__(self, settings: ClusterSettings, state: StateTopic, stands_in: str = "") -> None:
        self._settings, self._state, self.stands_in = settings, state, stands_in

    def details(self, topics: Collection[str]) -> dict[str, Any]:
        """Return the size of each topic before the fence, as plain data."""
        existing = topic_configs(Cluster.connect(self._settings), topics)
        sizes = {topic: own_value(configs, MAX_MESSAGE_BYTES) for topic, configs in sorted(existing.items())}
        if any(size == NOTHING_PASSES and t not in recorded_sizes(self._state) for t, size in sizes.items()):
            # Another process fenced the topic after the state was read. Its record holds the previous value.
            self._state.load()
            compared = self._state.all(ConfigsRecord)
            for topic in (t for t, size in sizes.items() if size == NOTHING_PASSES):
                # Without a record, it was another flow, whose target does not answer.
                sizes[topic] = compared[topic].settings.get(SIZE) if topic in compared else None
        known = recorded_sizes(self._state)
        return {"sizes": sizes | {topic: size for topic, size in known.items() if topic in sizes}}

    def apply(self, details: Details) -> None:
        """Apply the fence. Raises DrkitError."""
        record_sizes(self._state, recorded_sizes(self._state) | details["sizes"])
        raise_sizes(self._settings, details["sizes"])

    def remove(self, details: Details) -> None:
        """Remove the fence; missing parts are ignored. Raises DrkitError."""
        lift_sizes(self._settings, details["sizes"])
        forget_sizes(self._state, details["sizes"])


def record_acls(
    state: StateTopic, acls: frozenset[Acl], kind: type[FenceAclsRecord | GuardAclsRecord] = FenceAclsRecord
) -> None:
    """Record the ACLs of all fences, or of another kind; delete the record when none is left."""
    if acls != recorded_acls(state, kind):
        state.put(kind(acls)) if acls else state.delete(kind)


def record_sizes(state: StateTopic, sizes: dict[str, str | None]) -> None:
    """Record all topics that are fenced by size; delete the record when none is left."""
    if sizes != recorded_sizes(state):
        state.put(FenceSizesRecord(sizes)) if sizes else state.delete(FenceSizesRecord)


def forget_sizes(state: StateTopic, topics: Collection[str]) -> None:
    """Take topics off the record of fences by size."""
    record_sizes(state, {t: v for t, v in recorded_sizes(state).items() if t not in topics})


def raise_acls(settings: ClusterSettings, acls: Collection[Acl]) -> None:
    """Create the ACLs of a fence; existing ones are no failure. Raises DrkitError."""
    raise_refused("fence_failed", settings.alias, create_acls(settings, sorted(acls)), done="put up")


def lift_fence(
    settings: ClusterSettings, sizes: Mapping[str, str | None], acls: Collection[Acl]
) -> frozenset[str]:
    """Lift fences where they are in effect; return the topics whose fence is seen there afterwards.

    Brokers learn of a change from their controller, so they are asked repeatedly for a while.

    :param sizes: topic → its size before the fence
    :raises DrkitError: the cluster refuses
    """
    if sizes:
        lift_sizes(settings, sizes)
    with suppress(NoAuthorizer):  # without an authorizer there are no ACLs
        refused = delete_acls(settings, sorted(acls)) if acls else {}
        raise_refused("fence_failed", settings.alias, refused, done="taken away")
    fenced = {topic for topic, before in sizes.items() if before != NOTHING_PASSES}
    deadline = monotonic() + _SEEN_SECONDS
    while True:
        remaining = refusing_by_size(settings, fenced)
        with suppress(NoAuthorizer):
            remaining |= {a.name for a in list_acls(settings).acls.intersection(acls)} if acls else set()
        if not remaining or monotonic() >= deadline:
            return remaining
        time.sleep(_PAUSE_SECONDS)


def raise_sizes(settings: ClusterSettings, topics: Collection[str]) -> None:
    """Set the size of a fence on topics; missing ones are ignored. Raises DrkitError."""
    _alter(settings, dict.fromkeys(topics, NOTHING_PASSES), "put up")


def lift_sizes(settings: ClusterSettings, sizes: Mapping[str, str | None]) -> None:
    """Restore the sizes from before the fence, where it is still in effect. Raises DrkitError."""
    _alter(settings, sizes, "taken away", only=NOTHING_PASSES)


def _alter(
    settings: ClusterSettings, sizes: Mapping[str, str | None], done: str, *, only: str | None = None
) -> None:
    """Set the sizes that differ.

    :param only: topics of another size are left alone: it was set since
    """
    cluster = Cluster.connect(settings)
    existing = topic_configs(cluster, sizes)
    changes = {
        topic: {MAX_MESSAGE_BYTES: value}
        for topic, value in sizes.items()
        if topic in existing
        and own_value(existing[topic], MAX_MESSAGE_BYTES) != value
        and (only is None or own_value(existing[topic], MAX_MESSAGE_BYTES) == only)
    }
    raise_refused("fence_failed", settings.alias, alter_topic_configs(cluster, changes), done=done)


FenceMethod = AclFence | SizeFence
"""One kind of fence."""
