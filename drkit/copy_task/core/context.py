"""State shared by the parts of one copy task: partitions, time limits, counters, writes to drkit's topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
import time
from typing import Any, Final

from drkit.catalogue import ERRORS
from drkit.clock import Seconds, boottime, wall_ms
from drkit.config import FlowSettings
from drkit.control_key import LogPlace, Signatures
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.copy_task.core.links import WorkerLinks
from drkit.copy_task.core.partition import CopyState, PartitionCopy
from drkit.errors import Failed
from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.lease.turn import LeaseRight
from drkit.flow_state.processes import boot_id
from drkit.flow_state.records import EventRecord
from drkit.kafka.codes import CLUSTER_AUTHORIZATION_FAILED, NO_ANSWER, NONE, append_seconds
from drkit.kafka.codes import error_name as error_name
from drkit.kafka.raw import EventLoop, Future, RawError
from drkit.kafka.requests import Append, TopicMetadata, metadata, produce_request
from drkit.kafka.transactions import Transactions
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, Pair
from drkit.offset_map.topic import made_anew, new_nonce
from drkit.offset_map.writer import MapTaken, MapWriter
from drkit.wire import Record, encode, stamp

_BURST_SECONDS: Final = 1.0
"""Tokens of this many seconds accumulate while a task is idle."""


class Throttle:
    """Bytes per second, as a bucket that may become negative: a fetch is accounted for after its answer.

    Over any span of `t` seconds at most `rate` · (`t` + 1 s) bytes pass, and one answer.

    :param rate: bytes per second; None lets everything pass
    """

    def __init__(self, rate: float | None, clock: Seconds) -> None:
        self._rate, self._clock = rate, clock
        self._tokens = 0.0
        self._at = clock()

    def take(self, size: int) -> None:
        """Account for bytes that were fetched."""
        if self._rate is not None:
            self._fill(self._rate)
            self._tokens -= size

    def pause(self) -> float:
        """Return the seconds until the next request may be sent, 0 for now."""
        if self._rate is None:
            return 0.0
        self._fill(self._rate)
        return max(0.0, -self._tokens / self._rate)

    def most(self, size: int) -> int:
        """Return the bytes to request instead of `size`: at most those of one second."""
        return size if self._rate is None else max(1, min(size, int(self._rate * _BURST_SECONDS)))

    def _fill(self, rate: float) -> None:
        now = self._clock()
        self._tokens = min(rate * _BURST_SECONDS, self._tokens + (now - self._at) * rate)
        self._at = now


class Signal:
    """Wakes every coroutine that waits for something to change."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiters: list[Future] = []

    def set(self) -> None:
        """Wake all waiting coroutines."""
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            if not future.is_done:
                future.success(None)

    async def wait(self, seconds: float) -> None:
        """Wait for a change, at most some seconds."""
        future = Future()
        self._waiters.append(future)
        timer = self._loop.net.call_later(seconds, lambda: future.is_done or future.success(None))
        try:
            await future
        finally:
            self._loop.net.cancel(timer)


_PAUSE_SECONDS = 0.05
_APPEND_MS = 30_000
SAY_AT = frozenset({5, 20, 100, 1000})
"""Tries in a row after which a partition without progress is reported."""
QUEUE_LIMIT_BYTES = 24 << 20
"""Upper bound of the fetched but not yet acknowledged bytes of a task."""


@dataclass(slots=True)
class Counters:
    """Counters of one task."""

    batches: int = 0
    requests: int = 0
    resyncs: int = 0
    looped: dict[int, int] = field(default_factory=dict)
    """Producer id of the opposite flow → records skipped; a record fetched twice counts twice."""


