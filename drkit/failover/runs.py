"""One flow's runs of any table: steps, connections, journal, and the operations resume and abort."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from threading import Event
from typing import Any, ClassVar, Final, Self
import uuid

from drkit.clock import wall_ms
from drkit.config import FlowSettings, Settings
from drkit.counted import first_of
from drkit.errors import DrkitError, Refused
from drkit.failover.checks.run_opening import decided, least_term
from drkit.failover.checks.scope import narrowed
from drkit.failover.core.commands import UNTIL_EXPORT
from drkit.failover.core.context import Context, Scope, StepProgress
from drkit.failover.core.request import RunRequest, choice_for, choices_among, refuse_unknown
from drkit.failover.core.reverse import moved_back_in_words, state_younger, without_moved_back
from drkit.failover.core.step import Step
from drkit.failover.fencing.source_record import overrule_abort
from drkit.failover.interpreter import Interpreter, refuse_late_abort, request_errors
from drkit.failover.report import keep, report_of
from drkit.failover.returning.after_begin import ProtectedStep, ReplayStep
from drkit.failover.returning.begin import BeginStep
from drkit.failover.returning.compare import CompareStep
from drkit.failover.returning.contact import ContactStep
from drkit.failover.returning.deciding import DecideStep
from drkit.failover.returning.demote import DemoteStep
from drkit.failover.returning.exporting import ExportStep
from drkit.failover.returning.replays import note_unreplayed
from drkit.failover.steps.after_open import DoneStep, RepointStep, VerifyStep
from drkit.failover.steps.drain import DrainStep
from drkit.failover.steps.fence import FenceStep
from drkit.failover.steps.freeze import FreezeStep
from drkit.failover.steps.group_offsets import CommitOffsetsStep, TranslateStep
from drkit.failover.steps.opening import OpenStep
from drkit.failover.steps.snapshot import LockStep, SnapshotStep
from drkit.flow_state.creation import refuse_renamed
from drkit.flow_state.names import journal_topic, state_topic
from drkit.flow_state.pending_fence import paid_with
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind, RunLog
from drkit.journal.file import JournalFile, folder_of
from drkit.journal.journal import Journal, NoJournal, RunLocked, open_run, refuse_open
from drkit.journal.machine import FAILOVER, RETURN, RunState, StepName
from drkit.journal.stall import Stall
from drkit.journal.topic import JournalTopic
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.requests import exists, metadata
from drkit.kafka.topics import ALL_KEPT, ensure_own_topic
from drkit.pair.promotions import opened_term
from drkit.status.pair.journal import JournalRuns


def all_steps() -> Mapping[StepName, Step]:
    """Return a step for every row."""
    steps: tuple[Step, ...] = (
        LockStep(), SnapshotStep(),
        FenceStep(), DrainStep(), FreezeStep(),
        TranslateStep(), CommitOffsetsStep(), OpenStep(), RepointStep(), VerifyStep(), DoneStep(),
    )  # fmt: skip
    return {step.name: step for step in steps}


def return_steps() -> Mapping[StepName, Step]:
    """Return a step for every row."""
    steps: tuple[Step, ...] = (
        LockStep(), ContactStep(), CompareStep(), ExportStep(), DecideStep(), DemoteStep(), BeginStep(),
        ReplayStep(), ProtectedStep(),
    )  # fmt: skip
    return {step.name: step for step in steps}


def refuse_held(run: RunLog | None) -> None:
    """Refuse to begin a run, or to show one that would begin, while another is held.

    :param run: the one that is under way
    :raises RunLocked: it is held; the error has its reason and the commands that end it
    """
    if run is None or not run.is_left:
        return
    reason = run.held.get("error", {}).get("error", "")
    raise RunLocked(
        "run_held",
        where=f"run {run.run_id}, term {run.term}",
        evidence=f"{run.state} at {run.last_step or 'its beginning'}" + (f": {reason}" if reason else ""),
        table=run.table.name,
        commands=run.table.next_commands(abortable=run.abortable),
    )


def refuse_owned(run: RunLog | None, flow: str) -> None:
    """Refuse to apply or lift a fence while a run that can still be aborted owns it.

    :param run: the one that is under way
    :param flow: its flow's name
    """
    if run is None or not run.abortable:
        return
    command = run.table.typed("--flow", flow)
    if run.table is RETURN:
        then = (
            f", which fences it again after a failover; or {command.plus('--abort')}, then: {paid_with(flow)}"
        )
    else:
        then = f", or {command.plus('--abort')}, which lifts its fences"
    raise Refused(
        "fence_owned",
        where=f"run {run.run_id}",
        evidence=f"it is {run.state} at {run.last_step or 'its beginning'}",
        table=run.table.name,
        command=command,
        then=then,
    )


NO_SCOPE: Final = Scope({}, (), whole_flow=False)
_CONNECT_MS: Final = 10_000
NAMED: Final = "--topic "
"""The prefix of a topic's name in the journalled options of a failback."""
NO_DECISION: Final[Mapping[str, Any]] = {}


