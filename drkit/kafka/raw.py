"""One cluster over kafka-python's protocol layer: any Kafka request, on an event loop that drkit drives.

Used by the data plane, which needs record batches as bytes, and for what confluent-kafka does not
offer (DescribeProducers, WriteTxnMarkers, raw InitProducerId).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
import logging
import selectors
import sys
import time
from typing import Any, TypeVar

from kafka import errors
from kafka.future import Future as Future
from kafka.net.selector import NetworkSelector

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable, Failed
from drkit.kafka.admin import refused_credentials, why_not
from drkit.kafka.clients import raw_config
from drkit.kafka.transport import SendGate, WideManager, may_send

T = TypeVar("T")
_PAUSE_SECONDS = 0.001
_FIRST_PAUSE_SECONDS, _TRIES = 0.005, 9
_LAST_WORD_MS = 2000
_IMPATIENT_MS = 10_000
_SERVER_SECONDS = 1.0
"""Seconds to wait for the first server; for each further one twice as long, as a link may be slow."""


class RawError(ClusterUnreachable):
    """A request failed: no connection, no answer in time, or an error instead of an answer.

    :param evidence: the library's error, with its name
    :param where: the cluster
    """

    def __init__(self, evidence: str = "", where: str = "") -> None:
        super().__init__("cluster_stopped_answering", where=where, evidence=evidence)

    def __str__(self) -> str:
        return self.evidence


class RequestTimeout(RawError):
    """The time of the caller is over; the timer of the request itself raises RawError."""


class RequestUnsupported(Failed):
    """The brokers have no such request, or no version of it that drkit can send."""


def _raw_error(error: errors.KafkaError, where: str) -> Failed:
    """Return the drkit error for an error of the library: no other module knows the library's."""
    if isinstance(error, errors.IncompatibleBrokerVersion):
        return RequestUnsupported("request_unsupported", where=where, evidence=str(error))
    return (RequestTimeout if isinstance(error, errors.KafkaTimeoutError) else RawError)(str(error), where)


class _Answer(Future):  # type: ignore[misc]
    """The answer to a request; its error is a RawError."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def failure(self, e: BaseException) -> Future:
        """Set the error."""
        return super().failure(_raw_error(e, self._where) if isinstance(e, errors.KafkaError) else e)


class PlainSelector(selectors.DefaultSelector):
    """The standard selector without the sentence it composes whenever a socket is not registered.

    kafka-python asks about sockets before every wait, and most of the time they are not.
    """

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """Return the registration of a socket. Raises KeyError if it is not registered."""
        table: dict[int, selectors.SelectorKey] = self._fd_to_key  # type: ignore[attr-defined]  # typeshed hides it
        return table[fileobj.fileno()]


def _raise_interrupt(error: BaseException | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error


class _Selector(NetworkSelector):  # type: ignore[misc]
    """The library's loop; a signal in any task ends it: the library logs that, or a future keeps it."""

    def call_soon_with_future(self, coro: Any, *args: object) -> Future:
        return super().call_soon_with_future(coro, *args).add_errback(_raise_interrupt)

    def _task_done(self, task: Any) -> None:
        _raise_interrupt(sys.exception())  # the library calls this while it handles the error of the task
        super()._task_done(task)


