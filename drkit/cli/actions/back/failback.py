"""``drkit failback``: bring clients back to the cluster that they were failed over from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Unpack

from drkit.cli.actions.back.choices import Decisions, request_of
from drkit.cli.actions.back.reprotect import begun, decided_with, show_rehearsal
from drkit.cli.actions.failover import asking as asking_to_switch
from drkit.cli.actions.failover import show_rehearsal as show_switch
from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.screens.failback import home_line, show_wait, shown_stage
from drkit.cli.screens.failover import Progressing
from drkit.cli.session import session
from drkit.cli.signals import stopping_run
from drkit.cli.waiting_flow import Looked
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.failback import (
    COMMAND,
    Failback,
    FailbackOperator,
    FailbackOptions,
    FailbackStage,
    FlowPair,
    StageReport,
    left_home,
    refuse_unknown,
    ways_of,
)
from drkit.failover.proposal import Proposal, Rehearsal
from drkit.failover.returning.scope import died, pairs_of_flows
from drkit.failover.service import FailoverService
from drkit.next_command import with_given_options


class _Given(Decisions):
    """The options of the command."""

    flow: str | None
    wait_seconds: float
    evict_members: bool
    acls_only_home: str | None
    dry_run: bool
    take_over: bool
    yes: bool
    verbose: bool


def failback(**given: Unpack[_Given]) -> None:
    """Run ``drkit failback``."""
    settings = configuration().settings
    there = _chosen_flow(settings, given["flow"])
    if len(settings.flows) > 1:
        session().flow = there.name  # printed commands are of this flow, too
    ways = ways_of(settings, there, given["topics"])
    refuse_unknown(settings, ways)
    operator = _Terminal(settings, yes=given["yes"])
    found = Failback(settings, ways, _options(given), operator, stopping_run())
    if given["dry_run"]:
        rehearsed = found.rehearse()
        if isinstance(rehearsed, Rehearsal):
            show_switch(ways.back.name, rehearsed)
        else:
            show_rehearsal(rehearsed)
        return
    try:
        found.run()
    finally:
        stages = [{"stage": done.stage.value, "report": _typed(done)} for done in found.reports]
        answer = {"flow": there.name, "home": found.is_complete, "stages": stages}
        emit(answer, shown=_shown(found, ways, verbose=given["verbose"]))


def _options(given: _Given) -> FailbackOptions:
    request = request_of(given, COMMAND)._replace(
        evict_members=given["evict_members"], acls_only_home=given["acls_only_home"] or ""
    )
    return FailbackOptions(request, given["wait_seconds"], take_over=given["take_over"])


def _chosen_flow(settings: Settings, name: str | None) -> FlowSettings:
    """Return the named flow, else the only one whose primary died, else the only one whose clients left."""
    if name is not None or len(settings.flows) == 1:
        return settings.one_flow(name)
    looks: list[Looked] = [lambda known, there, _: died(known, there), left_home]
    for is_away in looks:
        flows = []
        for there, back in pairs_of_flows(settings):
            with suppress(ClusterUnreachable):  # of the other direction: the old primary is its target
                flows += [there] if is_away(settings, there, back) else []
        if len(flows) == 1:
            return flows[0]
    return settings.one_flow(None, "none of them, or more than one, lost its primary")


class _Terminal(FailbackOperator):
    """Show progress on the terminal, and ask a person.

    :param yes: do not ask
    """

    def __init__(self, settings: Settings, *, yes: bool) -> None:
        self._settings, self._yes = settings, yes

    def begin_stage(self, flow: FlowSettings) -> None:
        session().flow = flow.name if len(self._settings.flows) > 1 else ""

    def progress(self) -> Callable[[StepProgress], None]:
        return Progressing()

    def show_wait(self, back: FlowSettings, state: str) -> None:
        show_wait(back, state)

    def confirm_switch(self, proposal: Proposal) -> None:
        asking_to_switch(yes=self._yes, place=COMMAND)(proposal)

    def begin_return(
        self, service: FailoverService, request: RunRequest, topics: tuple[str, ...], stage: FailbackStage
    ) -> dict[str, Any]:
        yes = self._yes or stage is FailbackStage.TURN  # nothing is left to confirm: clients have moved
        return begun(service, request, COMMAND, topics=topics, yes=yes)

    def resume_return(
        self, service: FailoverService, request: RunRequest, *, take_over: bool
    ) -> dict[str, Any]:
        resume = partial(service.resume, take_over=take_over)
        return decided_with(resume, request, COMMAND, yes=self._yes)


def _shown(run: Failback, ways: FlowPair, *, verbose: bool) -> Iterator[object]:
    """Yield the reports of the stages so far."""
    for number, done in enumerate(run.reports, start=1):
        # What one stage leaves to do, the next ones have done; the turn may be a replicator's.
        is_over = done.stage is not FailbackStage.TURN and (run.is_complete or number < len(run.reports))
        report = _typed(done) | ({"next": []} if is_over else {})
        yield from shown_stage(done.stage, report, verbose=verbose)
    if run.is_complete:
        yield home_line(ways)


def _typed(done: StageReport) -> dict[str, Any]:
    given = session().given
    of_flow = given._replace(flow=done.flow if given.flow else "")
    return done.report | {"next": [with_given_options(line, of_flow) for line in done.report["next"]]}
