"""A consumer that follows the endpoint file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
import os
import threading
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from drkit.client.calls import ConsumerQuestions, deadline_of, positions, turn, unhindered
from drkit.client.errors import EndpointMoved, FromAnotherCluster, WrongCluster
from drkit.client.identity import KNOWN_SECONDS, ClusterIdCheck
from drkit.client.shared import Closed, ConsumerSelection, Rebalance, Selection, Shared
from drkit.client.switch import LOG, UNUSABLE, EndpointWatch, OnSwitch, Switch, configuration, in_background
from drkit.client.waiting import LEAVE_SECONDS, Calls, Opened, Unanswered, in_caller
from drkit.clock import monotonic
from drkit.endpoint import Endpoint


class ReadSince:
    """The first offset of each partition that was read since the last switch."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], int] = {}

    def clear(self) -> None:
        """Forget all offsets, at a switch: the new cluster has no records that were read."""
        self._first.clear()

    def note(self, messages: Iterable[Message]) -> None:
        """Note that these records were read."""
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if message.error() is None and topic is not None and partition is not None and offset is not None:
                tp = (topic, partition)
                self._first[tp] = min(offset, self._first.get(tp, offset))

    def refuse_foreign(
        self,
        offsets: Iterable[TopicPartition],
        position: Callable[[Sequence[TopicPartition]], list[TopicPartition]],
        cluster: str,
    ) -> None:
        """Raises FromAnotherCluster for an offset that was not read here.

        :param position: `Consumer.position`
        """
        for tp in offsets:
            first = self._first.get((tp.topic, tp.partition))
            last = position([TopicPartition(tp.topic, tp.partition)])[0].offset
            if tp.offset >= 0 and (first is None or not first <= tp.offset <= last):
                here = "nothing was read" if first is None else f"{first} to {last} were read"
                raise FromAnotherCluster(
                    f"offset {tp.offset} of {tp.topic}-{tp.partition} is not of {cluster}:"
                    f" {here} there; drop what was read before the switch, it comes again"
                )


AT_ONCE: Final = frozenset({
    "assignment", "consumer_group_metadata", "memberid", "pause", "position", "resume", "seek",
    "set_sasl_credentials",
})  # fmt: skip
"""Methods that librdkafka answers by itself, without its cluster; they reach the current client."""
_CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb", "on_commit")
T = TypeVar("T")


