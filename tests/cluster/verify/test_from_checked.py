"""`drkit verify --from-checked` after a return that emptied a partition, whose topic keeps its id."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.config import ClusterSettings
from drkit.local.cluster import LocalCluster
from drkit.verify.report import VerifyVerdict
from tests.support.failback.pair import Pair
from tests.support.failback.tail import TAIL, Case, DeadPrimary
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters

ON_DISK_SOON = {"log.flush.start.offset.checkpoint.interval.ms": "1000"}
"""A switchover waits for it."""


@pytest.mark.wide
@pytest.mark.timeout(500)
def test_what_was_checked_before_a_turn_is_compared_again(
    module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path
) -> None:
    def checked(cluster: ClusterSettings, topic: str) -> None:
        assert pair.now.verified([topic]).verdict is VerifyVerdict.EQUAL
        fill(cluster, topic, TAIL, first=1000)

    primary = module_cluster("primary", properties=ON_DISK_SOON)
    pair = Pair(primary, target, tmp_path / "journal")
    home = DeadPrimary(pair, primary, {"pay": Case("discard", "rebuild", write=checked)})
    try:
        home.die()
        home.come_home(home.request(tmp_path / "saved"))
        home.copied_back()
        assert pair.now.verified(home.topics, from_checked=True).verdict is VerifyVerdict.EQUAL
        pair.switch(clients_cut="the listener is closed")
        pair.reprotect()
        pair.now.replicate()
        pair.now.copied(home.topics, dict.fromkeys(home.groups))
        for from_checked in (True, False):  # the second one is remembered for later ones
            report = pair.now.verified(home.topics, from_checked=from_checked)
            assert report.verdict is VerifyVerdict.EQUAL, report.as_dict(5)
    finally:
        home.close()
