"""Checks whether a flow has its permissions on both clusters. Reports all missing ones at once, with ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import re
from typing import Final, NamedTuple

from drkit import observe
from drkit.checkpoints.other_groups import is_consumer
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import NotAuthorized, Refused
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.lease.run_lease import held_by_another
from drkit.flow_state.processes import lives_here
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.access.acls import own_principal
from drkit.kafka.access.permissions import CLUSTER_NAME, Need, Resource, missing
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import listed_groups
from drkit.kafka.security.settings import read_security
from drkit.kafka.topics import broker_config, topic_names
from drkit.next_command import quoted
from drkit.replicate.required_acls import copying, for_settings, moving, together
from drkit.replicate.flow_thread import waits_for_return
from drkit.replicate.required_acls import Sides, SourceNames
from drkit.topic_sync.rules import refuse_promoted
from drkit.topology.acls import AclOperation

_PLAIN_NAME: Final = re.compile(r"[\w-]+(?:\\?\.[\w-]+)*")
_LETTERS: Final = re.compile(r"(?:(?:[\w-]|\\[.-])(?![*?+{]))*")
_ALL: Final = "*"
_SHOWN: Final = 20
_SEE_GROUPS: Final = Need(Resource.CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE, "list all groups")
_Both = tuple[ClusterSettings, ClusterSettings]


class Lack(NamedTuple):
    """A permission that one of drkit's principals does not have."""

    alias: str
    principal: str
    tool: str
    """The beginning of the command that grants it."""
    need: Need


def refuse_missing(
    settings: Settings,
    clusters: Mapping[str, Cluster],
    flows: Iterable[FlowSettings],
    *,
    strict: bool = False,
) -> None:
    """Ask both clusters of every flow for what copying needs.

    Topics and groups that the principal cannot see are not asked for, unless the flow names them without a
    pattern.

    :param clusters: as the flows' admin clients reach them
    :param strict: also for what settings need beside that
    :raises NotAuthorized: something is missing; all of it is named
    """
    lacking: list[Lack] = []
    without: list[str] = []
    for flow in flows:
        topics, sides = _topics(clusters[flow.source], flow), _sides(clusters, flow)
        to_copy, to_move = copying(flow, topics), moving(flow, topics)
        if (tasks := settings.task_sides(flow)) == sides:
            lacking += _lacking(sides, together(to_copy, to_move))
        else:
            lacking += _lacking(sides, to_copy) + _lacking(tasks, to_move)
        if strict:
            for setting, found in _for_settings(clusters, flow, once=False).items():
                lacking += found
                without.append(setting)
    if lacking:
        raise _refusal(list(dict.fromkeys(lacking)), list(dict.fromkeys(without)))


def refuse_unready(target: Cluster, flow: FlowSettings, *, once: bool = False) -> Refused | None:
    """Refuse a target that no run can work with, asked before Spark takes its seconds to start.

    :returns: the refusal of a flow that another process of this machine runs; one elsewhere may be dead
    :raises NotAuthorized: drkit's principal lacks a right; the error names where
    :raises Refused: the target was promoted, and the flow does not wait for a return
    """
    ensure_state_topic(target, flow)
    broker_config(target)
    with StateTopic(target.settings, flow.source) as state:
        state.load()
        if not waits_for_return(flow, once=once):
            refuse_promoted(flow, state.records)
        lease = state.get(LeaseRecord)
    return held_by_another(flow.name, lease) if lease is not None and lives_here(lease.holder) else None


def tell_missing(clusters: Mapping[str, Cluster], flows: Iterable[FlowSettings], *, once: bool) -> None:
    """Emit an event for each setting that needs a missing permission; the copy continues without it.

    :param once: a copy with an end writes no heartbeats
    """
    for flow in flows:
        for setting, lacking in _for_settings(clusters, flow, once=once).items():
            observe.event("permissions_missing", level="warning", flow=flow.name, lacks=_lines(lacking),
                          hint="\n".join([*_commands(lacking), f"or {setting}"]))  # fmt: skip


def _sides(clusters: Mapping[str, Cluster], flow: FlowSettings) -> _Both:
    return clusters[flow.source].settings, clusters[flow.target].settings


def _for_settings(
    clusters: Mapping[str, Cluster], flow: FlowSettings, *, once: bool
) -> dict[str, list[Lack]]:
    """What is missing for settings, by those with which drkit does without."""
    source = clusters[flow.source]
    seen = SourceNames(_topics(source, flow), _groups(source, flow))
    wanted = for_settings(flow, seen, once=once)
    needs = zip(*wanted.values(), strict=True) if wanted else ((), ())
    all_needs = Sides(*(tuple(dict.fromkeys(n for group in side for n in group)) for side in needs))
    lacking = _lacking(_sides(clusters, flow), all_needs)
    found = {
        setting: [x for x in lacking if x.need in (sides.source if x.alias == flow.source else sides.target)]
        for setting, sides in wanted.items()
    }
    return {setting: lacks for setting, lacks in found.items() if lacks}


