"""How old records are at most that are not copied, by the ends of earlier looks. Pure.

A look reads the records that wait in some partitions alone. In a busy flow of many partitions some wait in
each of them at every look: without an age for the others, until when everything was copied would never be
known. What was behind the end of a partition at an earlier look is younger than that look.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from drkit.model import TopicPartition
from drkit.status.lag.source import Ends, UncopiedRange, UncopiedRecords

_LOOKS: Final = 8
_MOST_MS: Final = 30_000
"""An earlier look says nothing of use: the age is an upper bound."""


class EarlierEnds:
    """The ends of the last looks at a source."""

    def __init__(self) -> None:
        self._looks: deque[tuple[int, dict[TopicPartition, int]]] = deque(maxlen=_LOOKS)

    def dated(
        self,
        now_ms: int,
        ends: Mapping[TopicPartition, Ends],
        gaps: Iterable[UncopiedRange],
        records: Mapping[TopicPartition, UncopiedRecords],
    ) -> dict[TopicPartition, UncopiedRecords]:
        """The same records; those of unknown age with the time of the last look before them.

        :param now_ms: when this look began
        :param ends: of this look
        """
        out = dict(records)
        for gap in gaps:
            waits = out.get(gap.at)
            if waits is not None and waits.records and waits.oldest_ms is None:
                out[gap.at] = replace(waits, oldest_ms=self._before(gap, now_ms), exact=False)
        # What a transaction holds back was there, too: it is behind the end when it is decided.
        self._looks.append((now_ms, {at: max(e.end, e.high_watermark or 0) for at, e in ends.items()}))
        return out

    def _before(self, gap: UncopiedRange, now_ms: int) -> int | None:
        """When the newest look began of which everything is copied; None: of none."""
        beyond = gap.start + 1
        whole = (at_ms for at_ms, ends in self._looks if ends.get(gap.at, beyond) <= gap.start)
        return max((at_ms for at_ms in whole if 0 <= now_ms - at_ms <= _MOST_MS), default=None)
