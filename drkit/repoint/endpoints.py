"""From a cluster of the configuration to the endpoint that clients get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drkit.config import ClusterSettings
from drkit.endpoint import Endpoint

_SERVERS: Final = "bootstrap.servers"


def endpoint_of(
    settings: ClusterSettings, *, term: int, cluster_id: str, topics: Mapping[str, str] | None = None
) -> Endpoint:
    """The endpoint of a cluster as its applications reach it.

    :param cluster_id: as its brokers showed it to drkit
    :param topics: previous names → names there; equal ones are left out
    """
    client = dict(settings.applications)
    servers = client.pop(_SERVERS, settings.bootstrap_servers)
    renamed = {name: there for name, there in sorted((topics or {}).items()) if name != there}
    return Endpoint(term, settings.alias, cluster_id, servers, client, renamed)
