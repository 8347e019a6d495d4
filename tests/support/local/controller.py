"""The active controller of a local cluster."""

from __future__ import annotations

from kafka import KafkaAdminClient

from drkit.local.broker import LocalBroker
from drkit.local.cluster import LocalCluster


def active_controller(cluster: LocalCluster) -> LocalBroker:
    """Return the broker that leads the metadata quorum."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap())
    try:
        leader = admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"]
    finally:
        admin.close()
    return cluster.broker(leader)
