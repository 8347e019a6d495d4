"""The other flows of a run's clusters: the one in the other direction, and those to further clusters.

The target's state is at hand. The opposite flow's state is on the source, and is read where that answers;
where it does not, the target's record of the opposite flow's fences, and its topics' settings, show whether a
role is still true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from drkit import observe
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.errors import ClusterUnreachable, ConfigError, DrkitError, NotAuthorized, Refused
from drkit.failover.core.context import Context
from drkit.flow_state.creation import ensure_offset_map, ensure_state_topic
from drkit.flow_state.names import state_topic, target_of_fence_topic
from drkit.flow_state.records import (
    ClustersRecord,
    ConfigsRecord,
    GenerationRecord,
    OppositePromotionRecord,
    PendingLift,
    RoleRecord,
    StateRecord,
)
from drkit.flow_state.source_fence.entries import FenceLog, FenceRecord
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.flow_state.unreplayed import Unreplayed, unreplayed
from drkit.journal.entries import JournalHistory
from drkit.journal.machine import FAILOVER, TABLES
from drkit.journal.topic import JournalReader
from drkit.kafka.admin import Cluster, reach
from drkit.kafka.raw import RawCluster
from drkit.kafka.reading.compacted import NewestValues, newest_values
from drkit.kafka.requests import all_topics, metadata
from drkit.kafka.topics import describe_topics, topic_configs
from drkit.pair.promotions import are_opposite, promoted_of, to_reprotect
from drkit.pair.view import (
    Observation,
    PairRoles,
    Refusing,
    observation_of,
    pair_view,
    promotions_in,
    roles_in,
    untold,
)
from drkit.status.pair.facts import acls_of, fenced_topics, sizes_of
from drkit.status.pair.journal import RunUnderWay
from drkit.status.pair.reading import refusing_by_size, refusing_topics
from drkit.topology.acls import Acl
from drkit.topology.topic_configs import MAX_MESSAGE_BYTES, PASSIVE, own_value

_NO_TOPIC: Final = UUID(int=0)
"""Kafka's id of no topic: the one on the lost cluster is unknown."""


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
    _, target = context.settings.sides(flow)
    ensure_state_topic(Cluster.connect(target), flow)
    with StateTopic(target, flow.source) as state:
        state.load()
        yield Reverse(flow, target, state)


def reverse_state(context: Context) -> FlowState:
    """Return the reverse flow's state on the old primary; empty where it never ran. Raises DrkitError."""
    return _read_state(Cluster.connect(context.source_settings), opposite_of(context.flow))


@contextmanager
def state_of(settings: Settings, flow: FlowSettings) -> Iterator[StateTopic | None]:
    """Open the state of a flow, loaded; None where it never ran. Raises DrkitError: its target is silent."""
    _, target = settings.sides(flow)
    with StateTopic(target, flow.source) as state:
        yield state if state.load_existing(Cluster.connect(target)) else None


def records_of(settings: Settings, flow: FlowSettings) -> FlowState:
    """Return what a flow's state has; empty where it never ran. Raises DrkitError: its target is silent."""
    return _read_state(Cluster.connect(settings.sides(flow)[1]), flow)


def opposite_fences(context: Context) -> FenceTopic:
    """Return the record of the opposite flow's fences on the target, kept open until the run ends."""
    return context.kept.fences_of(context.target_settings, opposite_of(context.flow))


Promotions = Mapping[str, RoleRecord]
"""Topic → its promotion."""


