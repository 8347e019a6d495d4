"""Applies the pending fence of an old primary, or its lift, as soon as that cluster is seen again."""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Final

from drkit import observe
from drkit.config import FlowSettings, Settings
from drkit.detect.votes import MEANS, Says
from drkit.errors import DrkitError
from drkit.failover import pending_fences
from drkit.failover.interpreter import UNEXPECTED, unexpected
from drkit.failover.service import FailoverService
from drkit.watch.observer import Moment

AGAIN_SECONDS: Final = 5.0
"""Pause after a failed attempt; doubles after each further failure, up to `PAID_SECONDS`."""
PAID_SECONDS: Final = 60.0
"""Between looks while nothing is pending and the old primary answers."""
Pay = Callable[[], bool]
"""Applies what is pending; returns whether anything was pending. Raises DrkitError."""


def by_service(settings: Settings, flow: FlowSettings) -> Pay:
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
        :param owed: a fence, or its lift, may be pending
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
