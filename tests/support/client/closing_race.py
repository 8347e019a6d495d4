"""Closes consumers while other threads call them: ``python closing_race.py BOOTSTRAP TOPIC``."""

from __future__ import annotations

from collections.abc import Callable
import faulthandler
import sys
import threading
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from drkit.client.shared import Shared

ROUNDS: Final = 12
CALLS: Final[list[Callable[[Shared, TopicPartition], object]]] = [
    lambda consumer, at: consumer.position([at]),
    lambda consumer, _at: consumer.assignment(),
    lambda consumer, _at: consumer.consumer_group_metadata(),
    lambda consumer, _at: consumer.cluster_id(0.0),
    lambda consumer, at: consumer.commit(offsets=[at], asynchronous=False),
]


def until_closed(
    call: Callable[[Shared, TopicPartition], object], consumer: Shared, at: TopicPartition
) -> None:
    while True:
        try:
            call(consumer, at)
        except KafkaException:
            continue
        except RuntimeError:  # closed
            return


def main(bootstrap: str, topic: str) -> None:
    faulthandler.enable()
    at = TopicPartition(topic, 0, 1)
    for number in range(ROUNDS):
        config = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{number}", "log_level": 0}
        consumer = Shared(Consumer({**config, "enable.auto.commit": False}))
        consumer.assign([at])
        consumer.poll(0.2)
        threads = [
            threading.Thread(target=until_closed, args=(call, consumer, at), daemon=True)
            for call in CALLS
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        consumer.close(lambda: None, lambda: False)
        for thread in threads:
            thread.join()
    sys.stdout.write("all closed\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
