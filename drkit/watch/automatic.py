"""Act without a person: mode auto, its claim among observers, what people set by hand, pending fences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
import threading
from typing import Any, Final

from drkit import observe
from drkit.clock import Millis, wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.detect.note_kinds import Automatic, Pause
from drkit.detect.notes import Notes
from drkit.detect.noticeboard import ensure_board, put_note, read_notes, topic_name
from drkit.detect.verdict import VerdictKind
from drkit.detect.votes import MEANS, Says
from drkit.errors import DrkitError, Refused
from drkit.failover import pending_fences
from drkit.failover.core.context import StepProgress
from drkit.failover.core.request import RunRequest
from drkit.failover.interpreter import UNEXPECTED, unexpected
from drkit.failover.service import FailoverService
from drkit.flow_state.names import sole_transactional_id
from drkit.kafka.admin import Cluster
from drkit.kafka.reading.signed_log import Overtaken, SignedLog
from drkit.watch.observer import Moment


def claim(target: ClusterSettings, flow: FlowSettings, own: Automatic, window_seconds: float) -> str:
    """Claim the automatic failover; returns who or what prevents the claim, empty when it succeeded.

    :raises DrkitError: the target does not accept the claim
    """
    cluster = Cluster.connect(target)
    ensure_board(cluster, flow)
    with closing(SignedLog(target, topic_name(flow), lambda _record, _why: None)) as log:
        try:
            with log.alone(sole_transactional_id(flow.source, flow.target, "automatic")) as write:
                if against := against_claim(read_notes(cluster, flow), own, window_seconds):
                    return against
                write(Automatic.KEY.encode(), own.encode())
        except Overtaken:
            return "another observer claimed it at the same moment"
    return ""


def against_claim(notes: Notes, own: Automatic, window_seconds: float) -> str:
    """Return why the notes prevent an automatic failover now, or "" if they do not. Pure."""
    if damage := notes.damaged(Automatic):
        return f"the note of the last automatic failover cannot be read ({damage}): drkit watch acknowledge"
    last = notes.automatic
    if last is None:
        return ""
    if last.acknowledged_ms is None:
        return f"{last.by} already acted, and it is not acknowledged"
    age = (own.at_ms - last.at_ms) / 1000
    return f"{last.by} acted {age:.0f} s ago" if age < window_seconds else ""


def acknowledge(target: ClusterSettings, flow: FlowSettings, by: str, at_ms: int) -> Automatic | None:
    """Acknowledge the last automatic failover and return it; None when there was none.

    :raises DrkitError: the target does not accept the record
    """
    cluster = Cluster.connect(target)
    last = acknowledgement(read_notes(cluster, flow), by, at_ms)
    if last is not None:
        put_note(cluster, flow, Automatic.KEY, last.to_json())
    return last


def acknowledgement(notes: Notes, by: str, at_ms: int) -> Automatic | None:
    """The note of an acknowledgement; None when there was no automatic failover. Pure.

    An unreadable note counts as a failover at this moment: a whole window passes before the next.
    """
    last = notes.automatic
    if last is None or last.acknowledged_ms is not None:
        return last
    began_ms = at_ms if notes.damaged(Automatic) else last.at_ms
    return replace(last, at_ms=began_ms, acknowledged_by=by, acknowledged_ms=at_ms)


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
            ended = replace(mine, outcome=outcome).to_json()
            put_note(Cluster.connect(target), self._flow, Automatic.KEY, ended)
            self._ended("automatic_failover_ended", "warning", outcome)
        except DrkitError as error:
            self._stopped(error)
        except UNEXPECTED as error:
            # Else the thread would end, and its claim would silently block all observers.
            self._stopped(unexpected(error, f"the automatic failover of {self._flow.name}"))

    def _stopped(self, error: DrkitError) -> None:
        observe.error(error, flow=self._flow.name)
        self._ended("automatic_failover_stopped", "error", error.in_short)

    def _ended(self, kind: str, level: observe.Level, how: str) -> None:
        self.outcome = how
        hint = "drkit failover --resume or --abort, then drkit watch acknowledge" if level == "error" else ""
        observe.event(kind, level=level, flow=self._flow.name, outcome=how, hint=hint)


def pause(
    settings: Settings, flow: FlowSettings, by: str, reason: str, wall: Millis = wall_ms
) -> dict[str, Any]:
    """Pause failovers: the watch continues, and neither starts nor proposes one until :func:`resume`.

    :raises DrkitError: the target does not accept the record
    """
    note = Pause(by, reason, wall()).to_json()
    put_note(Cluster.connect(settings.sides(flow)[1]), flow, Pause.KEY, note)
    return {"flow": flow.name, "paused": True, **note}


def resume(settings: Settings, flow: FlowSettings) -> dict[str, Any]:
    """End a pause. Raises DrkitError when the target does not accept the record."""
    put_note(Cluster.connect(settings.sides(flow)[1]), flow, Pause.KEY, None)
    return {"flow": flow.name, "paused": False}


def acknowledged(settings: Settings, flow: FlowSettings, by: str, wall: Millis = wall_ms) -> Automatic:
    """Acknowledge the last automatic failover. Raises Refused if there was none."""
    note = acknowledge(settings.sides(flow)[1], flow, by, wall())
    if note is None:
        raise Refused(
            "nothing_to_acknowledge", where=f"flow {flow.name}", evidence="no observer ever began one"
        )
    return note


AGAIN_SECONDS: Final = 5.0
"""Pause after a failed attempt; doubles after each further failure, up to `PAID_SECONDS`."""
PAID_SECONDS: Final = 60.0
"""Between looks while nothing is pending and the old primary answers."""
Pay = Callable[[], bool]
"""Applies what is pending; returns whether anything was pending. Raises DrkitError."""


def paying_by_service(settings: Settings, flow: FlowSettings) -> Pay:
    """Applies pending fences by the orchestrator."""

    def pay() -> bool:
        with FailoverService(settings, flow) as service:
            return pending_fences.apply_pending(service) is not None

    return pay


class PendingFences:
    """Looks at the first contact with an old primary, and then periodically, in its own thread.

    Several observers may do so at once: applying an existing fence again has no effect.
    """

    def __init__(self, flow: FlowSettings, pay: Pay) -> None:
        self._flow, self._pay = flow, pay
        self._next = float("-inf")
        self._pause = AGAIN_SECONDS
        self._thread: threading.Thread | None = None
        self.paid = 0
        """How often something was pending and has been applied."""

    def see(self, moment: Moment, now: float, *, owed: bool) -> None:
        """Apply what is pending, if it is time.

        :param now: of a steady clock, in seconds
        :param owed: true if a fence, or its lift, may be pending
        """
        if not owed or MEANS[moment.vote.sight] is not Says.ALIVE:
            self._next, self._pause = float("-inf"), AGAIN_SECONDS
            return
        if now < self._next or (self._thread is not None and self._thread.is_alive()):
            return
        self._next = now + self._pause
        self._thread = threading.Thread(target=self._run, args=(now,), name="pending fence", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until an attempt in progress has ended."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, now: float) -> None:
        try:
            self.paid += self._pay()
        except DrkitError as error:
            self._refused(error)
        except UNEXPECTED as error:
            self._refused(unexpected(error, f"the fence of {self._flow.source}"))
        else:
            self._next, self._pause = now + PAID_SECONDS, AGAIN_SECONDS

    def _refused(self, error: DrkitError) -> None:
        # A person has to look: an error in the log every few seconds does not help them.
        self._pause = min(2 * self._pause, PAID_SECONDS)
        observe.event(
            "fence_not_paid", level="error", flow=self._flow.name, reason=error.what,
            evidence=error.evidence, hint=error.hint,
        )  # fmt: skip