class Runs:
    """One flow's runs in one process. Use it from one thread, in a ``with``.

    :param tell: receives live progress
    """

    journal_class: ClassVar[type[Journal]] = Journal
    """The class of journal that this process writes; a process that runs scenarios may replace it."""

    def __init__(
        self,
        settings: Settings,
        flow: FlowSettings,
        tell: Callable[[StepProgress], None] = lambda _: None,
        *,
        steps: Mapping[StepName, Step] | None = None,
    ) -> None:
        self._settings, self.flow, self._tell = settings, flow, tell
        self._steps = {FAILOVER.name: steps or all_steps(), RETURN.name: return_steps()}
        self._folder = folder_of(settings.failover.journal_folder)
        self._run_id = ""
        self.stopping: Callable[[], Event] = Event
        """Called when a run begins to work: the event stops it before its point of no return."""
        self.may_be_new = False
        """Whether a flow that never copied is no error: clients may have moved to its source all the same."""

    def __enter__(self) -> Self:
        """Connect to the target.

        :raises ClusterUnreachable: the target does not answer
        :raises Refused: nothing was ever copied to the target, or the state was deleted
        """
        flow, loop = self.flow, EventLoop()
        target_settings = self._settings.cluster(flow.target).with_client(flow.target_admin)
        target = RawCluster(loop, target_settings, "failover")
        self._loop, self._target = loop, target
        self._topic = JournalTopic(target, flow.source, flow.target)
        self._state: StateTopic | None = None
        self._context: Context | None = None
        try:
            with request_errors():
                loop.run(target.connect, _CONNECT_MS)
                name = state_topic(flow.source)
                journal = journal_topic(flow.source)
                topics = loop.run(metadata, target, [name, journal])
                has_state, is_old = (exists(n, topics[n], flow.target) for n in (name, journal))
                if is_old and not has_state:
                    raise state_younger(flow, f"there is {journal}, and no {name}")
                if not has_state and not self.may_be_new:
                    none = f"there is no {name} on {flow.target}"
                    raise Refused("never_copied", where=f"flow {flow.name}", evidence=none, flow=flow.name)
                self._state = StateTopic(target_settings, flow.source)
                self._state_id = str(topics[name].topic_id) if has_state else ""
                if has_state:
                    self._state.load()
                    refuse_renamed(self._state.records, flow)
                loop.run(self._topic.read_existing)
        except DrkitError:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        if self._context is not None:
            self._context.close()
        else:
            self._target.close()
        if self._state is not None:
            self._state.close()
        self._loop.close()

    def refuse_under_way(self) -> None:
        """Refuse to begin a run, or to show one, while another is under way or held. Raises RunLocked."""
        refuse_held(self.under_way)
        refuse_open(self._topic)
        self.refuse_younger()

    def refuse_younger(self) -> None:
        """Refuse to decide by a state that is younger than its journal: roles are missing. Raises Refused."""
        assert self._state is not None  # noqa: S101  __enter__ made it
        if why := self._topic.history.lost_state(self._state.records, self._id_of_state()):
            raise state_younger(self.flow, why)

    def _id_of_state(self) -> str:
        """Return the id of the flow's state topic, which a first run has just created."""
        if not self._state_id:
            name = state_topic(self.flow.source)
            with request_errors():
                topic = self._loop.run(metadata, self._target, [name])[name]
            self._state_id = "" if topic.error else str(topic.topic_id)
        return self._state_id

    def resume(self, added: RunRequest, *, take_over: bool = False) -> dict[str, Any]:
        """Continue the run that is under way; return the report.

        :param added: what is accepted or requested in addition
        :param take_over: at once, without checking whether a process on another machine still works on it
        :raises ConfigError: no run is under way
        :raises DrkitError: as :meth:`begin`
        """
        return self._again(added, abort="", verb="resume", take_over=take_over)

    def abort(self, reason: str, *, take_over: bool = False) -> dict[str, Any]:
        """Roll back the run that is under way; return the report.

        :param take_over: as for :meth:`resume`
        :raises ConfigError: no run is under way
        :raises Refused: the run has passed the point of no return
        """
        return self._again(RunRequest(), abort=reason, verb="abort", take_over=take_over)

    def report(self) -> dict[str, Any] | None:
        """Return the report of this process's run; None before it began."""
        run = self._topic.history.runs.get(self._run_id)
        return report_of(run, self.flow.name) if run is not None else None

    def context_outside_run(self, scope: Scope = NO_SCOPE, journal: NoJournal | None = None) -> Context:
        """Return a context on both clusters of no run; without a `journal` effects are refused."""
        known = self._context or self._new_context(scope, RunRequest(), NoJournal(), NO_DECISION)
        self._context = replace(known, scope=scope, journal=journal or NoJournal(), run_id="")
        return self._context

    def read_again(self) -> None:
        """Read the journal to its end and update :attr:`under_way`. Raises DrkitError: it cannot be read."""
        with request_errors():
            self._loop.run(self._topic.read_existing)

    @property
    def under_way(self) -> RunLog | None:
        """The run that is under way, as of the last read of the journal, or None."""
        return self._topic.history.open

    @property
    def first_term(self) -> float:
        """The term of the first run in the journal, as of its last read; infinite without a run."""
        return min((run.term for run in self._topic.history.runs.values()), default=inf)

    def _begun(
        self, context: Context, opening: Mapping[str, Any], decision: Mapping[str, Any]
    ) -> dict[str, Any]:
        term = max(least_term(context, self._folder), context.request.term)
        ensure_own_topic(context.target_admin(), self._topic.name, ALL_KEPT)
        journal = self._journal(uuid.uuid4().hex[:12])
        chosen: dict[str, Any] = {"scope": context.scope.to_json(), "request": context.request.to_json()}
        ids = {"target_id": context.target.cluster_id, "state_id": self._id_of_state()}
        journal.begin(term, {**chosen, **ids, "decision": decided(context, decision), **opening})
        context = self._context = replace(context, journal=journal, run_id=journal.run_id, term=journal.term)
        return self._walked(context, journal, abort="")

    def _again(self, added: RunRequest, *, abort: str, verb: str, take_over: bool) -> dict[str, Any]:
        run = open_run(self._topic, verb, self._target.cluster_id)
        assert self._state is not None  # noqa: S101  __enter__ made it
        newest = opened_term(self._state.records)
        if run.lacks_opening(newest) and not added.accept_data_loss:
            evidence = f"it ends at {run.last_step}; by the flow's state term {newest} is open"
            raise Refused("journal_older", where=f"run {run.run_id}, term {run.term}", evidence=evidence)
        smaller, wanted = None, RunRequest.from_json(run.request).plus(added)
        if abort:
            refuse_late_abort(run)
        else:
            refuse_late_choices(run, added)
            smaller = self._narrowed(run, added if run.is_final else wanted)
        journal = self._journal(run.run_id)
        given = {name: value for name, value in wanted.to_json().items() if name in added.given()}
        journal.take_over(given, at_once=take_over)
        run = journal.run
        request = RunRequest.from_json(run.request)
        decision = run.opening.get("decision", {})
        context = self._new_context(Scope.from_json(run.scope), request, journal, decision)
        words = run.opening.get("words", ())
        named = tuple(word.removeprefix(NAMED) for word in words if word != UNTIL_EXPORT)
        context = replace(context, named_topics=named, until_export=UNTIL_EXPORT in words)
        context = replace(context, run_id=run.run_id, term=run.term)
        if run.table is RETURN or run.is_final:
            context = replace(context, is_opened_before=run.table is FAILOVER)
            with request_errors():
                still = without_moved_back(context, is_failover=run.table is not RETURN)
                if run.table is RETURN:
                    moved = context.scope.topics.keys() - still.scope.topics.keys()
                    for note in note_unreplayed(context, moved):
                        self._tell(StepProgress(StepName.REPLAY, note))
                context = still
        self._context = context
        if run.state is RunState.ABORTING and not abort:
            abort = "the abort continues"
        if added.accept_data_loss and run.is_final:
            overrule_abort(context, added.accept_data_loss)
        return self._walked(context, journal, abort=abort, smaller=smaller)

    def _narrowed(self, run: RunLog, request: RunRequest) -> Scope | None:
        """Return the scope without what a request leaves behind, or None if it names nothing of the run."""
        scope = Scope.from_json(run.scope)
        left = sorted({*scope.topics, *scope.groups}.intersection(request.leave_behind))
        if not left:
            return None
        refuse_late_abort(run, first_of(left))
        with request_errors():
            return narrowed(self._new_context(scope, request, NoJournal(), NO_DECISION), left)

    def _walked(
        self, context: Context, journal: Journal, *, abort: str, smaller: Scope | None = None
    ) -> dict[str, Any]:
        stop = self.stopping()
        context.is_stopped = lambda: stop.is_set() and not journal.run.is_final
        try:
            with Stall() as stall:
                steps = self._steps[journal.run.table.name]
                interpreter = Interpreter(context, journal, steps, stall)
                if not context.scope.topics:  # clients have moved back since: nothing is undone
                    over = {"pending": moved_back_in_words(self.flow)}
                    journal.write(EntryKind.END, None, "", {"state": RunState.ABORTED, "evidence": over})
                elif abort:
                    interpreter.abort(abort)
                elif journal.run.lacks_opening(opened_term(context.state.records)):
                    journal.write(EntryKind.END, None, "", {"state": RunState.DONE.value})
                else:
                    if smaller is not None:
                        interpreter.narrow(smaller)
                    interpreter.walk()
        finally:
            keep(journal.run, self.flow.name, self._folder)
        return report_of(journal.run, self.flow.name)

    def _journal(self, run_id: str) -> Journal:
        self._run_id = run_id
        return self.journal_class(self._loop, self._topic, JournalFile(self._folder, run_id), run_id)

    def _new_context(
        self, scope: Scope, request: RunRequest, journal: Any, decision: Mapping[str, Any]
    ) -> Context:
        assert self._state is not None  # noqa: S101  __enter__ made it
        self._context = Context(
            settings=self._settings, flow=self.flow, scope=scope, request=request, run_id="", term=0,
            journal=journal, loop=self._loop, target=self._target, state=self._state, tell=self._tell,
            decision=decision, journal_runs=lambda: JournalRuns.of(self._topic.history, wall_ms()),
        )  # fmt: skip
        return self._context


def refuse_late_choices(run: RunLog, added: RunRequest) -> None:
    """Refuse choices that a failback cannot follow, before they are journalled: a run keeps its choices.

    :raises Refused: one names another topic; or topics may have begun, and something else was decided
    """
    if run.table is not RETURN:
        return
    topics = run.scope["topics"]
    command = RETURN.resume.plus(*choices_among(added, topics).options())
    refuse_unknown(added, topics, f"run {run.run_id}", command)
    if not run.is_final:
        return
    late = [
        f"{topic}: {choice_for(run.request.get(kind, {}), topic) or 'nothing'} was said, now {value}"
        for kind, choices in (("dispositions", added.dispositions), ("methods", added.methods))
        for topic, value in choices.items()
        if choice_for(run.request.get(kind, {}), topic) != value
    ]
    if late:
        raise Refused(
            "decided_too_late", where=f"run {run.run_id}", evidence=first_of(late), command=RETURN.command
        )
