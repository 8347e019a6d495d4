"""The survey on which a failover decides: both clusters, the copy, the groups. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from drkit.counted import total
from drkit.detect.notes import Speakers
from drkit.detect.noticeboard import read_notes
from drkit.detect.reasons import FailoverFacts
from drkit.detect.risk import Risk, of_answering_source
from drkit.failover.checks.foreign_writes import places_of, written
from drkit.failover.checks.home_acls import NOT_COMPARED, HomeAcls, look_home_acls
from drkit.failover.checks.out_of_scope import OutOfScope, Reach, look_outside, reach
from drkit.failover.checks.silent_source_facts import facts_of
from drkit.failover.core.context import Context, asked
from drkit.failover.core.reverse import clients_elsewhere, pair_roles, unreplayed_on_source
from drkit.failover.fencing.source_record import lost_on_target
from drkit.failover.groups.offsets import (
    FROM_CHECKPOINTS,
    FROM_SOURCE,
    Positions,
    TargetGroup,
    ask_target,
    checkpointed,
    checkpoints_age,
    committed_in,
    from_target,
    marked,
    unless_away,
)
from drkit.failover.loss.positions import NO_PARTITION, ScopePositions, scope_positions
from drkit.failover.loss.silent import noted_partitions, silent_risk, unprotected
from drkit.flow_state.lease.watch import LeaseHolder, replicator_of
from drkit.flow_state.records import ClustersRecord
from drkit.flow_state.unreplayed import Unreplayed
from drkit.kafka.raw import RawCluster
from drkit.kafka.requests import TopicMetadata, describe_cluster, metadata
from drkit.kafka.topics import ConfigValue, describe_topics, not_deleted, topic_configs
from drkit.kafka.transactions import hanging
from drkit.model import TopicPartition
from drkit.offsets import Unavailable
from drkit.pair.promotions import begun_by_turn
from drkit.pair.view import NOT_ASKED, PairRoles, Refusing
from drkit.status.facts import noted_ends, status_of
from drkit.status.lag.held_back import held_back, with_held
from drkit.status.lag.source import Ends, UncopiedRecords, ends_of, held_total, waiting
from drkit.status.lag.target import CopyPosition
from drkit.status.model import PartitionStatus, oldest_of
from drkit.status.pair.facts import compacted_alone
from drkit.status.pair.reading import refusing_topics
from drkit.status.source_look import gaps_of
from drkit.topology.topic_configs import MIN_INSYNC_REPLICAS

_ENOUGH: Final = 20
"""Maximum number of reasons returned."""


def unready_topics(context: Context, partitions: Iterable[PartitionStatus]) -> list[str]:
    """Return why the scope's topics cannot take over; empty when they can. Raises DrkitError: no answer."""
    names = set(context.scope.topics.values())
    admin = context.target_admin()
    topics = describe_topics(admin, names)
    return list(_reasons(names, topics, topic_configs(admin, topics), partitions))[:_ENOUGH]


def _reasons(
    names: set[str],
    topics: Mapping[str, TopicMetadata],
    configs: Mapping[str, Mapping[str, ConfigValue]],
    partitions: Iterable[PartitionStatus],
) -> Iterator[str]:
    for name in sorted(names - topics.keys()):
        yield f"{name} does not exist on the target"
    for name, topic in sorted(topics.items()):
        setting = configs.get(name, {}).get(MIN_INSYNC_REPLICAS)
        needed = int(setting.value) if setting is not None and setting.value else 1
        for number, p in sorted(topic.leaders.items()):
            if p.node < 0:
                yield f"{name}-{number} has no leader on the target"
            elif len(p.in_sync) < min(needed, len(p.replicas)):
                yield f"{name}-{number} has {len(p.in_sync)} replicas in sync on the target, needs {needed}"
    for status in partitions:
        copy = topics.get(status.target_topic)
        if copy is not None and status.partition not in copy.leaders:
            yield f"{status.target_topic} has no partition {status.partition} on the target, the source has"


