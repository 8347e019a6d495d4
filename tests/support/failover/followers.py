"""Applications that follow the endpoint file through a switchover, and remember what they did."""

from __future__ import annotations

from pathlib import Path
import threading
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message

from drkit.client import EndpointMoved, FailoverConsumer, FailoverProducer, NotSent, Switch, TransactionCut
from tests.support.flows.produce import now_ms
from tests.support.kafka.commits import COORDINATOR_MOVES

_TICK_SECONDS = 0.01
"""Between two records, or two transactions, at most as many as a cluster takes."""


def _dotted(config: dict[str, Any]) -> dict[str, Any]:
    """Kafka's names, which have underscores here."""
    return {k.replace("_", "."): v for k, v in config.items()}


class _Application:
    """Works in a thread until stopped."""

    tick = _TICK_SECONDS

    def __init__(self) -> None:
        self.switches: list[Switch] = []
        self.trouble: list[BaseException] = []
        self._stop, self._paused, self._rests = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def pause(self) -> None:
        """Begin nothing more until :meth:`resume`; returns when what was begun has ended."""
        self._rests.clear()
        self._paused.set()
        assert self._rests.wait(60), f"{self} continues: {self.trouble}"

    def resume(self) -> None:
        """Continue after a pause."""
        self._paused.clear()

    def _is_resting(self) -> bool:
        """Whether it is paused; then what was begun ends first."""
        if not self._paused.is_set():
            return False
        if not self._rests.is_set():
            self._settle()
            self._rests.set()
        return True

    def _settle(self) -> None:
        """End what was begun."""

    def finish(self) -> None:
        """Begin nothing more; wait for what was begun."""
        self._stop.set()
        self._thread.join(60)

    def __exit__(self, *_: object) -> None:
        self.finish()
        self._close()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.trouble.append(error)
            raise

    def _run(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class Writer(_Application):
    """Unique values, numbered; each is acknowledged once, wherever.

    :param age_ms: of the records' timestamps; 0: the client gives them
    """

    def __init__(self, name: str, topic: str, endpoint: Path, *, age_ms: int = 0, **config: Any) -> None:
        super().__init__()
        self.name, self._topic, self._age_ms = name, topic, age_ms
        self.acked: list[bytes] = []
        self.failed: list[KafkaError] = []
        self.written = 0
        self._out = FailoverProducer(
            {"log_level": 0, "linger.ms": 2, **_dotted(config)},
            endpoint=endpoint,
            on_switch=self.switches.append,
        )

    def _run(self) -> None:
        while not self._stop.wait(self.tick):
            if self._is_resting():
                continue
            for _ in range(2):
                value = b"%s %d" % (self.name.encode(), self.written)
                self._out.produce(
                    self._topic,
                    value,
                    b"%s%d" % (self.name.encode(), self.written % 7),
                    on_delivery=self._told,
                    timestamp=now_ms() - self._age_ms if self._age_ms else 0,
                )
                self.written += 1
            self._out.poll(0)
        self._out.flush(30)

    def _settle(self) -> None:
        self._out.flush(30)

    def _told(self, error: KafkaError | None, message: Message | None) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            assert message is not None
            self.acked.append(message.value() or b"")

    def _close(self) -> None:
        self._out.close(5)


class Transactor(_Application):
    """Transactions of five records; one that is cut is repeated with the same records.

    :param aborts: one in this number of transactions is aborted, with records of its own; 0: none
    """

    def __init__(self, name: str, topic: str, endpoint: Path, *, aborts: int = 0, **config: Any) -> None:
        super().__init__()
        self.name, self._topic, self._aborts = name, topic, aborts
        self.committed: list[bytes] = []
        self.again = 0
        self._out = FailoverProducer(
            {"log_level": 0, "transactional.id": f"{topic}-{name}", **_dotted(config)},
            endpoint=endpoint,
            on_switch=self.switches.append,
        )

    def _run(self) -> None:
        self._out.init_transactions(20)
        number = 0
        while not self._stop.wait(self.tick):
            if self._is_resting():
                continue
            if self._aborts and not number // 5 % self._aborts:
                self._written([b"aborted %d" % i for i in range(number, number + 3)], commit=False)
            values = [b"%s %d" % (self.name.encode(), i) for i in range(number, number + 5)]
            while not self._written(values):
                self.again += 1
                self._stop.wait(self.tick)
            self.committed += values
            number += 5

    def _written(self, values: list[bytes], *, commit: bool = True) -> bool:
        try:
            self._out.begin_transaction()
            for value in values:
                self._out.produce(self._topic, value, value)
            if commit:
                self._out.commit_transaction(20)
            else:
                self._out.flush(20)  # so that the records are really in the log
                self._out.abort_transaction(20)
        except TransactionCut:
            self._out.abort_transaction(20)
        except NotSent:
            return False
        except KafkaException:
            try:
                self._out.abort_transaction(20)
            except KafkaException:
                return False  # drkit has ended it: the client is of no use until it is on the other cluster
        else:
            return True
        return False

    def _close(self) -> None:
        self._out.close(5)


class Reader(_Application):
    """A member of a group that commits what it has processed."""

    def __init__(self, group: str, topic: str, endpoint: Path, **config: Any) -> None:
        super().__init__()
        self.processed: list[bytes] = []
        self.committed = 0
        """How many of them, by the answers of the brokers."""
        self._in = FailoverConsumer(
            {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
            | _dotted(config),
            endpoint=endpoint,
            on_switch=self.switches.append,
        )
        self._in.subscribe([topic])

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._is_resting():
                self._stop.wait(self.tick)
                continue
            messages = [m for m in self._in.consume(500, 0.1) if m.error() is None]
            if messages:
                self.processed += [m.value() or b"" for m in messages]
                self._commit()

    def _commit(self) -> None:
        """As an application commits: a group's coordinator may be on its way to another broker."""
        while True:
            try:
                self._in.commit(asynchronous=False)
            except EndpointMoved:
                return  # its cluster died; reading continues on the other one, from the position there
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_MOVES or self._stop.wait(self.tick):
                    raise
            else:
                self.committed = len(self.processed)
                return

    def _close(self) -> None:
        threading.Thread(target=self._in.close, daemon=True).start()
