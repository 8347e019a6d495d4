"""A closed cluster leaves nothing on an event loop that continues."""

from __future__ import annotations

from contextlib import closing

from drkit.config import ClusterSettings
from drkit.kafka.raw import EventLoop, RawCluster


def test_a_closed_cluster_schedules_no_more_checks_of_idle_connections() -> None:
    with closing(EventLoop()) as loop:
        cluster = RawCluster(loop, ClusterSettings(alias="a", bootstrap_servers="127.0.0.1:1"), "test")
        manager = cluster._manager
        scheduled = len(loop.net._scheduled)
        manager.close_idle_connections()
        assert len(loop.net._scheduled) == scheduled + 1
        cluster.close()
        manager.close_idle_connections()
        assert len(loop.net._scheduled) == scheduled + 1