def begin_unreturned(context: Context, named: Collection[str], *, accepted: bool) -> Promotions | None:
    """Record topics that a flow never copied in its state, where the opposite flow moved their clients.

    That flow's own state is on the source, which is lost; its record of fences on the target names the topics
    and their promotions. With these in the state, a failover opens the target. Repeatable.

    :param named: topics and groups that are to move, or empty for all
    :param accepted: whether the loss is accepted; False also in a dry run, which records nothing
    :returns: the promotions in that record, or None if it was not read because the source answers
    :raises Refused: it is not accepted; or there is no such topic, and the flow never copied
    :raises DrkitError: the target refuses
    """
    flow, state, log = context.flow, context.state, FenceLog()
    if context.source() is None:
        with suppress(NotAuthorized):  # what drkit may not read, it has not written
            log = opposite_fences(context).read()
    promoted, cluster = promotions_in(log), context.target_admin()
    topics = describe_topics(cluster, promoted.keys() - set(context.known.upstream))
    unreturned = sorted(topics.keys() & set(named) if named else topics)
    if (unreturned and not accepted) or not (topics or state.position):
        none = f"there is no {state.name} on {flow.target}"
        evidence = f"clients moved to {flow.source}: {first_of(unreturned)}" if unreturned else none
        raise Refused("never_copied", where=f"flow {flow.name}", evidence=evidence, flow=flow.name)
    if not topics or not accepted:
        return promoted if context.source() is None else None
    ensure_state_topic(cluster, flow)
    state.load()
    ensure_offset_map(cluster, flow, state)
    records: list[tuple[str, StateRecord]] = []
    ids = [r.target_id for r in log.records.values() if r.target_id is not None]
    if ids and state.get(ClustersRecord) is None:
        records.append(("", ClustersRecord(ids[-1], cluster.cluster_id)))
    for name, settings_before in _settings_before(cluster, topics, log).items():
        role, copy_id = promoted[name], topics[name].topic_id
        records.append((name, GenerationRecord(name, _NO_TOPIC, copy_id)))
        records.append((name, OppositePromotionRecord(role.term, role.run_id, role.at_ms)))
        records.append((name, ConfigsRecord(settings_before)))
    state.put_all(records)  # together: without one of them the topics would have another meaning
    return promoted


def _settings_before(cluster: Cluster, topics: Collection[str], log: FenceLog) -> dict[str, dict[str, str]]:
    """Return the settings that topics return to when they are opened, as they were before their fence."""
    sizes = {t: size for record in log.records.values() for t, size in record.own_sizes.items()}
    found = {}
    for topic, configs in topic_configs(cluster, topics).items():
        own = {name: own_value(configs, name) for name in (*PASSIVE, MAX_MESSAGE_BYTES)}
        own[MAX_MESSAGE_BYTES] = sizes.get(topic, own[MAX_MESSAGE_BYTES])
        found[topic] = {name: value for name, value in own.items() if value is not None}
    return found


def unreplayed_on_source(context: Context) -> list[Unreplayed]:
    """Return what a failback has left to append to a flow's source, in the scope. Raises DrkitError."""
    state, names = reverse_state(context), context.scope.topics
    return unreplayed(state, {t for t, c in state.all(GenerationRecord).items() if c.target in names})


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


def opposite_of(flow: FlowSettings) -> FlowSettings:
    """Return the flow in the other direction by its names alone; it need not be configured."""
    return FlowSettings(source=flow.target, target=flow.source)


def opposite_journal(context: Context) -> JournalHistory | None:
    """Return the history of the opposite flow's journal on the source, or None if it was not read."""
    source = context.source()
    if source is None:
        return None
    reader = JournalReader(source, context.flow.target, tolerant=True)
    with suppress(DrkitError):
        history: JournalHistory = context.run(context.kept.journals.setdefault(source, reader).read_existing)
        return history
    return None


def pair_roles(context: Context, recorded: Promotions | None = None) -> PairRoles:
    """Return the roles of a flow's topics, with what both sides know. Changes nothing.

    :param recorded: the promotions in the record of the opposite flow's fences on the target, if known
    :raises Refused: what the source knows is younger than its journal, or a failover from the target is
        under way
    :raises DrkitError: a cluster refuses what has to be read
    """
    state = context.state.records
    if not state.all(RoleRecord) and not state.all(OppositePromotionRecord):
        return PairRoles()
    flow, copies = context.flow, state.all(GenerationRecord)
    topics = [copies[t].target for t in promoted_of(state) if t in copies]
    closed = Refusing(refusing_by_size(context.target_settings, topics))
    first = observation_of((flow.source, flow.target), state, refusing=closed)
    return roles_in(pair_view(first, _opposite(context, recorded)))


