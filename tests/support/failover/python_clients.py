"""Applications in Python that follow a failover: with ``drkit.client``, and by restarting their client."""

from __future__ import annotations

from collections.abc import Sequence
import json
from pathlib import Path
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from drkit.client import FailoverConsumer, FailoverProducer, NotSent, TransactionCut
from tests.support.failover.client_logs import Got, ThreadLog
from tests.support.flows.produce import now_ms

TICK_SECONDS = 0.04
_BATCH = 200


def _config(group: str, more: dict[str, Any]) -> dict[str, Any]:
    given = {k.replace("_", "."): v for k, v in more.items()}
    common = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    return {**common, **given}


def _name(error: KafkaException) -> str:
    told = error.args[0]
    return told.name() if isinstance(told, KafkaError) else type(error).__name__


class _Reading(ThreadLog):
    """Notes what a consumer gives and confirms."""

    def note(self, cluster: str, messages: Sequence[Message]) -> list[Message]:
        """The records among what a consumer gave."""
        records = []
        for m in messages:
            if (error := m.error()) is not None:
                self.errors[cluster, error.name()] += 1
                continue
            records.append(m)
            self.got.append(
                Got(now_ms(), cluster, m.topic() or "", m.partition() or 0, m.offset() or 0, m.value() or b"")
            )
        return records

    def note_commit(self, cluster: str, offsets: Sequence[TopicPartition] | None) -> None:
        """What a cluster has confirmed."""
        for at in offsets or ():
            if at.error is None and at.offset >= 0:
                self.commits(cluster, at.topic, at.partition, at.offset)


class Follower(_Reading):
    """A member of a group by ``FailoverConsumer`` that commits what it has processed."""

    def __init__(self, kind: str, group: str, topics: Sequence[str], endpoint: Path, **more: Any) -> None:
        super().__init__(kind, group)
        self._topics = list(topics)
        self._in = FailoverConsumer(_config(group, more), endpoint=endpoint)

    def run(self) -> None:
        self._in.subscribe(self._topics)
        while not self.stop.is_set():
            messages = self._in.consume(_BATCH, 0.2)
            cluster = self._in.endpoint.cluster_id
            if self.note(cluster, messages):
                try:
                    self.note_commit(cluster, self._in.commit(asynchronous=False))
                except KafkaException as error:  # it is read again
                    self.errors[cluster, type(error).__name__ + " " + _name(error)] += 1
        self._in.close()


class Restarted(_Reading):
    """confluent-kafka's own consumer; its application creates a new one when the endpoint file changes."""

    def __init__(self, kind: str, group: str, topics: Sequence[str], endpoint: Path, **more: Any) -> None:
        super().__init__(kind, group)
        self._topics, self._endpoint, self._config = list(topics), endpoint, _config(group, more)

    def run(self) -> None:
        while not self.stop.is_set():
            text = self._endpoint.read_text(encoding="utf-8")
            told = json.loads(text)
            consumer = Consumer({**self._config, "bootstrap.servers": told["bootstrap_servers"]})
            consumer.subscribe(self._topics)
            while not self.stop.is_set() and self._endpoint.read_text(encoding="utf-8") == text:
                self._round(consumer, told["cluster_id"])
            # A cluster that hangs would hold its close up for a minute.
            threading.Thread(target=consumer.close, daemon=True).start()

    def _round(self, consumer: Consumer, cluster: str) -> None:
        records = self.note(cluster, consumer.consume(_BATCH, 0.2))
        if not records:
            return
        committed = threading.Event()
        threading.Thread(target=self._commit, args=(consumer, cluster, committed), daemon=True).start()
        text = self._endpoint.read_text(encoding="utf-8")
        while not committed.wait(0.1):
            if self._endpoint.read_text(encoding="utf-8") != text:
                return

    def _commit(self, consumer: Consumer, cluster: str, done: threading.Event) -> None:
        try:
            self.note_commit(cluster, consumer.commit(asynchronous=False))
        except (KafkaException, RuntimeError) as error:
            name = _name(error) if isinstance(error, KafkaException) else "closed"
            self.errors[cluster, name] += 1
        finally:
            done.set()