class ClusterIdentity(NamedTuple):
    """The cluster to which an alias leads."""

    alias: str
    id: str | None
    """The current cluster id, or None if the cluster does not answer."""
    expected: str | None
    """The cluster id when the flow last ran, or None if it never ran."""


@dataclass(frozen=True)
class Survey:
    """The result of a survey."""

    at_ms: int
    source: ClusterIdentity
    target: ClusterIdentity
    source_error: str
    """The reason why the source does not answer, or empty if it does."""
    partitions: tuple[PartitionStatus, ...]
    positions: Positions
    """Committed offsets of the scope's groups in its topics."""
    positions_from: str
    positions_age_seconds: float | None
    """Age of the committed offsets, or None if unknown."""
    target_groups: dict[str, TargetGroup]
    facts: FailoverFacts
    """Facts for the table of reasons, with the loss."""
    replicator: LeaseHolder | None
    promoted: tuple[str, ...]
    """Topics of the scope that an earlier failover opened."""
    outside: OutOfScope
    reach: tuple[Reach, ...]
    refusing: Refusing = NOT_ASKED
    """Of `promoted`, those whose copy refuses every client."""
    moved_elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Topics of the scope whose clients are, or get, on a third cluster → the flow that shows it."""
    begun_by_turn: frozenset[str] = frozenset()
    """Topics of the target whose copying began with a failback: positions there continue the earlier ones."""
    hanging: Mapping[str, int] = field(default_factory=dict)
    """Transactional ids that hang at brokers of the target, since it was fenced by size as a primary."""
    written: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions of the target to which another client wrote since a failback → offset and producer."""
    home_acls: HomeAcls = NOT_COMPARED
    """ACLs of the side to which clients return that the side where they are now does not have."""
    never_placed: Mapping[str, str] = field(default_factory=dict)
    """Groups that get no exact position → why; asked for a switchover only."""
    without_end: tuple[str, ...] = ()
    """Topics without some end, though the source answers; asked for a switchover only."""
    compacted_alone: tuple[str, ...] = ()
    """Topics of the scope whose copy is compacted, and that are not on the source."""
    unreplayed: tuple[Unreplayed, ...] = ()
    """Records that a failback still has to append to the source; read for a switchover only."""
    lost_runs: frozenset[str] = frozenset()
    """Runs that have opened topics of the scope on the target, which has lost that."""
    away: tuple[str, ...] = ()
    """Topics of the scope that clients write on the source since a promotion, and that did not return."""

    @property
    def risk(self) -> Risk:
        """The possible loss."""
        return self.facts.risk

    def to_json(self) -> dict[str, Any]:
        """Return the survey as plain data, for the journal."""
        return {
            "at_ms": self.at_ms,
            "source": self.source._asdict(),
            "target": self.target._asdict(),
            "source_error": self.source_error,
            "partitions": [asdict(p) for p in self.partitions],
            "positions": {g: {str(tp): s.offset for tp, s in p.items()} for g, p in self.positions.items()},
            "positions_from": self.positions_from,
            "positions_age_seconds": self.positions_age_seconds,
            "target_groups": {g: [t.state, list(t.members)] for g, t in self.target_groups.items()},
            "risk": self.risk.to_json(),
            "replicator": self.replicator._asdict() if self.replicator else None,
            "facts": self.facts.to_json(),
            "outside": self.outside.to_json(),
            "reach": [r.in_words() for r in self.reach],
            "never_placed": dict(self.never_placed),
            "acls_only_home": [str(a) for a in self.home_acls.only_home],
        }


class Readings(NamedTuple):
    """The roles, and committed offsets with their origin: the choice of a scope reads them, too."""

    roles: PairRoles
    positions: Positions
    origin: str


