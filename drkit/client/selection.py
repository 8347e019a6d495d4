"""The topics or partitions that an application reads, kept across clusters. No input or output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_STORED, TopicPartition

from drkit.endpoint import Endpoint

Rebalance = Callable[[Any, list[TopicPartition]], object]
_REBALANCE: Final = ("on_assign", "on_revoke", "on_lost")


class Selection:
    """Topics with callbacks, or partitions."""

    def __init__(self) -> None:
        self.topics: list[str] | None = None
        self.callbacks: dict[str, Rebalance] = {}
        self.partitions: list[TopicPartition] | None = None

    def subscribe(self, topics: Sequence[str], callbacks: dict[str, Rebalance | None]) -> None:
        """Select topics. Raises TypeError for an unknown callback."""
        if unknown := set(callbacks) - set(_REBALANCE):
            raise TypeError(f"unknown callback: {', '.join(sorted(unknown))}")
        self.topics, self.partitions = list(topics), None
        self.callbacks = {name: call for name, call in callbacks.items() if call is not None}

    def unsubscribe(self) -> None:
        """Select no topics."""
        self.topics, self.callbacks = None, {}

    def assign(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Select these partitions; under a subscription the group assigns them, so nothing is kept."""
        if self.topics is None:
            self.partitions = None if partitions is None else list(partitions)

    def add(self, partitions: Sequence[TopicPartition]) -> None:
        """Select these partitions in addition."""
        self.assign([*(self.partitions or []), *partitions])

    def remove(self, partitions: Sequence[TopicPartition], here: Endpoint) -> None:
        """Remove these partitions, given by their names on this cluster or before the switch."""
        gone = {(at.topic, at.partition) for at in partitions}
        kept = [
            at for at in self.partitions or []
            if not {(at.topic, at.partition), (here.topic(at.topic), at.partition)} & gone
        ]  # fmt: skip
        self.assign(kept)

    def topics_on(self, here: Endpoint) -> list[str] | None:
        """The topics' names on this cluster."""
        return None if self.topics is None else list(dict.fromkeys(map(here.topic, self.topics)))

    def partitions_on(self, here: Endpoint) -> list[TopicPartition] | None:
        """The partitions on this cluster, at the group's committed offset."""
        if self.partitions is None:
            return None
        return [TopicPartition(here.topic(at.topic), at.partition, OFFSET_STORED) for at in self.partitions]


class ConsumerSelection(ABC):
    """The methods of a consumer that say what is read."""

    _selection: Selection
    _client: Any

    @property
    @abstractmethod
    def endpoint(self) -> Endpoint:
        """The cluster of the client."""

    @abstractmethod
    def _while_current(self, call: Rebalance) -> Rebalance:
        """A callback that does nothing once its client is left."""

    def subscribe(self, topics: Sequence[str], **callbacks: Rebalance | None) -> None:
        """As `Consumer.subscribe`; callbacks get this consumer.

        Topic names from before a failover still work: the endpoint maps them to the new names. Expressions
        (``^…``) are not translated.
        """
        self._selection.subscribe(topics, callbacks)
        self._subscribe()

    def _subscribe(self) -> None:
        names = self._selection.topics_on(self.endpoint)
        if names is not None:
            wrapped = {name: self._while_current(call) for name, call in self._selection.callbacks.items()}
            self._client.subscribe(names, **wrapped)

    def unsubscribe(self) -> None:
        """As `Consumer.unsubscribe`."""
        self._selection.unsubscribe()
        self._client.unsubscribe()

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """As `Consumer.assign`, with the present cluster's names and offsets.

        After a switch the same partitions continue at the group's committed offset; one without a committed
        offset yields a message with the error `_AUTO_OFFSET_RESET`, because its position is unknown.
        """
        self._selection.assign(partitions)
        self._client.assign(list(partitions))

    def unassign(self) -> None:
        """As `Consumer.unassign`."""
        self._selection.assign(None)
        self._client.unassign()

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """As `Consumer.incremental_assign`; after a switch as after `assign`."""
        self._selection.add(partitions)
        self._client.incremental_assign(list(partitions))

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """As `Consumer.incremental_unassign`."""
        self._selection.remove(partitions, self.endpoint)
        self._client.incremental_unassign(list(partitions))
