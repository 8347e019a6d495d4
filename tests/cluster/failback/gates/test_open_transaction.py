"""Transactions that were open when the primary died: decided before anything is emptied, or nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
import pytest

from drkit.config import ClusterSettings
from drkit.errors import Refused
from drkit.export.check import check_files, exported_records
from drkit.export.record import HoleKind
from drkit.failover.core.context import StepProgress
from drkit.failover.fencing import open_transactions
from drkit.journal.machine import RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.codes import TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from drkit.kafka.requests import EARLIEST
from drkit.kafka.topics import alter_topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.truth import values
from tests.support.flows.produce import fill, producer, put
from tests.support.shared_clusters import ModuleClusters

TAIL, OPEN = 6, 4
FENCE = "max.message.bytes"
TEN_MINUTES = 600_000


class Leaves:
    """Applications that begin transactions and never end them; their coordinators would, after minutes."""

    def __init__(self) -> None:
        self._alive: list[Producer] = []

    def tail(self, cluster: ClusterSettings, topic: str) -> None:
        """Write a tail, and records of an open transaction after it."""
        fill(cluster, topic, TAIL, first=1000)
        self.open(cluster, topic)

    def open(self, cluster: ClusterSettings, topic: str) -> None:
        """Write records of a transaction that stays open."""
        out = producer(cluster, transactional_id=f"open-{topic}", transaction_timeout_ms=TEN_MINUTES)
        out.init_transactions(60)
        out.begin_transaction()
        for number in range(OPEN):
            put(out, topic, b"undecided %d" % number, partition=0)
        assert out.flush(60) == 0
        self._alive.append(out)


@pytest.fixture
def leaves() -> Leaves:
    return Leaves()


@pytest.fixture
def home(
    module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path, leaves: Leaves
) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {
        "decided": Case("replay", tail=TAIL, write=leaves.tail),
        "denied": Case("discard", tail=TAIL, write=leaves.tail),
        "late": Case("discard", tail=TAIL),
    }
    with dead_primary(primary, target, tmp_path, cases) as found:
        yield found


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_nothing_is_emptied_before_every_transaction_is_decided(
    home: DeadPrimary, leaves: Leaves, tmp_path: Path
) -> None:
    decided, denied, late = home.topics
    _is_aborted(home, tmp_path / "saved", decided)
    _stays_open(home, tmp_path / "denied", denied)
    _opens_after_the_export(home, tmp_path / "late", late, leaves)
    home.turned()
    home.copied_back()
    home.nothing_is_lost()
    assert home.same_on_both() > 100


def _is_aborted(home: DeadPrimary, folder: Path, topic: str) -> None:
    """The return aborts it; the export names its offsets, and has the other records."""
    with home.side.desk() as desk:
        report = desk.begin_return(home.request(folder, [topic]), topics=[topic])
    assert report["state"] == "done"
    [notes] = [s["notes"] for s in report["steps"] if s["step"] == StepName.CONTACT]
    assert "1 open transactions were aborted" in notes
    saved = home.side.run_log().results[StepName.EXPORT]["evidence"]
    manifest = check_files(saved["manifest"], saved["sha256"])
    holes = {
        (p.partition, kind): n
        for p in manifest.partitions
        for part in p.parts
        for kind, n in part.holes.items()
    }
    assert holes == {(0, HoleKind.ABORTED): OPEN, (0, HoleKind.MARKER): 1}
    for p, records in home.tails[topic].items():
        exported = exported_records(saved["manifest"], topic, p, manifest)
        assert [r.value or b"" for r in exported] == values(records), p
    assert all(home.side.offsets(home.side.source, topic, EARLIEST).values()), "it is emptied"


def _stays_open(home: DeadPrimary, folder: Path, topic: str) -> None:
    """The old primary's brokers do not let drkit end it: the run is held, and all records stay."""

    async def refuses(*_given: object) -> int:
        return TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    with home.side.desk() as desk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_transactions, "abort", refuses)
        with pytest.raises(Refused, check=coded("old_primary_still_written")) as caught:
            desk.begin_return(home.request(folder, [topic]), topics=[topic])
        assert caught.value.evidence.startswith(f"{topic}-0: a transaction is open after ")
        assert "whose transaction it is" in caught.value.hint
    _is_held_with_all(home, topic)
    with home.side.desk() as desk:  # the right was given
        assert desk.resume(home.request(folder, [topic]))["state"] == "done"


def _opens_after_the_export(home: DeadPrimary, folder: Path, topic: str, leaves: Leaves) -> None:
    """Its records are after the last stable offset, where the export ends: no end has moved."""
    side = home.side

    def opens(progress: StepProgress) -> None:
        if progress.step is StepName.BEGIN and progress.what == f"{topic} begins":
            admin = Cluster.connect(side.source)
            assert not alter_topic_configs(admin, {topic: {FENCE: "1048576"}})
            leaves.open(side.source, topic)
            assert not alter_topic_configs(admin, {topic: {FENCE: "0"}})

    request = home.request(folder, [topic])
    with side.desk(tell=opens) as desk:
        with pytest.raises(Refused, check=coded("old_primary_changed")) as caught:
            desk.begin_return(request, topics=[topic])
        assert caught.value.evidence == f"{topic}-0: a transaction is open"
        _is_held_with_all(home, topic)
        assert desk.abort("for the test")["state"] == "aborted"
    with side.desk() as desk:
        again = request._replace(export_to=str(folder / "again"))
        assert desk.begin_return(again, topics=[topic])["state"] == "done"


def _is_held_with_all(home: DeadPrimary, topic: str) -> None:
    side = home.side
    assert side.run_log().state is RunState.HELD
    assert not any(side.offsets(side.source, topic, EARLIEST).values()), "nothing is emptied"