def survey(context: Context, readings: Readings | None = None) -> Survey:
    """Return the survey of a run's scope. Raises DrkitError: target silent, or its state unreadable.

    :param readings: what the choice of the scope has read right before
    """
    context.state.load()
    # If the source goes away meanwhile, the survey is repeated with the target alone.
    found: Survey = asked(context, lambda source: _look(context, source, readings))
    lost = (role for t, role in lost_on_target(context).items() if t in context.scope.topics)
    return replace(found, lost_runs=frozenset(role.run_id for role in lost))


def _look(context: Context, source: RawCluster | None, readings: Readings | None) -> Survey:
    state, now, scope = context.state, context.wall(), context.scope
    flow, ids = context.flow, state.get(ClustersRecord)
    source_id = context.run(describe_cluster, source).cluster_id if source is not None else None
    target_id = context.run(describe_cluster, context.target).cluster_id
    places, planned = places_of(context), context.request.planned and source is not None
    if readings is None or (readings.origin == FROM_SOURCE) != (source is not None):  # lost, or back, since
        groups = scope.groups if source is not None else None  # silent: checkpoints name those that remain
        readings = Readings(pair_roles(context), *positions_of(context, source, groups))
    roles, positions, origin = readings
    away, promoted = (tuple(sorted(t & scope.topics.keys())) for t in (roles.away, roles.opened))
    partitions, outside = _partitions(context, places, source), look_outside(context, source, positions)
    in_scope = {
        g: {tp: s for tp, s in p.items() if tp.topic in scope.topics}
        for g, p in positions.items()
        if g in scope.groups
    }
    notes = read_notes(context.target_admin(), context.flow, Speakers.of(context.settings))
    risky = partitions if source is not None else noted_partitions(context, partitions)
    risk, unready = _risk(context, risky, source), tuple(unready_topics(context, partitions))
    lacking = unprotected(context, risky, away)
    return Survey(
        now,
        ClusterIdentity(flow.source, source_id, ids.source if ids is not None else None),
        ClusterIdentity(flow.target, target_id, ids.target if ids is not None else None),
        source_error="" if source is not None else context.source_error or "it does not answer",
        partitions=tuple(partitions),
        positions=in_scope,
        positions_from=origin,
        positions_age_seconds=checkpoints_age(state.records, now) if source is None else 0.0,
        target_groups=(groups_there := ask_target(context, scope.groups))[0],
        facts=facts_of(context, notes, risk, unready, lacking, silent=source is None),
        # A switchover depends on it, so there another machine's clock is not enough.
        replicator=context.replicator(certain=True) if planned else replicator_of(state.records, now),
        promoted=promoted,
        refusing=refusing_topics(context.target_settings, [scope.topics[t] for t in promoted]),
        away=away,
        outside=replace(outside, no_place={**outside.no_place, **groups_there[1]}),
        reach=reach(context.settings.failover.repoint, scope, outside),
        moved_elsewhere=clients_elsewhere(context),
        begun_by_turn=(turned := begun_by_turn(state.records) & set(scope.topics.values())),
        hanging=context.run(hanging, context.target, now, turned) if turned else {},
        written=written(context, places),
        home_acls=look_home_acls(context, turned),
        never_placed=never_placed(in_scope, scope_positions(context, source)) if planned else {},
        without_end=_without_end(context, source, partitions) if planned else (),
        compacted_alone=tuple(t for t in compacted_alone(state.records) if t in scope.topics),
        # Only a side that was promoted before, and copied back since, can have some.
        unreplayed=tuple(unreplayed_on_source(context)) if turned and planned else (),
    )


def positions_of(
    context: Context, source: RawCluster | None, groups: Collection[str] | None = None
) -> tuple[Positions, str]:
    """Return committed offsets of `groups` (None: all of the flow) in copied topics, and their origin."""
    flow, known = context.flow, context.known
    if source is not None:
        now = unless_away(context, committed_in, source, flow, known.topics, groups)
        if now is not None:
            return now, FROM_SOURCE
    by_marks = from_target(context, marked, flow, known, groups)
    log = context.kept.checkpoints_of(context.target_settings, flow)
    topic = context.run(metadata, context.target, [log.name])[log.name]
    log.read(topic.topic_id if topic.leaders else None)
    positions = checkpointed(log.of(groups), known, by_marks)
    accepted = positions if groups is not None else flow.group_filter.select(positions)
    return {group: positions[group] for group in accepted if group not in log.gone}, FROM_CHECKPOINTS