class FailoverConsumer(ConsumerSelection, ConsumerQuestions):
    """confluent-kafka's `Consumer`, on the cluster that the endpoint file names.

    `poll` and `consume` look at the file ten times a second. When it names another cluster they call
    `on_revoke` in the calling thread, as before a rebalance, so that the application finishes what it has
    begun; then the old client is closed in the background, a new one subscribes, and reads from the
    group's committed offset there: drkit wrote it before it changed the file. What the group had read but
    not committed on the old cluster when that offset was written is read again.

    All other methods are those of `Consumer`. Positions of the old cluster mean nothing on the new one:
    committing a record read before the switch raises :class:`FromAnotherCluster`. A call that waits for a
    cluster that is being left, such as a synchronous `commit`, raises :class:`EndpointMoved`.

    Threads: `subscribe`, `assign`, `poll`, `consume` and `close` belong to one thread; the others may be
    called from any thread, and reach the current client.

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
        self._selection = Selection()
        self._read = ReadSince()
        self._closed = False
        self._finished: tuple[int, Endpoint] | None = None
        self._client, self._identity, self._calls = self._open(self._watch.endpoint, 0)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that the consumer is on."""
        return self._watch.endpoint

    def poll(self, timeout: float | None = None) -> Message | None:
        """Do what `Consumer.poll` does. Raises WrongCluster if another cluster answers there."""
        deadline = deadline_of(timeout)
        while True:
            self._follow()
            message: Message | None = self._client.poll(turn(deadline))
            if message is not None:
                self._note([message])
            else:
                self._identity.prove(again=True)
            if message is not None or monotonic() >= deadline:
                return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As `Consumer.consume`. Raises WrongCluster."""
        deadline = deadline_of(timeout)
        found: list[Message] = []
        while True:
            if self._follow():
                found.clear()  # not returned yet; they are read again from the group's position
            found += self._client.consume(num_messages - len(found), turn(deadline))
            if len(found) >= num_messages or monotonic() >= deadline:
                self._note(found)
                return found

    def _note(self, messages: Sequence[Message]) -> None:
        """Check the cluster of new records, and note the first offset read of each partition."""
        records = any(message.error() is None for message in messages)
        if not self._identity.prove(KNOWN_SECONDS if records else 0.0, again=True) and records:
            raise WrongCluster(f"{self.endpoint.bootstrap_servers} does not tell its cluster id")
        if self._switches:
            self._read.note(messages)

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,  # noqa: FBT001, FBT002  confluent-kafka's signature
    ) -> list[TopicPartition] | None:
        """As `Consumer.commit`.

        :raises FromAnotherCluster: the offsets were read before the switch
        :raises EndpointMoved: clients go to another cluster, and this one does not answer
        """
        wanted = positions(message, offsets)
        with self._lock:
            client, calls = self._client, self._calls
            self._refuse_foreign(wanted or ())
        given: dict[str, Any] = {"asynchronous": asynchronous}
        if wanted is not None:
            given["offsets"] = wanted
        commit: Callable[[], list[TopicPartition] | None] = partial(client.commit, **given)
        if asynchronous:
            return self._or_moved(client, lambda _moved: commit())
        return self._or_moved(client, lambda moved: calls.wait(commit, moved, LEAVE_SECONDS))

    def store_offsets(
        self, message: Message | None = None, offsets: Sequence[TopicPartition] | None = None
    ) -> None:
        """As `Consumer.store_offsets`. Raises FromAnotherCluster."""
        wanted = positions(message, offsets) or []
        with self._lock:
            self._refuse_foreign(wanted)
            self._client.store_offsets(offsets=wanted)

    def _refuse_foreign(self, offsets: Iterable[TopicPartition]) -> None:
        if self._switches and not self._leaving:
            self._read.refuse_foreign(offsets, self._client.position, self.endpoint.cluster)

    def _asked(self, question: Callable[[Any, float], T], timeout: float | None) -> T:
        with self._lock:
            client, calls = self._client, self._calls
        return self._or_moved(
            client,
            lambda moved: calls.ask(lambda left: question(client, left), timeout, moved, LEAVE_SECONDS),
        )

    def _moved(self, client: object) -> bool:
        return client is not self._client or self._watch.newer() is not None

    def _or_moved(self, client: object, wait: Callable[[Callable[[], bool]], T]) -> T:
        """The result of a call that waits for the cluster. Raises EndpointMoved."""
        old = self.endpoint
        try:
            return wait(partial(self._moved, client))
        except (KafkaException, RuntimeError) as error:
            left = client is not self._client and not self._closed  # by another thread
            if not left and not isinstance(error, Unanswered):
                raise
            new = self._watch.newer() or self.endpoint
            raise EndpointMoved(
                f"{old.cluster} has not answered, and clients go to {new.cluster} (term {new.term}): nothing"
                " of this call was sent there; call poll, reading continues at the group's position there"
            ) from error

    def _open(self, endpoint: Endpoint, number: int) -> Opened:
        config = configuration(self._config, self._clusters, endpoint)
        if number and self._selection.partitions is not None:
            config["auto.offset.reset"] = "error"
        for name in _CALLBACKS:
            if callable(config.get(name)):
                config[name] = self._only_of(number, config[name])
        client = Shared(Consumer(config, **self._more))
        return Opened(client, ClusterIdCheck(client, endpoint), Calls())

    def _only_of(self, number: int, call: Callable[..., Any]) -> Callable[..., Any]:
        """A callback that is silent once its client is closing in the background."""

        def called(*args: Any) -> Any:
            if number != self._switches:
                return None
            client = self._client
            return in_caller(lambda: client.serve(lambda: call(*args)))

        return unhindered(called)

    def _while_current(self, call: Rebalance) -> Rebalance:
        return self._only_of(self._switches, lambda _client, partitions: call(self, partitions))

    def _follow(self) -> bool:
        """Go to another cluster if the file says so; returns whether it did."""
        new = None if self._closed else self._watch.newer()
        if new is None:
            return False
        try:
            opened = self._open(new, self._switches + 1)
        except UNUSABLE as error:
            self._watch.cannot_follow(new, error)
            return False
        self._finish(new)
        old, left, calls = self._watch.endpoint, self._client, self._calls
        LOG.warning("from %s to %s, term %d", old.cluster, new.cluster, new.term)
        with self._lock:
            self._switches += 1
            self._read.clear()
            self._watch.followed(new)
            self._client, self._identity, self._calls = opened
        in_background(f"close-{old.cluster}", partial(left.leave, calls.retire))
        try:
            if self._on_switch is not None:
                self._on_switch(Switch(old, new))
        finally:
            self._read_on(new)
        return True

    def _read_on(self, new: Endpoint) -> None:
        self._subscribe()
        partitions = self._selection.partitions_on(new)
        if partitions is not None:
            self._client.assign(partitions)

    def _finish(self, new: Endpoint) -> None:
        """Call `on_revoke` so that the application finishes, once: if it fails, the next call continues."""
        revoked = self._selection.callbacks.get("on_revoke")
        partitions = self._client.assignment() if revoked else []
        if revoked and partitions and self._finished != (self._switches, new):
            self._finished, self._leaving = (self._switches, new), True
            try:
                revoked(self, partitions)
            finally:
                self._leaving = False

    def close(self) -> None:
        """As `Consumer.close`; when clients go to another cluster meanwhile it ends in the background.

        While the cluster does not answer and no other is named it may take a minute; with a commit in
        progress it takes until the coordinator answers.

        :raises RuntimeError: this is a callback of the consumer
        """
        if self._closed:
            return
        self._client.refuse_own_callback()
        self._closed = True
        client, calls = self._client, self._calls
        try:
            moved = partial(self._moved, client)
            calls.wait(partial(client.close, calls.idle, moved), moved, LEAVE_SECONDS)
        except Unanswered:
            LOG.info("close-%s continues in the background", self.endpoint.cluster)
        finally:
            self._client = Closed()

    def __getattr__(self, name: str) -> Any:
        if name not in AT_ONCE:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

        def called(*args: Any, **named: Any) -> Any:
            while True:
                client = self._client
                try:
                    return getattr(client, name)(*args, **named)
                except RuntimeError:
                    if client is self._client:  # else it was left by another thread just now
                        raise

        return called
