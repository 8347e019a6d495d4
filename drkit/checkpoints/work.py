"""Decides from round to round which groups of a flow need checkpoints; needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
import random
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from drkit import observe
from drkit.checkpoints.group_ledger import GroupLedger, promoted_topics
from drkit.checkpoints.other_groups import OtherGroup, is_consumer, other_groups
from drkit.checkpoints.shard import MOST_REMEMBERED, NO_ROUND, Shard, ShardReport, shards_of
from drkit.clock import Seconds, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError, NotAuthorized
from drkit.flow_state.copied_topics import CopiedTopics, known_of
from drkit.flow_state.state import FlowState
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.asking import OFFSETS_TOPIC
from drkit.kafka.groups.requests import listed_groups
from drkit.kafka.groups.tail import GroupTail
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.topics import broker_config
from drkit.mm2_topics.checkpoint_topic import CheckpointTail, ensure_checkpoint_topic
from drkit.mm2_topics.topic import tell_remade
from drkit.model import TopicPartition

_DO_WITHOUT: Final = "a cluster that hides it leaves no other way: follow_group_commits = false"


class MovedGroups:
    """Follows the source's log of group offsets for groups that have committed. Use it from one thread.

    :param flow: its name, for events
    """

    def __init__(self, source: ClusterSettings, flow: str) -> None:
        self._source, self._flow = source, flow
        self._loop: EventLoop | None = None
        self._cluster: RawCluster | None = None
        self._tail: GroupTail | None = None
        self._hidden = ""

    def newest(self, *, groups: bool) -> frozenset[str] | None:
        """Return the groups that may have committed since the last call, or None if any may have.

        :param groups: the source has groups, so it has such a log
        """
        self._loop = loop = self._loop or EventLoop()
        try:
            moved: frozenset[str] | None = loop.run(self._read, loop)
        except NotAuthorized as error:
            self._tell(f"{error.what}: {error.where}", error.hint)
            return None
        except DrkitError:
            self._let_go()  # the round that asks the source for the offsets reports whether it answers
            return None
        if groups and self._tail is not None and self._tail.missing:
            self._tell(f"{OFFSETS_TOPIC} on {self._source.alias} is not there", _DO_WITHOUT)
        else:
            self._tell("")
        return moved

    async def _read(self, loop: EventLoop) -> frozenset[str] | None:
        if self._cluster is None or self._tail is None:
            self._cluster = RawCluster(loop, self._source, "group-tail")
            self._tail = GroupTail(self._cluster)
        await self._cluster.connected()
        return await self._tail.changed()

    def _tell(self, hidden: str, hint: str = "") -> None:
        """Report once that the log is hidden, so rounds cost more than needed, and once that this is over."""
        if hidden == self._hidden:
            return
        self._hidden = hidden
        if hidden:
            observe.event("group_commits_hidden", level="warning", flow=self._flow, hint=hint,
                          reason=f"{hidden}; every checkpoint round asks for all groups")  # fmt: skip
        else:
            observe.event("group_commits_followed", flow=self._flow)

    def _let_go(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._tail = None

    def close(self) -> None:
        """Close the connections."""
        self._let_go()
        if self._loop is not None:
            self._loop.close()
        self._loop = None


T = TypeVar("T")
GROUPS_PER_SHARD: Final = 500
_RETENTION: Final = "offsets.retention.minutes"
_RECORDED_AT_ONCE: Final = 5000
"""Maximum number of checkpoints that one round takes back."""
_SHARE: Final = 4
"""Unchanged offsets are written again after this fraction of the target's retention."""


class Terms(NamedTuple):
    """Facts about all groups; when one changes, every group has to be looked at."""

    source: str
    known: CopiedTopics
    topic: str
    topic_id: str
    refresh_ms: int
    promoted: frozenset[str]

    def widened(self, later: Terms) -> bool:
        """Return whether `later` only has more topics: a group's known offsets in the others stay valid."""
        known, new = self.known, later.known
        own = new.producers.own
        return (
            self._replace(known=new) == later
            and known.topics.items() <= new.topics.items()
            and known.producers._replace(own=own) == new.producers
            and known.producers.own <= own
            and _widens(known.topics, known.cuts, new.cuts)
            and _widens(known.topics, known.rebuilt, new.rebuilt)
            and _widens(known.topics, known.emptied, new.emptied)
            and _widens(known.topics, known.crossings, new.crossings)
            and _widens(known.topics, known.kept, new.kept)
        )


def _widens(
    topics: Container[str], known: Mapping[TopicPartition, T], later: Mapping[TopicPartition, T]
) -> bool:
    return known.items() <= later.items() and not any(
        tp.topic in topics for tp in later.keys() - known.keys()
    )


