"""`drkit reprotect --to`: check that a third cluster can protect the new primary, by an ordinary flow.

Nothing is changed, and the old primary is never asked: it keeps what it has, and its return stays possible.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
import json
from typing import Any

from drkit.checkpoints.group_ledger import wants_checkpoints
from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings
from drkit.counted import first_of
from drkit.errors import ClusterUnreachable, Refused
from drkit.failover.core.reverse import records_of
from drkit.failover.returning.scope import promoted_copies
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.records import ClustersRecord, GenerationRecord
from drkit.kafka.admin import Cluster
from drkit.next_command import typed
from drkit.topic_sync.preview import dry_run
from drkit.topic_sync.rules import refuse_promoted


@dataclass(frozen=True)
class ThirdCluster:
    """The protection of promoted topics by a third cluster."""

    flow: str
    """The flow from the new primary to it."""
    topics: tuple[str, ...]
    continues: bool
    """Whether it has been copied to before, and copying continues; else it begins at each log's start."""
    copied_by: str
    """Host of the replicator that runs, or empty."""
    moves_groups: bool

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return asdict(self)


class NoFlow(Refused):
    """No flow leads to the third cluster."""

    toml: str
    """The table that adds it to the configuration."""


def failed_over(settings: Settings, to: str) -> FlowSettings:
    """Return the only flow whose failover has promoted topics, without flows from or to the third cluster.

    :raises ConfigError: no such flow, or more than one
    :raises DrkitError: a cluster does not answer, and its flow may be the one
    """
    found, silent = [], None
    for flow in settings.flows:
        if to in {flow.source, flow.target}:
            continue
        try:
            found += [flow] if promoted_copies(settings, flow) else []
        except ClusterUnreachable as error:
            silent = error  # of one direction: the other one may be meant
    if len(found) == 1:
        return found[0]
    if silent is not None and not found:
        raise silent
    return settings.one_flow(None)


def third_cluster(settings: Settings, there: FlowSettings, to: str) -> ThirdCluster:
    """Return the protection of a flow's new primary by another cluster.

    :param there: the flow that was failed over
    :param to: alias of the third cluster
    :raises NoFlow: no flow leads to it
    :raises Refused: it is one of the two, was promoted itself, or would not get all of the topics
    :raises DrkitError: the new primary or the third cluster does not answer
    """
    home = typed("drkit", "reprotect", "--flow", there.name)
    if to in {there.source, there.target}:
        role = "the old primary" if to == there.source else "the new primary"
        hint = f"without --to the old primary becomes the standby: {home}"
        evidence = f"it is {role} of {there.name}"
        raise Refused("no_third_cluster", where=f"--to {to}", evidence=evidence, hint=hint)
    settings.cluster(to)
    if not (promoted := sorted(promoted_copies(settings, there))):
        evidence = f"no topic of {there.target} has the role of a primary"
        raise Refused("third_not_promoted", where=f"flow {there.name}", evidence=evidence)
    flow = next((f for f in settings.flows if (f.source, f.target) == (there.target, to)), None)
    if flow is None:
        error = NoFlow(
            "no_flow_to_third",
            where=f"{there.target}->{to}",
            evidence=f"the configuration has {first_of(f.name for f in settings.flows)}",
            hint="add the [[flows]] table that was printed, then the same again; or return to the old"
            f" primary: {home}",
        )
        error.toml = flow_table(there, to, promoted)
        raise error
    _refuse_old_primary(settings, there, flow)
    state = records_of(settings, flow)
    refuse_promoted(flow, state)
    runner = replicator_of(state, wall_ms())
    copied_by = runner.host if runner is not None and runner.alive else ""
    rows = {row["topic"]: row for row in dry_run(settings, [flow])}
    unseen = {"action": "leave out", "reason": "the flow's filters do not choose it"}
    planned = {t: rows.get(t, unseen) for t in promoted}
    if wrong := [f"{t}: {row['reason']}" for t, row in planned.items() if row["action"] == "leave out"]:
        look = typed("drkit", "replicate", "--flow", flow.name, "--dry-run")
        raise Refused("third_incomplete", where=flow.name, evidence=first_of(wrong), look=look)
    return ThirdCluster(
        flow.name, tuple(promoted), bool(state.all(GenerationRecord)), copied_by, wants_checkpoints(flow)
    )


def flow_table(there: FlowSettings, to: str, promoted: list[str]) -> str:
    """Return the table of a flow from the new primary to another cluster, as TOML. Pure.

    Topics and groups are chosen as in the flow that was failed over; where that one gives topics other names,
    they are named.
    """
    same = there.naming == "identity"
    default = FlowSettings(source=there.target, target=to)
    topics = list(there.topics if same else (t.replace(".", r"\.") for t in promoted))
    values: dict[str, Any] = {"source": there.target, "target": to, "topics": topics}
    for name in ("topics_exclude", "groups", "groups_exclude"):
        if (chosen := getattr(there, name)) != getattr(default, name) and (same or name != "topics_exclude"):
            values[name] = list(chosen)
    # JSON's texts and lists of them are TOML's.
    return "\n".join(
        [
            "[[flows]]",
            *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()),
        ]
    )


def _refuse_old_primary(settings: Settings, there: FlowSettings, flow: FlowSettings) -> None:
    third = Cluster.connect(settings.cluster(flow.target).with_client(flow.target_admin)).cluster_id
    known = records_of(settings, there).get(ClustersRecord)
    if known is not None and third in {known.source, known.target}:
        side = there.source if third == known.source else there.target
        hint = "correct bootstrap_servers, then: drkit config check --connect"
        evidence = f"its cluster id {third} is that of {side}"
        raise Refused("no_third_cluster", where=f"[clusters.{flow.target}]", evidence=evidence, hint=hint)
