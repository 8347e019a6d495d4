"""Live mode: the broker's last sequence per producer id is a compare-and-append cursor.

An append is accepted only when its first sequence follows the last one, so retries, zombies and two
copies of one task can neither duplicate nor reorder (KIP-98). Any answer but the predicted one voids
the partition's pipeline; then the new leader is asked what it holds.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from drkit.clock import wall_ms
from drkit.copy_task.core.context import TaskContext, error_name
from drkit.copy_task.core.partition import CopyState, PartitionCopy, Staged
from drkit.kafka import codes
from drkit.kafka.raw import Future, RawError
from drkit.kafka.requests import Append, produce_request

_IDLE_SECONDS = 0.5
_PIPELINE = 64
"""Maximum number of in-flight batches of one partition; recovery asks the broker, so five is no limit."""
_NO_TIMESTAMP = -1
FATAL = {
    2: "the target refused a batch as corrupt",
    codes.MESSAGE_TOO_LARGE: "a batch is larger than the target's max.message.bytes",
    codes.RECORD_LIST_TOO_LARGE: "a batch is larger than the target's segment.bytes",
    codes.TOPIC_AUTHORIZATION_FAILED: "no permission to write to the target topic",
    codes.INVALID_RECORD: "the target refused a batch as invalid",
    codes.UNKNOWN_SERVER_ERROR: "the target failed on a batch",
}
"""Error codes for which a retry cannot help; each stops only its own partition."""
OVERSIZED = frozenset({codes.MESSAGE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE})


class LiveAppender:
    """Sends the staged batches of all partitions that one target broker leads."""

    def __init__(self, task: TaskContext, node: int) -> None:
        self._task = task
        self._node = node
        self._queue: deque[PartitionCopy] = deque()
        self._requests = 0
        self._wake = Future()

    def offer(self, p: PartitionCopy) -> None:
        """Queue a partition that may have staged batches."""
        if not p.listed and p.ready:
            p.listed = True
            self._queue.append(p)
            self._wake_up()

    def _wake_up(self) -> None:
        if not self._wake.is_done:
            self._wake.success(None)

    async def run(self) -> None:
        """Send until the epoch ends."""
        task = self._task
        while not task.ending or self._queue:
            round_ = self._next_batches() if self._requests < task.flow.produce_in_flight else []
            if not round_:
                self._wake = Future()
                timer = task.loop.net.call_later(_IDLE_SECONDS, self._wake_up)
                await self._wake
                task.loop.net.cancel(timer)
                continue
            if task.expired:
                for p, _ in round_:
                    p.in_flight -= 1
                    p.void()
                task.finish("expired")
                return
            await self._send(round_)

    def _next_batches(self) -> list[tuple[PartitionCopy, Staged]]:
        """Return one batch of each partition that may send, up to the size of a request."""
        batches: list[tuple[PartitionCopy, Staged]] = []
        size = 0
        for _ in range(len(self._queue)):
            p = self._queue.popleft()
            p.listed = False
            if not p.ready or p.state is not CopyState.LIVE:
                continue
            staged = p.ready[0]
            if staged.barrier is not None and not staged.barrier.succeeded():
                continue  # offered again when its intent is durable
            if p.in_flight >= (1 if p.alone else _PIPELINE):
                continue  # offered again by an acknowledgement
            size += staged.chunk.size
            if batches and size > self._task.flow.produce_request_bytes:
                p.listed = True
                self._queue.appendleft(p)
                break
            p.ready.popleft()
            p.in_flight += 1
            batches.append((p, staged))
        for p, _ in batches:
            if p.ready and not p.listed:
                p.listed = True
                self._queue.append(p)
        return batches

    async def _send(self, round_: list[tuple[PartitionCopy, Staged]]) -> None:
        task = self._task
        appends = [Append(p.target.topic, p.target_id, p.target.partition, s.chunk.data) for p, s in round_]
        self._requests += 1
        task.counters.requests += 1
        task.counters.batches += len(round_)
        try:
            future = await task.links.produce.queue(
                produce_request(appends), self._node, task.send_deadline()
            )
        except RawError as error:
            self._request_failed(round_, error)
            return
        future.add_callback(task.guarded(self._handle_response, round_))
        future.add_errback(task.guarded(self._request_failed, round_))

    def _request_failed(self, round_: list[tuple[PartitionCopy, Staged]], error: BaseException) -> None:
        for p, _ in round_:
            p.in_flight -= 1
            p.reason = str(error)
            p.unanswered()
            self._task.trouble(p)
        self._requests -= 1
        self._wake_up()

    def _handle_response(self, round_: list[tuple[PartitionCopy, Staged]], response: Any) -> None:
        by_partition = {(p.target_id, p.target.partition): (p, s) for p, s in round_}
        for topic in response.responses:
            for r in topic.partition_responses:
                p, staged = by_partition.pop((topic.topic_id, r.index))
                p.in_flight -= 1
                self._handle_append(p, staged, r)
        for p, _ in by_partition.values():  # not in the response: resolve it
            p.in_flight -= 1
            p.unanswered()
            self._task.trouble(p)
        self._requests -= 1
        self._wake_up()
        if self._task.awaits_acknowledgement(p for p, _ in round_):
            self._task.changed.set()

    def _handle_append(self, p: PartitionCopy, staged: Staged, r: Any) -> None:
        if p.state is not CopyState.LIVE:
            return  # voided meanwhile; resolving reads the effect of this append
        if r.error_code:
            refused(self._task, p, r.error_code, staged.chunk.size, r.error_message)
        elif r.base_offset != staged.base or r.log_append_time_ms != _NO_TIMESTAMP:
            # Another offset: another writer appended. A timestamp: the broker treated it as a duplicate.
            p.reason = f"expected offset {staged.base}, got {r.base_offset}"
            self._task.trouble(p)
        else:
            p.acknowledge(staged)
            p.latency_ms.add(wall_ms() - staged.chunk.max_timestamp)
            if p.ready:
                self.offer(p)


def refused(task: TaskContext, p: PartitionCopy, code: int, size: int, message: str | None) -> None:
    """Handle a refused append: stop the partition for good, or ask the leader what its log holds."""
    evidence = f"{error_name(code)}{': ' + message if message else ''}"
    p.reason = evidence
    if code in OVERSIZED:
        sizes = {"batch_bytes": size, "max_message_bytes": p.lease.max_message_bytes}
        task.stop(p, "oversized", FATAL[code], evidence=evidence, **sizes)
    elif code in FATAL:
        task.stop(p, "partition_stopped", FATAL[code], evidence=evidence)
    else:
        task.trouble(p)
