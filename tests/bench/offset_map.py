"""What the offset map of very many segments costs: memory of a process that has read it, and lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import gc
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
import random
import time
from typing import Final
from uuid import UUID

from confluent_kafka import Producer

from drkit.config import ClusterSettings
from drkit.flow_state.names import offset_map_topic
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.offset_map.bucket import parts
from drkit.offset_map.reading import load
from drkit.offsets import History, MapKey, MapRecord, Mark, SegmentMap
from drkit.offsets.map_codec import encode_map_record
from drkit.offsets.translation import Exact, PartitionPosition
from tests.bench.latency import percentile

SEGMENTS: Final = 1_000_000
TOPIC: Final = offset_map_topic("bench")
LOOKUPS: Final = 200_000
_SAMPLE: Final = 1_000
"""Lookups per timing: a clock costs as much as a lookup."""
_IDS: Final = UUID(int=1), UUID(int=2)


@dataclass(frozen=True, slots=True)
class MapCost:
    """A map in one process, read from its topic as every reader does."""

    segments: int
    partitions: int
    """Over how many partitions the segments are spread."""
    resident_bytes: int
    """Growth of the process by the map once it is read."""
    peak_bytes: int
    """Its largest growth while the map was read."""
    read_seconds: float
    forward_us: float
    """Mean of a translation at a random offset."""
    backward_us: float
    slowest_forward_us: float
    """The 99th percentile of means over a thousand."""


def segments_of(count: int, seed: int) -> tuple[SegmentMap, int, int]:
    """Segments as transactions leave them: runs of records with holes on either side; and both ends."""
    chance = random.Random(seed)
    found, up, down = [], 0, 0
    for _ in range(count):
        records = chance.randint(1, 200)
        found.append((up, down, records))
        up += records + chance.choice((1, 1, 1, 120))  # a marker, now and then an aborted transaction too
        down += records
    return SegmentMap.of(found), up, down


def write_map(bootstrap: str, total: int, partitions: int) -> None:
    """Fill a map topic with packs, as copy tasks leave them; partition n goes into bucket n."""
    out = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5})
    for p in range(partitions):
        segments, up, down = segments_of(total // partitions, p)
        key = MapKey(*_IDS, p)
        records: list[MapRecord] = [*parts(segments, down), Mark(1, History(7, 0), up, down, down, 0, 0)]
        for record in records:
            name, value = encode_map_record(key, record)
            out.produce(TOPIC, value, name, partition=p)
            out.poll(0)
    if out.flush(60.0):
        raise RuntimeError("the map was not written")


def measure(bootstrap: str, total: int, partitions: int) -> MapCost:
    """Read the map in a process of its own and translate at random offsets."""
    spawn = get_context("spawn")
    receiving, sending = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_child, args=(bootstrap, total, partitions, sending), daemon=True)
    child.start()
    if not receiving.poll(120.0):
        raise TimeoutError("the map was not read")
    found: MapCost = receiving.recv()
    child.join(10.0)
    return found


def _child(bootstrap: str, total: int, partitions: int, result: Connection) -> None:
    loop = EventLoop()
    cluster = RawCluster(loop, ClusterSettings(alias="bench", bootstrap_servers=bootstrap), "bench")
    loop.run(cluster.connected)
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark (proc(5))
    started = time.monotonic()
    buckets = load(loop, cluster, TOPIC, range(partitions))
    read_seconds = time.monotonic() - started
    gc.collect()
    resident, peak = _status("VmRSS") - before, _status("VmHWM") - before
    places = []
    for p in range(partitions):
        state = buckets[p].of(*_IDS, p)
        assert state.tail is not None
        end = state.tail.downstream
        places.append(PartitionPosition(state.segments, state.tail.upstream, 0, end, end))
    if sum(len(place.segments) for place in places) != total // partitions * partitions:
        raise RuntimeError("the map that was read is not the one that was written")
    forward, backward = _lookups(places, back=False), _lookups(places, back=True)
    result.send(
        MapCost(
            segments=total,
            partitions=partitions,
            resident_bytes=resident,
            peak_bytes=peak,
            read_seconds=read_seconds,
            forward_us=sum(forward) / len(forward),
            backward_us=sum(backward) / len(backward),
            slowest_forward_us=percentile(sorted(forward), 0.99),
        )
    )


def _lookups(places: Sequence[PartitionPosition], *, back: bool) -> list[float]:
    """Microseconds per lookup, of some thousand means."""
    chance, means = random.Random(1), []
    for _ in range(LOOKUPS // _SAMPLE):
        place = chance.choice(places)
        ask = place.backward if back else place.forward
        offsets = [chance.randrange(place.end if back else place.frontier or 1) for _ in range(_SAMPLE)]
        started = time.perf_counter()
        answers = [ask(offset) for offset in offsets]
        means.append((time.perf_counter() - started) / _SAMPLE * 1e6)
        if not all(isinstance(answer, Exact) for answer in answers):
            raise RuntimeError("a copied source offset has no target offset")
    return means


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