class GroupsFrame(NamedTuple):
    """The groups of a flow at one moment."""

    terms: Terms
    groups: frozenset[str]
    gone: tuple[str, ...] = ()
    """Groups that are no longer on the source and are to be deleted on the target."""
    others: tuple[OtherGroup, ...] = ()
    """Groups that the flow's filter accepts and that are not consumer groups."""
    recorded: tuple[tuple[str, str, int], ...] = ()
    """Checkpoints whose group or topic seems to be gone, as in a shard."""

    def shards(
        self,
        groups: Sequence[str],
        last: Iterable[int],
        number: int = NO_ROUND,
        *,
        gone: tuple[str, ...] = (),
        recorded: tuple[tuple[str, str, int], ...] = (),
        sync: bool,
        quick: frozenset[str] = frozenset(),
    ) -> list[Shard]:
        """Divide some of the groups into shards.

        :param last: for each group the number of the last round that looked at it
        :param number: number of the round
        :param quick: groups that are finished when the source has nothing new
        """
        rounds = dict(zip(groups, last, strict=True))
        parts = shards_of(list(groups), GROUPS_PER_SHARD) or ([()] if gone or recorded else [])
        terms = self.terms
        return [
            Shard(
                number=index,
                source=terms.source,
                groups=names,
                known=terms.known,
                topic=terms.topic,
                sync=sync,
                refresh_ms=terms.refresh_ms,
                promoted=terms.promoted,
                gone=gone if index == 0 else (),
                recorded=recorded if index == 0 else (),
                topic_id=terms.topic_id,
                round=number,
                last=tuple(rounds[g] for g in names),
                quick=quick.intersection(names),
                remembered=min(MOST_REMEMBERED, len(self.groups)),
            )
            for index, names in enumerate(parts)
        ]


