"""``drkit repoint``: the published client endpoint, and publishing it by hand."""

from __future__ import annotations

from typing import Any, Final

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.talk import say
from drkit.errors import ConfigError, Failed, Refused
from drkit.kafka.admin import Cluster
from drkit.repoint import CurrentEndpoint, Way, adapters, ask_all, endpoint_of, tell_all

_MUTE: Final = ("command", "webhook", "print")
"""Kinds whose published endpoint cannot be read back."""


def show() -> None:
    """Run ``drkit repoint show``."""
    emit([_row(asked) for asked in ask_all(_ways())])


def apply(alias: str, term: int | None) -> None:
    """Run ``drkit repoint apply``."""
    settings = configuration().settings.cluster(alias)
    ways = _ways()
    known = [asked.endpoint for asked in ask_all(ways) if asked.endpoint is not None]
    newest = max(known, key=lambda e: e.term, default=None)
    wanted = term if term is not None else newest.term if newest else 0
    if newest and newest.cluster != alias and term is None:
        raise Refused(
            "clients_elsewhere",
            where=", ".join(way.adapter.name for way in ways),
            evidence=f"repointed there in term {newest.term}",
            cluster=newest.cluster,
            term=newest.term + 1,
        )
    cluster = Cluster.connect(settings)
    # Renamed topics keep their names in the endpoint: only a failover knows them.
    topics = newest.topics if newest and newest.cluster == alias else None
    endpoint = endpoint_of(settings, term=wanted, cluster_id=cluster.cluster_id, topics=topics)
    outcomes = tell_all(ways, endpoint)
    emit([o._asdict() | {"error": o.error.in_short if o.error else None} for o in outcomes])
    failed = [o for o in outcomes if not o.result.is_done]
    if failed:
        raise failed[0].error or Failed("clients_not_repointed", where=failed[0].name)


def _ways() -> list[Way]:
    found = adapters(configuration().settings.failover.repoint, say=say)
    if not found:
        raise ConfigError("no_repoint_configured", where="failover.repoint")
    return found


def _row(asked: CurrentEndpoint) -> dict[str, Any]:
    name, endpoint, error = asked
    remark = "cannot be queried" if name.split()[0] in _MUTE else "nothing yet"
    if endpoint is None:
        remark = error.in_short if error is not None else remark
        return {"way": name, "cluster": None, "term": None, "servers": None, "remark": remark}
    return {"way": name, "cluster": endpoint.cluster, "term": endpoint.term,
            "servers": endpoint.bootstrap_servers, "remark": ""}  # fmt: skip
