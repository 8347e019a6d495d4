"""A consumer that goes where the endpoint file says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
import os
import threading
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import OFFSET_STORED, Consumer, Message, TopicPartition

from drkit.client.calls import deadline_of, positions, turn, unhindered, within
from drkit.client.errors import FromAnotherCluster, WrongCluster
from drkit.client.identity import KNOWN_SECONDS, Identity
from drkit.client.switch import LOG, EndpointWatch, OnSwitch, Switch, configuration, in_background
from drkit.clock import monotonic
from drkit.endpoint import Endpoint

LEAVE_SECONDS: Final = 2.0
"""How long a commit to a cluster that is being left is waited for."""
_CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb", "on_commit")
_REBALANCE: Final = ("on_assign", "on_revoke", "on_lost")
Rebalance = Callable[[Any, list[TopicPartition]], object]


class FailoverConsumer:
    """confluent-kafka's `Consumer`, on the cluster that the endpoint file names.

    `poll` and `consume` look at the file ten times a second. When it names another cluster they call
    `on_revoke` in the calling thread, as before a rebalance, so that the application finishes what it has
    begun; then the old client is closed in the background, a new one subscribes, and records come from the
    position that the group has there: drkit wrote it before it changed the file. What the group had read but
    not committed on the old cluster when that position was written is read again.

    All other methods are those of `Consumer`. Positions of the old cluster mean nothing on the new one:
    committing a record of before the switch raises :class:`FromAnotherCluster`.

    Threads: `subscribe`, `assign`, `poll`, `consume` and `close` belong to one thread; the others may be
    called from any, and reach the client of that moment.

    :param config: as for `Consumer`, without `bootstrap.servers`
    :param endpoint: the endpoint file
    :param clusters: alias of a cluster → properties for it alone, such as credentials
    :param on_switch: called with a :class:`Switch` when the old client is left, before the new one subscribes
    :raises ConfigError: there is no endpoint in the file, or one that is not to be followed
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        endpoint: str | os.PathLike[str],
        clusters: Mapping[str, Mapping[str, Any]] | None = None,
        on_switch: OnSwitch | None = None,
        **more: Any,
    ) -> None:
        self._config, self._clusters, self._more = dict(config), dict(clusters or {}), more
        self._on_switch = on_switch
        self._watch = EndpointWatch(endpoint, self._config, self._clusters)
        self._lock = threading.RLock()
        self._switches = 0
        self._leaving = False
        self._subscribed: tuple[list[str], dict[str, Rebalance]] | None = None
        self._assigned: list[TopicPartition] | None = None
        self._first: dict[tuple[str, int], int] = {}
        self._client, self._identity = self._open(self._watch.endpoint, 0)

    @property
    def endpoint(self) -> Endpoint:
        """Where it is now."""
        return self._watch.endpoint

    # -- records ------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Message | None:
        """As `Consumer.poll`.

        :raises WrongCluster: the endpoint leads to another cluster than it says
        """
        deadline = deadline_of(timeout)
        while True:
            self._follow()
            message: Message | None = self._client.poll(turn(deadline))
            if message is not None:
                self._note([message])
            else:
                self._identity.prove()
            if message is not None or monotonic() >= deadline:
                return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As `Consumer.consume`. Raises WrongCluster."""
        deadline = deadline_of(timeout)
        found: list[Message] = []
        while True:
            if self._follow():
                found.clear()  # nobody has seen them, and they come again from the group's position
            found += self._client.consume(num_messages - len(found), turn(deadline))
            if len(found) >= num_messages or monotonic() >= deadline:
                self._note(found)
                return found

    def _note(self, messages: Sequence[Message]) -> None:
        """Records came: prove their cluster, note where each partition begins on it."""
        records = any(message.error() is None for message in messages)
        if not self._identity.prove(KNOWN_SECONDS if records else 0.0) and records:
            raise WrongCluster(f"{self.endpoint.bootstrap_servers} does not tell its cluster id")
        if not self._switches:
            return
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if message.error() is None and topic is not None and partition is not None and offset is not None:
                at = (topic, partition)
                self._first[at] = min(offset, self._first.get(at, offset))

    # -- what is read -------------------------------------------------------------------------------

    def subscribe(self, topics: Sequence[str], **callbacks: Rebalance | None) -> None:
        """As `Consumer.subscribe`; callbacks get this consumer.

        Names of before a failover work on: the endpoint says what the topics are called there. Expressions
        (``^…``) are not translated.
        """
        if unknown := set(callbacks) - set(_REBALANCE):
            raise TypeError(f"unknown callback: {', '.join(sorted(unknown))}")
        given = {name: call for name, call in callbacks.items() if call is not None}
        self._subscribed, self._assigned = (list(topics), given), None
        self._subscribe()

    def _subscribe(self) -> None:
        if self._subscribed is None:
            return
        topics, callbacks = self._subscribed
        wrapped = {name: self._while_current(call) for name, call in callbacks.items()}
        names = [self.endpoint.topic(t) for t in topics]
        self._client.subscribe(names, **wrapped)  # type: ignore[arg-type]  # its stubs want the bare Consumer

    def unsubscribe(self) -> None:
        """As `Consumer.unsubscribe`."""
        self._subscribed = None
        self._client.unsubscribe()

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """As `Consumer.assign`, with the present cluster's names and offsets.

        After a switch the same partitions go on at the group's committed position; one without yields a
        message with the error `_AUTO_OFFSET_RESET`, for nobody else knows where it was.
        """
        if self._subscribed is None:
            self._assigned = list(partitions)
        self._client.assign(list(partitions))

    def unassign(self) -> None:
        """As `Consumer.unassign`."""
        if self._subscribed is None:
            self._assigned = None
        self._client.unassign()

    # -- positions ----------------------------------------------------------------------------------

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,  # noqa: FBT001, FBT002  confluent-kafka's signature
    ) -> list[TopicPartition] | None:
        """As `Consumer.commit`.

        :raises FromAnotherCluster: that was read before the switch
        """
        wanted = positions(message, offsets)
        with self._lock:
            client, leaving = self._client, self._leaving
            self._refuse_foreign(wanted or ())
        given: dict[str, Any] = {"asynchronous": asynchronous}
        if wanted is not None:
            given["offsets"] = wanted
        if leaving and not asynchronous:
            return within(LEAVE_SECONDS, lambda: _committed(client, given))
        return _committed(client, given)

    def store_offsets(
        self, message: Message | None = None, offsets: Sequence[TopicPartition] | None = None
    ) -> None:
        """As `Consumer.store_offsets`. Raises FromAnotherCluster."""
        wanted = positions(message, offsets) or []
        with self._lock:
            self._refuse_foreign(wanted)
            self._client.store_offsets(offsets=wanted)

    def _refuse_foreign(self, offsets: Iterable[TopicPartition]) -> None:
        if not self._switches or self._leaving:
            return
        for at in offsets:
            first = self._first.get((at.topic, at.partition))
            position = self._client.position([TopicPartition(at.topic, at.partition)])[0].offset
            if at.offset >= 0 and (first is None or not first <= at.offset <= position):
                here = "nothing was read" if first is None else f"{first} to {position} were read"
                raise FromAnotherCluster(
                    f"offset {at.offset} of {at.topic}-{at.partition} is not of {self.endpoint.cluster}:"
                    f" {here} there; drop what was read before the switch, it comes again"
                )

    # -- from cluster to cluster --------------------------------------------------------------------

    def _open(self, endpoint: Endpoint, number: int) -> tuple[Consumer, Identity]:
        config = configuration(self._config, self._clusters, endpoint)
        if number and self._assigned is not None:
            config["auto.offset.reset"] = "error"
        for name in _CALLBACKS:
            if callable(config.get(name)):
                config[name] = self._only_of(number, config[name])
        client = Consumer(config, **self._more)
        return client, Identity(client, endpoint)

    def _only_of(self, number: int, call: Callable[..., Any]) -> Callable[..., Any]:
        """A callback that is silent once its client is closing in the background."""

        def called(*args: Any) -> Any:
            return call(*args) if number == self._switches else None

        return unhindered(called)

    def _while_current(self, call: Rebalance) -> Rebalance:
        return self._only_of(self._switches, lambda _client, partitions: call(self, partitions))

    def _follow(self) -> bool:
        """Go to another cluster if the file says so; whether it did."""
        new = self._watch.newer()
        if new is None:
            return False
        old, left = self._watch.endpoint, self._client
        LOG.warning("from %s to %s, term %d", old.cluster, new.cluster, new.term)
        self._finish()
        opened = self._open(new, self._switches + 1)
        with self._lock:
            self._switches += 1
            self._first.clear()
            self._watch.followed(new)
            self._client, self._identity = opened
        in_background(f"close-{old.cluster}", left.close)
        if self._on_switch is not None:
            self._on_switch(Switch(old, new))
        self._subscribe()
        if self._assigned is not None:
            here = [TopicPartition(new.topic(at.topic), at.partition, OFFSET_STORED) for at in self._assigned]
            self._client.assign(here)
        return True

    def _finish(self) -> None:
        """Let the application finish what it has begun."""
        revoked = self._subscribed[1].get("on_revoke") if self._subscribed else None
        partitions = self._client.assignment() if revoked else []
        if revoked and partitions:
            self._leaving = True
            try:
                revoked(self, partitions)
            finally:
                self._leaving = False

    def close(self) -> None:
        """As `Consumer.close`; it may take a minute while the cluster stands still."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._client, name)


def _committed(client: Consumer, given: Mapping[str, Any]) -> list[TopicPartition] | None:
    found: list[TopicPartition] | None = client.commit(**given)
    return found