class EventLoop:
    """A single-threaded loop shared by the connections of one process."""

    def __init__(self) -> None:
        # kafka-python logs every lost connection as an error; drkit reports the consequence instead.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self.net = _Selector(slow_task_threshold_secs=0, selector=PlainSelector)

    def run(self, coroutine: Callable[..., Awaitable[Any]], *args: object) -> Any:
        """Drive the loop until the coroutine has returned."""
        return self.net.run(coroutine, *args)

    def spawn(self, coroutine: Callable[..., Awaitable[Any]], *args: object) -> Any:
        """Start a coroutine; returns the future of its result."""
        return self.net.call_soon_with_future(coroutine, *args)

    async def together(self, coroutine: Callable[[Any], Awaitable[T]], each: Iterable[Any]) -> list[T]:
        """Run a coroutine for each item, all side by side, until all have ended; return the results in order.

        :raises BaseException: the error of the first item that failed
        """
        running = [self.spawn(coroutine, one) for one in each]
        for future in running:
            ended = Future()
            future.add_both(ended.success)
            await ended
        return [await future for future in running]

    async def until_nothing(self, look: Callable[[], Awaitable[T]]) -> T:
        """Look until there is nothing, for some seconds, and return what there is at the last try."""
        for number in range(_TRIES):
            if not (result := await look()):
                break
            await self.sleep(_FIRST_PAUSE_SECONDS * 2**number)
        return result

    async def some_at_once(
        self, coroutine: Callable[[Any], Awaitable[T]], each: Iterable[Any], most: int
    ) -> list[T]:
        """Run a coroutine for each item, at most `most` side by side; return the results in order.

        :raises BaseException: the first error; no other item is begun after it
        """
        waiting, results = deque(enumerate(each)), dict[int, T]()

        async def work(_number: int) -> None:
            while waiting:
                number, one = waiting.popleft()
                try:
                    results[number] = await coroutine(one)
                except BaseException:
                    waiting.clear()
                    raise

        await self.together(work, range(min(most, len(waiting))))
        return [results[number] for number in sorted(results)]

    async def sleep(self, seconds: float) -> None:
        """Let others run for some seconds."""
        await self.net.sleep(seconds)

    def close(self) -> None:
        """End the loop with everything on it."""
        self.net.close()


class RawCluster:
    """Connections to the brokers of one cluster.

    :param purpose: part of the client id, so that a broker's request log shows what drkit does
    """

    def __init__(self, loop: EventLoop, settings: ClusterSettings, purpose: str) -> None:
        self.loop = loop
        self.alias = settings.alias
        self._settings = settings
        self.control = settings.control
        """The keys of drkit's own topics there, or None if no key is configured."""
        config = raw_config(settings)
        self.request_timeout_ms: int | None = config.get("request_timeout_ms")
        """The configured timeout of fetches and appends, or None."""
        self._manager = WideManager(
            loop.net,
            **{
                "reconnect_backoff_ms": 50,
                "reconnect_backoff_max_ms": 1000,
                **config,
                "client_id": f"{config['client_id']}-{purpose}",
                "max_in_flight_requests_per_connection": 1000,
            },
        )
        self.gate = self._manager.gate = SendGate()
        self.away_groups = set[str]()
        """Groups whose coordinator was away when they were asked about last."""

    async def connect(self, timeout_ms: int = 15_000) -> None:
        """Find the brokers.

        :raises NotAuthenticated: wrong credentials, or TLS that does not fit
        :raises ClusterUnreachable: none answered in time
        """
        try:
            await self._bootstrap(timeout_ms)
        except errors.KafkaError as error:
            await self._last_word()
            raise why_not(self._settings, timeout_ms / 1000) from error

    async def _bootstrap(self, timeout_ms: int) -> None:
        """Try several servers: the library waits for one, chosen by chance, as long as it may."""
        deadline, patience = time.monotonic() + timeout_ms / 1000, _SERVER_SECONDS
        while (left := deadline - time.monotonic()) > patience:
            try:
                await self._manager.bootstrap_async(round(1000 * patience))
            except errors.KafkaTimeoutError:
                patience *= 2
            else:
                return
        await self._manager.bootstrap_async(max(1, round(1000 * left)))

    async def _last_word(self) -> None:
        """Retry and raise the error: the library forgets why it could not connect."""
        server = self._manager.cluster.bootstrap_brokers()[0].node_id
        self._manager.reset_backoff(server)
        try:
            await self._manager.get_connection(server, timeout_ms=_LAST_WORD_MS)
        except errors.SaslAuthenticationFailedError as error:
            raise refused_credentials(self._settings, str(error.args[0])) from error
        except errors.KafkaError:
            return  # the probe of the port finds the cause

    @property
    def cluster_id(self) -> str | None:
        """Return the cluster id in the last answer of a broker, or None before the first."""
        found = self._manager.cluster.cluster_id
        return None if found is None else str(found)

    async def connected(self, timeout_ms: int = 15_000) -> None:
        """Connect unless that was done before. Raises as :meth:`connect` does."""
        if not self._manager.bootstrapped:
            await self.connect(timeout_ms)

    async def send(self, request: Any, node_id: int | None = None, *, timeout_ms: int = 30_000) -> Any:
        """Send a request and return the answer.

        A throttled or busy connection is waited for (KIP-219), up to the timeout.

        :raises RawError: no connection, no answer in time
        """
        may_send()
        deadline = time.monotonic() + timeout_ms / 1000
        answer = await self.queue(request, node_id, deadline)
        # The library does not count the time in which a connection is made, 10 s on a broker that is frozen.
        try:
            return await self._manager.wait_for(answer, max(1.0, 1000 * (deadline - time.monotonic())))
        except errors.KafkaTimeoutError as error:
            raise _raw_error(error, self.alias) from error

    async def queue(self, request: Any, node_id: int | None, deadline: float) -> Any:
        """Hand a request to its connection, in order; the future that comes back is the answer."""
        while True:
            # If no broker is there now, one may be back at the next look.
            node = self._manager.least_loaded_node() if node_id is None else node_id
            try:
                connection = self._manager.get_connection(node)
                paused = bool(connection.paused)
            except errors.UnknownBrokerIdError:
                self._manager.cluster.request_update()
                paused = True
            except errors.NodeNotReadyError:
                paused = True
            except errors.KafkaError as error:
                raise _raw_error(error, self.alias) from error
            if not paused:
                left = max(1, int((deadline - time.monotonic()) * 1000))
                answer = _Answer(self.alias)
                connection.send_request(request, request_timeout_ms=left).chain(answer)
                return answer
            if time.monotonic() > deadline:
                broker = "any broker" if node is None else f"broker {node}"
                raise RequestTimeout(f"waited in vain for {broker} of {self.alias}", self.alias)
            await self.loop.sleep(_PAUSE_SECONDS)

    def drop(self, node_id: int) -> None:
        """Close the connection to one broker."""
        self._manager.close(node_id)

    def nodes(self) -> list[int]:
        """Ids of the brokers known now."""
        return sorted(b.node_id for b in self._manager.cluster.brokers())

    async def ask_each(
        self, nodes: Iterable[int], ask: Callable[[int], Awaitable[T]]
    ) -> tuple[dict[int, T], dict[int, Failed]]:
        """Ask some brokers at the same time; return the answers, and the errors of those that are silent.

        :raises Exception: any error of `ask` that is neither RawError nor RequestUnsupported
        """
        answers, silent = dict[int, T](), dict[int, Failed]()

        async def one(node: int) -> None:
            try:
                answers[node] = await ask(node)
            except (RawError, RequestUnsupported) as error:
                silent[node] = error

        await self.loop.together(one, sorted(nodes))
        return {node: answers[node] for node in sorted(answers)}, silent

    def close(self) -> None:
        """Close all connections."""
        self._manager.close()


