"""`drkit watch`: observers of some flows in one process, until stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import threading
from typing import Any, Final, NamedTuple

from drkit import observe
from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.detect.awake import AwakeClock, Ticker
from drkit.detect.reasons import Reason, runbook
from drkit.detect.verdict import VerdictKind
from drkit.errors import ConfigError
from drkit.monitoring.metrics import DrillSamples
from drkit.monitoring.page.server import Listen, answering
from drkit.next_command import Given, with_given_options
from drkit.watch.alerts import Announcer, Teller, failover_command, in_words
from drkit.watch.automatic import AutoFailover, PendingFences, by_service, paying_by_service
from drkit.watch.board import WatchBoard
from drkit.watch.identity import ObserverIdentity
from drkit.watch.observer import Moment, Observer

TICK_SECONDS: Final = 0.25
_SETTLING_SECONDS: Final = 15.0
"""How much longer than `confirm_seconds` a look with an end waits for a verdict that is not preliminary."""
_PRELIMINARY: Final = frozenset({Reason.UNCONFIRMED, Reason.NOT_WATCHED_YET})
"""Reasons that a longer look replaces by another one."""
_LEVELS: Final[Mapping[VerdictKind, observe.Level]] = {
    VerdictKind.UP: "info", VerdictKind.SUSPECT: "info", VerdictKind.DEGRADED: "warning",
    VerdictKind.HOLD: "warning", VerdictKind.LOST: "error",
}  # fmt: skip


class WatchOptions(NamedTuple):
    """The user's options."""

    identity: ObserverIdentity
    listen: Listen | None = None
    """Address of metrics, health and the page, or None to serve nothing."""
    drills: DrillSamples = tuple
    """Samples of drills for the metrics."""
    given: Given = Given()
    """Options of this run that its suggested commands need too, such as ``--config FILE``."""
    once: float | None = None
    """End after this time in seconds, or as soon as the verdict is no longer preliminary after that; None: no
    end. Such a look sends no alarm and does not act: its identity does not vote."""


class FlowMoment(NamedTuple):
    """One flow at one moment, for display."""

    moment: Moment
    command: str
    """The command for the operator, or "" without one."""
    changed: bool
    """Whether the verdict, or what holds a failover back, has changed."""


Show = Callable[[Sequence[FlowMoment]], None]


class _FlowWatcher:
    """One flow: its observer, and the actions on its verdicts."""

    def __init__(
        self, settings: Settings, flow: FlowSettings, options: WatchOptions, clock: AwakeClock
    ) -> None:
        self.observer = Observer(settings, flow, options.identity, clock)
        self.automat = AutoFailover(settings, flow, by_service(settings, flow))
        self.payer = PendingFences(flow, paying_by_service(settings, flow))
        self.newest: Moment | None = None
        self._options = options
        self.confirm_seconds = settings.detection.confirm_seconds
        self._announcer = Announcer(settings.detection.confirm_seconds, settings.watch.repeat_seconds)
        self._key: tuple[object, ...] = ()

    def look(self, teller: Teller) -> FlowMoment:
        """Look once, and act on the verdict."""
        moment = self.observer.look()
        given = self._options.given._replace(flow=moment.flow)
        verdict = moment.verdict._replace(next=with_given_options(moment.verdict.next, given))
        moment = self.newest = moment._replace(verdict=verdict)
        now = monotonic()
        command = failover_command(moment.flow, verdict, given.options(flow=False))
        key = (verdict.kind, verdict.reason, verdict.obstacles)
        changed, self._key = key != self._key, key
        if changed and self._options.once is None:  # else the last verdict is the answer
            self._log(moment, command)
        if not self._options.identity.votes:
            return FlowMoment(moment, command, changed)
        if self._announcer.due(verdict, now):
            teller.tell(
                moment.as_dict() | {"command": command, "text": in_words(moment.flow, verdict, command)}
            )
        self.automat.see(moment, now)
        status = self.observer.senses.status
        # A fence can only be pending after some topic is promoted.
        owed = status is not None and bool(status.promoted_topics or status.pending_lift)
        self.payer.see(moment, now, owed=owed)
        return FlowMoment(moment, command, changed)

    def _log(self, moment: Moment, command: str) -> None:
        verdict = moment.verdict
        told: dict[str, Any] = {"flow": moment.flow, "verdict": verdict.name, "next": verdict.next}
        if verdict.kind is not VerdictKind.UP:
            told["evidence"] = list(verdict.evidence)
        if verdict.kind is VerdictKind.HOLD:
            told["runbook"] = runbook(verdict.reason)
        if command:
            told["command"] = command
        observe.event("verdict", level=_LEVELS[verdict.kind], **told)


def watch(
    settings: Settings,
    flows: Sequence[FlowSettings],
    options: WatchOptions,
    stop: threading.Event,
    show: Show,
) -> list[FlowMoment]:
    """Watch until `stop` is set; returns the last moment of each flow.

    :raises ConfigError: there is nothing to watch
    """
    if not flows:
        raise ConfigError("no_flow_to_watch", where="flows")
    settings.refuse_auto_without_key()
    clock = AwakeClock()
    ticker = Ticker(clock)
    watchers = [_FlowWatcher(settings, flow, options, clock) for flow in flows]
    teller = Teller(settings.watch)
    labels = settings.metrics.labels
    board = WatchBoard(lambda: _newest(watchers), labels=labels, drills=options.drills)
    board.watches = [w.observer.senses.watch for w in watchers]
    ticker.start()
    try:
        with answering(options.listen, board):
            for watcher in watchers:
                watcher.observer.start()
            return _go_on(watchers, options, teller, stop, show)
    finally:
        for watcher in watchers:
            watcher.automat.wait()
            watcher.payer.wait()
            watcher.observer.stop()
        teller.close()
        ticker.stop()


def _go_on(
    watchers: Sequence[_FlowWatcher], options: WatchOptions, teller: Teller, stop: threading.Event, show: Show
) -> list[FlowMoment]:
    ends = None if options.once is None else monotonic() + options.once
    # There is nothing to judge before the first answer or timeout.
    while not all(w.observer.is_ready for w in watchers) and not stop.wait(TICK_SECONDS / 5):
        pass
    while True:
        settled = all(watcher.observer.is_settled for watcher in watchers)
        said = [watcher.look(teller) for watcher in watchers]
        show(said)
        sure = settled and not any(s.moment.verdict.reason in _PRELIMINARY for s in said)
        # A look with an end waits while its verdict is preliminary.
        patience = 0.0 if sure else max(w.confirm_seconds for w in watchers) + _SETTLING_SECONDS
        if stop.wait(TICK_SECONDS) or (ends is not None and monotonic() - ends >= patience):
            return said


def _newest(watchers: Sequence[_FlowWatcher]) -> list[tuple[Moment, Mapping[Any, Any]]]:
    return [(w.newest, w.observer.senses.probes.newest()) for w in watchers if w.newest is not None]
