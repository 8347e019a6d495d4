"""Effect of a changed configuration on running flows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from drkit.config.tables.client_properties import ROLES
from drkit.config.tables.flow import FlowSettings
from drkit.config.tables.settings import Settings
from drkit.masking import MASK, is_secret, shown

LIVE: Final = (
    "topics",
    "topics_exclude",
    "groups",
    "groups_exclude",
    "refresh_topics_interval_seconds",
    "replication_factor",
    "sync_topic_configs",
    "sync_topic_configs_interval_seconds",
    "sync_topic_configs_delay_seconds",
    "config_properties_exclude",
    "use_defaults_from",
    "sync_topic_acls",
    "sync_topic_acls_interval_seconds",
    "guard_passive_topics",
    "on_source_recreated",
    "on_source_deleted",
    "on_target_deleted",
    "on_target_not_empty",
    "heartbeats_replication",
    "heartbeats_interval_seconds",
    "checkpoint_interval_seconds",
    "sync_group_offsets_interval_seconds",
    "on_source_group_deleted",
    "open_transaction_seconds",
)
"""Settings that a running flow applies: those that only its driver reads."""


_AT_START: Final = (
    ("metrics", "port"),
    ("metrics", "host"),
    ("metrics", "labels"),
    ("failover", "rpo_seconds"),
)
"""Settings of the whole process."""


class AppliedChange(NamedTuple):
    """New values of a flow's settings, and a line about each."""

    values: dict[str, Any]
    lines: tuple[str, ...]


class Changes(NamedTuple):
    """The difference between the running settings and the file.

    :param live: changes that flows apply at once, by the flow's name
    :param restart: changes that need a restart, as ``flows.A->B.tasks: 2 → 4``
    """

    live: dict[str, AppliedChange]
    restart: tuple[str, ...]


def changes(running: Settings, names: Iterable[str], wanted: Settings) -> Changes:
    """Compare the running settings with those of the file.

    :param names: the flows that this process runs; others are not compared
    """
    live: dict[str, AppliedChange] = {}
    restart: list[str] = []
    in_file = {f.name: f for f in wanted.flows}
    flows = [running.flow(name) for name in names]
    for flow in flows:
        if flow.name not in in_file:
            restart.append(f"flows.{flow.name}: it is no longer in the file")
            continue
        values = {n: getattr(in_file[flow.name], n) for n in FlowSettings.model_fields}
        changed = {n: _line(n, getattr(flow, n), v) for n, v in values.items() if getattr(flow, n) != v}
        if taken := [n for n in changed if n in LIVE]:
            live[flow.name] = AppliedChange({n: values[n] for n in taken}, tuple(changed[n] for n in taken))
        restart += [f"flows.{flow.name}.{line}" for n, line in changed.items() if n not in LIVE]
    known = {f.name for f in running.flows}
    restart += [f"flows.{name}: it is new in the file" for name in in_file if name not in known]
    restart += _clusters(running, flows, wanted)
    restart += [
        f"{table}.{_line(name, before, after)}"
        for table, name in _AT_START
        if (before := getattr(getattr(running, table), name))
        != (after := getattr(getattr(wanted, table), name))
    ]
    if running.drills != wanted.drills:
        restart.append("drills: their metrics")
    if running.control != wanted.control:
        restart.append("control: the control key")
    return Changes(live, tuple(restart))


def combined(running: Settings, found: Changes) -> Settings:
    """The running settings with only the live changes applied."""
    flows = tuple(
        f.model_copy(update=found.live[f.name].values) if f.name in found.live else f for f in running.flows
    )
    return running.model_copy(update={"flows": flows})


def _clusters(running: Settings, flows: Iterable[FlowSettings], wanted: Settings) -> list[str]:
    changed = []
    for alias in dict.fromkeys(a for f in flows for a in (f.source, f.target)):
        before, after = running.clusters[alias], wanted.clusters.get(alias)
        if after is None:
            continue  # its flows are gone too, and that is reported
        if before.bootstrap_servers != after.bootstrap_servers:
            servers = _line("bootstrap_servers", before.bootstrap_servers, after.bootstrap_servers)
            changed.append(f"clusters.{alias}.{servers}")
        changed += [f"clusters.{alias}.client.{name}" for name in _different(before.client, after.client)]
    return changed


def _different(running: dict[str, str], wanted: dict[str, str]) -> list[str]:
    return sorted(n for n in {*running, *wanted} if running.get(n) != wanted.get(n))


def _line(name: str, before: Any, after: Any) -> str:
    """One changed setting; of client properties only the names, as values may be secret."""
    if name in ROLES:
        return f"{name}: {', '.join(_different(before, after))}"
    if is_secret(name):
        return f"{name}: {MASK}"
    return f"{name}: {_shown(shown(name, before))} → {_shown(shown(name, after))}"


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
