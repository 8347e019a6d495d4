"""The other flows of a run's clusters: the one in the other direction, and those to further clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.errors import ClusterUnreachable, ConfigError, NotAuthorized, Refused
from drkit.failover.core.context import Context
from drkit.flow_state.creation import ensure_state_topic
from drkit.flow_state.names import state_topic
from drkit.flow_state.records import GenerationRecord, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.flow_state.unreplayed import Unreplayed, unreplayed
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.compacted import NewestValues, newest_values
from drkit.kafka.topics import describe_topics


class Reverse(NamedTuple):
    """The reverse flow, whose target is the old primary."""

    flow: FlowSettings
    target: ClusterSettings
    """The old primary, with the identity with which the reverse flow is administered there."""
    state: StateTopic
    """Its state on the old primary, loaded."""


def opposite_flow(settings: Settings, flow: FlowSettings) -> FlowSettings | None:
    """Return the flow in the other direction between the same clusters, or None if not configured."""
    return next((f for f in settings.flows if f.has_opposite_in([flow])), None)


def required_opposite(settings: Settings, flow: FlowSettings) -> FlowSettings:
    """Return the flow in the other direction. Raises ConfigError: it is not configured."""
    if (opposite := opposite_flow(settings, flow)) is not None:
        return opposite
    raise ConfigError(
        "no_reverse_flow",
        where="[[flows]]",
        evidence=f"there is {first_of(f.name for f in settings.flows)}",
        target=flow.target,
        source=flow.source,
    )


def reverse_flow(context: Context) -> FlowSettings:
    """Return the flow from the new primary to the old one. Raises ConfigError: it is not configured."""
    return required_opposite(context.settings, context.flow)


@contextmanager
def reverse(context: Context) -> Iterator[Reverse]:
    """Open the reverse flow and its state, created where it is missing. Raises ConfigError or DrkitError."""
    flow = reverse_flow(context)
    target = context.settings.cluster(flow.target).with_client(flow.target_admin)
    ensure_state_topic(Cluster.connect(target), flow)
    with StateTopic(target, flow.source) as state:
        state.load()
        yield Reverse(flow, target, state)


def reverse_state(context: Context) -> FlowState:
    """Return the reverse flow's state on the old primary; empty where it never ran. Raises DrkitError."""
    name, cluster = state_topic(context.flow.target), Cluster.connect(context.source_settings)
    values = newest_values(cluster, [name], verified=True).get(name, NewestValues())
    return FlowState.of(values, f"{name} on {context.flow.source}", values.refused)


@contextmanager
def state_of(settings: Settings, flow: FlowSettings) -> Iterator[StateTopic | None]:
    """Open the state of a flow, loaded; None where it never ran. Raises DrkitError: its target is silent."""
    target = settings.cluster(flow.target).with_client(flow.target_admin)
    name = state_topic(flow.source)
    if name not in describe_topics(Cluster.connect(target), [name]):
        yield None
        return
    with StateTopic(target, flow.source) as state:
        state.load()
        yield state


def records_of(settings: Settings, flow: FlowSettings) -> FlowState:
    """Return what a flow's state has; empty where it never ran. Raises DrkitError: its target is silent."""
    with state_of(settings, flow) as state:
        return state.records if state is not None else FlowState()


def unreplayed_on_source(context: Context) -> list[Unreplayed]:
    """Return what a failback has left to append to a flow's source, in the scope. Raises DrkitError."""
    state = reverse_state(context)
    known = state.all(GenerationRecord)
    topics = {t for t, copy in known.items() if copy.target in context.scope.topics}
    return unreplayed(state, topics)


def not_replayed(flow: str, found: Sequence[Unreplayed]) -> Refused:
    """Return the refusal of a switchover that would leave such records (at least one) behind."""
    return Refused(
        "unreplayed",
        where=flow,
        evidence=first_of(f"{each.in_words}, {each.record.manifest}" for each in found),
        topics=counted(len(found), "topic"),
        command=found[0].command,
        to_give_up=found[0].to_give_up,
    )


def states_elsewhere(context: Context) -> Iterator[tuple[str, FlowState]]:
    """Yield the flows from the old primary to other clusters of the configuration, with their states.

    A cluster that does not answer, or shows no state to drkit, is left out.
    """
    source, name = context.flow.source, state_topic(context.flow.source)
    for alias in sorted(context.settings.clusters.keys() - {source, context.flow.target}):
        with suppress(ClusterUnreachable, NotAuthorized):
            cluster = Cluster.connect(context.settings.cluster(alias))
            yield f"{source}->{alias}", FlowState.of(newest_values(cluster, [name]).get(name) or {})


def promoted_elsewhere(context: Context) -> dict[str, str]:
    """Return topics of the scope that another flow of the same source has promoted, and that flow."""
    return {
        topic: flow
        for flow, state in states_elsewhere(context)
        for topic, role in state.readable(RoleRecord).items()
        if role.is_promoted and topic in context.scope.topics
    }