class FrameLook:
    """Asks both clusters for the frame, as often as needed.

    :param clusters: source and target
    :param waiting: source topics that are not copied before their return: no group gets a position there
    """

    def __init__(
        self,
        clusters: tuple[ClusterSettings, ClusterSettings],
        waiting: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._clusters, self._waiting = clusters, waiting
        self._refresh_ms = 0
        self._topic_id: UUID | None = None
        self._tail: CheckpointTail | None = None

    def look(self, flow: FlowSettings, state: FlowState) -> GroupsFrame | None:
        """Return the current frame, or None if nothing was copied yet.

        :param state: the flow's state
        :raises DrkitError: a cluster does not answer
        """
        known = known_of(state).without(self._waiting())
        if not known.topics:
            return None
        target = Cluster.connect(self._clusters[1])
        topic = flow.mm2_topics.checkpoints(flow.source) if flow.emit_checkpoints else ""
        if topic:
            current_id = ensure_checkpoint_topic(target, topic, flow.checkpoints_topic_replication_factor)
            tell_remade(flow.name, target, topic, self._topic_id, current_id)
            self._topic_id = current_id
        if not self._refresh_ms:
            minutes = min(int(broker_config(target, b.id)[_RETENTION].value or 0) for b in target.brokers)
            self._refresh_ms = max(1, minutes * 60_000 // _SHARE)
        on_source = listed_groups(self._clusters[0])
        accepted = flow.group_filter.accepts
        groups = frozenset(g for g, x in on_source.items() if is_consumer(x) and accepted(g))
        gone: list[str] = []
        if flow.on_source_group_deleted == "mirror":
            gone = sorted(g for g in listed_groups(self._clusters[1]) if g not in on_source and accepted(g))
        promoted = frozenset(promoted_topics(state))
        topic_id = str(self._topic_id or "")
        terms = Terms(flow.source, known, topic, topic_id, self._refresh_ms, promoted)
        recorded = self._recorded(topic, on_source, accepted, known.upstream) if topic else ()
        return GroupsFrame(terms, groups, tuple(gone), other_groups(on_source, accepted), recorded)

    def _recorded(
        self, topic: str, on_source: Container[str], accepted: Callable[[str], bool], copies: Container[str]
    ) -> tuple[tuple[str, str, int], ...]:
        """Return checkpoints of groups that the source does not list, or of topics that are not copied."""
        if self._tail is None:
            self._tail = CheckpointTail(self._clusters[1], topic)
        try:
            self._tail.read(self._topic_id)
        except DrkitError:
            return ()  # continue at the next look
        self._tail.gone.clear()  # the source is asked which groups exist
        checkpoints = [
            (group, *tp)
            for group, partitions in self._tail.newest.items()
            if accepted(group)
            for tp in partitions
            if group not in on_source or tp.topic not in copies
        ]
        # The source may not confirm some of them: a random choice does not block the others.
        return tuple(random.sample(checkpoints, min(len(checkpoints), _RECORDED_AT_ONCE)))

    def close(self) -> None:
        """Close the connections."""
        if self._tail is not None:
            self._tail.close()


_LOOK_SECONDS: Final = 300.0
"""Maximum time between two looks at a group, also if nothing about it changed."""
_UNLISTED: Final = 3
"""Factor for the time until groups are listed again after a failure: it takes long if a broker is dead."""


class CheckpointWork:
    """The work of one flow's rounds. A round is over before the next is asked for.

    :param clusters: source and target
    :param waiting: source topics that are not copied before their return
    """

    def __init__(
        self,
        clusters: tuple[ClusterSettings, ClusterSettings],
        flow: str,
        clock: Seconds = monotonic,
        *,
        waiting: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._look, self._moved = FrameLook(clusters, waiting), MovedGroups(clusters[0], flow)
        self._clock = clock
        self.ledger = GroupLedger()
        self.number = wall_ms()
        """Number of the newest round; workers may outlive a run of the flow, so no number is used twice."""
        self.whole = True
        """The newest round looks at all groups."""
        self.unlisted = ""
        """Reason why the current groups are unknown; the groups listed before stay valid."""
        self._frame: GroupsFrame | None = None
        self._gone: tuple[str, ...] = ()
        self._recorded: tuple[tuple[str, str, int], ...] = ()
        self._look_at = self._synced_at = float("-inf")

    @property
    def others(self) -> tuple[OtherGroup, ...]:
        """Groups that the flow's filter accepts and that are not consumer groups."""
        return self._frame.others if self._frame is not None else ()

    @property
    def begun(self) -> bool:
        """Return whether there is something to make checkpoints of."""
        return self._frame is not None

    def of_all(self, flow: FlowSettings, state: FlowState, *, at_once: bool = False) -> list[Shard]:
        """Return all current groups as shards; empty if nothing was copied yet, or without groups.

        :param state: the flow's state
        :param at_once: sync, however long ago the last sync was
        :raises DrkitError: a cluster does not answer
        """
        self._frame = self._look.look(flow, state)
        if self._frame is None:
            return []
        self._gone, self._recorded = self._frame.gone, self._frame.recorded
        return self._shards(flow, self._frame, None, at_once=at_once)

    def of_next(self, flow: FlowSettings, state: FlowState) -> list[Shard] | None:
        """Return the groups of the next round as shards, or None if nothing was copied yet.

        With an empty list the round is over: no group has moved.
        """
        before = self._frame
        if self._clock() >= self._look_at:
            self._renew(flow, state)
        if self._frame is None:
            return None
        # The log first: commits from now on are in the next round.
        changed = self._moved.newest(groups=bool(self._frame.groups)) if flow.follow_group_commits else None
        if before is None or self._all_are_due(before, self._frame):
            changed = None
        return self._shards(flow, self._frame, changed)

    def _all_are_due(self, before: GroupsFrame, now: GroupsFrame) -> bool:
        """Return whether something changed for all groups. An added topic does not renew many at once.

        The log shows the groups that commit there now; the others committed there before it was copied.
        """
        if before.terms == now.terms:
            return False
        if len(now.groups) > GROUPS_PER_SHARD and before.terms.widened(now.terms):
            self.ledger.look_soon()
            return False
        return True

    def look_anew(self) -> None:
        """Ask for groups and topics at the next round: the settings have changed."""
        self._look_at = float("-inf")

    def take(self, reports: Sequence[ShardReport]) -> None:
        """Record the result of a round."""
        for report in reports:
            self.ledger.take(report, self._clock())

    def _renew(self, flow: FlowSettings, state: FlowState) -> None:
        pause = flow.refresh_topics_interval_seconds
        try:
            frame = self._look.look(flow, state)
        except DrkitError as error:
            self.unlisted = str(error)
            pause *= _UNLISTED
        else:
            self.unlisted = ""
            self._frame = frame
            if frame is not None:
                self._gone, self._recorded = frame.gone, frame.recorded
        self._look_at = self._clock() + pause if self._frame is not None else float("-inf")

    def _shards(
        self, flow: FlowSettings, frame: GroupsFrame, changed: frozenset[str] | None, *, at_once: bool = False
    ) -> list[Shard]:
        now = self._clock()
        sync = self._syncs(flow, now, at_once=at_once)
        look = min(_LOOK_SECONDS, frame.terms.refresh_ms / 1000)
        self.whole = changed is None
        groups = self.ledger.due(frame.groups, changed, now, look_seconds=look, sync=sync)
        self.number += 1
        gone: tuple[str, ...] = ()
        if sync:
            self._synced_at, gone, self._gone = now, self._gone, ()
        recorded, self._recorded = self._recorded, ()
        last, quick = self.ledger.sent(groups), self.ledger.quick
        return frame.shards(groups, last, self.number, gone=gone, recorded=recorded, sync=sync, quick=quick)

    def _syncs(self, flow: FlowSettings, now: float, *, at_once: bool) -> bool:
        """Return whether a round that begins now syncs.

        It may begin half a round early: otherwise one that begins a moment early would leave it to the next.
        """
        early = flow.checkpoint_interval_seconds / 2
        due = now - self._synced_at >= flow.sync_group_offsets_interval_seconds - early
        return flow.sync_group_offsets and (due or at_once)

    def close(self) -> None:
        """Close the connections."""
        self._moved.close()
        self._look.close()
