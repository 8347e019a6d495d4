"""Bad moments for a copy task: after its claim, in the network, before a gap."""

from __future__ import annotations

from contextlib import suppress

from drkit.local.cluster import LocalCluster
from tests.support.flows.compare import read
from tests.support.flows.flow import Flow
from tests.support.flows.process import CopyProcess
from tests.support.flows.produce import producer, put, text, wait_for_markers
from tests.support.waiting import eventually

DELAY_MS = 200


def map_records(flow: Flow) -> int:
    """The sum of the ends of the offset map."""
    return sum(flow.offsets(flow.target, flow.map_topic, committed=False).values())


def killed_after_its_claim(flow: Flow, target: LocalCluster, topic: str) -> bool:
    """SIGKILL a copy task when the map has its claim, and no later record reached the target.

    :returns: whether it was so; a task that writes something else first is killed earlier
    """
    link = target.link("CLIENT")
    before, held = map_records(flow), len(read(flow.target, topic)[0])
    lease = flow.lease(topic, once=False, seconds=300)
    link.slow(delay_ms=DELAY_MS)
    task = flow.start(lease=lease, through=target.bootstrap())
    eventually(lambda: map_records(flow) > before, what=f"a claim; {task.told()}")
    task.kill()
    eventually(lambda: not link.connections, what="the end of what the link holds")
    link.restore()
    return len(read(flow.target, topic)[0]) == held


def soon(task: CopyProcess, flow: Flow, topic: str, end: int, seconds: float = 5.0) -> None:
    """Let a task run until the target's end is there, or for some seconds."""
    with suppress(AssertionError):
        eventually(
            lambda: task.ended_within(0.05) or flow.offsets(flow.target, topic, committed=False)[0] >= end,
            seconds,
        )


def transactions(flow: Flow, topic: str, count: int, size: int, first: int, **more: str) -> int:
    """Committed transactions of one size, each with its marker; returns the next free number."""
    name = f"tx-{topic}-{first}"
    out = producer(flow.source, transactional_id=name, **more)
    out.init_transactions(30)
    for number in range(first, first + count * size):
        if (number - first) % size == 0:
            out.begin_transaction()
        put(out, topic, text(number), b"k%d" % number)
        if (number - first) % size == size - 1:
            out.commit_transaction(30)
    wait_for_markers(flow.source, name)
    return first + count * size
