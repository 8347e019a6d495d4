"""Connections that a Python worker of Spark keeps between tasks, and the task that makes them early."""

from __future__ import annotations

import time
from typing import Final

from drkit.allocator import keep_memory
from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.core.links import WorkerLinks
from drkit.errors import DrkitError
from drkit.flow_state.names import state_topic
from drkit.kafka.requests import metadata
from drkit.wire import Record, encode, transform
from drkit.wire.merge import WHOLE_FROM

_TOGETHER_SECONDS: Final = 0.2
_REHEARSED: Final = 4
_links: dict[str, WorkerLinks] = {}


def take_links(flow: FlowSettings, source: ClusterSettings, target: ClusterSettings) -> WorkerLinks:
    """The connections of a flow that this worker kept, or new ones that are not connected yet."""
    return _links.pop(flow.name, None) or WorkerLinks.open(
        source.with_client(flow.source_consumer), target.with_client(flow.target_producer)
    )


def keep_links(flow: FlowSettings, links: WorkerLinks, *, idle: bool = True) -> None:
    """Keep connections for the next task of the flow in this worker.

    :param idle: nothing waits on them any more; else they are closed
    """
    if idle:
        _links[flow.name] = links
    else:
        links.close()


def warm_task(source: ClusterSettings, target: ClusterSettings, flow: FlowSettings) -> str:
    """Connect to both clusters as a copy task does, ask each a read-only question, and keep the connections.

    :returns: why a copy task could not work now; empty when it could
    """
    keep_memory()
    links = take_links(flow, source, target)
    links.open_gates()
    try:
        links.loop.run(_ask, links, state_topic(flow.source))
    except DrkitError as error:
        links.close()
        return str(error)
    keep_links(flow, links)
    rehearse(flow)
    # Tasks that run side by side each get a worker; one that had ended would lend its own to the next.
    time.sleep(_TOGETHER_SECONDS)
    return ""


def rehearse(flow: FlowSettings) -> int:
    """Join artificial batches as a copy task does, to load the needed modules; returns how many come out."""
    batches = []
    for number in range(_REHEARSED):
        batch = encode([Record(offset, 0, None, b"rehearsal") for offset in range(WHOLE_FROM)], 0)
        batch[:8] = (number * WHOLE_FROM).to_bytes(8, "big")  # the checksum begins after it
        batches.append(bytes(batch))
    (done,) = transform(
        b"".join(batches), position=0, end=None, aborted=(), skip_producer_ids=frozenset(),
        merge_below=flow.merge_below_bytes, merge_up_to=flow.merge_up_to_bytes, max_batch_bytes=1 << 20,
    )  # fmt: skip
    return len(done.chunks)


async def _ask(links: WorkerLinks, topic: str) -> None:
    await links.connect()
    for cluster in (links.source, links.target):
        await metadata(cluster, [topic])