def without_moved_back(context: Context, *, is_failover: bool) -> Context:
    """Return the context without topics that a later failover has moved back to the source.

    An older run, and a state on a cluster that was down, have no record of that failover. A failover begins
    after the return that has answered the last promotion there; only a promotion without a return is later.
    """
    share_promotions(context)
    roles, scope = pair_roles(context), context.scope
    moved = roles.away if is_failover else roles.moved_back
    topics = {name: copy for name, copy in scope.topics.items() if name not in moved}
    is_whole = scope.whole_flow and topics == scope.topics
    return replace(context, scope=scope._replace(topics=topics, whole_flow=is_whole))


def moved_back_in_words(flow: FlowSettings) -> str:
    """Return why nothing of an earlier failover is left to do, and the command that protects clients now."""
    command = to_reprotect(flow.target, flow.source)
    return (
        f"a later failover has moved clients back to {flow.source}: {command} makes {flow.target} its standby"
    )


def _opposite(context: Context, recorded: Promotions | None) -> Observation:
    flow, journal = opposite_of(context.flow), opposite_journal(context)
    found, unread = None, context.source_error or "its journal cannot be read"
    try:
        if journal is not None:
            found = _opposite_seen(context, flow, journal)
    except DrkitError as error:
        unread = error.in_short
    if found is None or journal is None:
        if recorded is None:
            with suppress(DrkitError):
                recorded = promotions_in(opposite_fences(context).read())
        return Observation(flow.source, flow.target, unread=unread, recorded=recorded or {})
    if found.is_younger:
        raise state_younger(flow, found.unread)
    if journal.open is not None:
        run, moves = RunUnderWay.of(journal.open), context.request.planned and context.scope.topics
        # A failback that is left now would append records of its export to a cluster that clients have left.
        if run.table == FAILOVER.name or (moves and run.covers(*moves)):
            command = TABLES.get(run.table, FAILOVER).typed("--flow", flow.name, "--resume")
            where = f"run {run.run_id} of {flow.name}"
            raise Refused("opposite_run", where=where, evidence=run.in_words, command=command)
    return found


def _opposite_seen(context: Context, flow: FlowSettings, journal: JournalHistory) -> Observation | None:
    """Return the opposite flow's observation, or None if the state on the source is of another pair."""
    state, source, name = reverse_state(context), context.source(), state_topic(flow.source)
    if source is None or not are_opposite(context.state.records, state):
        return None
    state_id = context.run(metadata, source, [name])[name].topic_id
    younger = journal.lost_state(state, state_id)
    return observation_of((flow.source, flow.target), state, journal.opened, younger=younger)


def state_younger(flow: FlowSettings, evidence: str) -> Refused:
    """Return the refusal to decide by a state topic that is younger than the flow's journal."""
    return Refused("state_younger", where=flow.name, evidence=evidence, target=flow.target)


def opposite_state(context: Context) -> StateTopic | None:
    """Return the opposite flow's state on the source, loaded and kept open until the run ends.

    None where the source is silent, or that flow is not configured, or never ran. Raises DrkitError.
    """
    flow = opposite_flow(context.settings, context.flow)
    if flow is None or context.source() is None:
        return None
    kept = context.kept
    if kept.reverse is not None:
        kept.reverse.load()
    else:
        kept.reverse = kept.until_end.enter_context(state_of(context.settings, flow))
    return kept.reverse


