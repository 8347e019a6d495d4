"""The identity of the old primary: the cluster that was copied, or another that replaces it.

Facts in the flow's state about the old cluster do not hold for another one: its fences, and the producers
whose records are left out, since each cluster gives out producer ids of its own. The old one's id stays on
record: an export of its records is worth as much as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from drkit.errors import Refused
from drkit.failover.core.commands import retry_command
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepEffect
from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.creation import note_clusters
from drkit.flow_state.records import (
    ClustersRecord,
    FenceAclsRecord,
    FenceSizesRecord,
    FormerSourcesRecord,
    PendingFence,
    SkipsRecord,
)
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster

ANOTHER: Final = "another cluster"
"""The effect of CONTACT; its details hold the earlier records."""
_OF_THE_OLD_ONE: Final[tuple[type[StateRecord], ...]] = (
    ClustersRecord, FenceAclsRecord, FenceSizesRecord, SkipsRecord,
)  # fmt: skip
_GIVEN_BACK: Final[tuple[type[StateRecord], ...]] = (*_OF_THE_OLD_ONE, PendingFence, FormerSourcesRecord)
"""By an abort: these, the pending fence, which another cluster got, and which clusters were the source."""


def is_another(context: Context) -> bool:
    """Return whether the old primary's name leads to another cluster, named as its successor.

    :raises Refused: it leads to another cluster that was not named, or the successor is still elsewhere
    :raises DrkitError: it does not answer
    """
    known, successor = context.state.get(ClustersRecord), context.request.new_primary
    cluster_id = Cluster.connect(context.source_settings).cluster_id
    effect = context.effects(StepName.CONTACT).get(ANOTHER)
    if effect is not None and effect["intent"]["cluster_id"] == cluster_id:
        return True
    if known is None or known.source == cluster_id:
        if successor and successor != cluster_id:
            raise _refused(context, f"its cluster id is {cluster_id}, --new-primary names {successor}")
        return False
    if cluster_id != successor:
        raise _refused(context, f"its cluster id is {cluster_id}, the flow copied {known.source}")
    return True


def refuse_another(context: Context) -> None:
    """Refuse to change, outside a failback, another cluster than the copied one. Raises Refused."""
    is_another(context)  # outside a return no successor is named


def planned_identity(context: Context) -> list[StepEffect]:
    """Return what :func:`identify` would do. Raises as :func:`is_another`."""
    if not is_another(context):
        return []
    reason = "what only the old one had is unknown"
    return [StepEffect("take another cluster for the old primary", context.flow.source, reason)]


def identify(context: Context) -> list[str]:
    """Check the old primary's cluster id; of another cluster, forget the old one's records. Returns notes."""
    if not is_another(context):
        return []
    state, effects = context.state, context.effects(StepName.CONTACT)
    cluster_id = Cluster.connect(context.source_settings).cluster_id
    if ANOTHER in effects:
        before: dict[str, Any] = effects[ANOTHER]["intent"]["before"]
    else:
        records = {kind.KEY: state.get(kind) for kind in _GIVEN_BACK}
        before = {key: None if r is None else r.to_json() for key, r in records.items()}
    old = (before[ClustersRecord.KEY] or {}).get("source")
    lost = f"what only the cluster {old} had is unknown"
    notes = [f"{context.flow.source} is another cluster now, {cluster_id}: {lost}"]
    if ANOTHER in effects and effects[ANOTHER]["result"] is not None:
        return notes  # the fences on record are those of the new one by now
    with context.effect(StepName.CONTACT, ANOTHER, before=before, cluster_id=cluster_id) as outcome:
        forgotten = {kind.KEY for kind in _OF_THE_OLD_ONE}
        outcome["forgotten"] = [key for key, r in before.items() if r is not None and key in forgotten]
        for kind in _OF_THE_OLD_ONE:
            known = state.get(kind)
            if isinstance(known, ClustersRecord):
                note_clusters(state, replace(known, source=cluster_id))
            elif known is not None and known.to_json() == before[kind.KEY]:
                state.delete(kind)
    return notes


def forget_another(context: Context) -> None:
    """Put back what :func:`identify` replaced, where nothing has been written since.

    So is a fence of the old cluster that is pending: only another cluster was fenced meanwhile.

    :raises DrkitError: the state cannot be written
    """
    effect = context.effects(StepName.CONTACT).get(ANOTHER)
    if effect is None:
        return
    for kind in _GIVEN_BACK:
        before, known = effect["intent"]["before"].get(kind.KEY), context.state.get(kind)
        is_changed = isinstance(known, ClustersRecord | FormerSourcesRecord)
        if before is not None and (known is None or is_changed):
            context.state.put(kind.of(before))
        elif before is None and isinstance(known, FormerSourcesRecord):
            context.state.delete(kind)


def _refused(context: Context, evidence: str) -> Refused:
    return Refused(
        "old_primary_replaced",
        where=context.flow.source,
        evidence=evidence,
        source=context.flow.source,
        command=retry_command(context, RunRequest(new_primary="CLUSTER_ID")),
    )