@dataclass(slots=True, eq=False)
class TaskContext:
    """The shared state of one running copy task."""

    lease: TaskAssignment
    flow: FlowSettings
    links: WorkerLinks
    partitions: list[PartitionCopy]
    buckets: dict[int, MapBucket]
    transactions: dict[int, Transactions]
    in_bucket: dict[int, list[PartitionCopy]] = field(init=False)
    """The partitions by the bucket of the map that has them."""
    maps: dict[int, MapWriter] = field(default_factory=dict)
    """The writer of each bucket of the map."""
    nonce: int = field(default_factory=new_nonce)
    started: float = field(default_factory=boottime)
    ends: float = field(init=False)
    """When the epoch ends, by the same clock."""
    ending: str = ""
    counters: Counters = field(default_factory=Counters)
    targets: dict[str, TopicMetadata] = field(default_factory=dict)
    map_topic: TopicMetadata | None = None
    state_topic: TopicMetadata | None = None
    changed: Signal = field(init=False)
    """Set when data arrived or was acknowledged, or a state changed."""
    waits_for_room: int = 0
    """Fetchers that pause until appends are acknowledged."""
    offer: Callable[[PartitionCopy], None] = field(init=False)
    """Called whenever a partition may have something to append."""
    signatures: Signatures = field(init=False)
    right: LeaseRight | None = field(init=False)
    """End of the flow's lease, extended by each renewal that this task has read."""
    throttle: Throttle = field(init=False)
    """This task's share of the flow's fetch rate."""
    events: list[Future] = field(default_factory=list)
    """Events being written to the state topic; the task ends after them."""
    failure: BaseException | None = None
    """The exception of a callback; the task fails with it."""

    def __post_init__(self) -> None:
        self.in_bucket = {bucket: [] for bucket in self.buckets}
        for p in self.partitions:
            self.in_bucket[p.lease.bucket].append(p)
        boot = boot_id()
        self.ends = self.started + self.lease.seconds(wall_ms(), boot, self.started)
        self.changed = Signal(self.links.loop)
        self.signatures = Signatures(self.links.target.control, TopicPartition(self.lease.state_topic, 0))
        self.right = self.lease.right(boot, self.started)
        rate = self.flow.throttle_bytes_per_second
        self.throttle = Throttle(None if rate is None else rate / self.flow.tasks, time.monotonic)

    @property
    def loop(self) -> EventLoop:
        """The event loop of this process."""
        return self.links.loop

    @property
    def expired(self) -> bool:
        """Return whether the deadline for writes has passed (suspended time counts)."""
        return boottime() > self.deadline

    @property
    def deadline(self) -> float:
        """Time of :func:`drkit.clock.boottime` after which this task must not write."""
        epoch_deadline = self.started + self.lease.epoch_seconds + self.lease.grace_seconds
        return epoch_deadline if self.right is None else min(epoch_deadline, self.right.until)

    def renewed(self, since: float) -> None:
        """Extend the deadline: the flow's lease was renewed after `since`."""
        if self.right is not None:
            self.right.extend(since)
            self.links.close_gates_at(self.deadline)

    @property
    def seconds_left(self) -> float:
        """Until the end of the epoch."""
        return self.ends - boottime()

    def superseded(self) -> None:
        """Send nothing more: another run holds the flow's lease now."""
        if self.right is not None:
            self.right.end(boottime())
            self.links.close_gates_at(self.deadline)
        self.finish("superseded")

    def live_floor_ms(self, state: CopyState) -> int:
        """Records older than this wall-clock time go through bulk mode; it has hysteresis."""
        age = self.lease.live_max_age_ms
        return wall_ms() - (age // 2 if state is CopyState.BULK else age)

    def awaits_acknowledgement(self, acknowledged: Iterable[PartitionCopy]) -> bool:
        """Return whether a coroutine waits for these acknowledgements (queue space, end, empty pipeline).

        Usually none does, and waking all costs as much as the acknowledgement itself.
        """
        return bool(self.waits_for_room or self.ending) or any(
            p.waiting or p.lease.end is not None or p.state is not CopyState.LIVE for p in acknowledged
        )

    def finish(self, how: str) -> None:
        """End the epoch; the first reason counts."""
        if how == "fenced" and self.expired:
            how = "expired"  # the map's writer refuses then as if another task had taken the bucket
        self.ending = self.ending or how
        self.changed.set()

    def guarded(self, function: Callable[..., None], *args: object) -> Callable[[Any], None]:
        """Return a callback whose exception ends the task; the event loop would only log it."""

        def call(result: Any) -> None:
            try:
                function(*args, result)
            except BaseException as error:  # noqa: BLE001 - raised again by the task itself
                self.failure = self.failure or error
                self.changed.set()

        return call

    def trouble(self, p: PartitionCopy, pause: float = 0.0) -> None:
        """Discard a partition's fetched and staged data; it is resolved once nothing is in flight."""
        if p.state is CopyState.STOPPED:
            return
        p.void()
        p.attempts += 1
        if p.attempts in SAY_AT:
            self.emit("resync", p, reason=p.reason, attempts=p.attempts)
        self.counters.resyncs += 1
        p.retry_at = time.monotonic() + min(5.0, max(pause, 0.02 * 2 ** min(p.attempts, 8)))
        self.changed.set()

    def deviate(self, p: PartitionCopy, reason: str) -> None:
        """End the history first: in-flight appends of others may differ from this task's next records."""
        self.trouble(p)
        p.deviation = reason

    def stop(self, p: PartitionCopy, kind: str, reason: str, **evidence: object) -> None:
        """Stop one partition and report it; the others continue."""
        p.stop(reason)
        self.emit(kind, p, reason=reason, stopped=True, **evidence)
        self.changed.set()

    def stop_unfenced(self, p: PartitionCopy, reason: str) -> None:
        """Stop a partition for which drkit lacks permission to write transaction markers."""
        evidence = error_name(CLUSTER_AUTHORIZATION_FAILED)
        self.stop(p, "fence_refused", reason, evidence=evidence, hint=ERRORS["transaction_left_open"].hint)

    def emit(self, kind: str, of: PartitionCopy | TopicPartition, **fields: object) -> Future:
        """Write an event to the state topic, where the driver and `drkit status` read it.

        The event is written in any case. The future ends when it is durable, or raises Failed.
        """
        at, fields = of if isinstance(of, TopicPartition) else of.source, {"flow": self.lease.flow, **fields}
        event = EventRecord(kind, at.topic, at.partition, wall_ms(), fields)
        written: Future = self.loop.spawn(self.write_state, event, event.name)
        self.events.append(written)
        return written

    async def patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask again while a broker goes away or a connection breaks, as long as this task may write."""
        while True:
            try:
                return await ask()
            except RawError:
                if self.expired:
                    raise
                await self.loop.sleep(_PAUSE_SECONDS)

    async def write_state(self, record: StateRecord, name: str) -> None:
        """Make a record of the flow's state durable (acks=all), following the topic's leader.

        Not idempotent: it may be written twice, which does no harm.

        :raises Failed: it was not accepted in time
        """
        topic, key, value = self.lease.state_topic, record.key(name).encode(), record.encode()
        code, began = NONE, boottime()
        while not code or boottime() < began + append_seconds(code):
            try:
                topic_metadata = await self.internal(topic, refresh=bool(code))
                node = topic_metadata.leaders[0].node
                data = encode([Record(0, wall_ms(), key, value, self.signatures.headers(key, value))], 0)
                stamp(data, -1, -1, -1, transactional=False)
                request = produce_request([Append(topic, topic_metadata.topic_id, 0, data)])
                response = await self.links.target.send(request, node, timeout_ms=10_000)
                code = response.responses[0].partition_responses[0].error_code
                if not code:
                    return
            except (RawError, KeyError):
                code = NO_ANSWER
            await self.loop.sleep(_PAUSE_SECONDS)
        evidence = f"Kafka error code {code}"
        raise Failed("internal_topic_refuses", where=f"{topic}-0", evidence=evidence)

    async def write_map(self, bucket: int, written: list[Pair]) -> None:
        """Make map records and tombstones durable (acks=all) in one batch, outside any transaction.

        :raises Failed: the map topic does not take them
        """
        try:
            await self.maps[bucket].write_pairs(written)
        except MapTaken:
            self.finish("fenced")
            raise

    async def internal(self, topic: str, *, refresh: bool) -> TopicMetadata:
        """Id and leaders of the map topic or the state topic."""
        is_map = topic == self.lease.map_topic
        current = self.map_topic if is_map else self.state_topic
        if current is None or refresh:
            current = (await metadata(self.links.target, [topic]))[topic]
            if is_map:
                if not current.error and self.lease.map_id not in {"", str(current.topic_id)}:
                    # A recreated map is empty: with it everything would be copied again. The task ends.
                    self.failure = made_anew(topic, self.lease.map_id, current.topic_id)
                    raise self.failure
                self.map_topic = current
            else:
                self.state_topic, at = current, self.signatures.place.at
                if not current.error:
                    self.signatures.place = LogPlace(at, self.links.target.cluster_id or "", current.topic_id)
        return current

    def send_deadline(self) -> float:
        """Monotonic time after which a queued request is given up."""
        return time.monotonic() + (self.links.produce.request_timeout_ms or _APPEND_MS) / 1000
