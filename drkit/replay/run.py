"""A replay from its plan to its end: for the command, and for the step of a return."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final, NamedTuple, Self, TypeVar
from uuid import UUID

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import Refused
from drkit.flow_state.state import FlowState
from drkit.kafka.raw import connections, unanswered_as
from drkit.model import TopicPartition
from drkit.replay.compare import Same
from drkit.replay.destination import Destination, copied_topics, destination_of, promoted_topics
from drkit.replay.log import ReplayLog
from drkit.replay.plan import Commits, PartitionPlan, ReplayPlan, plan_partition
from drkit.replay.producers import TailProducers, fenced
from drkit.replay.progress import QuarantineRecord, ReplayBook
from drkit.replay.quarantine import MISSING, Quarantine
from drkit.replay.refusals import AGAIN
from drkit.replay.side import ActiveSide
from drkit.replay.tail import Export, Tail
from drkit.replay.writer import PartitionReplay, ReplayResult, Results, Stopped, Tell

T = TypeVar("T")
U = TypeVar("U")
_AT_ONCE: Final = 8
_NO_COMMITS: Final[Commits] = {}


class ReplayRequest(NamedTuple):
    """What is to be replayed, and how."""

    export: Export
    same: Same | None = None
    """What a record with equal content on the new primary is; None: not said."""
    to_quarantine: bool = False
    commits: Commits = _NO_COMMITS
    """What groups have committed on the old primary, for the plan."""


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

    def plan(self, state: FlowState) -> ReplayPlan:
        """Compare the tails with what the new primary took since, or continue with what was decided.

        :param state: of the flow, as the new primary has it
        :raises Refused: they may not be replayed, or a file of the export is not what was written
        :raises DrkitError: the new primary does not answer, or refuses
        """
        export = self._request.export
        book = self._book(self._log.topic_id(), decided=False)
        self._refuse_other_manifest(book)
        same = self._same(book)
        to = self._quarantined(state, book) if self._request.to_quarantine else self._promoted(state)
        planned = self._asked(self._plan_all, to, book, same)
        elsewhere = self._replayed_before(book) if self._request.to_quarantine else ()
        return ReplayPlan(export, same, self._request.to_quarantine, tuple(planned), elsewhere)

    def run(
        self, plan: ReplayPlan, told: Tell = lambda _progress: None, stopped: Stopped = lambda: False
    ) -> Results:
        """Append what the plan says; a plan of which nothing is left changes nothing.

        :param told: receives each progress
        :param stopped: asked between two transactions; what is left can be replayed later
        :raises Refused: it was not said what equal records are, or the new primary does not take the records
        :raises ReplayTaken: another process replays into a partition
        :raises DrkitError: the new primary does not answer, or refuses
        """
        same = plan.decided()
        done = {p.tail.source: _result_of(p) for p in plan.partitions if p.is_done}
        todo = [p for p in plan.partitions if not p.is_done]
        if not todo:
            return done
        log_id = self._log.ensure()
        if plan.to_quarantine:
            todo = self._with_topics(todo, log_id)
        work = _Work(
            self._side, self._log, log_id, same,
            manifest=plan.export.sha256, told=told, stopped=stopped,
        )  # fmt: skip
        found: Results = self._asked(self._run_all, todo, work)
        return {**done, **found}

    def _book(self, log_id: UUID | None, *, decided: bool) -> ReplayBook:
        """What replays have done; nothing where none ever began."""
        if log_id is None:
            return ReplayBook()
        found: ReplayBook = self._asked(lambda: self._log.read(self._side, log_id, decided=decided))
        return found

    # -- planning -----------------------------------------------------------------------------------

    def _same(self, book: ReplayBook) -> Same | None:
        """What equal records are: as it was begun, or as it is said now.

        :raises Refused: the replay was begun otherwise
        """
        if self._request.to_quarantine:
            return Same.NONE
        run, said = self._request.export.run_id, self._request.same
        tails = {t.source for t in self._request.export.tails}
        begun = [
            p for p in book.progress.values()
            if p.run_id == run and TopicPartition(p.source_topic, p.partition) in tails
            and p.is_open and p.topic not in book.quarantines
        ]  # fmt: skip
        if not begun:
            return said
        if said not in {None, begun[0].same}:
            raise Refused(
                "replay_same_differs",
                where=f"{begun[0].at} on {self._target.alias}",
                evidence=f"it was begun with --same {begun[0].same}",
                same=begun[0].same,
            )
        return begun[0].same

    def _refuse_other_manifest(self, book: ReplayBook) -> None:
        export = self._request.export
        for found in book.progress.values():
            if found.run_id == export.run_id and found.manifest != export.sha256:
                raise Refused(
                    "replay_id_reused",
                    where=self._log.where,
                    evidence=f"its manifest had the SHA-256 {found.manifest}, this one has {export.sha256}",
                )

    def _replayed_before(self, book: ReplayBook) -> tuple[str, ...]:
        """The topics of clients into which records of the same offsets were replayed, by any export."""
        found = {
            p.topic
            for p in book.progress.values()
            for t in self._request.export.tails
            if p.appended and p.topic not in book.quarantines
            and (p.source_id, p.partition) == (t.topic_id, t.source.partition)
            and p.first < t.end and t.first < p.next
        }  # fmt: skip
        return tuple(sorted(found))

    def _promoted(self, state: FlowState) -> dict[TopicPartition, Destination]:
        export, cluster = self._request.export, self._log.cluster
        topics = promoted_topics(cluster, export, state)
        return {t.source: destination_of(t, topics[t.source.topic], cluster.alias) for t in export.tails}

    def _quarantined(self, state: FlowState, book: ReplayBook) -> dict[TopicPartition, Destination]:
        """Where tails go in quarantine; topics that are missing are created by :meth:`run`."""
        export = self._request.export
        self._place = Quarantine(self._log, export, copied_topics(self._log.cluster, export, state))
        return self._place.destinations(self._place.look(book))

    async def _plan_all(
        self, to: Mapping[TopicPartition, Destination], book: ReplayBook, same: Same | None
    ) -> list[PartitionPlan]:
        async def one(tail: Tail) -> PartitionPlan:
            found = self._request.commits.get(tail.source, {})
            there = to[tail.source]
            return await plan_partition(self._side, self._log, tail, there, book, same, commits=found)

        return await self._some_at_once(one, list(self._request.export.tails))

    # -- running ------------------------------------------------------------------------------------

    def _with_topics(self, plans: list[PartitionPlan], log_id: UUID) -> list[PartitionPlan]:
        """The plans, after their topics in quarantine were created."""
        assert self._place is not None  # noqa: S101  the plan has it
        created: dict[str, UUID] = {}
        for source, name in sorted({(p.tail.source.topic, p.to.at.topic) for p in plans}):
            known = self._book(log_id, decided=True).quarantines.get(name)
            created[name] = self._place.create(name, source, known, lambda r: self._put(r, log_id)).topic_id
        return [_moved(p, created[p.to.at.topic]) for p in plans]

    def _put(self, record: QuarantineRecord, log_id: UUID) -> None:
        self._asked(self._put_record, record, log_id)

    async def _put_record(self, record: QuarantineRecord, log_id: UUID) -> None:
        await self._side.append(self._log.at, log_id, self._log.batch([(record.key, record.encode())])[0])

    async def _run_all(self, plans: list[PartitionPlan], work: _Work) -> Results:
        """Fence all others, read what they had done, then append."""
        begun = await self._some_at_once(self._fenced, plans)
        book = await self._log.read(self._side, work.log_id, decided=True)

        async def one(each: tuple[PartitionPlan, TailProducers]) -> ReplayResult:
            plan, producers = each
            if book.of_partition(plan.to.at) != plan.seen:  # another process was faster
                plan = await plan_partition(self._side, self._log, plan.tail, plan.to, book, work.same)
                if plan.is_done:
                    return _result_of(plan)
            return await work.of(plan, producers).run()

        found = await self._some_at_once(one, list(zip(plans, begun, strict=True)))
        return {p.tail.source: result for p, result in zip(plans, found, strict=True)}

    async def _fenced(self, plan: PartitionPlan) -> TailProducers:
        origin = plan.tail.origin
        run_id = origin.run_id if origin.is_kept else None
        return await fenced(self._side.cluster, self._flow, plan.to.at, run_id)

    async def _some_at_once(self, do: Callable[[T], Awaitable[U]], each: list[T]) -> list[U]:
        """Do something for each of some things, a few side by side; what it returns, in their order."""
        left, found = deque(enumerate(each)), dict[int, U]()

        async def work(_number: int) -> None:
            while left:
                number, one = left.popleft()
                try:
                    found[number] = await do(one)
                except BaseException:
                    left.clear()
                    raise

        await self._side.cluster.loop.together(work, range(min(_AT_ONCE, len(each))))
        return [found[number] for number in range(len(each))]

    def _asked(self, question: Callable[..., Awaitable[Any]], *given: object) -> Any:
        async def ask() -> Any:
            await self._side.cluster.connected()
            return await question(*given)

        hint = f"check the cluster with: drkit config check --connect; then {AGAIN}"
        with unanswered_as("new_primary_stopped_answering", self._target.alias, hint):
            return self._side.cluster.loop.run(ask)


class _Work(NamedTuple):
    """What all partitions of a replay have in common."""

    side: ActiveSide
    log: ReplayLog
    log_id: UUID
    same: Same
    manifest: str
    told: Tell
    stopped: Stopped

    def of(self, plan: PartitionPlan, producers: TailProducers) -> PartitionReplay:
        """The replay of a partition."""
        return PartitionReplay(
            self.side, self.log, self.log_id, plan, plan.progress.same if plan.progress else self.same,
            producers,
            manifest=self.manifest, told=self.told, stopped=self.stopped,
        )  # fmt: skip


def _moved(plan: PartitionPlan, topic_id: UUID) -> PartitionPlan:
    """The plan with its topic as it is now. In a new one nothing is as it was seen: it is planned again."""
    seen = plan.seen if plan.to.topic_id in {topic_id, MISSING} else {}
    return plan._replace(to=plan.to._replace(topic_id=topic_id), seen=seen)


def _result_of(plan: PartitionPlan) -> ReplayResult:
    assert plan.progress is not None  # noqa: S101  the plan is done
    return ReplayResult.of(plan.progress)


def total(results: Mapping[TopicPartition, ReplayResult]) -> ReplayResult:
    """All partitions together."""
    found = list(results.values())
    return ReplayResult(
        sum(r.appended for r in found),
        sum(r.already for r in found),
        sum(r.skipped_changed_keys for r in found),
        all(r.is_done for r in found),
    )