class Writer(ThreadLog):
    """Unique values by ``FailoverProducer``; each is acknowledged once, wherever."""

    def __init__(self, kind: str, name: str, topic: str, endpoint: Path, **more: Any) -> None:
        super().__init__(kind)
        self._name, self._topic, self.written = name, topic, 0
        self.uncertain_number = 0
        given = {k.replace("_", "."): v for k, v in more.items()}
        self._out = FailoverProducer(
            {"log_level": 0, "linger.ms": 2, **given}, endpoint=endpoint, on_switch=self._switched
        )

    def _switched(self, switch: Any) -> None:
        self.uncertain_number += switch.uncertain

    def run(self) -> None:
        while not self.stop.wait(TICK_SECONDS):
            value = b"%s %d" % (self._name.encode(), self.written)
            self._out.produce(self._topic, value, value, on_delivery=self._told)
            self.written += 1
            self._out.poll(0)
        self._out.flush(30)
        self._out.close(5)

    def _told(self, error: KafkaError | None, message: Message | None) -> None:
        if error is not None:
            self.errors["", error.name()] += 1
        elif message is not None:
            self.acked.append(message.value() or b"")


class Transformer(_Reading):
    """Consumes, transforms and produces in transactions that also commit what was consumed."""

    def __init__(self, kind: str, group: str, topic: str, out: str, endpoint: Path) -> None:
        super().__init__(kind, group)
        self._topic, self._to = topic, out
        self._in = FailoverConsumer(_config(group, {"isolation_level": "read_committed"}), endpoint=endpoint)
        self._out = FailoverProducer(
            {"log_level": 0, "transactional.id": group, "transaction.timeout.ms": 20000}, endpoint=endpoint
        )

    def run(self) -> None:
        self._in.subscribe([self._topic])
        self._out.init_transactions(20)
        while not self.stop.is_set():
            messages = self._in.consume(20, 0.1)
            cluster = self._in.endpoint.cluster_id
            if (records := self.note(cluster, messages)) and not self._written(cluster, records):
                self._rewind(records)
                self.stop.wait(TICK_SECONDS)
        self._in.close()
        self._out.close(5)

    def _written(self, cluster: str, records: Sequence[Message]) -> bool:
        ends = {(m.topic(), m.partition()): (m.offset() or 0) + 1 for m in records}
        offsets = [TopicPartition(t or "", p or 0, o) for (t, p), o in ends.items()]
        try:
            self._out.begin_transaction()
            for m in records:
                self._out.produce(self._to, b"t:" + (m.value() or b""), m.key())
            self._out.send_offsets_to_transaction(offsets, self._in.consumer_group_metadata(), 10)
            self._out.commit_transaction(20)
        except NotSent as error:
            self.errors[cluster, f"NotSent {_name(error)}"] += 1
            return False
        except KafkaException as error:
            kind = "TransactionCut" if isinstance(error, TransactionCut) else _name(error)
            self.errors[cluster, kind] += 1
            self._abort(cluster)
            return False
        self.note_commit(cluster, offsets)
        return True

    def _abort(self, cluster: str) -> None:
        try:
            self._out.abort_transaction(20)
        except (
            KafkaException
        ) as error:  # it has been ended for it: of no use until it is on the other cluster
            self.errors[cluster, f"abort {_name(error)}"] += 1

    def _rewind(self, records: Sequence[Message]) -> None:
        firsts: dict[tuple[str, int], int] = {}
        for m in records:
            firsts.setdefault((m.topic() or "", m.partition() or 0), m.offset() or 0)
        for (topic, p), offset in firsts.items():
            try:
                self._in.seek(TopicPartition(topic, p, offset))
            except KafkaException as error:  # not its partition any more
                self.errors[self._in.endpoint.cluster_id, f"seek {_name(error)}"] += 1
