"""Which topics wait for a return: promoted on the new primary, and not copied back to the old one yet."""

from __future__ import annotations

from collections.abc import Iterator

from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable
from drkit.failover.core.reverse import state_of
from drkit.flow_state.records import GenerationRecord, ReturnRecord, RoleRecord
from drkit.flow_state.returns import still_away


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


def switched(settings: Settings, there: FlowSettings, back: FlowSettings) -> list[str]:
    """The topics that wait and that a switchover has promoted, by their names on the old primary.

    It has no record of its own there: no decision is needed. What the flow back does not copy waits for a
    person.

    :param there: the flow whose failover has promoted topics
    :param back: the flow in the other direction
    :raises DrkitError: a cluster does not answer
    """
    found = waiting(settings, there, back).items()
    waits = {topic for topic, role in found if role.planned and back.copies(topic)}
    with state_of(settings, there) as state:
        topics = state.all(GenerationRecord) if state is not None and waits else {}
    return sorted(name for name, record in topics.items() if record.target in waits)


def may_wait(settings: Settings, there: FlowSettings, back: FlowSettings) -> bool:
    """Whether topics wait, or may wait as far as is known while the old primary does not answer.

    :param there: the flow whose failover has promoted topics
    :param back: the flow in the other direction
    :raises DrkitError: the new primary does not answer
    """
    found = _roles(settings, there)
    if not found:
        return False
    try:
        return bool(_waits(settings, found, back))
    except ClusterUnreachable:
        return True


def died(settings: Settings, there: FlowSettings) -> bool:
    """Whether clients are where an unplanned failover has moved them.

    :param there: the flow that may have been failed over
    :raises DrkitError: the new primary does not answer
    """
    return any(not role.planned for role in _roles(settings, there).values())


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
    found = _roles(settings, there)
    waits = _waits(settings, found, back) if found else {}
    return waits, {t: r for t, r in found.items() if t not in waits}


def _roles(settings: Settings, there: FlowSettings) -> dict[str, RoleRecord]:
    """The promoted topics, by their names on the new primary."""
    with state_of(settings, there) as state:
        if state is None:
            return {}
        topics, roles = state.all(GenerationRecord), state.all(RoleRecord).items()
        return {topics[name].target: role for name, role in roles if role.is_promoted and name in topics}


def _waits(settings: Settings, promoted: dict[str, RoleRecord], back: FlowSettings) -> dict[str, RoleRecord]:
    with state_of(settings, back) as state:
        known = state.all(ReturnRecord) if state is not None else {}
    return still_away(promoted, {t: t for t in promoted}, known)
