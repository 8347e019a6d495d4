"""``python -m tests.bench.wan``: what a copy task moves over a link of 100 ms round trip, as a table.

The link is a proxy on this machine: it delays every byte 50 ms each way. TCP itself ends at the proxy, so the
effect of socket buffers is not in these figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
import sys
from typing import Any, Final
import uuid

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.produce import aged, fill

DELAY_MS: Final = 50.0
_MIB: Final = 1 << 20
PARTITIONS: Final = 4
RECORD_BYTES: Final = 1000
RECORDS: Final = 48_000
ROUNDS: Final = 2
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "defaults": {},
    "recommended": {
        "fetch_max_bytes": 32 * _MIB,
        "fetch_partition_max_bytes": 8 * _MIB,
        "produce_in_flight": 32,
    },
    "recommended, larger batches": {
        "fetch_max_bytes": 32 * _MIB,
        "fetch_partition_max_bytes": 8 * _MIB,
        "produce_in_flight": 32,
        "produce_request_bytes": 4 * _MIB,
        "merge_below_bytes": 128 * 1024,
        "merge_up_to_bytes": 512 * 1024,
    },
}


def measure(source: LocalCluster, target: LocalCluster, where: str, mode: str, settings: str) -> float:
    """MB/s of one copy of fresh or old records, over the link in front of one of the clusters."""
    flow = Flow(source, target, **SETTINGS[settings])
    slow = {"source": source, "target": target}.get(where)
    topic = f"wan-{uuid.uuid4().hex[:8]}"
    try:
        flow.create_both(topic, PARTITIONS, max_message_bytes=str(4 * _MIB))
        old = aged(30 * DAY_MS) if mode == "catching up" else None
        fill(flow.source, topic, RECORDS, size=RECORD_BYTES, timestamp=old, batch_size=64 * 1024)
        lease = flow.lease(topic, seconds=300.0)
        if slow is not None:
            slow.link("CLIENT").slow(delay_ms=DELAY_MS)
        report = flow.copy(lease=lease)
        return report.bytes / report.seconds / 1e6
    finally:
        if slow is not None:
            slow.link("CLIENT").restore()
        flow.close()


def main() -> None:
    """Measure every combination and print the best of some rounds."""
    with ExitStack() as stack:
        source, target = (LocalCluster(ClusterSpec(n, linked=("CLIENT",))) for n in ("far", "near"))
        for each in (source, target):
            stack.callback(each.stop)
        start_together(source, target)
        sys.stdout.write("| slow link to | records | settings | MB/s |\n| --- | --- | --- | ---: |\n")
        for where, mode, settings in COMBINATIONS:
            best = max(measure(source, target, where, mode, settings) for _ in range(ROUNDS))
            sys.stdout.write(f"| {where} | {mode} | {settings} | {best:.1f} |\n")
            sys.stdout.flush()


COMBINATIONS: Final = [
    (where, mode, settings)
    for where in ("neither", "source", "target")
    for mode in ("fresh", "catching up")
    for settings in (SETTINGS if where != "neither" else ("defaults",))
]

if __name__ == "__main__":
    main()
