"""Deleted keys stay deleted: it counts what the cleaner did on the new primary, not its settings later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from drkit.config import ClusterSettings
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import EARLIEST
from drkit.kafka.topics import alter_topic_configs
from tests.support.exactness.cleaning import CLEANING, QUICK
from tests.support.failback.older_disk import looked
from tests.support.failback.pair import Pair
from tests.support.failback.tail import COPIED, PARTITIONS, Case, DeadPrimary
from tests.support.flows.produce import producer, put
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

KEYS = [b"k%d" % n for n in range(COPIED)]
DELETED = [key for n, key in enumerate(KEYS) if n % 4 == 1 and n % 11]
"""Of these the primary has a value."""
WRITTEN = [key for n, key in enumerate(KEYS) if n % 4 == 2]
COMPACT = {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}
"""Until a test lets it, the cleaner leaves both logs as they are."""
NOW = {**QUICK, "min.compaction.lag.ms": "0"}


@pytest.fixture
def home(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[DeadPrimary]:
    fields = {"properties": CLEANING}
    primary, standby = module_cluster.ready({"primary": fields, "standby": fields})
    cases = {name: Case(tail=0, settings=COMPACT) for name in ("forgets", "knows", "whole")}
    cases["tail"] = Case("replay", settings=COMPACT)
    cases["expires"] = Case(tail=0, settings=COMPACT | {"cleanup.policy": "compact,delete"})
    found = DeadPrimary(Pair(primary, standby, tmp_path / "journal"), primary, cases)
    yield found
    found.close()


@pytest.mark.wide
@pytest.mark.timeout(600)
def test_keys_that_were_deleted_stay_deleted(home: DeadPrimary, tmp_path: Path) -> None:
    """Settings that were changed and set back leave no trace but in the log."""
    side, (forgets, knows, whole, tail, expires) = home.side, home.topics
    home.fall()
    for topic in home.topics:
        _write(home, topic)
    _clean(home, forgets, {**NOW, "delete.retention.ms": "1"}, lambda left: not left & set(DELETED))
    for topic in (knows, tail, expires):
        _clean(home, topic, NOW, lambda left: set(DELETED) <= left)
    for partition in range(PARTITIONS):
        side.delete_records(
            expires, partition, 9, side.target
        )  # as retention does; the old primary's has not
    home.rise()
    found = {(t.topic, t.outlived) for t in looked(side).found.tails}
    living = {(forgets, number) for number in _deleted_by_partition(home, forgets)}
    assert found == living | {(topic, 0) for topic in (knows, whole, tail, expires)}
    report = home.come_home(home.request(tmp_path / "saved"))
    assert f"quarantine keeps them: {tail}" in str(report), "its tail may have keys that were deleted"
    emptied = [t for t in home.topics if all(side.offsets(side.source, t, EARLIEST).values())]
    assert emptied == [forgets, tail], "the others keep their records"
    home.copied_back()
    for topic in (forgets, knows, whole, tail):
        here, there = (_living(home, topic, cluster) for cluster in (side.source, side.target))
        assert here == there, topic
        assert not here.keys() & set(DELETED), topic


def _write(home: DeadPrimary, topic: str) -> None:
    """Clients delete keys on the new primary, and write others again."""
    out = producer(home.side.target)
    for key in DELETED:
        put(out, topic, None, key)
    for key in WRITTEN * 2:  # the cleaner leaves the second one
        put(out, topic, b"again", key)
    assert out.flush(30) == 0


def _clean(
    home: DeadPrimary, topic: str, settings: Mapping[str, str], done: Callable[[set[bytes]], bool]
) -> None:
    """Let the cleaner work on a topic with these settings until it is done; then they are set back."""
    admin, target = Cluster.connect(home.side.target), home.side.target
    assert not alter_topic_configs(admin, {topic: dict(settings)})
    size, out = _size(home, topic), producer(target)

    def is_done() -> bool:
        for partition in range(PARTITIONS):  # closes the segment; the one that is written to is not cleaned
            put(out, topic, b"", b"last", partition=partition)
        assert out.flush(30) == 0
        return _size(home, topic) < size and done(_keys(home, topic))

    eventually(is_done, 60, f"the cleaner at work on {topic}")
    back = {name: COMPACT.get(name) for name in settings}
    assert not alter_topic_configs(admin, {topic: back})


def _size(home: DeadPrimary, topic: str) -> int:
    """How many records of the keys that were copied the new primary has."""
    log = home.side.records(home.side.target, topic)
    return sum(record.key in KEYS for records in log.values() for record in records)


def _keys(home: DeadPrimary, topic: str) -> set[bytes]:
    log = home.side.records(home.side.target, topic)
    return {record.key for records in log.values() for record in records if record.key is not None}


def _living(home: DeadPrimary, topic: str, cluster: ClusterSettings) -> dict[bytes, bytes]:
    """The keys that have a value, with the newest one."""
    log = home.side.records(cluster, topic)
    newest = {record.key: record.value for records in log.values() for record in records}
    return {key: value for key, value in newest.items() if key is not None and value is not None}


def _deleted_by_partition(home: DeadPrimary, topic: str) -> list[int]:
    log = home.side.records(home.side.source, topic)
    living = _living(home, topic, home.side.source).keys() & set(DELETED)
    return [len({r.key for r in records} & living) for records in log.values()]
