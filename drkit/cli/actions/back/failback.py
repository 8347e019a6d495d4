"""``drkit failback``: bring clients back to the cluster that they were failed over from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final, Unpack

from drkit.cli.actions.back.choices import Decisions, request_of
from drkit.cli.actions.back.reprotect import begun, decided_with, show_rehearsal
from drkit.cli.actions.failover import asking as asking_to_switch
from drkit.cli.actions.failover import show_rehearsal as show_switch
from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.screens.failback import Waiting, home_line, shown_stage
from drkit.cli.screens.failover import Progressing
from drkit.cli.session import session, to_type
from drkit.cli.signals import until_signalled
from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.errors import ClusterUnreachable, DrkitError, Failed, Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.journal.journal import NoRun, RunLocked
from drkit.failover.new_primary.hold import put_back
from drkit.failover.returning.waiting import died, pairs_of_flows
from drkit.failover.service import FailoverService
from drkit.failover.way_home import (
    HomeStage,
    Situation,
    Ways,
    going_home,
    not_in_step,
    nothing_to_do,
    refuse_stopped,
    refuse_uncut,
    refuse_unknown,
    refuse_unreplayed,
    situation,
    ways_of,
)
from drkit.status.paired import PairedCollector

_PLACE: Final = "drkit failback"
_LOOK_SECONDS: Final = 2.0


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
    way = _WayHome(settings, ways, request_of(given, _PLACE), given)
    if given["dry_run"]:
        way.rehearse()
        return
    try:
        way.walk()
    finally:
        way.show()


def _chosen_flow(settings: Settings, name: str | None) -> FlowSettings:
    """The flow of that name; without one, the only flow whose primary died.

    After a switchover either side may be home: that is not on record.

    :raises ConfigError: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    if name is not None or len(settings.flows) == 1:
        return settings.one_flow(name)
    found = []
    for there, _ in pairs_of_flows(settings):
        with suppress(ClusterUnreachable):  # of the other direction: the old primary is its target
            found += [there] if died(settings, there) else []
    if len(found) == 1:
        return found[0]
    return settings.one_flow(None, "not exactly one of them has lost its primary, which one do you mean?")


