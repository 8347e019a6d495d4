"""Reads the positions of all groups of a flow, in a few requests to each broker, source alive or not."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
import threading
from typing import Final, NamedTuple

from drkit.checkpoints.group_ledger import promoted_topics, wants_checkpoints
from drkit.checkpoints.other_groups import OtherGroup, from_state, is_consumer, left_out, other_groups
from drkit.checkpoints.sync import in_copies, worked
from drkit.clock import Millis, Seconds, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.copied_topics import CopiedPartition, CopiedTopics, known_of
from drkit.flow_state.records import CheckpointsRecord, SourceSeenRecord
from drkit.flow_state.state import FlowState
from drkit.kafka.groups.asking import Answered
from drkit.kafka.groups.requests import Groups, ListedGroup, Offsets
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import metadata
from drkit.mm2_topics.checkpoint_topic import CheckpointTail
from drkit.model import TopicPartition
from drkit.offset_map.places import PositionReader
from drkit.offsets import Unavailable
from drkit.offsets.group_guard import StoredOffset, positions_in
from drkit.offsets.translation import PartitionPosition
from drkit.status.group_ready import FlowFacts, GroupFacts, judged
from drkit.status.groups import STALE_ROUNDS, STALE_SECONDS, GroupsSeen, GroupStatus, Rounds

_MOST: Final = 500
"""Maximum number of groups whose offsets are requested: the first by name."""


def left_out_readers(
    listed: Mapping[str, ListedGroup],
    committed: Mapping[str, Answered[Offsets]],
    topics: Container[str],
    accepts: Callable[[str], bool],
) -> tuple[OtherGroup, ...]:
    """Return the groups that the filter leaves out and that have committed offsets in copied topics, by name.

    :param committed: offsets on the source
    :param topics: that the flow copies
    """
    reading = {g for g, answer in committed.items() if any(tp.topic in topics for tp in answer.value or ())}
    return left_out(listed, reading.__contains__, accepts)


def rounds_of(state: FlowState, flow: FlowSettings, now_ms: int, *, source_answers: bool) -> Rounds:
    """Return the state of the rounds; of a lost source, as of its last answer: no round can succeed since."""
    last, source = state.get(CheckpointsRecord) or CheckpointsRecord(0), state.get(SourceSeenRecord)
    gone = 0 if source_answers or source is None else max(0, now_ms - source.at_ms)
    return Rounds(
        last.age_seconds(now_ms),
        max(STALE_SECONDS, STALE_ROUNDS * flow.checkpoint_interval_seconds), gone / 1000,
        last.error, last.seconds, dict(last.verdicts or {}),
    )  # fmt: skip


def not_stored_of(state: FlowState) -> dict[tuple[str, str], str]:
    """Return group and partition of positions that the newest round did not find after writing → reason."""
    last = state.get(CheckpointsRecord) or CheckpointsRecord(0)
    return {(group, tp): reason for group, tp, verdict, reason in last.refused if verdict == "NOT_STORED"}


_CONNECT_MS: Final = 5000
_WAIT_SECONDS: Final = 5.0
_SHARE: Final = 30
"""A look in its own thread takes at most a thirtieth of the time: the other threads have work."""
_PAUSE_SECONDS: Final = 5.0
_OLD_SECONDS: Final = 60.0


class _Asked(NamedTuple):
    """The answers of the clusters."""

    listed: Mapping[str, ListedGroup]
    """Of the source; empty when it is gone."""
    on_source: Mapping[str, Answered[Offsets]]
    on_target: Mapping[str, Answered[Offsets]]
    states: Mapping[str, ListedGroup]
    """Of the target."""
    places: Mapping[TopicPartition, PartitionPosition | Unavailable]
    others: tuple[OtherGroup, ...] | None
    """Groups of the source that are not consumer groups; None when it is gone."""


class GroupLook:
    """Looks repeatedly, over persistent connections.

    :param sides: source and target
    """

    def __init__(
        self,
        sides: tuple[ClusterSettings, ClusterSettings],
        flow: FlowSettings,
        clock: Millis = wall_ms,
        steady: Seconds = monotonic,
    ) -> None:
        self._sides, self._flow, self._clock, self._steady = sides, flow, clock, steady
        self._loop = EventLoop()
        self._source: RawCluster | None = None
        self._target: RawCluster | None = None
        self._groups: dict[int, Groups] = {}
        self._places: PositionReader | None = None
        self._tail = CheckpointTail(sides[1], flow.mm2_topics.checkpoints(flow.source))
        self._ended, self._fed, self._asked = threading.Event(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._feed: tuple[FlowState, bool] = (FlowState(), True)
        self._last: tuple[float, float, GroupsSeen] | None = None

    def newest(self, state: FlowState, *, source_answers: bool) -> GroupsSeen | None:
        """The state of the groups; None when the flow synchronizes none.

        While :meth:`follow` runs, the result of its newest look.

        :param state: the flow's state on the target
        """
        if not wants_checkpoints(self._flow):
            return None
        if self._thread is None:
            return self.look(state, source_answers=source_answers)
        self._feed = (state.copy(), source_answers)
        self._fed.set()
        self._asked.wait(_WAIT_SECONDS)
        if self._last is None:
            return None
        began, took, seen = self._last
        age = self._steady() - began
        if age <= max(_OLD_SECONDS, 3 * _SHARE * took):
            return seen
        return GroupsSeen(seen.at_ms, seen.rounds, error=f"no look for {age:.0f} s")

    def follow(self) -> None:
        """Look from a thread, with pauses, so that many groups do not delay other work."""
        if wants_checkpoints(self._flow):
            name = f"groups {self._flow.name}"
            self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Close all connections."""
        self._ended.set()
        self._fed.set()
        if self._thread is not None:
            self._thread.join(_WAIT_SECONDS)
            if self._thread.is_alive():
                return  # the thread ends with its look, or with the process
        self._let_go()
        self._tail.close()
        self._loop.close()

    def _follow(self) -> None:
        while True:
            self._fed.wait()
            if self._ended.is_set():
                return
            began = self._steady()
            state, alive = self._feed
            seen = self.look(state, source_answers=alive)
            took = self._steady() - began
            self._last = (began, took, seen)
            self._asked.set()
            self._ended.wait(max(_PAUSE_SECONDS, _SHARE * took))

    def look(self, state: FlowState, *, source_answers: bool) -> GroupsSeen:
        """Look now. A cluster that does not answer is part of the answer, never an error."""
        now = self._clock()
        rounds = rounds_of(state, self._flow, now, source_answers=source_answers)
        try:
            seen: GroupsSeen = self._loop.run(self._look, state, source_answers, now, rounds)
        except DrkitError as error:
            self._let_go()
            return GroupsSeen(now, rounds, error=error.in_short)
        return seen

    async def _look(
        self, state: FlowState, source_answers: bool, now_ms: int, rounds: Rounds  # noqa: FBT001  EventLoop.run
    ) -> GroupsSeen:  # fmt: skip
        copied = known_of(state)
        if not copied.topics:
            return GroupsSeen(now_ms, rounds)
        target, source = await self._connected(source_answers=source_answers)
        topics = await metadata(target, [self._flow.mm2_topics.checkpoints(self._flow.source)])
        (topic,) = topics.values()
        missing = bool(topic.error) or not self._flow.emit_checkpoints
        try:
            self._tail.read(None if missing else topic.topic_id)
        except DrkitError as error:
            return GroupsSeen(now_ms, rounds, error=error.evidence)
        answers = await self._ask(target, source, copied)
        facts = FlowFacts(
            source=self._flow.source, sync=self._flow.sync_group_offsets, source_answers=source is not None,
            promoted=frozenset(promoted_topics(state)), now_ms=now_ms, stale=rounds.stale,
            not_stored=not_stored_of(state),
        )  # fmt: skip
        groups = tuple(self._groups_of(facts, copied, answers))
        seen = [g for g in groups if g.partitions]
        others, count = from_state(state.get(CheckpointsRecord))
        if answers.others is not None:
            others, count = answers.others, len(answers.others)
        return GroupsSeen(
            at_ms=now_ms, rounds=rounds, groups=tuple(seen), without_positions=len(groups) - len(seen),
            unreadable=self._tail.unreadable, others=others, others_total=count,
        )  # fmt: skip

    async def _connected(self, *, source_answers: bool) -> tuple[RawCluster, RawCluster | None]:
        if self._target is None:
            target = RawCluster(self._loop, self._sides[1], "groups")
            await target.connect(_CONNECT_MS)
            self._target, self._places = target, PositionReader(target, self._flow.source)
        if self._source is None and source_answers:
            source = RawCluster(self._loop, self._sides[0], "groups")
            try:
                await source.connect(_CONNECT_MS)
            except DrkitError:
                source.close()
            else:
                self._source = source
        return self._target, self._source if source_answers else None

    async def _ask(self, target: RawCluster, source: RawCluster | None, copied: CopiedTopics) -> _Asked:
        accepted = self._flow.group_filter.accepts
        listed: dict[str, ListedGroup] = {}
        on_source: dict[str, Answered[Offsets]] = {}
        others: tuple[OtherGroup, ...] | None = None
        if source is not None:
            source_groups = self._asking(source)
            all_groups = await source_groups.listed()
            listed = {g: x for g, x in all_groups.items() if is_consumer(x) and accepted(g)}
            left_out = sorted(g for g in all_groups if not accepted(g))[:_MOST]
            on_source = await source_groups.committed([*sorted(listed), *left_out])
            readers = left_out_readers(all_groups, on_source, copied.topics, accepted)
            others = other_groups(all_groups, accepted) + readers
        target_groups = self._asking(target)
        states = await target_groups.listed()
        # Without the source, groups with a recorded checkpoint or offset count.
        consumers = {g for g, x in states.items() if is_consumer(x)}
        # A group that is gone may still have its last offset there.
        self._tail.gone &= states.keys()
        recorded = {*consumers, *self._tail.newest} - self._tail.gone
        names = sorted(listed if source is not None else filter(accepted, recorded))
        on_target = await target_groups.committed(names)
        pairs = dict(self._pairs(copied, names, on_source, on_target))
        assert self._places is not None  # noqa: S101  made with the target
        places = await self._places.look(pairs.values(), copied.producers, source)
        return _Asked(listed, on_source, on_target, states, places, others)

    def _asking(self, cluster: RawCluster) -> Groups:
        return self._groups.setdefault(id(cluster), Groups(cluster))

    def _pairs(
        self,
        copied: CopiedTopics,
        names: list[str],
        on_source: Mapping[str, Answered[Offsets]],
        on_target: Mapping[str, Answered[Offsets]],
    ) -> Iterator[tuple[TopicPartition, CopiedPartition]]:
        for group in names:
            for tp in self._partitions(group, copied, on_source.get(group), on_target.get(group)):
                yield tp, copied.pair(*tp)

    def _partitions(
        self,
        group: str,
        copied: CopiedTopics,
        on_source: Answered[Offsets] | None,
        on_target: Answered[Offsets] | None,
    ) -> list[TopicPartition]:
        if on_source is not None and on_source.value is not None:
            return sorted(positions_in(on_source.value, copied.topics))
        names = copied.upstream
        stored = (on_target.value if on_target is not None else None) or {}
        marked = (at for at, c in stored.items() if StoredOffset(*c).mark)
        partitions = {*self._tail.newest.get(group, ()), *marked}
        return sorted(TopicPartition(names[t], p) for t, p in partitions if t in names)

    def _groups_of(self, flow: FlowFacts, copied: CopiedTopics, answers: _Asked) -> Iterator[GroupStatus]:
        copies = {target for target, _, _ in copied.topics.values()}
        for group, on_target in answers.on_target.items():
            on_source, listed = answers.on_source.get(group), answers.listed.get(group)
            state = answers.states.get(group)
            target_state = None if on_target.value is None else state.state if state is not None else ""
            stored = in_copies(on_target.value, copies)
            committed = (on_source.value if on_source is not None else None) or {}
            positions = positions_in(committed, copied.topics)
            # Drkit made the group's offsets on the source from those on the target.
            echoes = {copied.pair(*tp).target for tp, each in positions.items() if each.mark is not None}
            has_worked = worked(flow.source, (offset for at, offset in stored.items() if at not in echoes))
            unread = f"the source does not return its offsets: Kafka error code {on_source.error}" if (
                on_source is not None and on_source.value is None) else ""  # fmt: skip
            partitions = []
            for at in self._partitions(group, copied, on_source, on_target):
                target = copied.pair(*at).target
                target_offset = stored.get(target)
                facts = GroupFacts(
                    group=group, at=at, target=target, place=answers.places[at],
                    on_source=positions.get(at),
                    checkpoint=self._tail.newest.get(group, {}).get(target),
                    on_target=target_offset, target_state=target_state, worked=has_worked, unread=unread,
                    is_void=copied.is_void(at, target_offset.offset if target_offset is not None else None),
                )  # fmt: skip
                partitions.append(judged(flow, facts))
            outside = sorted({at.topic for at in committed} - set(copied.topics))
            yield GroupStatus(
                group, listed.state if listed else "", listed.type if listed else "", target_state or "",
                tuple(partitions), tuple(outside),
            )  # fmt: skip

    def _let_go(self) -> None:
        for cluster in (self._source, self._target):
            if cluster is not None:
                cluster.close()
        self._source = self._target = self._places = None
        self._groups.clear()
