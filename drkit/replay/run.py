"""Runs a replay from its plan to its end or roll-back: for the command, and for the step of a return."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple, Self
from uuid import UUID

from drkit.clock import Millis, wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.counted import first_of
from drkit.errors import Refused
from drkit.flow_state.names import replay_transactional_ids
from drkit.flow_state.records import UnreplayedRecord
from drkit.flow_state.state import FlowState
from drkit.flow_state.topic import StateTopic
from drkit.flow_state.unreplayed import Unreplayed, UnreplayedEnd, unreplayed
from drkit.kafka.raw import connections
from drkit.model import TopicPartition
from drkit.replay.compare import Same
from drkit.replay.destination import Destination, Quarantine, copied_topics, destination_of, promoted_topics
from drkit.replay.left_open import ReplayMarkers
from drkit.replay.log import ReplayLog
from drkit.replay.plan import Commits, PartitionPlan, ReplayPlan, covers_part, plan_partition
from drkit.replay.progress import QuarantineRecord, ReplayBook, ReplayProgress
from drkit.replay.side import MISSING, ActiveSide
from drkit.replay.tail import Export, Tail
from drkit.replay.writer import (
    PartitionReplay,
    ReplayResult,
    ReplayWork,
    Results,
    Stopped,
    TailProducers,
    Tell,
    fenced,
)

_AT_ONCE: Final = 8
_NO_COMMITS: Final[Commits] = {}


class ReplayRequest(NamedTuple):
    """An export to replay, and how."""

    export: Export
    same: Same | None = None
    """The meaning of a record with equal content on the new primary, or None if not stated."""
    to_quarantine: bool = False
    commits: Commits = _NO_COMMITS
    """Offsets that groups have committed on the old primary, for the plan."""


class Replayer:
    """Replays an export into the new primary; in a ``with``.

    :param target: the new primary, with the identity that administers it
    :param flow: the one that had copied from the old primary to it
    """

    def __init__(self, target: ClusterSettings, flow: FlowSettings, request: ReplayRequest) -> None:
        self._target, self._flow, self._request = target, flow, request
        self._log = ReplayLog(target, flow)
        self._stack = ExitStack()
        self._place: Quarantine | None = None

    def __enter__(self) -> Self:
        (cluster,) = self._stack.enter_context(connections("replay", self._target))
        self._side = ActiveSide(cluster)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plan(self, state: FlowState, *, dry_run: bool = False) -> ReplayPlan:
        """Compare the tails with what the new primary took since, or continue with earlier decisions.

        :param state: of the flow, as the new primary has it
        :param dry_run: leave open what earlier replays have left open
        :raises Refused: they may not be replayed, or a file of the export was altered
        :raises DrkitError: the new primary does not answer, or refuses
        """
        export = self._request.export
        exists = self._log.find()
        book = self._book(decided=False)
        to = self._quarantined(state, book) if self._request.to_quarantine else self._promoted(state)
        if exists and not dry_run and self._side.run(self._end_abandoned, to):
            book = self._book(decided=False)
        self._refuse_other_manifest(book)
        same = self._same(book)
        planned = self._side.run(self._plan_all, to, book, same)
        elsewhere = self._replayed_before(book) if self._request.to_quarantine else ()
        return ReplayPlan(export, same, self._request.to_quarantine, tuple(planned), elsewhere)

    def run(
        self, plan: ReplayPlan, told: Tell = lambda _progress: None, stopped: Stopped = lambda: False
    ) -> Results:
        """Append the records of a plan; a completed plan changes nothing.

        :param told: receives the progress after each transaction
        :param stopped: asked between two transactions; what is left can be replayed later
        :raises Refused: the meaning of equal records is not stated, or the new primary rejects the records
        :raises ReplayTaken: another process replays into a partition
        :raises DrkitError: the new primary does not answer, or refuses
        """
        same = plan.decided()
        done = {p.tail.source: _result_of(p) for p in plan.partitions if p.is_done}
        todo = [p for p in plan.partitions if not p.is_done]
        if not todo:
            return done
        self._log.ensure()
        if plan.to_quarantine:
            todo = self._with_topics(todo)
        work = ReplayWork(self._side, self._log, same, plan.export.sha256, told=told, stopped=stopped)
        results: Results = self._side.run(self._run_all, todo, work)
        return {**done, **results}

    def _book(self, *, decided: bool) -> ReplayBook:
        book: ReplayBook = self._side.run(lambda: self._log.read(self._side, decided=decided))
        return book

    def _same(self, book: ReplayBook) -> Same | None:
        """Return the meaning of equal records, as begun or as requested. Raises Refused if they differ."""
        if self._request.to_quarantine:
            return Same.NONE
        run, requested = self._request.export.run_id, self._request.same
        tails = {t.source for t in self._request.export.tails}
        begun = [
            p for p in book.progress.values()
            if p.run_id == run and TopicPartition(p.source_topic, p.partition) in tails
            and p.is_open and p.topic not in book.quarantines
        ]  # fmt: skip
        if not begun:
            return requested
        if requested not in {None, begun[0].same}:
            evidence = f"it was begun with --same {begun[0].same}"
            where = f"{begun[0].at} on {self._target.alias}"
            raise Refused("replay_same_differs", where=where, evidence=evidence, same=begun[0].same)
        return begun[0].same

    def _refuse_other_manifest(self, book: ReplayBook) -> None:
        export = self._request.export
        for progress in book.progress.values():
            if progress.run_id == export.run_id and progress.manifest != export.sha256:
                evidence = f"its manifest had the SHA-256 {progress.manifest}, this one has {export.sha256}"
                raise Refused("replay_id_reused", where=self._log.where, evidence=evidence)

    def _replayed_before(self, book: ReplayBook) -> tuple[str, ...]:
        runs = [p for p in book.progress.values() if p.appended and p.topic not in book.quarantines]
        tails = self._request.export.tails
        return tuple(sorted({p.topic for p in runs if any(covers_part(p, tail) for tail in tails)}))

    def _promoted(self, state: FlowState) -> dict[TopicPartition, Destination]:
        export, cluster = self._request.export, self._log.cluster
        topics = promoted_topics(cluster, export, state)
        return {t.source: destination_of(t, topics[t.source.topic], cluster.alias) for t in export.tails}

    def _quarantined(self, state: FlowState, book: ReplayBook) -> dict[TopicPartition, Destination]:
        export = self._request.export
        self._place = Quarantine(self._log, export, copied_topics(self._log.cluster, export, state))
        return self._place.destinations(self._place.look(book))

    async def _end_abandoned(self, to: Mapping[TopicPartition, Destination]) -> bool:
        """End what replays that do not run have left open; return whether there was something."""
        places = {d.at: d.topic_id for d in to.values() if d.topic_id != MISSING}
        markers = ReplayMarkers(self._side, self._log, places)
        prefixes = replay_transactional_ids(self._flow.source, self._flow.target)
        if producers := await markers.abandoned(prefixes):
            await markers.end(producers)
        return bool(producers)

    async def _plan_all(
        self, to: Mapping[TopicPartition, Destination], book: ReplayBook, same: Same | None
    ) -> list[PartitionPlan]:
        async def one(tail: Tail) -> PartitionPlan:
            commits, destination = self._request.commits.get(tail.source, {}), to[tail.source]
            return await plan_partition(self._side, self._log, tail, destination, book, same, commits=commits)

        return await self._side.cluster.loop.some_at_once(one, self._request.export.tails, _AT_ONCE)

    def _with_topics(self, plans: list[PartitionPlan]) -> list[PartitionPlan]:
        assert self._place is not None  # noqa: S101  the plan has it
        created: dict[str, UUID] = {}
        for source, name in sorted({(p.tail.source.topic, p.to.at.topic) for p in plans}):
            known = self._book(decided=True).quarantines.get(name)
            created[name] = self._place.create(name, source, known, self._put).topic_id
        return [_moved(p, created[p.to.at.topic]) for p in plans]

    def _put(self, record: QuarantineRecord) -> None:
        batch, _ = self._log.batch([(record.key, record.encode())])
        self._side.run(self._side.append, self._log.at, self._log.id, batch)

    async def _run_all(self, plans: list[PartitionPlan], work: ReplayWork) -> Results:
        """Fence all others, read what they had done, then append."""
        loop = self._side.cluster.loop
        begun = await loop.some_at_once(self._fenced, plans, _AT_ONCE)
        markers = ReplayMarkers(self._side, self._log, {p.to.at: p.to.topic_id for p in plans})
        await markers.end(chain.from_iterable(begun))
        book = await self._log.read(self._side, decided=True)

        async def one(each: tuple[PartitionPlan, TailProducers]) -> ReplayResult:
            plan, producers = each
            if book.of_partition(plan.to.at) != plan.seen:  # another process was faster
                plan = await plan_partition(self._side, self._log, plan.tail, plan.to, book, work.same)
                if plan.is_done:
                    return _result_of(plan)
            return await PartitionReplay(work, plan, producers).run()

        results = await loop.some_at_once(one, zip(plans, begun, strict=True), _AT_ONCE)
        return {p.tail.source: result for p, result in zip(plans, results, strict=True)}

    async def _fenced(self, plan: PartitionPlan) -> TailProducers:
        kept_by = plan.tail.origin.run_id if plan.tail.origin.is_kept else None
        return await fenced(self._side.cluster, self._flow, plan.to.at, kept_by)


def _moved(plan: PartitionPlan, topic_id: UUID) -> PartitionPlan:
    seen = plan.seen if plan.to.topic_id in {topic_id, MISSING} else {}
    return plan._replace(to=plan.to._replace(topic_id=topic_id), seen=seen)


def _result_of(plan: PartitionPlan) -> ReplayResult:
    assert plan.progress is not None  # noqa: S101  the plan is done
    return ReplayResult.of(plan.progress)


def total(results: Mapping[TopicPartition, ReplayResult]) -> ReplayResult:
    """Return the sum over all partitions."""
    partitions = list(results.values())
    return ReplayResult(
        sum(r.appended for r in partitions),
        sum(r.already for r in partitions),
        sum(r.skipped_changed_keys for r in partitions),
        all(r.is_done for r in partitions),
    )


def roll_back_kept(
    target: ClusterSettings, flow: FlowSettings, run_id: str, partitions: Collection[TopicPartition]
) -> list[ReplayProgress]:
    """Mark tails that a run did not append completely as rolled back. A second call changes nothing.

    :param target: the new primary
    :param run_id: of the export
    :param partitions: of the new primary, which may have such tails
    :returns: what was appended of them
    :raises DrkitError: the new primary does not answer, or refuses
    """
    log = ReplayLog(target, flow)
    if not log.find():
        return []
    with connections("replay", target) as (cluster,):
        side = ActiveSide(cluster)

        async def note() -> list[ReplayProgress]:
            producers = {tp: await fenced(cluster, flow, tp, run_id) for tp in sorted(partitions)}
            begun = (await log.read(side, decided=False)).progress.values()
            places = {p.at: p.topic_id for p in begun if p.run_id == run_id and p.at in producers}
            await ReplayMarkers(side, log, places).end(chain.from_iterable(producers.values()))
            book = await log.read(side, decided=True)
            pending = [
                p for p in book.progress.values()
                if p.run_id == run_id and p.at in producers and p.ids is not None and p.is_open
            ]  # fmt: skip
            for progress in pending:
                noted = replace(progress, rolled_back_ms=wall_ms())
                await side.append(log.at, log.id, log.batch([(noted.key, noted.encode())])[0])
                # Fence again: a process that began its epoch again did so before the note.
                await producers[progress.at].appends.begin_epoch()
            return pending

        rolled_back: list[ReplayProgress] = side.run(note)
        return rolled_back


def note_replayed(
    state: StateTopic, export: Export, results: Results, how: UnreplayedEnd, by: str, wall: Millis = wall_ms
) -> list[Unreplayed]:
    """Record that the topics whose tails a replay has appended completely have nothing left to replay.

    :param state: of the flow, loaded
    :param how: what was done
    :param by: who did it
    :returns: the ended replays, only those that a return had left
    :raises DrkitError: the state cannot be written
    """
    tails = [t.source for t in export.tails]
    pending = {tp.topic for tp in tails if tp not in results or not results[tp].is_done}
    waiting = unreplayed(state.records, {tp.topic for tp in tails} - pending)
    ended = [each for each in waiting if each.record.sha256 == export.sha256]
    _end(state, ended, how, by, wall)
    return ended


def give_up(
    state: StateTopic, manifest: str, topics: Collection[str], reason: str, by: str
) -> list[Unreplayed]:
    """Note that records of an export are not replayed. The export's files may be gone.

    :param state: of the flow, loaded
    :param manifest: its path or URL, as it is on record
    :param topics: names on the old primary, or none for all of the export
    :returns: what was given up
    :raises Refused: nothing of this export waits for a replay
    :raises DrkitError: the state cannot be written
    """
    waiting = unreplayed(state.records)
    ended = [e for e in waiting if e.record.manifest == manifest and (not topics or e.topic in topics)]
    if not ended:
        others = first_of(f"{each.topic} of {each.record.manifest}" for each in waiting) or "nothing"
        raise Refused("nothing_to_replay", where=state.name, evidence=f"{manifest}; what waits: {others}")
    _end(state, ended, UnreplayedEnd.GIVEN_UP, by, wall_ms, reason)
    return ended


def _end(
    state: StateTopic, replays: Iterable[Unreplayed], how: UnreplayedEnd, by: str, wall: Millis,
    reason: str = "",
) -> None:  # fmt: skip
    ended: list[tuple[str, UnreplayedRecord]] = [(e.name, e.ended(how, wall(), by, reason)) for e in replays]
    state.put_all(ended)
