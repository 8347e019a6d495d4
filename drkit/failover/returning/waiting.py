"""Which topics wait for a return: promoted on the new primary, and not copied back to the old one yet."""

from __future__ import annotations

from collections.abc import Iterator

from drkit.config import FlowSettings, Settings
from drkit.failover.core.reverse import state_of
from drkit.flow_state.records import GenerationRecord, ReturnRecord, RoleRecord


def pairs_of_flows(settings: Settings) -> Iterator[tuple[FlowSettings, FlowSettings]]:
    """Every flow that has one in the other direction, with that one."""
    for there in settings.flows:
        for back in settings.flows:
            if (back.source, back.target) == (there.target, there.source):
                yield there, back


def waiting(settings: Settings, there: FlowSettings, back: FlowSettings) -> dict[str, RoleRecord]:
    """The topics that wait, by their names on the new primary.

    :param there: the flow whose failover has promoted topics
    :param back: the flow in the other direction
    :raises DrkitError: a cluster does not answer
    """
    return _promoted(settings, there, back)[0]


def returned(settings: Settings, there: FlowSettings, back: FlowSettings) -> dict[str, RoleRecord]:
    """The promoted topics that are copied back since, by their names on the new primary.

    :param there: the flow whose failover has promoted topics
    :param back: the flow in the other direction
    :raises DrkitError: a cluster does not answer
    """
    return _promoted(settings, there, back)[1]


def _promoted(
    settings: Settings, there: FlowSettings, back: FlowSettings
) -> tuple[dict[str, RoleRecord], dict[str, RoleRecord]]:
    """The promoted topics: those that wait, and those that are copied back."""
    with state_of(settings, there) as state:
        if state is None:
            return {}, {}
        topics, roles = state.all(GenerationRecord), state.all(RoleRecord).items()
        found = {topics[name].target: role for name, role in roles if role.is_promoted and name in topics}
    if not found:
        return {}, {}
    with state_of(settings, back) as state:
        known = state.all(ReturnRecord) if state is not None else {}
    waits = {t: r for t, r in found.items() if t not in known or known[t].promoted_by != r.run_id}
    return waits, {t: r for t, r in found.items() if t not in waits}
