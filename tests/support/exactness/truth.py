"""The whole comparison of topics: data, and every position both ways."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
import itertools
from typing import Any, Protocol

from drkit.config import ClusterSettings
from tests.support.exactness.history import BAD, Answers, Content, Copy, History, total, verdict
from tests.support.exactness.positions import ask
from tests.support.flows.compare import Seen, read

_GAPS = frozenset({"source_gap"})
_DIVERGED = frozenset({"source_diverged", "source_recreated"})


class World(Protocol):
    """Two clusters and what drkit says between them: a flow of the tests, or a running drkit."""

    source: ClusterSettings
    target: ClusterSettings

    def offsets(self, cluster: ClusterSettings, topic: str) -> dict[int, int]: ...

    def starts(self, cluster: ClusterSettings, topic: str) -> dict[int, int]: ...

    def events(self) -> list[dict[str, Any]]: ...


class Truth:
    """What the partitions of one topic ever held on the source."""

    def __init__(
        self,
        flow: World,
        topic: str,
        partitions: int = 1,
        *,
        compacted: bool = False,
        both_compact: bool = False,
        ask: Callable[[Any, str], Mapping[int, Answers]] = ask,
    ) -> None:
        self.flow, self.topic, self.compacted = flow, topic, compacted
        self._ask, self._both_compact = ask, both_compact
        self.asked: list[tuple[int, int, int, int]] = []
        """Answers given meanwhile: partition, its generation then, source offset, target offset."""
        self.partitions = {p: History() for p in range(partitions)}
        self.numbers = itertools.count()
        """For the records' ids."""
        self.delivered: deque[tuple[int, int, Content, bool]] = deque()
        """Delivery reports not taken yet: partition, offset, content, whether it is certain."""

    def read(self) -> dict[int, list[Seen]]:
        """Take all that the source holds now; to be called before anything is removed there."""
        self._take_delivered()
        seen = read(self.flow.source, self.topic)
        for p, records in seen.items():
            self.partitions.setdefault(p, History()).read(records)
        return seen

    def lost_tail(self) -> int:
        """After an unclean election on the source, before anything else is written; returns what it lost."""
        self._take_delivered()
        left, starts = read(self.flow.source, self.topic), self.flow.starts(self.flow.source, self.topic)
        return sum(history.lost_tail(starts[p], left[p]) for p, history in self.partitions.items())

    def recreated(self) -> None:
        """The source topic was deleted, all of it is settled, and it will be created again."""
        self._take_delivered()
        for history in self.partitions.values():
            history.lost_tail(0, ())

    def _take_delivered(self) -> None:
        """Other threads add to it meanwhile."""
        for _ in range(len(self.delivered)):
            p, offset, content, certain = self.delivered.popleft()
            self.partitions[p].take(offset, content, certain=certain)

    def verdict(self) -> Counter[str]:
        """Compare everything: nothing may be copied or written at this moment."""
        theirs, ours = self.read(), read(self.flow.target, self.topic)
        ends = self.flow.offsets(self.flow.source, self.topic)
        target_ends = self.flow.offsets(self.flow.target, self.topic)
        answers, events = self._ask(self.flow, self.topic), self.flow.events()
        counts: dict[object, Counter[str]] = {}
        for p, history in self.partitions.items():
            mine = [e for e in events if e.get("topic") == self.topic and e.get("partition", p) in {p, -1}]
            asked = [(u, d) for q, g, u, d in self.asked if (q, g) == (p, history.generation)]
            counts[p] = verdict(
                history,
                Copy(
                    theirs[p], ours[p], answers[p], ends[p], target_ends[p], gaps(mine),
                    diverged=any(e["kind"] in _DIVERGED for e in mine), compacted=self.compacted,
                    both_compact=self._both_compact,
                ),
                asked,
            )  # fmt: skip
        return total(counts)

    def is_exact(self, *, more_than: int = 0) -> Counter[str]:
        """Fail unless nothing is lost, doubled, reordered, altered or wrong; returns all counts.

        Positions may be unknown where drkit says why, but not most of them.
        """
        count = self.verdict()
        exact(count, self.topic, self.flow.events())
        assert count["records"] > more_than, f"{self.topic}: {dict(count)}"
        return count


def gaps(events: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(e["from_offset"], e["to_offset"]) for e in events if e["kind"] in _GAPS]


def exact(count: Counter[str], where: str, events: Iterable[dict[str, Any]] = ()) -> None:
    """Fail unless all counts of what is wrong are zero."""
    said = [{k: v for k, v in e.items() if k not in {"flow", "at_ms"}} for e in events]
    assert not any(count[bad] for bad in BAD), f"{where}: {dict(count)}; events: {said}"
    known, unknown = count["exact"], count["unavailable"]
    assert known > unknown, f"{where}: most positions are unknown: {dict(count)}; events: {said}"
