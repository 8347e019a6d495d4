"""Raw requests from ordinary code: connect, ask, close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable
from drkit.kafka.raw import EventLoop, RawCluster, RawError

T = TypeVar("T")


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
    settings: ClusterSettings,
    purpose: str,
    question: Callable[[RawCluster], Awaitable[T]],
    *,
    what: str,
) -> T:
    """Connect, ask one question, close.

    :param what: what is not possible while the cluster does not answer
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
                "cluster_request_failed",
                where=settings.alias,
                evidence=repr(error),
                hint="check the cluster with: drkit config check --connect",
                what=what,
            ) from error
    return answer
