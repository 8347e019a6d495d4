"""Clients that write to one side all the time: plain records, and transactions of which some abort."""

from __future__ import annotations

from collections.abc import Sequence
import random
import threading
from typing import Self

from drkit.config import ClusterSettings
from tests.support.flows.produce import producer, put

_TICK_SECONDS = 0.02


class Writing:
    """Writes to some topics from a thread, until it is left."""

    def __init__(self, cluster: ClusterSettings, topics: Sequence[str]) -> None:
        self._cluster, self._topics = cluster, topics
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.written: dict[str, list[bytes]] = {topic: [] for topic in topics}
        """Topic → values that were acknowledged, or committed."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        plain = producer(self._cluster)
        atomic = producer(self._cluster, transactional_id=f"writes-{self._topics[0]}")
        atomic.init_transactions(60)
        chance, number = random.Random(3), 0
        while not self._stop.wait(_TICK_SECONDS):
            atomic.begin_transaction()
            sent: list[tuple[str, bytes]] = []
            for topic in self._topics:
                for out in (plain, atomic):
                    number += 1
                    value = b"written %d" % number
                    put(out, topic, value, b"w%d" % number)
                    if out is atomic:
                        sent.append((topic, value))
                    else:
                        self.written[topic].append(value)
            assert atomic.flush(60) == 0
            if chance.random() < 0.3:
                atomic.abort_transaction(60)
                continue
            atomic.commit_transaction(60)
            for topic, value in sent:
                self.written[topic].append(value)
        assert plain.flush(60) == 0
