"""Failback: the stages that bring clients back to the old primary, and make the other side its standby again.

The old primary becomes the standby; clients move back to it, as planned; then the other cluster becomes its
standby. Each stage leaves records on the clusters and is a run of its own that can be resumed, so an
interrupted failback continues where it stopped. If some topics fail back before the others, each stage
is for these topics only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from typing import Any, Final, NamedTuple

from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.errors import DrkitError, Failed, Refused, Usage
from drkit.failover.checks.foreign_writes import refusal, stopped
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import not_replayed, records_of, required_opposite
from drkit.failover.fencing.methods import SIZE
from drkit.failover.new_primary.hold import put_back
from drkit.failover.proposal import Proposal, Rehearsal, ReturnProposal
from drkit.failover.returning.scope import moved_topics, promoted_copies
from drkit.failover.service import FailoverService
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.unreplayed import unreplayed
from drkit.journal.entries import RunLog
from drkit.journal.journal import NoRun, RunLocked
from drkit.journal.machine import FAILOVER, RETURN
from drkit.next_command import typed
from drkit.pair.promotions import is_over
from drkit.status.pair.model import PairState, PairStatus, PairTopic
from drkit.status.paired import PairedCollector


class FailbackStage(StrEnum):
    """The next stage of a failback."""

    RETURN = "return"
    """The old primary becomes the standby of the new one."""
    SWITCH = "switch"
    """It is copied to; once it is in step, clients move back to it."""
    TURN = "turn"
    """Clients are back; the other cluster becomes the standby."""


class FailbackState(NamedTuple):
    """The progress of a pair in its failback."""

    stage: FailbackStage
    is_under_way: bool
    """Whether a run of this stage is open, and has to be continued."""


class FlowPair(NamedTuple):
    """Both directions of a pair, seen from its home."""

    there: FlowSettings
    """The flow whose source is the home of the clients."""
    back: FlowSettings
    topics: frozenset[str] = frozenset()
    """The topics that fail back, by their name on both sides, or empty for all."""

    def has(self, topics: Iterable[str]) -> bool:
        """Return whether some of these topics fail back."""
        return any(not self.topics or topic in self.topics for topic in topics)


def ways_of(settings: Settings, there: FlowSettings, topics: Collection[str] = ()) -> FlowPair:
    """Return both directions of the pair of a flow that failed over. Raises ConfigError: no opposite flow."""
    return FlowPair(there, required_opposite(settings, there), frozenset(topics))


def situation(settings: Settings, ways: FlowPair) -> FailbackState | None:
    """Return the next stage, or None if complete. Raises Refused: a failover runs; DrkitError: no answer."""
    there, back, _ = ways
    opened = {flow.name: _journal_of(settings, flow)[0] for flow in (there, back)}
    if (run := opened[there.name]) is not None:
        if run.table is FAILOVER:
            hint = run.table.next_commands(abortable=run.abortable)
            evidence = f"run {run.run_id}: {run.state}"
            raise Refused("failover_under_way", where=f"flow {there.name}", evidence=evidence, hint=hint)
        return FailbackState(FailbackStage.RETURN, is_under_way=True)
    if (run := opened[back.name]) is not None:
        return FailbackState(
            FailbackStage.TURN if run.table is RETURN else FailbackStage.SWITCH, is_under_way=True
        )
    if ways.has(moved_topics(settings, back, there).waiting):
        return FailbackState(FailbackStage.TURN, is_under_way=False)
    moved = moved_topics(settings, there, back)
    stages = {FailbackStage.RETURN: moved.waiting, FailbackStage.SWITCH: moved.returned}
    next_ = next((stage for stage, topics in stages.items() if ways.has(topics)), None)
    return None if next_ is None else FailbackState(next_, is_under_way=False)


def refuse_unknown(settings: Settings, ways: FlowPair) -> None:
    """Refuse topics that the flow never copied. Raises Usage; DrkitError: the cluster does not answer."""
    if not ways.topics:
        return
    known = records_of(settings, ways.there).all(GenerationRecord).keys()
    if unknown := sorted(ways.topics - known):
        raise Usage(
            "topic_unknown",
            where=f"--topic, flow {ways.there.name}",
            evidence=f"it has copied {counted(len(known), 'topic')} of {ways.there.source}",
            hint="drkit status shows the topics",
            topic=unknown[0],
        )


def refuse_unreplayed(settings: Settings, ways: FlowPair) -> None:
    """Refuse to move clients home without records that were to be replayed. Raises Refused or DrkitError."""
    if pending := unreplayed(records_of(settings, ways.there), ways.topics or None):
        raise not_replayed(ways.there.name, pending)


def refuse_stopped(settings: Settings, ways: FlowPair) -> None:
    """Refuse to wait for a copy that stopped: another client wrote there. Raises Refused or DrkitError."""
    if written := stopped(records_of(settings, ways.back), ways.topics):
        raise refusal(ways.back.name, ways.back.target, written)


def refuse_uncut(settings: Settings, ways: FlowPair, clients_cut: str) -> None:
    """Refuse to move clients home if the other cluster could not become the standby afterwards.

    :param clients_cut: how clients are kept off the side that they leave, or empty if not stated
    :raises Refused: its fence would have to be lifted, and nothing else would keep clients off
    """
    if clients_cut:
        return
    by_size: list[str] = []
    with suppress(DrkitError), FailoverService(settings, ways.back) as service:  # the switchover reports it
        topics = moved_topics(settings, ways.there, ways.back).returned
        by_size = service.switch_by_size([t for t in topics if ways.has([t])])
    if by_size:
        raise uncut(ways, by_size)


def uncut(ways: FlowPair, topics: Collection[str], switchover: str = "switchover home") -> Refused:
    """Return the refusal of a `switchover` that would fence these topics by size."""
    left, home = ways.back.source, ways.back.target
    return Refused(
        "switchover_fence_refuses_drkit",
        where=f"{left}: {first_of(sorted(topics))}",
        evidence=f"{SIZE} = 0 on {left} would have to be lifted before {ways.there.name} copies to it:"
        f" clients would be on {home}, and nothing would protect it",
        switchover=switchover,
        left=left,
    )


def nothing_to_do(ways: FlowPair) -> Refused:
    """Return the refusal of a failback with nothing to do."""
    there = ways.there
    which = f"none of {first_of(sorted(ways.topics))}" if ways.topics else "no topic"
    evidence = f"{which} is active on {there.target} because of a failover of this flow"
    return Refused("nothing_to_fail_back", where=f"flow {there.name}", evidence=evidence)


def going_home(topics: Iterable[PairTopic], ways: FlowPair) -> list[PairTopic]:
    """Return the topics of a pair that fail back, or have failed back. Pure."""
    return [t for t in topics if ways.has([t.topic])]


def not_in_step(topics: Iterable[PairTopic], back: FlowSettings) -> list[PairTopic]:
    """Return the topics that fail back and whose copy is not in step. Pure.

    A copy that lacks history does not get it by waiting: the switchover refuses it by name.
    """
    lagging = (t for t in topics if t.active == back.source and t.state is not PairState.PROTECTED)
    return [t for t in lagging if not t.lacks_history]


def _journal_of(settings: Settings, flow: FlowSettings) -> tuple[RunLog | None, float]:
    """Return the run of a flow that is under way, and the term of its first run: infinite without a run."""
    service = FailoverService(settings, flow)
    service.may_be_new = True
    with service:
        return service.under_way, service.first_term


def left_home(settings: Settings, there: FlowSettings, back: FlowSettings) -> bool:
    """Return whether clients are not at home: on the source of `there`, which they left first.

    :raises DrkitError: a cluster does not answer
    """
    if not promoted_copies(settings, there):
        return False
    return _journal_of(settings, there)[1] < _journal_of(settings, back)[1]


COMMAND: Final = "drkit failback"
_POLL_SECONDS: Final = 2.0


class FailbackOptions(NamedTuple):
    """The options of a failback."""

    request: RunRequest
    """The decisions of all stages; each stage takes those that concern it."""
    wait_seconds: float
    """Time that the switchover may wait for the copy on the old primary."""
    take_over: bool = False
    """Continue a run that another orchestrator has locked."""
    is_planned: bool = False
    """Clients were moved by a switchover: a replicator may run the return, too."""


class StageReport(NamedTuple):
    """The report of a stage, complete or as far as the stage came."""

    stage: FailbackStage
    flow: str
    report: dict[str, Any]


class FailbackOperator:
    """Run each stage unattended; a subclass shows progress and asks for decisions."""

    def begin_stage(self, flow: FlowSettings) -> None:
        """Prepare for a stage; `flow` is the one whose run the stage is."""

    def progress(self) -> Callable[[StepProgress], None]:
        """Return a new receiver of the progress of one stage."""
        return lambda _: None

    def show_wait(self, back: FlowSettings, state: str) -> None:
        """Show how far the copy on the old primary is; called for each change."""

    def confirm_switch(self, proposal: Proposal) -> None:
        """Confirm that clients are moved. Raises DrkitError to refuse."""

    def begin_return(
        self,
        service: FailoverService,
        request: RunRequest,
        topics: tuple[str, ...],
        stage: FailbackStage,  # noqa: ARG002  for subclasses
    ) -> dict[str, Any]:
        """Begin a failback and run it to its end; return its report. Raises DrkitError: held, or failed."""
        return service.begin_return(request, topics=topics)

    def resume_return(
        self, service: FailoverService, request: RunRequest, *, take_over: bool
    ) -> dict[str, Any]:
        """Resume a failback and run it to its end; return its report. Raises DrkitError: held, or failed."""
        return service.resume(request, take_over=take_over)


@dataclass
class Failback:
    """Run one failback of one pair, stage by stage."""

    settings: Settings
    ways: FlowPair
    options: FailbackOptions
    operator: FailbackOperator
    stop: Event
    """Ends a wait early when it is set."""
    reports: list[StageReport] = field(default_factory=list, init=False)
    """The stages that were run, in order."""
    is_complete: bool = field(default=False, init=False)
    """Whether no stage is left."""

    def run(self, until: FailbackStage | None = None) -> None:
        """Run all remaining stages, or those before `until`. Raises Refused: nothing to do; DrkitError."""
        now: FailbackState | None = self._next_stage()
        while now is not None:
            if now.stage is until:
                return
            if self.stop.is_set():
                done, hint = f"before stage {now.stage}", f"continue: {COMMAND}"
                raise Failed("run_interrupted", where=self.ways.back.name, evidence=done, hint=hint)
            self._refuse_unreplayed(now)
            flow = self._flow_of(now.stage)
            self.operator.begin_stage(flow)
            if now.stage is FailbackStage.SWITCH and not now.is_under_way:
                self._refuse_uncut()
                self._wait_for_copy()
                self._refuse_uncut()  # which fence it gets may have been unknown
            try:
                with FailoverService(self.settings, flow, self.operator.progress()) as service:
                    service.stopping = lambda: self.stop
                    self._run_stage(service, now)
            except (RunLocked, NoRun, Refused) as error:
                if not self._is_run_by_replicator(now, error):
                    raise
                # The report so far is of the replicator's run: nothing in it is to be cleared.
                self.reports = [done for done in self.reports if done.stage is not now.stage]
                self.stop.wait(_POLL_SECONDS)
            now = situation(self.settings, self.ways)
        self.is_complete = True

    def rehearse(self) -> Rehearsal | ReturnProposal:
        """Return what the next stage would do. Changes nothing.

        :raises Refused: the stage would be refused, or its run is already under way
        :raises DrkitError: a cluster does not answer
        """
        now = self._next_stage()
        flow = self._flow_of(now.stage)
        if now.is_under_way:
            raise Refused("dry_run_of_held_run", where=flow.name, evidence=f"stage {now.stage}")
        self._refuse_unreplayed(now)
        with FailoverService(self.settings, flow, self.operator.progress()) as service:
            if now.stage is FailbackStage.SWITCH:
                self._refuse_uncut()
                return service.rehearse([], self._switch_request(), self._switched_topics())
            return service.rehearse_return(self._return_request(now.stage), self._topics)

    def _next_stage(self) -> FailbackState:
        if (now := situation(self.settings, self.ways)) is None:
            raise nothing_to_do(self.ways)
        return now

    def _refuse_unreplayed(self, now: FailbackState) -> None:
        if now.stage is not FailbackStage.TURN and not now.is_under_way:
            refuse_unreplayed(self.settings, self.ways)

    def _refuse_uncut(self) -> None:
        refuse_uncut(self.settings, self.ways, self.options.request.clients_cut)

    def _is_run_by_replicator(self, now: FailbackState, error: DrkitError) -> bool:
        """Return whether a replicator of the pair runs a return, or has: one that needs no decision."""
        returns = (
            {FailbackStage.TURN, FailbackStage.RETURN} if self.options.is_planned else {FailbackStage.TURN}
        )
        if now.stage not in returns or self.stop.is_set():
            return False
        if isinstance(error, RunLocked | NoRun):  # it works on the run, or has just ended it
            return True
        later = situation(self.settings, self.ways)
        return later is None or later.stage is not now.stage

    @property
    def _topics(self) -> tuple[str, ...]:
        return tuple(sorted(self.ways.topics))

    def _switched_topics(self) -> tuple[str, ...]:
        """Return the topics to move home, or none for all: clients may have left only some of them."""
        settings, there = self.settings, self.ways.there
        if self.ways.topics or is_over(records_of(settings, there), there):
            return self._topics
        return tuple(sorted(moved_topics(settings, there, self.ways.back).returned))

    def _flow_of(self, stage: FailbackStage) -> FlowSettings:
        return self.ways.there if stage is FailbackStage.RETURN else self.ways.back

    def _run_stage(self, service: FailoverService, now: FailbackState) -> None:
        try:
            report = self._reported(service, now)
        except DrkitError:
            if (so_far := service.report()) is not None:
                self.reports.append(StageReport(now.stage, service.flow.name, so_far))
            raise
        self.reports.append(StageReport(now.stage, service.flow.name, report))

    def _reported(self, service: FailoverService, now: FailbackState) -> dict[str, Any]:
        take_over = self.options.take_over
        if now.stage is FailbackStage.SWITCH:
            request = self._switch_request()
            if now.is_under_way:
                return service.resume(request, take_over=take_over)
            topics = self._switched_topics()
            return service.begin([], request, self.operator.confirm_switch, topics=topics)
        request = self._return_request(now.stage)
        if now.is_under_way:
            return self.operator.resume_return(service, request, take_over=take_over)
        return self.operator.begin_return(service, request, self._topics, now.stage)

    def _return_request(self, stage: FailbackStage) -> RunRequest:
        request = self.options.request
        if stage is FailbackStage.TURN:
            return RunRequest(clients_cut=request.clients_cut)
        return request._replace(evict_members=False, acls_only_home="")

    def _switch_request(self) -> RunRequest:
        request = self.options.request
        return RunRequest(
            planned=True,
            clients_cut=request.clients_cut,
            evict_members=request.evict_members,
            acls_only_home=request.acls_only_home,
        )

    def _wait_for_copy(self) -> None:
        back = self.ways.back
        ways = self.ways._replace(topics=frozenset(self._switched_topics()))
        deadline = monotonic() + self.options.wait_seconds
        shown = "nothing is known yet"
        with closing(PairedCollector(self.settings, back, groups=False)) as collector:
            while True:
                pair = collector.look().pair
                topics = going_home(pair.topics, ways) if pair is not None else []
                lagging = not_in_step(topics, back)
                if topics and not lagging:
                    put_back(self.settings, self.ways.there, self._topics or None)
                    return
                if (state := copy_state(pair, lagging)) != shown:
                    shown = state
                    self.operator.show_wait(back, state)
                if lagging:
                    waits = self.ways._replace(topics=frozenset(t.topic for t in lagging))
                    refuse_stopped(self.settings, waits)
                if monotonic() >= deadline or self.stop.wait(_POLL_SECONDS):
                    only = (word for topic in self._topics for word in ("--topic", topic))
                    raise Failed(
                        "not_in_step",
                        where=back.name,
                        evidence=shown,
                        target=back.target,
                        source=back.source,
                        flow_back=back.name,
                        command=typed(*COMMAND.split(), "--flow", self.ways.there.name, *only),
                    )


def copy_state(pair: PairStatus | None, left: Sequence[PairTopic]) -> str:
    """Return how far the copy on the old primary is, in words; `left` is not in step. Pure."""
    if pair is None or not pair.topics:
        return "its state is unknown"
    lagging = f"{counted(len(left), 'topic')} of {len(pair.topics)}"
    records = [t.records for t in left]
    known = [n for n in records if n is not None]
    more = f", {sum(known):,} records left" if known and len(known) == len(records) else ""
    reason = next((t.why for t in left if t.why), "")
    return f"{lagging}{more}" + (f"; {left[0].topic}: {reason}" if reason else "")
