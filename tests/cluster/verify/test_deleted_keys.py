"""Keys whose tombstones the source's cleaner removed before they were copied: they live on the copy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from drkit.kafka.reading.range_reader import RangeReader
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.verify.report import VerifyVerdict
from tests.support.exactness.cleaning import CLEANING, clean_often
from tests.support.failback.pair import Pair
from tests.support.flows.clusters import Clusters
from tests.support.flows.compare import read
from tests.support.flows.fixtures import FlowFactory
from tests.support.flows.flow import Flow
from tests.support.flows.produce import producer, put
from tests.support.flows.verified import own, verified
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

HOUR_MS: Final = "3600000"
COMPACT: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": HOUR_MS}
"""Until a test lets it, the cleaner leaves the source as it is."""
FORGOTTEN: Final = [b"forgotten-1", b"forgotten-2"]
DELETED: Final = [*FORGOTTEN, b"known"]


@pytest.fixture
def compacting(module_cluster: ModuleClusters, target: LocalCluster, flow_factory: FlowFactory) -> Flow:
    """A flow from a source whose cleaner looks all the time."""
    return flow_factory(module_cluster("compacting", properties=CLEANING), target)


@pytest.mark.wide
def test_a_key_whose_tombstone_was_never_copied(compacting: Flow, topic_name: str) -> None:
    flow = compacting
    own(flow)
    flow.create_both(topic_name, config=COMPACT)
    _put(flow, topic_name, b"v", b"stays", b"again", *DELETED)
    _put(flow, topic_name, None, b"known")
    flow.copy(topic_name, compacted=True)
    _put(flow, topic_name, None, *FORGOTTEN)
    _put(flow, topic_name, b"w", b"again")
    _clean(flow, topic_name)
    report = verified(flow, topic_name)
    assert report.verdict is VerifyVerdict.DIFFERENT, report.as_dict(5)
    # Besides both: the key that was written again, and both records of the known one.
    assert (report.counts.outlived, report.counts.deleted_at_source) == (2, 3)
    rows = report.as_dict(5)["differences"]
    assert [(row["difference"], row["source_offset"], row["target_offset"]) for row in rows] == [
        ("outlived", 2, 2),
        ("outlived", 3, 3),
    ]
    assert "key='forgotten-1'" in rows[0]["evidence"]
    assert report.as_dict(5)["notes"][0].startswith(f"{topic_name}: 2 keys were deleted on the source")
    flow.copy(topic_name, compacted=True)
    report = verified(flow, topic_name)
    assert (report.counts.differences, report.counts.outlived) == (2, 2), report.as_dict(5)
    _rest(flow, topic_name)
    _put(flow, topic_name, None, *FORGOTTEN)
    assert verified(flow, topic_name).verdict is VerifyVerdict.EQUAL, "the tombstones are not copied yet"
    flow.copy(topic_name, compacted=True)
    assert verified(flow, topic_name).verdict is VerifyVerdict.EQUAL
    assert not _living(flow, topic_name) & set(DELETED)


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_after_a_turn(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> None:
    """Records from before it are known by the map of the other direction."""
    compacting = module_cluster("compacting", properties=CLEANING)
    pair = Pair(target, compacting, tmp_path / "journal")
    try:
        side, topic = pair.now, pair.now.name("keys")
        side.create(side.source, topic, 1, COMPACT)
        _put(side, topic, b"v", b"stays", b"again", *DELETED)
        side.replicate()
        side.copied([topic])
        assert pair.switch()["state"] == "done"
        assert pair.reprotect()["state"] == "done"
        side = pair.now
        _put(side, topic, None, b"known")
        side.replicate()
        side.copied([topic])
        side.stop_replicating()
        assert side.verified([topic]).verdict is VerifyVerdict.EQUAL
        _put(side, topic, None, *FORGOTTEN)
        _put(side, topic, b"w", b"again")
        _clean(side, topic)
        report = side.verified([topic])
        found = [f.evidence for p in report.partitions for f in p.findings]
        assert (report.counts.outlived, len(found)) == (2, 2), report.as_dict(5)
        assert all("forgotten" in text for text in found)
    finally:
        pair.close()


@pytest.mark.wide
def test_the_end_that_a_reader_sees(compacting: Flow, topic_name: str) -> None:
    """What the cleaner works with: the last stable offset."""
    flow = compacting
    flow.create(flow.source, topic_name, 1, {})
    _put(flow, topic_name, b"v", b"k")
    out = producer(flow.source, transactional_id=topic_name)
    out.init_transactions(30)
    out.begin_transaction()
    put(out, topic_name, b"open", b"k")
    assert out.flush(30) == 0
    ends = []
    for committed in (True, False):
        reader = RangeReader(flow.source, committed=committed)
        ends.append(reader.log_end(TopicPartition(topic_name, 0)))
        reader.close()
    out.abort_transaction(30)
    assert ends == [1, 2]


def _put(flow: Clusters, topic: str, value: bytes | None, *keys: bytes) -> None:
    out = producer(flow.source)
    for key in keys:
        put(out, topic, value, key)
    assert out.flush(30) == 0


def _clean(flow: Clusters, topic: str) -> None:
    """Let the cleaner work on the source until the deleted keys are gone, with their tombstones."""
    flow.configure(flow.source, topic, "delete.retention.ms", "1")
    flow.configure(flow.source, topic, "min.compaction.lag.ms", "0")
    clean_often(flow, flow.source, topic)

    def is_done() -> bool:
        _put(flow, topic, b"", b"last")  # closes the segment; the one that is written to is not cleaned
        left = [record.key for record in read(flow.source, topic)[0]]
        return not set(left) & set(DELETED) and left.count(b"again") == 1

    eventually(is_done, 60, f"the cleaner at work on {topic}")


def _rest(flow: Clusters, topic: str) -> None:
    """From now on the cleaner leaves the source as it is."""
    flow.configure(flow.source, topic, "max.compaction.lag.ms", HOUR_MS)
    flow.configure(flow.source, topic, "min.compaction.lag.ms", HOUR_MS)


def _living(flow: Clusters, topic: str) -> set[bytes | None]:
    newest = {record.key: record.value for record in read(flow.target, topic)[0]}
    return {key for key, value in newest.items() if value is not None}