class Impatient(RawCluster):
    """Connections to a cluster that may be dying: no request waits longer than 10 s."""

    async def send(self, request: Any, node_id: int | None = None, *, timeout_ms: int = 30_000) -> Any:
        """Send as :class:`RawCluster` does, with at most this timeout."""
        return await super().send(request, node_id, timeout_ms=min(timeout_ms, _IMPATIENT_MS))


@contextmanager
def connections(purpose: str, *settings: ClusterSettings) -> Iterator[list[RawCluster]]:
    """Clusters on one loop of their own, not yet connected; closed with all in-flight requests.

    :param purpose: part of the client id, so that a broker's request log shows what drkit does
    """
    loop = EventLoop()
    clusters = [RawCluster(loop, each, purpose) for each in settings]
    try:
        yield clusters
    finally:
        for cluster in clusters:
            cluster.close()
        loop.close()


def ask_once(
    settings: ClusterSettings, purpose: str, question: Callable[[RawCluster], Awaitable[T]], *, what: str
) -> T:
    """Connect, ask one question, close.

    :param what: the operation that fails while the cluster does not answer, for the error
    :raises ClusterUnreachable: no answer
    :raises NotAuthenticated: wrong credentials
    """
    with connections(purpose, settings) as (cluster,):

        async def ask() -> T:
            await cluster.connected()
            return await question(cluster)

        try:
            answer: T = cluster.loop.run(ask)
        except RawError as error:
            raise ClusterUnreachable(
                "cluster_request_failed", where=settings.alias, evidence=str(error), what=what
            ) from error
    return answer
