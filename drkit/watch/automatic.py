"""Mode auto: when no reason against a failover is left, one of the observers fails over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import threading
from typing import Any, Final

from drkit import observe
from drkit.config import FlowSettings, Settings
from drkit.detect.note_kinds import Automatic
from drkit.detect.verdict import VerdictKind
from drkit.errors import DrkitError
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.interpreter import UNEXPECTED, unexpected
from drkit.failover.service import FailoverService
from drkit.kafka.raw import RawError
from drkit.watch.claim import claim, tell_outcome
from drkit.watch.observer import Moment

TURN_SECONDS: Final = 5.0
"""Between the turns of two observers, in the order of their names."""
Act = Callable[[Mapping[str, Any]], str]
"""Fails everything over, given who decided and why; returns the outcome. Raises DrkitError."""


def by_service(settings: Settings, flow: FlowSettings) -> Act:
    """The failover by the orchestrator, in this process."""

    def report_progress(progress: StepProgress) -> None:
        observe.event(
            "failover", flow=flow.name, step=progress.step.value, what=progress.what, **progress.fields
        )

    def act(decision: Mapping[str, Any]) -> str:
        with FailoverService(settings, flow, report_progress) as service:
            report = service.begin((), RunRequest(), decision=decision)
        return str(report.get("state", "ended"))

    return act


class AutoFailover:
    """Fails over at most once per loss, and only in mode auto.

    :param act: the failover; tests pass their own
    """

    def __init__(self, settings: Settings, flow: FlowSettings, act: Act) -> None:
        self._settings, self._flow, self._act = settings, flow, act
        self._since: float | None = None
        self._thread: threading.Thread | None = None
        self.outcome = ""
        """The outcome, or what prevented the failover."""

    @property
    def is_acting(self) -> bool:
        """Whether a failover of this observer is in progress."""
        return self._thread is not None and self._thread.is_alive()

    def see(self, moment: Moment, now: float) -> None:
        """Start the failover if it is due, and this observer's turn.

        :param now: seconds of a steady clock
        """
        if moment.verdict.kind is not VerdictKind.LOST or moment.picture.auto is None:
            self._since = None
            self._thread = self._thread if self.is_acting else None
            return
        self._since = now if self._since is None else self._since
        names = moment.picture.tally.gone
        turn = names.index(moment.vote.observer) if moment.vote.observer in names else len(names)
        if self._thread is None and now - self._since >= turn * TURN_SECONDS:
            self._thread = threading.Thread(target=self._run, args=(moment,), name="automatic failover")
            self._thread.start()

    def wait(self) -> None:
        """Wait until a failover in progress has ended."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, moment: Moment) -> None:
        decision = moment.as_dict() | {"by": f"drkit watch on {moment.vote.observer}", "mode": "auto"}
        evidence = (*moment.verdict.evidence, *moment.picture.tally.in_words())
        mine = Automatic(moment.vote.observer, moment.vote.run, moment.at_ms, evidence)
        _, target = self._settings.sides(self._flow)
        try:
            against = claim(target, self._flow, mine, self._settings.watch.window_seconds)
            if against:
                self._ended("automatic_failover_not_ours", "info", against)
                return
            observe.event("automatic_failover", level="warning", flow=self._flow.name, evidence=evidence)
            outcome = self._act(decision)
            tell_outcome(target, self._flow, mine, outcome)
            self._ended("automatic_failover_ended", "warning", outcome)
        except DrkitError as error:
            self._stopped(error)
        except (*UNEXPECTED, RawError) as error:
            # Else the thread would end, and its claim would silently block all observers.
            self._stopped(unexpected(error, f"the automatic failover of {self._flow.name}"))

    def _stopped(self, error: DrkitError) -> None:
        observe.error(error, flow=self._flow.name)
        self._ended("automatic_failover_stopped", "error", error.in_short)

    def _ended(self, kind: str, level: observe.Level, how: str) -> None:
        self.outcome = how
        hint = "drkit failover --resume or --abort, then drkit watch acknowledge" if level == "error" else ""
        observe.event(kind, level=level, flow=self._flow.name, outcome=how, hint=hint)
