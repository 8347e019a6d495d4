"""Watch production's journal beside a drill: a run that begins there ends the drill."""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Final, Self

from drkit.clock import monotonic
from drkit.config import FlowSettings, Settings
from drkit.drill.watch_thread import WatchThreads
from drkit.errors import DrkitError
from drkit.failover.journal.topic import JournalTopic
from drkit.kafka.raw import RawCluster, RawError, connections

_LOOK_SECONDS: Final = 1.0
_SILENT_SECONDS: Final = 10.0


class ProductionWatch(WatchThreads):
    """Reads production's journal each second in a thread; use it in a ``with``. It only reads.

    :param settings: of production
    :param flow: of production
    :param seconds: longest duration of the drill
    :param abort: called once with the reason when the drill must end
    :param ended: an event that ends the drill when it is set
    """

    def __init__(
        self,
        settings: Settings,
        flow: FlowSettings,
        seconds: float,
        abort: Callable[[str], None],
        ended: threading.Event,
    ) -> None:
        self._settings, self._flow, self._seconds, self._abort = settings, flow, seconds, abort
        super().__init__(self._watch)
        self._ended, self._wake, self._looked = ended, threading.Event(), threading.Condition()
        self._looks = 0
        """Number of times that the journal was read."""
        self._is_over = False
        self.has_run = False
        """Whether a run of production began during the drill."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.refresh()  # a run that begins after this is noticed
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self._wake.set()
        super().__exit__(*error)

    def refresh(self) -> None:
        """Return when the journal was read again, from after this call, or does not answer."""
        with self._looked:
            wanted = self._looks + 2  # the next one may have begun before
            while self._looks < wanted and not self._is_over:
                self._wake.set()
                if not self._looked.wait(_SILENT_SECONDS):
                    return

    def _watch(self) -> None:
        try:
            self._watch_journal()
        finally:
            with self._looked:
                self._is_over = True
                self._looked.notify_all()

    def _watch_journal(self) -> None:
        target = self._settings.cluster(self._flow.target).with_client(self._flow.target_admin)
        began = answered = monotonic()
        with connections("drill", target) as (raw,):
            journal = JournalTopic(raw, self._flow.source, self._flow.target)
            known: set[str] | None = None
            while not self.stop.is_set():
                now = monotonic()
                try:
                    raw.loop.run(_read, raw, journal)
                    answered = now
                except (DrkitError, RawError) as error:
                    last = str(error)
                    if now - answered > _SILENT_SECONDS:
                        self._abort(f"production's journal cannot be read: {last}")
                        return
                if answered == now:
                    runs = set(journal.history.runs)
                    known = runs if known is None else known
                    if new := sorted(runs - known):
                        self.has_run = True
                        self._abort(f"production failover {new[0]} began")
                        return
                if self._ended.is_set():
                    self._abort("the process was asked to end")
                    return
                if now - began > self._seconds:
                    self._abort(f"the drill exceeds its limit of {self._seconds:g} s")
                    return
                with self._looked:
                    self._looks += answered == now
                    self._looked.notify_all()
                self._wake.wait(_LOOK_SECONDS)
                self._wake.clear()


async def _read(raw: RawCluster, journal: JournalTopic) -> None:
    await raw.connected()
    if await journal.exists():
        await journal.read()
