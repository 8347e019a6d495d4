"""A switchover drill: a planned failover of production, a hold, and the failback, for real.

Each change is a run of the failover service. A run that is held ends the drill; its own command continues it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
import threading
from typing import Final

from drkit.clock import monotonic, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.drill.evidence import (
    DrillEvidence,
    GroupCommit,
    Move,
    PlannedMove,
    SwitchoverEvidence,
    measure_group_outages,
)
from drkit.drill.plan import DrillPlan
from drkit.drill.steps import CollectedEvidence, DrillRun, SteppedDrill, refuse_unprotected
from drkit.drill.watches import CommitWatch
from drkit.errors import DrkitError, Failed, Refused
from drkit.failover.core.context import Scope
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import state_of
from drkit.failover.failback import (
    Failback,
    FailbackOperator,
    FailbackOptions,
    FailbackStage,
    FlowPair,
    situation,
    uncut,
    ways_of,
)
from drkit.failover.proposal import Rehearsal
from drkit.failover.service import FailoverService
from drkit.flow_state.lease.watch import replicator_of
from drkit.journal.machine import RunState
from drkit.next_command import typed
from drkit.status.pair.model import PairState
from drkit.status.paired import PairedCollector

OBSERVE_SECONDS: Final = 10.0
"""For which groups are observed before production moves: consumers commit each 5 s by default."""
_LOOK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
"""After a refusal of a return: consumers leave the old primary."""


def rehearse_switchover(settings: Settings, plan: DrillPlan) -> Rehearsal:
    """Return the dry run of the failover to the target; check that a failback can follow. Change nothing.

    :raises ConfigError: no flow leads back
    :raises Refused: the failover would be refused, or production could not be brought home
    :raises DrkitError: a cluster does not answer
    """
    there = settings.one_flow(plan.flow)
    ways = ways_of(settings, there)
    if (now := situation(settings, ways)) is not None:
        evidence = f"clients were moved to {there.target}; the next stage of the failback is {now.stage}"
        raise Refused("production_not_at_home", where=there.name, evidence=evidence, flow=there.name)
    with FailoverService(settings, there) as service:
        rehearsal = service.rehearse((), RunRequest(planned=True, clients_cut=plan.clients_cut))
        for _, refusal in rehearsal.refusals:
            raise refusal
        topics = rehearsal.chosen.scope.topics
        if not plan.clients_cut and (by_size := service.switch_by_size(topics)):
            raise uncut(FlowPair(ways.back, there), by_size, "switchover")
    refuse_unprotected(settings, there)
    _refuse_no_way_home(settings, ways, topics.values())
    if not plan.clients_cut:
        with FailoverService(settings, ways.back) as service:
            if by_size := service.switch_by_size(topics.values()):
                raise uncut(ways, by_size)
    return rehearsal


def _refuse_no_way_home(settings: Settings, ways: FlowPair, topics: Iterable[str]) -> None:
    back = ways.back
    if uncopied := [topic for topic in sorted(topics) if not back.copies(topic)]:
        names = {"flow_back": back.name, "flow": ways.there.name}
        raise Refused("reverse_flow_leaves_out", where=back.name, evidence=first_of(uncopied), **names)
    with state_of(settings, back) as state:
        runner = replicator_of(state.records, wall_ms()) if state is not None else None
    if runner is None or not runner.alive:
        evidence = f"the lease of {runner.host} is {runner.age_seconds:.0f} s old" if runner else "no lease"
        raise Refused("reverse_replicator_missing", where=back.name, evidence=evidence, flow=back.name)


class Switchover(SteppedDrill):
    """A drill of kind ``switchover``; once stopped, it does not move production, or ends the hold."""

    _evidence = SwitchoverEvidence()

    def __init__(self, run: DrillRun) -> None:
        super().__init__(run)
        self._note(stays=run.plan.stay)
        self._ways = ways_of(run.settings, run.flow)
        request = RunRequest(clients_cut=run.plan.clients_cut)
        options = FailbackOptions(request, run.plan.limits.seconds, is_planned=True)
        # The first signal ends the hold; only the second one ends the failback.
        self._failback = Failback(run.settings, self._ways, options, FailbackOperator(), threading.Event())
        self._scope = Scope({}, (), whole_flow=True)
        self._moves: list[Move] = []
        self._commits: list[GroupCommit] = []
        self._left = 0.0
        """Monotonic time at which clients had left the source."""

    def collect(self) -> CollectedEvidence:
        """Run all steps and return the evidence. Raises DrkitError: production did not begin to move."""
        self._run(self.gate)
        scope = self._scope.groups, self._scope.topics.values(), self._commits.append
        source, target = (CommitWatch(each, *scope) for each in self._settings.sides(self._flow))
        with source, target:
            self._run(self.observe)
            home = () if self._plan.stay else (self.home, self.settle)
            try:
                for step in (self.switchover, self.protect, self.hold, *home):
                    self._run(step)
            except (DrkitError, KeyboardInterrupt) as error:
                if not self._moves:
                    raise
                reason = error.in_short if isinstance(error, DrkitError) else "a second signal interrupted it"
                self._note(error=f"{self._steps[-1].name}: {reason}", next_command=self._command())
            outages, silent = measure_group_outages(self._commits, self._moves)
            self._note(outages=outages, silent=silent)
        topics, groups = len(self._scope.topics), len(self._scope.groups)
        evidence = DrillEvidence(switchover=self._evidence)
        return CollectedEvidence(evidence, topics, groups=groups, steps=tuple(self._steps))

    def _command(self) -> str:
        """Return the command that continues where the drill ended."""
        if self._evidence.there is None:
            return typed("drkit", "failover", "--flow", self._flow.name, "--resume")
        cut = ("--clients-cut", self._plan.clients_cut) if self._plan.clients_cut else ()
        return typed("drkit", "failback", "--flow", self._flow.name, *cut)

    def gate(self) -> str:
        """Check that production can be moved, and brought home."""
        self._scope = rehearse_switchover(self._settings, self._plan).chosen.scope
        return f"{counted(len(self._scope.topics), 'topic')}, {counted(len(self._scope.groups), 'group')}"

    def observe(self) -> str:
        """Observe which groups are at work."""
        if self._stop.wait(OBSERVE_SECONDS):
            raise DrkitError("process_stopped_before_switchover", where=self._plan.name)
        at_work = {commit.group for commit in self._commits}
        return f"{len(at_work)} of {counted(len(self._scope.groups), 'group')} at work"

    def switchover(self) -> str:
        """Move production to the target."""
        began = Move(self._flow.source, self._flow.target, monotonic())
        with FailoverService(self._settings, self._flow) as service:
            try:
                report = service.begin((), RunRequest(planned=True, clients_cut=self._plan.clients_cut))
            except BaseException:
                so_far = service.report()
                if so_far is not None and not RunState(so_far["state"]).is_over:
                    self._moves.append(began)
                raise
        self._moves.append(began)
        self._left = monotonic()
        self._note(there=PlannedMove.of(report))
        return _steps_of(self._evidence.there)

    def protect(self) -> str:
        """Make the source the standby of the target."""
        self._fail_back(until=FailbackStage.SWITCH)
        return f"{self._ways.back.name} protects production"

    def hold(self) -> str:
        """Leave clients on the target for the time of the plan, and until groups at work have followed."""
        seconds = self._plan.hold_minutes * 60
        return self._look_at(self._ways.back, seconds, self._stop, to_end=self._plan.stay)

    def home(self) -> str:
        """Move production back to the source, and make the target its standby."""
        self._moves.append(Move(self._flow.target, self._flow.source, monotonic()))
        self._fail_back()
        return _steps_of(self._evidence.home)

    def settle(self) -> str:
        """Wait until the pair is PROTECTED as before, and groups at work have followed."""
        return self._look_at(self._flow, 0.0, threading.Event(), to_end=True)

    def _fail_back(self, until: FailbackStage | None = None) -> None:
        """Run the remaining stages before one; a refused return is repeated until the time limit."""
        deadline = monotonic() + self._plan.limits.seconds
        while True:
            try:
                self._failback.run(until)
            except Refused:
                now = situation(self._settings, self._ways)
                is_return = now is not None and now.stage is not FailbackStage.SWITCH
                if not is_return or monotonic() >= deadline:
                    raise
                threading.Event().wait(_RETRY_SECONDS)
            else:
                return
            finally:
                for stage in self._failback.reports:
                    if stage.stage is FailbackStage.SWITCH and stage.report["state"] == "done":
                        self._note(home=PlannedMove.of(stage.report))

    def _look_at(self, flow: FlowSettings, seconds: float, stop: threading.Event, *, to_end: bool) -> str:
        """Look at the pair each second, until some time has passed and groups at work have followed.

        :param to_end: also until the pair is PROTECTED
        """
        began = monotonic()
        most = seconds + self._plan.limits.seconds
        with closing(PairedCollector(self._settings, flow, groups=False)) as collector:
            while True:
                pair = collector.read_pair()
                self._note(pair_state=pair.state, pair_reason=pair.reason)
                is_protected = pair.state is PairState.PROTECTED
                if is_protected and self._evidence.protected_after_seconds is None:
                    self._note(protected_after_seconds=round(monotonic() - self._left, 3))
                if {t.active for t in pair.topics} == {flow.target}:
                    raise Failed("other_run_moved_production", where=flow.name, evidence=pair.reason)
                _, silent = measure_group_outages(self._commits, self._moves[-1:])
                passed = monotonic() - began
                is_ready = not silent and (is_protected or not to_end)
                if passed >= most or (passed >= seconds and is_ready) or stop.wait(_LOOK_SECONDS):
                    missing = f", {counted(len(silent), 'group')} did not follow" if silent else ""
                    return f"{pair.state}{missing}"


def _steps_of(move: PlannedMove | None) -> str:
    steps = {} if move is None else move.steps
    return ", ".join(f"{step} {seconds:.1f}" for step, seconds in steps.items())
