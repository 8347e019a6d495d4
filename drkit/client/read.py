"""The offsets that belong to the cluster that a consumer reads now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import Message, TopicPartition

from drkit.client.errors import FromAnotherCluster


class ReadSince:
    """The first offset of each partition that was read since the last switch."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], int] = {}

    def clear(self) -> None:
        """Forget all offsets, at a switch: nothing was read on the new cluster."""
        self._first.clear()

    def note(self, messages: Iterable[Message]) -> None:
        """Note that these records were read."""
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if message.error() is None and topic is not None and partition is not None and offset is not None:
                at = (topic, partition)
                self._first[at] = min(offset, self._first.get(at, offset))

    def refuse_foreign(
        self,
        offsets: Iterable[TopicPartition],
        position: Callable[[Sequence[TopicPartition]], list[TopicPartition]],
        cluster: str,
    ) -> None:
        """Raises FromAnotherCluster for an offset that was not read here.

        :param position: `Consumer.position`
        """
        for at in offsets:
            first = self._first.get((at.topic, at.partition))
            last = position([TopicPartition(at.topic, at.partition)])[0].offset
            if at.offset >= 0 and (first is None or not first <= at.offset <= last):
                here = "nothing was read" if first is None else f"{first} to {last} were read"
                raise FromAnotherCluster(
                    f"offset {at.offset} of {at.topic}-{at.partition} is not of {cluster}:"
                    f" {here} there; drop what was read before the switch, it comes again"
                )