def share_promotions(context: Context) -> tuple[str, ...]:
    """Record on each side the promotions that the other side has decided; return notes. Repeatable.

    Called at the end of a run, and at the first contact with a source that was away: from then on either side
    knows whose promotion is the newest, though the other one is lost.
    """
    flow = context.flow
    try:
        if context.source() is not None:
            with suppress(NotAuthorized):  # then no run could write a record there
                opened = context.journal_runs().opened
                context.kept.fences_of(context.source_settings, flow).mark_opened(opened)
        opposite = opposite_state(context)
        context.state.load()
        if opposite is None or not are_opposite(context.state.records, opposite.records):
            return ()
        first = observation_of((flow.source, flow.target), context.state.records)
        second = observation_of((flow.target, flow.source), opposite.records)
        for ended, record in filter(None, map(untold, pair_view(first, second))):
            (context.state if ended.flow is first else opposite).put(record, ended.name)
    except DrkitError as error:
        reason = error.in_short
        observe.event("promotions_not_shared", level="warning", flow=flow.name, evidence=reason)
        return (f"{flow.source} was not told of these promotions: {reason}",)
    return ()


def _read_state(cluster: Cluster, flow: FlowSettings, *, verified: bool = True) -> FlowState:
    name = state_topic(flow.source)
    values = newest_values(cluster, [name], verified=verified).get(name, NewestValues())
    return FlowState.of(values, f"{name} on {cluster.alias}", values.refused, values.passed_over)


def states_elsewhere(
    context: Context, among: Collection[str] | None = None
) -> list[tuple[FlowSettings, FlowState]]:
    """Return the flows from the old primary to other clusters of the configuration, with their states.

    A cluster that does not answer, or shows no state to drkit, is left out. The context keeps the answer.

    :param among: aliases of these clusters alone
    """
    states, others = [], context.settings.clusters.keys() - {context.flow.source, context.flow.target}
    for alias in sorted(others if among is None else others & set(among)):
        flow = FlowSettings(source=context.flow.source, target=alias)
        with suppress(ClusterUnreachable, NotAuthorized):
            cluster = Cluster.connect(context.settings.cluster(alias))
            # Unverified: another pair may have another control key, and what its flow does counts here.
            states.append((flow, _read_state(cluster, flow, verified=False)))
    context.kept.elsewhere = states
    return states


def clients_elsewhere(context: Context) -> dict[str, str]:
    """Return topics of the scope whose clients are, or get, on a third cluster → the flow that shows it.

    Asked before a run changes anything. Raises DrkitError: a cluster refuses what has to be read.
    """
    moved = work_elsewhere(context, context.scope.topics).moved
    return {**_copied_from(context), **_recorded_elsewhere(context), **moved}


def fence_targets(context: Context, source: RawCluster, *, unasked: bool = False) -> list[str]:
    """Return the other clusters with a record of fences on the source. `unasked`: of unread state alone."""
    asked = {flow.target for flow, _ in context.kept.elsewhere or ()} if unasked else set[str]()
    names = (target_of_fence_topic(name, context.flow.source) for name in context.run(all_topics, source))
    return sorted({name for name in names if name is not None} - asked - {context.flow.target})


def _recorded_elsewhere(context: Context) -> dict[str, str]:
    """Return topics that records on the source show as promoted, on clusters that were not asked."""
    own, source, found = context.flow, context.source(), dict[str, str]()
    for target in fence_targets(context, source, unasked=True) if source is not None else ():
        flow = FlowSettings(source=own.source, target=target)
        with suppress(NotAuthorized):
            log = context.kept.fences_of(context.source_settings, flow).read()
            first = Observation(own.source, target, unread="not asked", recorded=promotions_in(log))
            moved = _opened(context, first) & context.scope.topics.keys()
            found |= dict.fromkeys(sorted(moved), flow.name)
    return found


