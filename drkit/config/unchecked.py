"""Problems in tables that are not settings yet, because they may have other errors, too. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from drkit.config.files.interpolate import Problem, place
from drkit.config.tables.client_properties import ROLES, acts, nearest
from drkit.config.tables.cluster import merged_client
from drkit.config.tables.fields import as_kafka_writes_it, suggestion
from drkit.config.tables.security_properties import PROTOCOLS, is_misspelt

ClientCheck = Callable[[Mapping[str, str], Collection[str]], Iterable[tuple[str, str, str]]]
"""Find what keeps a client with these properties from connecting, without a broker.

Takes the properties and the names of those whose values are unknown; returns (property, what, hint).
"""
_NO_PROPERTY: Final = "no client of Kafka's has a property of this name"
_SECURITY_PAGE: Final = "the properties and their values: drkit explain security"
_SIDES: Final = {"source": ("source_consumer", "source_admin"), "target": ("target_producer", "target_admin")}
"""Alias of a flow → the settings with client properties of its roles there."""


class _Connection(NamedTuple):
    """The client properties of one connection."""

    at: str
    """Path of the table in which a missing property belongs."""
    properties: dict[str, str]
    places: dict[str, str]
    """Property → path of its setting."""

    def over(self, other: _Connection) -> _Connection:
        """Return the connection of a role: these properties over those of the cluster."""
        return _Connection(
            self.at if self.properties else other.at,
            merged_client(other.properties, {k: v for k, v in self.properties.items() if acts(k)}),
            other.places | self.places,
        )


def unknown_aliases(tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of flows between clusters that the file does not define.

    :param tables: as in the file; values of a wrong type are skipped, as other checks report them
    """
    clusters = tables.get("clusters")
    if not isinstance(clusters, Mapping):
        return
    for at, flow in _tables_of(tables, "flows"):
        for side in _SIDES:
            alias = flow.get(side)
            if isinstance(alias, str) and alias not in clusters:
                yield Problem(place(at, side), f"there is no cluster '{alias}'", suggestion(alias, clusters))


def wrong_properties(tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Find security properties that would be ignored: a misspelt name, an unknown protocol."""
    roles = [_client(flow, at, role) for at, flow in _tables_of(tables, "flows") for role in ROLES]
    own = [*_clusters(tables).values(), *(listener for _, listener in _listeners(tables)), _canary(tables)]
    for one in own:
        for name, at in one.places.items():
            if is_misspelt(name):
                yield Problem(at, _NO_PROPERTY, nearest(name) or _SECURITY_PAGE, is_about_name=True)
    for one in (*own, *roles):  # the model has checked the names of roles
        protocol = one.properties.get("security.protocol")
        if protocol is not None and protocol.upper() not in PROTOCOLS:
            what = f"'{protocol}' is not one of {', '.join(PROTOCOLS)}"
            yield Problem(one.places["security.protocol"], what, _SECURITY_PAGE)


def unusable_connections(
    tables: Mapping[str, Any], check: ClientCheck, unresolved: Collection[str]
) -> Iterator[Problem]:
    """Find what keeps clients from connecting, for each combination of a cluster and a role.

    :param unresolved: paths of settings whose values are unknown
    """
    for one in _connections(tables):
        unknown = [name for name, at in one.places.items() if at in unresolved]
        for name, what, hint in check(one.properties, unknown):
            yield Problem(one.places.get(name, one.at), what, hint)


def _connections(tables: Mapping[str, Any]) -> list[_Connection]:
    clusters, canary = _clusters(tables), _canary(tables)
    found, used = [], set()
    for at, flow in _tables_of(tables, "flows"):
        for side, roles in _SIDES.items():
            if (cluster := clusters.get(str(flow.get(side)))) is not None:
                used.add(str(flow[side]))
                found += [_client(flow, at, role).over(cluster) for role in roles]
                found += [canary.over(cluster)] if canary.properties and side == "source" else []
    # Every role may have its own credentials: then the cluster needs none.
    found += [cluster for alias, cluster in clusters.items() if alias not in used]
    found += [own.over(clusters[alias]) for alias, own in _listeners(tables) if alias in clusters]
    return found


def _clusters(tables: Mapping[str, Any]) -> dict[str, _Connection]:
    clusters = tables.get("clusters")
    if not isinstance(clusters, Mapping):
        return {}
    return {
        a: _client(c, place("clusters", a), "client") for a, c in clusters.items() if isinstance(c, Mapping)
    }


def _listeners(tables: Mapping[str, Any]) -> list[tuple[str, _Connection]]:
    detection = tables.get("detection")
    found = _tables_of(detection, "listeners") if isinstance(detection, Mapping) else ()
    return [(str(t.get("cluster")), _client(t, f"detection.{at}", "client")) for at, t in found]


def _canary(tables: Mapping[str, Any]) -> _Connection:
    failover = tables.get("failover")
    fence = failover.get("fence") if isinstance(failover, Mapping) else None
    return _client(fence if isinstance(fence, Mapping) else {}, "failover.fence", "canary")


def _tables_of(tables: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    found = tables.get(name)
    rows = enumerate(found) if isinstance(found, list) else ()
    return [(place(name, number), row) for number, row in rows if isinstance(row, Mapping)]


def _client(table: Mapping[str, Any], at: str, setting: str) -> _Connection:
    client = as_kafka_writes_it(table.get(setting))
    texts = client.items() if isinstance(client, Mapping) else ()
    own = {name: value.strip() for name, value in texts if isinstance(value, str)}
    return _Connection(place(at, setting), own, {name: place(place(at, setting), name) for name in own})
