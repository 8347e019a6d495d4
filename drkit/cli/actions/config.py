"""``drkit config``: the settings, their origins, and whether the clusters answer with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from drkit.checkpoints.group_ledger import group_plan
from drkit.cli.client_check import client_problems
from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.screens.config import grouped_writers, settings_rows, settings_text
from drkit.cli.session import session, to_type
from drkit.config import ClusterSettings, Settings
from drkit.config.schema import editor_schema
from drkit.errors import ConfigError, DrkitError
from drkit.kafka.admin import Cluster, refuse_same_cluster
from drkit.next_command import typed
from drkit.replicate.preflight import refuse_missing
from drkit.topic_sync.acl_sync import acl_plan
from drkit.topic_sync.preview import as_admin, topic_plan
from drkit.topic_sync.writers import UNSEEN, topic_writers


def check(*, connect: bool) -> None:
    """Run ``drkit config check``."""
    loaded = configuration(client_problems)
    loaded.settings.refuse_auto_without_key()
    answer: dict[str, Any] = {"configuration": str(loaded.path), "result": "OK"}
    answer["flows"] = ", ".join(f.name for f in loaded.settings.flows) or "none"
    keys = loaded.settings.control.keys
    answer["control key"] = "none" if keys is None else keys.current.fingerprint
    notes = [(n.at, n.what, n.hint) for n in loaded.notes] + loaded.settings.advice()
    if notes:
        answer["notes"] = [{"level": "note", "setting": at, "note": n, "why": why} for at, n, why in notes]
    if connect:
        clusters = _connected(loaded.settings)
        answer["clusters"] = [
            {"alias": c.alias, "cluster_id": c.cluster_id, "brokers": len(c.brokers)}
            for c in clusters.values()
        ]
        writers = topic_writers(loaded.settings, clusters)
        answer["may_write"] = writers if session().as_json else grouped_writers(writers)
        answer["also_may_write"] = UNSEEN
    emit(answer)


def show(*, plan: bool, everything: bool) -> None:
    """Run ``drkit config show``."""
    loaded = configuration()
    if not plan:
        settings = settings_rows(loaded)
        text = to_type(settings_text(settings, everything=everything))
        emit([row.to_json() for row in settings], shown=[text])
        return
    flows = loaded.settings.flows
    rows = topic_plan(loaded.settings, flows) + acl_plan(loaded.settings, flows)
    rows += group_plan(loaded.settings, flows)
    nothing = "nothing to change: the targets' topics and ACLs are as they should be"
    emit(rows, shown=[rows or nothing])


def schema() -> None:
    """Run ``drkit config schema``."""
    emit(editor_schema(), as_json=True)


def _connected(settings: Settings) -> dict[str, Cluster]:
    """The clusters by alias; raises DrkitError when one does not answer."""
    reached = settings.clusters | as_admin(settings, settings.flows)
    with ThreadPoolExecutor(max(1, len(reached))) as pool:
        tried = list(pool.map(_try, reached.values()))
    for failed in tried:
        if isinstance(failed, DrkitError):
            raise failed
    clusters = {c.alias: c for c in tried if isinstance(c, Cluster)}
    for flow in settings.flows:
        refuse_same_cluster(clusters[flow.source], clusters[flow.target])
    refuse_missing(settings, clusters, settings.flows, strict=True)
    return clusters


def _try(settings: ClusterSettings) -> Cluster | DrkitError:
    try:
        return Cluster.connect(settings)
    except DrkitError as error:
        return error


_HEAD: Final = """\
# drkit's configuration. Every setting, its default and its meaning: drkit explain drkit.reference.toml.
# A value may come from the environment or from a file: "${env:PASSWORD}", "${file:/run/secrets/password}".

[clusters.primary]
bootstrap_servers = "primary-1:9092, primary-2:9092"
# Kafka's own client properties, for a cluster with TLS and SASL:
#[clusters.primary.client]
#"security.protocol" = "SASL_SSL"
#"sasl.mechanism" = "SCRAM-SHA-512"
#"sasl.username" = "drkit"
#"sasl.password" = "${env:PRIMARY_PASSWORD}"

[clusters.standby]
bootstrap_servers = "standby-1:9092, standby-2:9092"

# What is copied, and in which direction. Regular expressions match the whole name.
[[flows]]
source = "primary"
target = "standby"
topics = [".*"]
groups = [".*"]

"""
_ABOUT_BACK: Final = """\
# The flow back: after a failover it protects the new primary (drkit explain failback).
# Both flows keep topic names (naming = "identity", the default). Neither copies what the other wrote.
"""
_BACK: Final = """\
[[flows]]
source = "standby"
target = "primary"
topics = [".*"]
groups = [".*"]
"""
_REST: Final = """
# Where clients read which cluster they use; a failover changes it (drkit explain repointing).
#[[failover.repoint]]
#kind = "file"
#path = "/etc/app/kafka-endpoint.json"

# Observer names allowed to vote, as --observer of drkit watch gives them (drkit explain detection).
#[watch]
#observers = ["obs-a", "obs-b", "obs-c"]

# With a key, drkit's processes believe only each other: drkit control create FILE
# (drkit explain control-key).
#[control]
#key_file = "/etc/drkit/control.key"

# Metrics and a live page of `drkit replicate` (drkit explain metrics).
#[metrics]
#port = 9404
"""


def starter(*, both_ways: bool) -> str:
    """Return a configuration to begin with; the flow back is a comment unless it is wanted."""
    back = _BACK if both_ways else "".join(f"#{line}\n" for line in _BACK.splitlines())
    return _HEAD + _ABOUT_BACK + back + _REST


def init(path: Path, *, both_ways: bool) -> None:
    """Run ``drkit config init``."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter(both_ways=both_ways))
    except OSError as error:
        exists = isinstance(error, FileExistsError)
        raise ConfigError(
            "config_file_exists" if exists else "config_file_unwritable",
            where=str(path),
            evidence=error.strerror or "",
        ) from error
    given = [] if path == Path("drkit.toml") else ["--config", str(path)]
    check = typed("drkit", "config", "check", "--connect", *given)
    emit({"written": str(path), "next": f"put your brokers' addresses into it, then: {check}"})