def _copied_from(context: Context) -> dict[str, str]:
    """Return topics of the source that are copies, under the name of their original → the flow that shows it.

    Clients write to the original. A silent source does not show whether its copies were opened: then
    those count whose original answers and takes writes.
    """
    source, topics, copied = context.source(), context.scope.topics.keys(), dict[str, str]()
    for flow in context.settings.flows:
        if flow.target != context.flow.source or flow.source == context.flow.target:
            continue
        names, original = set[str](), context.settings.cluster(flow.source)
        with suppress(ClusterUnreachable, NotAuthorized):
            if source is not None:
                state = _read_state(Cluster.connect(context.source_settings), flow, verified=False)
                kept = state.all(GenerationRecord).items()
                names = {t for t, copy in kept if copy.target == t} - promoted_of(state)
            elif not reach(original).silence:
                same = {t for t in topics if flow.copies(t) and flow.naming_policy.downstream(t) == t}
                existing = describe_topics(Cluster.connect(original), same).keys()
                names = existing - refusing_topics(original, existing).topics
        copied |= dict.fromkeys(sorted(names & topics), f"{flow.name} copies it to {flow.target}")
    return copied


def refused_elsewhere(where: str, elsewhere: Mapping[str, str], code: str = "promoted_elsewhere") -> Refused:
    """Return the refusal to open a cluster for topics that other flows of the source move: topic → flow."""
    evidence = first_of(f"{topic}: {name}" for topic, name in sorted(elsewhere.items()))
    return Refused(code, where=where, evidence=evidence)


def refuse_moved_elsewhere(context: Context) -> None:
    """Refuse to continue a run whose topics another flow of the source moves, unless a person wants it.

    A cluster that did not answer the survey of this run is not waited for: clients may be without a cluster.
    """
    last = context.kept.elsewhere
    answered = None if last is None else [flow.target for flow, _ in last]
    elsewhere = work_elsewhere(context, context.scope.topics, states_elsewhere(context, answered)).moved
    if elsewhere and not context.request.despite_signs_of_life:
        raise refused_elsewhere(context.flow.name, elsewhere)


class Elsewhere(NamedTuple):
    """The work of other flows of the same source on some of its topics."""

    moved: Mapping[str, str]
    """Source topics that another flow has promoted or fenced → that flow."""
    fences: FenceRecord
    """Fences that such a flow has on record: it lifts them."""


def _opened(context: Context, first: Observation, state: FlowState | None = None) -> frozenset[str]:
    """Return the topics that a flow of the source has opened, and that did not move back since.

    :param state: of that flow, if it was read
    :raises DrkitError: the state of the flow back cannot be read
    """
    back = FlowSettings(source=first.target, target=first.source)
    second = Observation(back.source, back.target, unread=context.source_error or "of another pair")
    if (first.promoted or first.recorded) and context.source() is not None:
        records = _read_state(Cluster.connect(context.source_settings), back)
        if state is None or are_opposite(state, records):
            second = observation_of((back.source, back.target), records)
    return roles_in(pair_view(first, second)).opened


def work_elsewhere(
    context: Context, topics: Collection[str], states: Sequence[tuple[FlowSettings, FlowState]] | None = None
) -> Elsewhere:
    """Return the work of other flows of the source on some topics, as far as their targets answer.

    :param states: their states, or None to read them
    """
    moved, sizes, acls = dict[str, str](), dict[str, str | None](), frozenset[Acl]()
    for flow, state in states_elsewhere(context) if states is None else states:
        known, pending = state.readable(RoleRecord), state.readable(PendingLift).get("")
        roles = {t: role for t, role in known.items() if role.is_promoted}
        fenced = fenced_topics(state) - roles.keys()  # by a run that has not opened its target
        # Of a run that was rolled back only the fence is left, until it is lifted.
        moving = (fenced - set(pending.topics if pending is not None else ())) | known.keys() - roles.keys()
        opened = frozenset(roles)
        with suppress(DrkitError):  # a promotion whose end cannot be read is in effect
            opened = _opened(context, observation_of((flow.source, flow.target), state), state)
        moved |= dict.fromkeys(sorted((opened | moving) & set(topics)), flow.name)
        names = (opened | fenced) & set(topics)
        sizes |= {t: size for t, size in sizes_of(state).items() if t in names}
        acls |= {acl for acl in acls_of(state) if acl.name in names}
    fenced = frozenset(sizes) | {acl.name for acl in acls}
    return Elsewhere(moved, FenceRecord("", 0, 0, topics=fenced, sizes=sizes, acls=acls))