def never_placed(positions: Positions, places: ScopePositions) -> dict[str, str]:
    """Return groups that get no position on the target → the first partition, and why. Pure."""
    reasons: dict[str, str] = {}
    for group, offsets in positions.items():
        for tp, stored in offsets.items():
            place = places.get(tp, NO_PARTITION)
            why = place.reason if isinstance(place, Unavailable) else place.why_never(stored.offset)
            if why:
                reasons.setdefault(group, f"{tp}: {why}")
    return reasons


def _partitions(
    context: Context, places: Mapping[TopicPartition, CopyPosition], source: RawCluster | None
) -> list[PartitionStatus]:
    names = {t: known[0] for t, known in context.known.topics.items() if t in context.scope.topics}
    ends, records = _waiting(context, set(names), places, source)
    side = context.kept.side_of(context.target, context.flow.source)
    places = context.run(side.compared, places, context.known, source, ends)
    gone = {tp.topic: p for tp, p in places.items() if tp.partition < 0}
    known = {tp for tp in places if tp.partition >= 0} | {tp for tp in ends if tp.topic in names}
    nowhere, now = CopyPosition(None, None, reason=NO_PARTITION.reason), context.wall()
    return [
        status_of(
            now, tp, names[tp.topic], gone.get(tp.topic) or places.get(tp) or nowhere,
            ends.get(tp), records.get(tp),
        )
        for tp in sorted(known)
    ]  # fmt: skip


def _waiting(
    context: Context,
    names: set[str],
    places: Mapping[TopicPartition, CopyPosition],
    source: RawCluster | None,
) -> tuple[dict[TopicPartition, Ends], dict[TopicPartition, UncopiedRecords]]:
    if source is None:
        noted = {tp: e for tp, e in noted_ends(context.state.records).items() if tp.topic in names}
        missing = {g.at: g.end - g.start for g in gaps_of(places, noted)}
        return noted, {tp: UncopiedRecords(n, None, None, exact=False) for tp, n in missing.items()}
    topics = context.run(metadata, source, sorted(names))
    known = context.known
    same = {n for n in names if topics[n].topic_id == known.topics[n][1]}
    ends: dict[TopicPartition, Ends] = context.run(ends_of, source, topics, sorted(same))
    ends = with_held(ends, context.run(held_back, source, topics, ends, known.left_out))
    return ends, context.run(waiting, source, topics, gaps_of(places, ends), known.left_out)


def _without_end(
    context: Context, source: RawCluster | None, partitions: Iterable[PartitionStatus]
) -> tuple[str, ...]:
    """Return topics for which waiting proves nothing; DRAIN decides about deleted and recreated ones."""
    names = {p.topic for p in partitions if p.source_end is None}
    answers: dict[str, TopicMetadata] = context.run(not_deleted, source, names)
    copied = context.known.topics
    return tuple(sorted(n for n, t in answers.items() if t.error or t.topic_id == copied[n][1]))


def _risk(context: Context, partitions: list[PartitionStatus], source: RawCluster | None) -> Risk:
    records = total(p.records for p in partitions)
    held = held_total(p.held_back for p in partitions)
    if source is None:
        return silent_risk(context, records, held, sum(p.gone for p in partitions))
    reason = next((f"{p.topic}-{p.partition}: {p.reason}" for p in partitions if p.records is None), "")
    seconds = oldest_of([p.risk_seconds for p in partitions])
    exact = all(p.exact for p in partitions)
    missing = None if records is None else records + held.records
    return of_answering_source(missing, seconds, exact=exact, reason=reason, held=held)