class _WayHome:
    """One way home of one pair, stage by stage."""

    def __init__(self, settings: Settings, ways: Ways, request: RunRequest, given: _Given) -> None:
        self._settings, self._ways, self._request, self._given = settings, ways, request, given
        self._done: list[tuple[HomeStage, dict[str, Any]]] = []
        self._stop = until_signalled()
        self._is_home = False

    def walk(self) -> None:
        """Walk every stage that is left.

        :raises DrkitError: a stage is refused, held or failed
        """
        now: Situation | None = self._next()
        while now is not None:
            self._refuse_unreplayed(now)
            flow = self._flow_of(now.stage)
            session().flow = flow.name if len(self._settings.flows) > 1 else ""
            if now.stage is HomeStage.SWITCH and not now.is_under_way:
                self._refuse_uncut()
                self._wait()
                self._refuse_uncut()  # which fence it gets may have been unknown
            try:
                with FailoverService(self._settings, flow, Progressing()) as service:
                    self._walk_stage(service, now)
            except (RunLocked, NoRun, Refused) as error:
                if not self._is_of_a_replicator(now, error):
                    raise
                # What it had done so far is no report of this command, and nothing in it is to be cleared.
                self._done = [done for done in self._done if done[0] is not HomeStage.TURN]
                self._stop.wait(_LOOK_SECONDS)
            now = situation(self._settings, self._ways)
        self._is_home = True

    def rehearse(self) -> None:
        """Show what the next stage would do.

        :raises DrkitError: it would be refused
        """
        now = self._next()
        if now.is_under_way:
            raise Refused(
                "a run of this stage is under way: a dry run shows one that would begin",
                where=self._flow_of(now.stage).name,
                evidence=f"stage {now.stage}",
                hint=f"{_PLACE} continues it",
            )
        self._refuse_unreplayed(now)
        with FailoverService(self._settings, self._flow_of(now.stage), Progressing()) as service:
            if now.stage is HomeStage.SWITCH:
                self._refuse_uncut()
                show_switch(self._ways.back.name, service.rehearse([], self._switch_request(), self._topics))
            else:
                request, topics = self._return_request(now.stage)
                show_rehearsal(service.rehearse_return(request, topics))

    def show(self) -> None:
        """Print the reports of the stages so far."""
        if session().as_json:
            stages = [{"stage": stage.value, "report": report} for stage, report in self._done]
            emit({"flow": self._ways.there.name, "home": self._is_home, "stages": stages})
            return
        for number, (stage, report) in enumerate(self._done, start=1):
            # What one stage leaves to do, the next ones have done; the turn may be a replicator's.
            is_over = stage is not HomeStage.TURN and (self._is_home or number < len(self._done))
            told = report | {"next": []} if is_over else report
            for part in shown_stage(stage, told, verbose=self._given["verbose"]):
                emit(part)
        if self._is_home:
            emit(home_line(self._ways))

    def _next(self) -> Situation:
        """The first stage that is left.

        :raises Refused: none is
        """
        if (now := situation(self._settings, self._ways)) is None:
            raise nothing_to_do(self._ways)
        return now

    def _refuse_unreplayed(self, now: Situation) -> None:
        """Refuse to begin a stage that leads home without records that were to be replayed.

        :raises Refused: there are some
        """
        if now.stage is not HomeStage.TURN and not now.is_under_way:
            refuse_unreplayed(self._settings, self._ways)

    def _refuse_uncut(self) -> None:
        """Refuse to move clients home where the turn after that would be refused. Raises Refused."""
        refuse_uncut(self._settings, self._ways, self._request.clients_cut)

    def _is_of_a_replicator(self, now: Situation, error: DrkitError) -> bool:
        """Whether a replicator of the pair walks the stage, or has: nothing is to be decided in it."""
        if now.stage is not HomeStage.TURN or self._stop.is_set():
            return False
        if isinstance(error, RunLocked | NoRun):  # it works on the run, or has just ended it
            return True
        return situation(self._settings, self._ways) is None

    # -- a stage ------------------------------------------------------------------------------------

    @property
    def _topics(self) -> tuple[str, ...]:
        """Those that go home; empty: all. Their names are the same on both sides."""
        return tuple(sorted(self._ways.topics))

    def _flow_of(self, stage: HomeStage) -> FlowSettings:
        return self._ways.there if stage is HomeStage.RETURN else self._ways.back

    def _walk_stage(self, service: FailoverService, now: Situation) -> None:
        try:
            report = self._work(service, now)()
        except DrkitError:
            if (so_far := service.report()) is not None:
                self._done.append((now.stage, self._typed(so_far)))
            raise
        self._done.append((now.stage, self._typed(report)))

    def _work(self, service: FailoverService, now: Situation) -> Callable[[], dict[str, Any]]:
        yes = self._given["yes"]
        if now.stage is HomeStage.SWITCH:
            request = self._switch_request()
            if now.is_under_way:
                return partial(service.resume, request, take_over=self._given["take_over"])
            confirm = asking_to_switch(yes=yes, place=_PLACE)
            return partial(service.begin, [], request, confirm, topics=self._topics)
        request, topics = self._return_request(now.stage)
        if now.is_under_way:
            resume = partial(service.resume, take_over=self._given["take_over"])
            return partial(decided_with, resume, request, _PLACE, yes=yes)
        # Once clients are home there is nothing to confirm.
        yes = yes or now.stage is HomeStage.TURN
        return partial(begun, service, request, _PLACE, topics=topics, yes=yes)

    def _return_request(self, stage: HomeStage) -> tuple[RunRequest, tuple[str, ...]]:
        """The request of a return, and its topics; a turn after a switchover has nothing to decide."""
        if stage is HomeStage.TURN:
            return RunRequest(clients_cut=self._request.clients_cut), self._topics
        return self._request, self._topics

    def _switch_request(self) -> RunRequest:
        cut, evict = self._request.clients_cut, self._given["evict_members"]
        acls = self._given["acls_only_home"] or ""
        return RunRequest(planned=True, clients_cut=cut, evict_members=evict, acls_only_home=acls)

    def _typed(self, report: dict[str, Any]) -> dict[str, Any]:
        return report | {"next": [to_type(line) for line in report["next"]]}

    # -- until it is in step ------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until the copy at home is in step.

        :raises Failed: it is not in time, or the command was interrupted
        """
        back = self._ways.back
        deadline = monotonic() + self._given["wait_seconds"]
        told = Waiting(back)
        with closing(PairedCollector(self._settings, back, groups=False)) as collector:
            while True:
                pair = collector.look().pair
                mine = going_home(pair.topics, self._ways) if pair is not None else []
                left = not_in_step(mine, back)
                if mine and not left:
                    put_back(self._settings, self._ways.there, self._topics or None)
                    return
                told.show(pair, left)
                if left:
                    waits = self._ways._replace(topics=frozenset(t.topic for t in left))
                    refuse_stopped(self._settings, waits)
                if monotonic() >= deadline or self._stop.wait(_LOOK_SECONDS):
                    break
        only = "".join(f" --topic {topic}" for topic in self._topics)
        raise Failed(
            f"{back.target} is not in step yet: clients stay on {back.source}",
            where=back.name,
            evidence=told.last,
            hint=f"drkit status --flow '{back.name}'; run it again: {_PLACE} --flow"
            f" '{self._ways.there.name}'{only}",
        )
