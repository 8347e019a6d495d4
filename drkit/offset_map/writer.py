"""Writes one bucket of the map topic, in order, exactly once, and only while this task owns the bucket.

The producer id belongs to a transactional id of the bucket: InitProducerId raises its epoch, and after the
first append in the new epoch, the bucket's leader refuses appends of earlier tasks. Sequence numbers keep a
retried or late request from being appended twice or out of order. Copy tasks begin no transaction with it;
only the first records of a map are written in one (:meth:`MapWriter.write_whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from drkit.clock import boottime, wall_ms
from drkit.errors import Failed
from drkit.kafka import codes
from drkit.kafka.appending import append
from drkit.kafka.raw import Future, RawError
from drkit.kafka.requests import Append, TopicMetadata, leader_of
from drkit.kafka.topics import in_parts
from drkit.kafka.transactions import TransactionFailed, Transactions, open_in
from drkit.model import TopicPartition
from drkit.offset_map.bucket import MapBucket, Pair, batch_of, pairs
from drkit.offset_map.left_open import records_of
from drkit.offsets import MapKey, MapRecord, Reign
from drkit.offsets.map_record import BUCKET_KEY, SEQUENCE_MODULUS
from drkit.wire import stamp

_PAUSE_SECONDS: Final = 0.05
_TIMEOUT_MS: Final = 10_000
_BATCH_BYTES: Final = 512 * 1024
_CAUSES: Final = {
    codes.OUT_OF_ORDER_SEQUENCE_NUMBER: ": the topic has lost records",
    codes.DUPLICATE_SEQUENCE_NUMBER: ": another client uses the sequence numbers of this one",
}


class MapTaken(Failed):
    """Another task has taken the bucket: this one writes nothing more."""


def next_reign(bucket: MapBucket, own: Reign) -> Reign | None:
    """Return the reign that a task must write to own a bucket that it has read, or None if it owns it."""
    last_reign, unclean = bucket.reign, bucket.unclean
    if last_reign is not None and last_reign.nonce == own.nonce:
        if unclean <= own.unclean:
            return None
    elif last_reign is None:
        unclean = max(unclean, int(bucket.legacy))
    elif not last_reign.ended:
        unclean = max(unclean, last_reign.number)
    number = max(last_reign.number if last_reign is not None else 0, unclean) + 1
    return Reign(own.nonce, number, ended=False, unclean=unclean)


class MapWriter:
    """The only writer of a bucket.

    :param topic: returns the map topic's metadata; True refreshes it
    :param expired: returns whether this task must not write any more
    """

    def __init__(
        self,
        transactions: Transactions,
        bucket: MapBucket,
        nonce: int,
        topic: Callable[[bool], Any],
        expired: Callable[[], bool],
    ) -> None:
        self._transactions, self._bucket, self._nonce = transactions, bucket, nonce
        self._topic, self._expired = topic, expired
        self._sequence = 0
        self._unconfirmed: tuple[bytearray, int] | None = None
        """A batch that may have been appended without an answer, with its number of records."""
        self._transactional_id: str | None = None
        """Of the open transaction, or None."""
        self._queue: list[tuple[list[Pair], Future]] = []
        self._writing = False
        self.reign = Reign(nonce, 0, ended=False, unclean=0)

    async def take(self) -> None:
        """Fence the earlier writer, without writing."""
        await self._transactions.begin_epoch()

    async def begin(self, read_on: Callable[[], Any]) -> None:
        """Write this task's reign: no earlier task can write to the bucket after that.

        A transaction of :meth:`write_whole` is ended before, if a coordinator has left out its marker. No
        reader has seen its records: it is committed if all of them are there.

        :param read_on: reads the bucket to its end
        :raises RawError: a broker does not answer
        :raises Failed: it is not accepted
        :raises MapTaken: another task was faster
        """
        identity, cluster = self._transactions.identity, self._transactions.cluster
        tp, topic = TopicPartition(self._name, self._bucket.bucket), await self._topic(True)  # noqa: FBT003
        node, end_key = leader_of({self._name: topic}, tp), pairs([self._ended])[0][0]
        for opened in await open_in(cluster, {tp: node} if node >= 0 else {}, {identity.id}):
            if opened.state.epoch < identity.epoch:
                is_whole = end_key in {r.key for r in await records_of(cluster, opened)}
                if code := await opened.end(cluster, identity.epoch, commits=is_whole):
                    raise Failed("transaction_left_open", where=self._where, evidence=codes.error_name(code))
        while True:
            await read_on()
            reign = next_reign(self._bucket, self.reign)
            if reign is None:
                return
            self.reign = reign
            await self.write_pairs(pairs([(BUCKET_KEY, self.reign)]))

    async def end(self) -> None:
        """Write that the task has released the bucket and that nothing of it is in flight.

        :raises Failed: it is not accepted
        """
        await self.write_pairs(pairs([self._ended]))

    @property
    def _ended(self) -> tuple[MapKey, MapRecord]:
        return BUCKET_KEY, Reign(self._nonce, self.reign.number, ended=True, unclean=self.reign.unclean)

    @property
    def holds(self) -> bool:
        """Return whether this task still owns the bucket, as of the last read."""
        return self._bucket.reign is not None and self._bucket.reign.nonce == self._nonce

    async def write_pairs(self, written: list[Pair]) -> None:
        """Make map records and tombstones durable (acks=all), in one batch; waiting writes share it.

        :raises Failed: the map topic does not take them
        :raises MapTaken: the bucket is another task's
        """
        durable = Future()
        if not written:
            return
        self._queue.append((written, durable))
        if not self._writing:
            self._writing = True
            self._transactions.cluster.loop.spawn(self._send_queued)
        await durable

    async def write_whole(self, records: Iterable[tuple[MapKey, MapRecord]]) -> None:
        """Write records and the end of this reign in one transaction: a reader sees all of them, or none.

        If it fails, the next owner of the bucket ends it.

        :raises Failed: the map topic does not take them
        :raises MapTaken: the bucket is another task's
        """
        try:
            await self._transactions.add([TopicPartition(self._name, self._bucket.bucket)])
            self._transactional_id = self._transactions.transactional_id
            for batch in in_parts(pairs([*records, self._ended]), lambda p: _weight([p]), _BATCH_BYTES):
                await self._send(batch)
            await self._transactions.end(commit=True)
        except TransactionFailed as error:
            if error.kafka_code in codes.FENCED:
                raise self._map_taken(error.kafka_code) from error
            raise
        self._transactional_id = None

    async def _send_queued(self) -> None:
        try:
            while self._queue:
                batch = self._next_batch()
                try:
                    await self._send([pair for written, _ in batch for pair in written])
                except Failed as error:
                    for _, durable in batch:
                        durable.failure(error)
                else:
                    for _, durable in batch:
                        durable.success(None)
        finally:
            self._writing = False

    def _next_batch(self) -> list[tuple[list[Pair], Future]]:
        batch = next(iter(in_parts(self._queue, lambda waiting: _weight(waiting[0]), _BATCH_BYTES)))
        del self._queue[: len(batch)]
        return batch

    async def _send(self, written: list[Pair]) -> None:
        """Send one batch, after any unconfirmed one: with its sequence numbers this would be a duplicate."""
        if self._unconfirmed is not None:
            await self._until_answered(*self._unconfirmed)
        data, count = batch_of(written, wall_ms(), self._bucket.signatures)
        self._stamp(data)
        await self._until_answered(data, count)

    def _stamp(self, data: bytearray) -> None:
        in_transaction = self._transactional_id is not None
        stamp(data, *self._transactions.identity, self._sequence, transactional=in_transaction)

    async def _until_answered(self, data: bytearray, count: int) -> None:
        """Retry a batch until it is answered: with the same sequence numbers, it is appended once."""
        cluster, code, began = self._transactions.cluster, codes.NONE, boottime()
        self._unconfirmed = data, count
        while not code or boottime() < began + codes.append_seconds(code):
            if self._expired():
                raise MapTaken("write_time_over", where=self._where)
            try:
                topic: TopicMetadata = await self._topic(bool(code))
                batch = Append(self._name, topic.topic_id, self._bucket.bucket, data)
                node = topic.leaders[self._bucket.bucket].node
                code = await append(cluster, node, batch, self._transactional_id, _TIMEOUT_MS)
            except (RawError, KeyError):
                code = codes.NO_ANSWER
            if code in {codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER}:
                self._sequence = (self._sequence + count) % SEQUENCE_MODULUS
            if not code:
                self._unconfirmed = None
                return
            if code == codes.DUPLICATE_SEQUENCE_NUMBER:  # another client used it: the batch is not in the log
                self._stamp(data)
            if code in codes.FENCED:
                raise self._map_taken(code)
            if code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER:
                break
            await cluster.loop.sleep(_PAUSE_SECONDS)
        evidence = f"Kafka error code {code}{_CAUSES.get(code, '')}"
        raise Failed("map_refuses", where=self._where, evidence=evidence)

    def _map_taken(self, code: int) -> MapTaken:
        return MapTaken("map_taken", where=self._where, evidence=f"Kafka error code {code}")

    @property
    def _where(self) -> str:
        return f"{self._name}-{self._bucket.bucket} on {self._transactions.cluster.alias}"

    @property
    def _name(self) -> str:
        return self._bucket.name


def _weight(written: Iterable[Pair]) -> int:
    return sum(len(key) + len(value or b"") for key, value in written)
