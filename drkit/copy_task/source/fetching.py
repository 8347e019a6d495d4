"""Fetching record batches as bytes: one long poll per source broker over all its partitions.

Incremental fetch sessions (KIP-227) keep a request small when only a few of many partitions move;
the leader epoch of the last batch is sent along, so a source that lost its tail says so (KIP-320).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from drkit.clock import boottime, wall_ms
from drkit.copy_task.core.context import QUEUE_LIMIT_BYTES, TaskContext
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.copy_task.source import leaders as source_errors
from drkit.copy_task.source.leaders import LeaderWatch
from drkit.kafka.codes import FETCH_SESSION_LOST, error_name
from drkit.kafka.raw import RawError
from drkit.kafka.requests import FetchRequest, aborted_in
from drkit.wire import CorruptBatch, Returned, Transformed, transform

SPACED_SECONDS: Final = 0.008
"""Minimum time between two fetches of a busy source."""
_BUSY: Final = 250.0
"""Responses a second above which requests are spaced out."""
_CALM: Final = 90.0
"""Responses a second below which spacing stops; while spaced out, the maximum is 125."""
_LARGE: Final = 64 * 1024
"""Bytes; a response of this size stops the spacing."""
_MEMORY_SECONDS: Final = 0.5
"""Half-life of the smoothed rate."""


class FetchPace:
    """The spacing of one fetcher's requests. Times are in seconds, of any monotonic clock.

    A long poll is answered as soon as there is one record. Thousands of one-record batches per second would
    cause hundreds of requests per second on both clusters, which delay the records if processors are scarce.
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._answered = self._asked = float("-inf")
        self._spaced = False

    def asked(self, now: float) -> None:
        """A request is sent."""
        self._asked = now

    def answered(self, now: float, size: int) -> None:
        """Its answer has arrived.

        :param size: bytes of records in it
        """
        passed = max(now - self._answered, 1e-4)
        self._answered = now
        keep = 0.5 ** (passed / _MEMORY_SECONDS)
        self._rate = keep * self._rate + (1.0 - keep) / passed
        if size >= _LARGE or self._rate < _CALM:
            self._spaced = False
        elif self._rate > _BUSY:
            self._spaced = True

    def pause(self, now: float) -> float:
        """Return the seconds that the next request has to wait."""
        return max(0.0, self._asked + SPACED_SECONDS - now) if self._spaced else 0.0


_TOPIC = FetchRequest.FetchTopic
_PARTITION = FetchRequest.FetchTopic.FetchPartition
_FORGOTTEN = FetchRequest.ForgottenTopic
_IDLE_SECONDS = 0.2
_PAUSE_SECONDS = 0.1
_HELD_BACK_MS = 5
_PATIENCE_MS = 15_000
_MOST_RECORDS = 20_000
"""Records decoded at once: about 10 MB of memory and 0.04 s."""
_TURN_SECONDS = 0.05
"""After this time the other coroutines of the task run."""
_OTHERS_SECONDS = 0.002
"""Minimum time for which they run."""


class RequestedPosition(NamedTuple):
    """The position that a fetch request named for a partition."""

    generation: int
    offset: int
    leader_epoch: int


