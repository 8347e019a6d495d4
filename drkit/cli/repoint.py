"""``drkit repoint``: where clients are told to go, and telling them by hand."""

from __future__ import annotations

from typing import Any, Final

import click

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.endpoint import Endpoint
from drkit.errors import ConfigError, DrkitError, Failed, Refused
from drkit.kafka.admin import Cluster
from drkit.repoint import Way, adapters, endpoint_of, tell_all

_MUTE: Final = ("command", "webhook", "print")
"""Kinds whose receivers alone know what they were told."""


def show() -> None:
    """Run ``drkit repoint show``."""
    emit([_row(way) for way in _ways()])


def apply(alias: str, term: int | None) -> None:
    """Run ``drkit repoint apply``."""
    settings = configuration().settings.cluster(alias)
    ways = _ways()
    known = [told for way in ways if (told := _told(way)) is not None]
    newest = max(known, key=lambda e: e.term, default=None)
    wanted = term if term is not None else newest.term if newest else 0
    if newest and newest.cluster != alias and term is None:
        raise Refused(
            f"clients are on {newest.cluster}",
            where=", ".join(way.adapter.name for way in ways),
            evidence=f"they were told so in term {newest.term}",
            hint=f"drkit failover moves them; to tell them all the same: --term {newest.term + 1}",
        )
    cluster = Cluster.connect(settings)
    # What a failover has renamed keeps its names: only a failover knows them.
    topics = newest.topics if newest and newest.cluster == alias else None
    endpoint = endpoint_of(settings, term=wanted, cluster_id=cluster.cluster_id, topics=topics)
    outcomes = tell_all(ways, endpoint)
    emit([o._asdict() | {"error": o.error.in_short if o.error else None} for o in outcomes])
    failed = [o for o in outcomes if not o.result.is_done]
    if failed:
        raise failed[0].error or Failed("clients were not told", where=failed[0].name)


def _told(way: Way) -> Endpoint | None:
    """What it tells now; of one that cannot be asked nobody knows, and telling it will say why."""
    try:
        return way.adapter.told()
    except DrkitError:
        return None


def _ways() -> list[Way]:
    found = adapters(configuration().settings.failover.repoint, say=lambda line: click.echo(line, err=True))
    if not found:
        raise ConfigError(
            "no way to tell clients is configured",
            where="failover.repoint",
            hint='set repoint = [ { kind = "file", path = "/etc/app/kafka-endpoint.json" } ] in [failover]',
        )
    return found


def _row(way: Way) -> dict[str, Any]:
    name = way.adapter.name
    told: Endpoint | None = None
    remark = "nobody can be asked" if name.split()[0] in _MUTE else "nothing yet"
    try:
        told = way.adapter.told()
    except DrkitError as error:
        remark = error.in_short
    if told is None:
        return {"way": name, "cluster": None, "term": None, "servers": None, "remark": remark}
    return {"way": name, "cluster": told.cluster, "term": told.term,
            "servers": told.bootstrap_servers, "remark": ""}  # fmt: skip
