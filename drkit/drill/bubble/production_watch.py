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
from drkit.kafka.one_shot import connections
from drkit.kafka.raw import RawCluster, RawError

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
        self._ended, self._is_read = ended, threading.Event()
        self.has_run = False
        """Whether a run of production began during the drill."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._is_read.wait(_SILENT_SECONDS)  # a run that begins after this is noticed
        return self

    def _watch(self) -> None:
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
                    self._is_read.set()
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
                self.stop.wait(_LOOK_SECONDS)


async def _read(raw: RawCluster, journal: JournalTopic) -> None:
    await raw.connected()
    if await journal.exists():
        await journal.read()