class Fetcher:
    """Keeps a fetch open at one source broker for the partitions it leads.

    A response counts only while its leader, offset and generation are current: a former leader's late
    response would move the cursor and its leader epoch back.
    """

    def __init__(self, task: TaskContext, node: int, source: LeaderWatch) -> None:
        self._task = task
        self._node = node
        self._source = source
        self._health = source.health
        self._health.fetcher_begins(node)
        self._session_id = 0
        self._session_epoch = 0
        self._in_session: dict[PartitionCopy, RequestedPosition] = {}
        self._pace = FetchPace()
        self._partitions_by_id = {(p.source_id, p.source.partition): p for p in task.partitions}
        self._held_back = False
        """A partition was left out of the last request because its queue is full."""

    async def run(self) -> None:
        """Fetch until the epoch ends."""
        task = self._task
        while not task.ending:
            requested = self._requested_positions(boottime())
            pause = task.throttle.pause()
            if pause or not requested:
                task.waits_for_room += 1
                await task.changed.wait(min(pause, _IDLE_SECONDS) or _IDLE_SECONDS)
                task.waits_for_room -= 1
                continue
            answer = await self._ask(requested)
            if answer is not None and not task.ending:
                await self._handle(answer, requested)
            if wait_seconds := self._pace.pause(boottime()):
                await task.loop.sleep(wait_seconds)

    def _requested_positions(self, now: float) -> dict[PartitionCopy, RequestedPosition]:
        """Return the positions to fetch; an unchanged position is the same object as in the last request.

        Each fetch iterates over all partitions of the task, thousands of them in a large flow.
        """
        limit = 2 * self._task.flow.fetch_partition_max_bytes
        node, session, quiet = self._node, self._in_session, self._health.is_quiet
        requested: dict[PartitionCopy, RequestedPosition] = {}
        queued, self._held_back = 0, False
        for p in self._task.partitions:
            queued += p.queued_bytes
            if p.returned is not None and p.leader == node and p.settled:
                self._stop_returned(p, p.returned)
            if p.leader != node or not p.wants_more or not (quiet or self._health.may_fetch(p, now)):
                continue
            if p.queued_bytes >= limit:
                self._held_back = True
                continue
            position = RequestedPosition(p.generation, p.fetch_position, p.leader_epoch)
            known = session.get(p)  # the same object shows later that the session has it
            requested[p] = known if known == position else position
        return requested if queued <= QUEUE_LIMIT_BYTES else {}

    async def _ask(self, requested: dict[PartitionCopy, RequestedPosition]) -> Any:
        """Send a fetch and return the response, or None if the broker did not answer."""
        links, flow = self._task.links, self._task.flow
        # The source may wait for records before it answers at all.
        patience = (links.fetch.request_timeout_ms or _PATIENCE_MS) + flow.fetch_max_wait_ms
        self._pace.asked(boottime())
        self._health.fetch_begins(self._node, boottime())
        try:
            return await links.fetch.send(self._request(requested), self._node, timeout_ms=patience)
        except RawError as error:
            self._reset_session()
            self._failed(requested, f"broker {self._node}: {error}")
            return None
        finally:
            self._health.fetch_ends(self._node)

    def _is_current(self, p: PartitionCopy, position: RequestedPosition) -> bool:
        current = (p.leader, p.generation, p.fetch_position)
        requested = (self._node, position.generation, position.offset)
        return p.state is not CopyState.STOPPED and current == requested

    def _failed(self, requested: dict[PartitionCopy, RequestedPosition], reason: str) -> None:
        """Note that the fetch of these partitions failed."""
        current = [p for p, position in requested.items() if self._is_current(p, position)]
        fresh = [self._health.failed(p, reason, boottime()) for p in current]
        if any(fresh):
            self._source.look_soon()

    def _reset_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._in_session = {}

    def _request(self, requested: dict[PartitionCopy, RequestedPosition]) -> FetchRequest:
        flow = self._task.flow
        by_topic: dict[tuple[str, Any], list[Any]] = {}
        for p, position in requested.items():
            if self._in_session.get(p) is not position:
                by_topic.setdefault((p.source.topic, p.source_id), []).append(
                    _PARTITION(
                        partition=p.source.partition,
                        current_leader_epoch=position.leader_epoch,
                        fetch_offset=position.offset,
                        last_fetched_epoch=p.fetched_epoch,
                        log_start_offset=-1,
                        partition_max_bytes=self._task.throttle.most(flow.fetch_partition_max_bytes),
                    )
                )
        forgotten: dict[tuple[str, Any], list[int]] = {}
        for p in self._in_session.keys() - requested.keys():
            forgotten.setdefault((p.source.topic, p.source_id), []).append(p.source.partition)
        wait_ms = max(1, min(self._patience_ms, int(self._task.seconds_left * 1000)))
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
        self._in_session = requested
        return request

    @property
    def _patience_ms(self) -> int:
        """How long the source may wait for records.

        A partition left out because its queue is full joins the next request within milliseconds: it must
        not wait for a long poll of partitions without records.
        """
        return _HELD_BACK_MS if self._held_back else self._task.flow.fetch_max_wait_ms

    async def _handle(self, response: Any, requested: dict[PartitionCopy, RequestedPosition]) -> None:
        if response.error_code:
            self._reset_session()
            if response.error_code not in FETCH_SESSION_LOST:
                self._failed(requested, error_name(response.error_code))
                await self._task.loop.sleep(_PAUSE_SECONDS)
            return
        self._session_id = response.session_id
        self._session_epoch = self._session_epoch + 1 if response.session_id else 0
        if not response.session_id:
            self._in_session = {}
        quiet = self._health.is_quiet  # then no fetch ends a failure
        fetched = set() if quiet else {p for p, at in requested.items() if self._is_current(p, at)}
        size = 0
        for topic in response.responses:
            for partition_data in topic.partitions:
                p = self._partitions_by_id.get((topic.topic_id, partition_data.partition_index))
                position = None if p is None else requested.get(p)
                if p is None or position is None or not self._is_current(p, position):
                    continue
                if partition_data.error_code or partition_data.diverging_epoch is not None:
                    fetched.discard(p)
                    self._trouble(p, position, partition_data)
                elif partition_data.records:
                    size += len(partition_data.records)
                    self._task.throttle.take(len(partition_data.records))
                    await self._queue_in_parts(p, partition_data)
                    if self._task.ending:
                        return
        self._pace.answered(boottime(), size)
        self._source.works(fetched)

    def _trouble(self, p: PartitionCopy, position: RequestedPosition, data: Any) -> None:
        """Find out what an error means while other partitions are fetched."""
        reason = error_name(data.error_code) if data.error_code else "the source's history has changed"
        if self._health.failed(p, reason, boottime(), hold=True):
            self._source.look_soon()
        self._source.spawn(self._settle, p, position, data)

    async def _settle(self, p: PartitionCopy, position: RequestedPosition, data: Any) -> None:
        reason = ""
        try:
            if self._is_current(p, position) and not self._task.ending:
                reason = await source_errors.source_trouble(self._task, p, data)
        except RawError as error:
            reason = str(error)
        self._health.settled(p, reason)

    async def _queue_in_parts(self, p: PartitionCopy, partition_data: Any) -> None:
        """Queue the fetched records of a partition in parts.

        A megabyte may hold a million records, which take seconds. Between two parts other coroutines run:
        they append queued chunks, and read lease renewals.
        """
        flow, generation = self._task.flow, p.generation
        parts = transform(
            partition_data.records,
            position=p.fetch_position,
            end=p.lease.end,
            aborted=aborted_in(partition_data),
            skip_producer_ids=frozenset(self._task.lease.skip_producer_ids),
            skip_before=p.lease.skip_from,
            copy_again=p.lease.rebuilt_from is not None,
            kept=p.kept,
            merge_below=flow.merge_below_bytes,
            merge_up_to=flow.merge_up_to_bytes,
            max_batch_bytes=p.lease.max_message_bytes,
            most_records=_MOST_RECORDS,
        )
        began = boottime()
        try:
            for transformed in parts:
                self._queue(p, transformed)
                if boottime() - began < _TURN_SECONDS:
                    continue
                await self._task.loop.sleep(_OTHERS_SECONDS)
                position = RequestedPosition(generation, transformed.next_source, p.leader_epoch)
                if self._task.ending or self._task.expired or not self._is_current(p, position):
                    return
                began = boottime()
        except CorruptBatch as error:
            self._task.stop(p, "partition_stopped", "the source holds a corrupt batch", evidence=str(error))

    def _queue(self, p: PartitionCopy, transformed: Transformed) -> None:
        looped = self._task.counters.looped
        for producer, records in transformed.looped.items():
            looped[producer] = looped.get(producer, 0) + records
        now = wall_ms()
        for chunk in transformed.chunks:
            p.age_ms.add(now - chunk.max_timestamp)
        p.take(transformed.chunks, transformed.next_source, transformed.leader_epoch)
        p.returned = transformed.returned
        self._task.offer(p)

    def _stop_returned(self, p: PartitionCopy, returned: Returned) -> None:
        """Stop a partition before a batch that only a flow in the other direction can have written."""
        self._task.stop(
            p, "opposite_wrote", "the flow in the other direction has written to the source since the turn",
            offset=returned.offset, producer_id=returned.producer_id, began_at=p.lease.skip_from,
        )  # fmt: skip
