"""Fetching record batches as bytes: one long poll per source broker over all its partitions.

Incremental fetch sessions (KIP-227) keep a request small when only a few of many partitions move;
the leader epoch of the last batch is sent along, so a source that lost its tail says so (KIP-320).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from kafka.protocol.consumer.fetch import FetchRequest

from drkit.clock import boottime, wall_ms
from drkit.kafka.raw import RawError
from drkit.kafka.requests import EARLIEST, LATEST, aborted_in, list_offsets, metadata
from drkit.replicate.context import QUEUE_LIMIT_BYTES, TaskContext, error_name
from drkit.replicate.fetch_pace import FetchPace
from drkit.replicate.partition import PartitionCopy, State
from drkit.wire import CorruptBatch, transform

_TOPIC = FetchRequest.FetchTopic
_PARTITION = FetchRequest.FetchTopic.FetchPartition
_FORGOTTEN = FetchRequest.ForgottenTopic
_IDLE_SECONDS = 0.2
_PAUSE_SECONDS = 0.1
_HELD_BACK_MS = 5
_PATIENCE_MS = 15_000
_SESSION_ERRORS = frozenset({70, 71, 106})
_OFFSET_OUT_OF_RANGE = 1
_GONE = frozenset({3, 100, 103})
_NOT_AUTHORIZED = 29
_UNKNOWN_EPOCH = -1


class Asked(NamedTuple):
    """What a fetch request said of a partition."""

    generation: int
    offset: int
    leader_epoch: int


class Fetcher:
    """Keeps a fetch open at one source broker for the partitions it leads."""

    def __init__(self, task: TaskContext, node: int) -> None:
        self._task = task
        self._node = node
        self._session_id = 0
        self._session_epoch = 0
        self._in_session: dict[PartitionCopy, Asked] = {}
        self._pace = FetchPace()

    async def run(self) -> None:
        """Fetch until the epoch ends."""
        task = self._task
        limit = 2 * task.flow.fetch_partition_max_bytes
        while not task.ending:
            full = task.queued() > QUEUE_LIMIT_BYTES
            wanted = {
                p: Asked(p.generation, p.fetch_position, p.leader_epoch)
                for p in task.partitions
                if not full and p.leader == self._node and p.fetchable(limit)
            }
            pause = task.throttle.pause()
            if pause or not wanted:
                task.waits_for_room += 1
                await task.changed.wait(min(pause, _IDLE_SECONDS) or _IDLE_SECONDS)
                task.waits_for_room -= 1
                continue
            try:
                # The source may wait for records before it answers at all.
                patience = (task.links.fetch.request_timeout_ms or _PATIENCE_MS) + task.flow.fetch_max_wait_ms
                self._pace.asked(boottime())
                answer = await task.links.fetch.send(self._request(wanted), self._node, timeout_ms=patience)
                if not task.ending:
                    await self._take(answer, wanted)  # asks more where the source has trouble
                if left := self._pace.pause(boottime()):
                    await task.loop.sleep(left)
            except RawError:
                self._reset()
                await task.loop.sleep(_PAUSE_SECONDS)
                await find_leaders(task)

    def _reset(self) -> None:
        self._session_id = self._session_epoch = 0
        self._in_session = {}

    def _request(self, wanted: dict[PartitionCopy, Asked]) -> FetchRequest:
        flow = self._task.flow
        by_topic: dict[tuple[str, Any], list[Any]] = {}
        for p, asked in wanted.items():
            if self._in_session.get(p) != asked:
                by_topic.setdefault((p.source.topic, p.source_id), []).append(
                    _PARTITION(
                        partition=p.source.partition,
                        current_leader_epoch=asked.leader_epoch,
                        fetch_offset=asked.offset,
                        last_fetched_epoch=p.fetched_epoch,
                        log_start_offset=-1,
                        partition_max_bytes=self._task.throttle.most(flow.fetch_partition_max_bytes),
                    )
                )
        forgotten: dict[tuple[str, Any], list[int]] = {}
        for p in self._in_session:
            if p not in wanted:
                forgotten.setdefault((p.source.topic, p.source_id), []).append(p.source.partition)
        wait_ms = max(1, min(self._patience_ms(wanted), int(self._task.seconds_left * 1000)))
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._task.throttle.most(flow.fetch_max_bytes),
            isolation_level=1,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[_TOPIC(topic=t, topic_id=i, partitions=ps) for (t, i), ps in by_topic.items()],
            forgotten_topics_data=[
                _FORGOTTEN(topic=t, topic_id=i, partitions=ps) for (t, i), ps in forgotten.items()
            ],
            rack_id="",
        )
        self._in_session = dict(wanted)
        return request

    def _patience_ms(self, wanted: Collection[PartitionCopy]) -> int:
        """How long the source may wait for records of these.

        A partition that is left out because enough of it is queued wants its place back within moments:
        it must not wait for a long poll over others that have nothing to give.
        """
        held_back = any(
            p.leader == self._node and p not in wanted and p.wants_more for p in self._task.partitions
        )
        return _HELD_BACK_MS if held_back else self._task.flow.fetch_max_wait_ms

    async def _take(self, answer: Any, wanted: dict[PartitionCopy, Asked]) -> None:
        if answer.error_code:
            if answer.error_code not in _SESSION_ERRORS:
                await self._task.loop.sleep(_PAUSE_SECONDS)
            self._reset()
            return
        self._session_id = answer.session_id
        self._session_epoch = self._session_epoch + 1 if answer.session_id else 0
        if not answer.session_id:
            self._in_session = {}
        places = {(p.source_id, p.source.partition): p for p in wanted}
        troubled, size = False, 0
        for topic in answer.responses:
            for data in topic.partitions:
                p = places.get((topic.topic_id, data.partition_index))
                if p is None or wanted[p].generation != p.generation or p.state is State.STOPPED:
                    continue
                if data.error_code or data.diverging_epoch is not None:
                    troubled = True
                    self._in_session.pop(p, None)
                    await source_trouble(self._task, p, data)
                elif data.records:
                    size += len(data.records)
                    self._task.throttle.take(len(data.records))
                    self._records(p, data)
        self._pace.answered(boottime(), size)
        if troubled:
            self._reset()
            await self._task.loop.sleep(_PAUSE_SECONDS)
            await find_leaders(self._task)

    def _records(self, p: PartitionCopy, data: Any) -> None:
        flow = self._task.flow
        try:
            out = transform(
                data.records,
                position=p.fetch_position,
                end=p.lease.end,
                aborted=aborted_in(data),
                skip_producer_ids=frozenset(self._task.lease.skip_producer_ids),
                merge_below=flow.merge_below_bytes,
                merge_up_to=flow.merge_up_to_bytes,
                max_batch_bytes=p.lease.max_message_bytes,
            )
        except CorruptBatch as error:
            self._task.stop(p, "partition_stopped", "the source holds a corrupt batch", evidence=str(error))
            return
        now = wall_ms()
        for chunk in out.chunks:
            p.age_ms.add(now - chunk.max_timestamp)
        p.take(out.chunks, out.next_source, out.leader_epoch)
        self._task.offer(p)


async def source_trouble(task: TaskContext, p: PartitionCopy, data: Any) -> None:
    """A source partition answered with an error or with a shorter history than ours."""
    if data.diverging_epoch is not None:
        diverged = data.diverging_epoch.end_offset
        task.emit(
            "source_diverged",
            p,
            copied_up_to=p.fetch_position,
            source_history_ends=diverged,
            leader_epoch=data.diverging_epoch.epoch,
        )
        rewind(task, p, min(p.fetch_position, diverged), data.diverging_epoch.epoch)
    elif data.error_code == _OFFSET_OUT_OF_RANGE:
        await _out_of_range(task, p)
    elif data.error_code == _NOT_AUTHORIZED:
        task.stop(
            p,
            "partition_stopped",
            "no permission to read the source topic",
            evidence=error_name(data.error_code),
        )
    elif data.error_code in _GONE:
        await _gone(task, p, data.error_code)


async def _out_of_range(task: TaskContext, p: PartitionCopy) -> None:
    """Retention outran the copier, or the source lost its tail."""
    first = (await list_offsets(task.links.source, p.leader, {p.source: EARLIEST}, committed=False))[p.source]
    last = (await list_offsets(task.links.source, p.leader, {p.source: LATEST}, committed=False))[p.source]
    if first.error or last.error:
        return
    if p.fetch_position < first.offset:
        lost = first.offset - p.fetch_position
        fields = {"from_offset": p.fetch_position, "to_offset": first.offset, "lost_offsets": lost}
        if task.flow.on_source_gap == "stop":
            task.stop(p, "source_gap", "the source deleted records before they were copied", **fields)
            return
        task.emit("source_gap", p, stopped=False, **fields)
        p.fetch_position = first.offset
    elif p.fetch_position > last.offset:
        task.emit("source_diverged", p, copied_up_to=p.fetch_position, source_history_ends=last.offset)
        rewind(task, p, last.offset, _UNKNOWN_EPOCH)


def rewind(task: TaskContext, p: PartitionCopy, upstream: int, epoch: int) -> None:
    """The source's history is shorter than what was copied: go on from where it now ends."""
    task.trouble(p)
    p.rewind_to = (upstream, epoch)


async def _gone(task: TaskContext, p: PartitionCopy, code: int) -> None:
    """The topic id is unknown: deleted, recreated, or just moving."""
    found = (await metadata(task.links.source, [p.source.topic]))[p.source.topic]
    if found.error in _GONE:
        task.stop(p, "source_deleted", "the source topic was deleted", evidence=error_name(code))
    elif found.topic_id != p.source_id:
        task.stop(
            p,
            "source_recreated",
            "the source topic was deleted and created again",
            old_id=str(p.source_id),
            new_id=str(found.topic_id),
        )


async def find_leaders(task: TaskContext) -> None:
    """Ask the source who leads what; a partition without a leader waits."""
    names = sorted({p.source.topic for p in task.partitions if p.state is not State.STOPPED})
    if not names:
        return
    try:
        found = await metadata(task.links.source, names)
    except RawError:
        return
    for p in task.partitions:
        topic = found.get(p.source.topic)
        leader = topic.leaders.get(p.source.partition) if topic is not None else None
        if leader is not None:
            p.leader, p.leader_epoch = leader.node, leader.epoch
    task.changed.set()
