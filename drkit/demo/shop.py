"""A small shop that writes to the primary: orders at a steady pace, payments in transactions."""

from __future__ import annotations

from collections.abc import Callable
import json
import random
import threading
import time
from typing import Any

from confluent_kafka import KafkaException, Producer

from drkit.errors import Failed

ORDERS = "orders"
PAYMENTS = "payments"
_ITEMS = ("tea", "coffee", "sugar", "flour", "honey", "rice", "salt", "pepper")
_TICK_SECONDS = 0.01
_PAYMENT_SECONDS = 0.1
_DECLINED = 0.25
_FLUSH_SECONDS = 30.0
_ABANDON_SECONDS = 0.3
_ORDERS_PRODUCER = {"linger.ms": 2, "compression.type": "lz4"}


class Shop:
    """Writes until it is closed. The counts are of what the primary has acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.orders = 0
        self.payments = 0
        """In committed transactions."""
        self.declined = 0
        """Payments in transactions that were rolled back: no consumer may ever read them."""
        self.bytes = 0
        self._bootstrap = bootstrap
        self._next = 0
        self._paid = 0
        self._closed = threading.Event()
        self._abandoned: list[threading.Event] = []
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._random = random.Random(17)  # noqa: S311  sample data
        self._producer = self._make(**_ORDERS_PRODUCER)

    def _make(self, **settings: Any) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
                **settings,
            }
        )

    @property
    def records(self) -> int:
        """The number of records that a consumer of the primary can read now."""
        return self.orders + self.payments

    def stock_up(self, orders: int) -> None:
        """Write some orders as quickly as the primary takes them."""
        for _ in range(orders):
            self._order()
        self._flush()

    def open(self, per_second: int) -> None:
        """Begin the day: orders at this pace, and their payments."""
        self._closed = closed = threading.Event()
        orders, payments = lambda: self._sell(per_second, closed), lambda: self._collect(closed)
        for name, run in (("orders", orders), ("payments", payments)):
            thread = threading.Thread(
                target=self._guarded, args=(run, closed), name=f"shop {name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the day. Raises Failed if the primary did not accept every record."""
        self._closed.set()
        for thread in self._threads:
            thread.join(_FLUSH_SECONDS)
        self._threads = []
        self._flush()
        if self._failure is not None:
            raise Failed("demo_shop_not_written") from self._failure

    def move(self, bootstrap: str) -> None:
        """Write to another cluster from now on; the shop is closed."""
        self._bootstrap = bootstrap
        self._producer = self._make(**_ORDERS_PRODUCER)

    def abandon(self) -> None:
        """Stop a shop whose primary is gone, without waiting for acknowledgements that never come."""
        self._abandoned.append(self._closed)
        self._closed.set()
        for thread in self._threads:
            thread.join(_ABANDON_SECONDS)
        self._threads = []
        self._producer.purge()

    def _guarded(self, run: Callable[[], None], closed: threading.Event) -> None:
        try:
            run()
        except KafkaException as error:
            if closed not in self._abandoned:
                self._failure = error  # raised again by close()

    def _sell(self, per_second: int, closed: threading.Event) -> None:
        begun, sold = time.monotonic(), 0
        while not closed.wait(_TICK_SECONDS):
            due = int((time.monotonic() - begun) * per_second)
            while sold < due:
                self._order()
                sold += 1
            self._producer.poll(0)

    def _order(self) -> None:
        number = self._next
        self._next += 1
        chance = self._random
        customer = f"customer-{chance.randrange(5000)}"
        order = {
            "order": number,
            "customer": customer,
            "item": chance.choice(_ITEMS),
            "pieces": chance.randrange(1, 9),
            "cents": chance.randrange(100, 20_000),
        }
        self._put(self._producer, ORDERS, customer, order, self._ordered)

    def _put(self, producer: Producer, topic: str, key: str, body: dict[str, Any], told: Any) -> None:
        value = json.dumps(body).encode()
        while True:
            try:
                producer.produce(topic, value, key.encode(), on_delivery=told, headers=[("shop", b"demo")])
            except BufferError:
                producer.poll(_TICK_SECONDS)
            else:
                return

    def _ordered(self, error: object, message: Any) -> None:
        if error is None:
            self.orders += 1
            self.bytes += len(message)

    def _collect(self, closed: threading.Event) -> None:
        """Payments in transactions; the first card is declined, then every fourth: those are rolled back."""
        producer = self._make(**{"transactional.id": "demo-payments", "linger.ms": 2})
        producer.init_transactions(_FLUSH_SECONDS)
        chance = random.Random(23)  # noqa: S311  sample data
        while not closed.wait(_PAYMENT_SECONDS):
            producer.begin_transaction()
            count = chance.randrange(8, 20)
            for _ in range(count):
                number = chance.randrange(max(1, self._next))
                payment = {"payment": self._paid, "pays": number}
                self._put(producer, PAYMENTS, f"order-{number}", payment, None)
                self._paid += 1
            if not self.declined or chance.random() < _DECLINED:
                producer.flush(_FLUSH_SECONDS)  # records that wait here would never be written to the log
                producer.abort_transaction(_FLUSH_SECONDS)
                self.declined += count
            else:
                producer.commit_transaction(_FLUSH_SECONDS)
                self.payments += count

    def _flush(self) -> None:
        if self._producer.flush(_FLUSH_SECONDS):
            raise Failed("demo_orders_refused", where=self._bootstrap)
