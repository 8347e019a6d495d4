"""Sample beside a drill what production would lose now, and end the drill when its copies fall behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from statistics import median
from typing import Final

from drkit.config import FlowSettings, Settings
from drkit.drill.bubble_evidence import ProductionLoss
from drkit.drill.watch_thread import WatchThreads
from drkit.status.look import StatusCollector

_LOOK_SECONDS: Final = 2.0
_BEHIND_LOOKS: Final = 3
"""One look falls into the middle of a turn of the copy."""


class ProductionLossSampler(WatchThreads):
    """Looks at production in a thread; use it in a ``with``. It only reads.

    :param settings: of production, as is `flow`
    :param limit: records by which the loss may grow
    :param abort: called with the reason when the drill must end
    """

    def __init__(
        self, settings: Settings, flow: FlowSettings, limit: int, abort: Callable[[str], None]
    ) -> None:
        self._settings, self._flow, self._limit, self._abort = settings, flow, limit, abort
        super().__init__(self._sample)
        self._records: list[int] = []
        self._seconds: list[float] = []
        self._unknown = 0

    def found(self) -> ProductionLoss | None:
        """Return the samples in short; None: there is none."""
        if not self._records:
            return None
        oldest, middle = (round(f(self._seconds), 3) if self._seconds else None for f in (max, median))
        return ProductionLoss(len(self._records), self._unknown, max(self._records), oldest, middle)

    def _sample(self) -> None:
        behind = 0
        with closing(StatusCollector(self._settings, self._flow, groups=False)) as collector:
            while not self.stop.wait(_LOOK_SECONDS):
                loss = collector.look().loss
                if loss.records is None:
                    self._unknown += 1
                    continue
                self._records.append(loss.records)
                if loss.seconds is not None:
                    self._seconds.append(loss.seconds)
                is_behind = loss.records > self._records[0] + self._limit
                behind = behind + 1 if is_behind else 0
                if behind == _BEHIND_LOOKS:
                    grown = f"from {self._records[0]:,} to {loss.records:,} records"
                    limit = f"limits.production_lag = {self._limit:,}"
                    self._abort(f"production would lose more, {grown}; {limit}")
                    return