def _topics(source: Cluster, flow: FlowSettings) -> tuple[str, ...]:
    """Topics that exist, or that may exist and are hidden from drkit."""
    return tuple(sorted(t for t in {*topic_names(source), *_plain(flow.topics)} if flow.copies(t)))


def _groups(source: Cluster, flow: FlowSettings) -> tuple[str, ...]:
    """Groups that exist; where none is visible and some may exist, what their names begin with."""
    existing = {g for g, x in listed_groups(source.settings).items() if is_consumer(x)}
    found = {g for g in existing | _plain(flow.groups) if flow.group_filter.accepts(g)}
    if not found and missing(source.settings, [_SEE_GROUPS]):
        found = {_beginning(p) or _ALL for p in flow.groups}
    return tuple(sorted(found))


def _beginning(pattern: str) -> str:
    """The letters with which every name begins that a pattern accepts."""
    text = _LETTERS.match(pattern)
    return text[0].replace("\\", "") if text and "|" not in pattern else ""


def _plain(patterns: Iterable[str]) -> set[str]:
    """The names among some patterns."""
    return {p.replace("\\", "") for p in patterns if _PLAIN_NAME.fullmatch(p)}


def _lacking(both: _Both, needs: Sides) -> list[Lack]:
    return [
        Lack(settings.alias, principal(settings), _tool(settings), need)
        for settings, wanted in zip(both, needs, strict=True)
        for need in (missing(settings, wanted) if wanted else ())
    ]


def _refusal(lacking: Sequence[Lack], without: Sequence[str]) -> NotAuthorized:
    hints = [*_commands(lacking), *(f"or, to do without: {setting}" for setting in without)]
    return NotAuthorized(
        "permissions_missing",
        where=", ".join(dict.fromkeys(f"{x.alias} as {x.principal}" for x in lacking)),
        evidence="\n".join(_lines(lacking)),
        hint="\n".join(hints),
        count=len(lacking),
        plural="s" if len(lacking) > 1 else "",
    )


def _lines(lacking: Sequence[Lack]) -> list[str]:
    """As in ``kafka-acls --list``, with the cluster and the reason."""
    groups: dict[tuple[str, Need], list[str]] = {}
    for alias, _, _, need in lacking:
        groups.setdefault((alias, _family(need)), []).append(need.name)
    lines = [f"{alias}: {need._replace(name=_listed(names))}" for (alias, need), names in groups.items()]
    return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"… and {len(lines) - _SHOWN} more"]


def _family(need: Need) -> Need:
    """The same for all transactional ids, as a flow has two for each bucket; any other need itself."""
    return need._replace(name="") if need.resource is Resource.TRANSACTIONAL_ID else need


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _commands(lacking: Sequence[Lack]) -> list[str]:
    """The commands that grant all of it, one for each resource; one for all transactional ids."""
    wanted: dict[tuple[str, Resource, str], tuple[dict[str, None], dict[str, None]]] = {}
    for _, _, tool, need in lacking:
        operation = "".join(word.capitalize() for word in need.operation.name.split("_"))
        operations, resources = wanted.setdefault((tool, need.resource, _family(need).name), ({}, {}))
        operations[f"--operation {operation}"] = None
        resources[_resource(need)] = None
    found = [" ".join((tool, *operations, *of)) for (tool, *_), (operations, of) in wanted.items()]
    if len(found) > _SHOWN:
        more = (
            f"… and {len(found) - _SHOWN} more; fewer by the beginnings of names: see drkit explain security"
        )
        found = [*found[:_SHOWN], more]
    return ["as an administrator:", *found]


def _resource(need: Need) -> str:
    return {
        Resource.TOPIC: f"--topic {quoted(need.name)}",
        Resource.GROUP: f"--group {quoted(need.name)}",
        Resource.CLUSTER: "--cluster",
        Resource.TRANSACTIONAL_ID: f"--transactional-id {quoted(need.name)}",
    }[need.resource]


def _tool(settings: ClusterSettings) -> str:
    tool = f"kafka-acls --bootstrap-server {settings.bootstrap_servers}"
    if read_security(settings).protocol != "PLAINTEXT":
        tool += " --command-config admin.properties"
    who = principal(settings)
    return f"{tool} --add --allow-principal {quoted(who if ':' in who else 'User:NAME')}"


def principal(settings: ClusterSettings) -> str:
    """The principal of drkit on a cluster, as far as the settings show it."""
    if (own := own_principal(settings)) is not None:
        return own
    sasl = read_security(settings).sasl
    if sasl is None:
        return "the name in its client certificate"
    name = sasl.oauth.client_id if sasl.oauth else sasl.principal
    return f"User:{name}" if name else "the principal of its ticket"
