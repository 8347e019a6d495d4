"""What is right: the log of what was appended says it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from drkit.model import SourceOffset
from drkit.offset_map.bucket import MapBucket
from drkit.offsets import Unavailable
from drkit.offsets.resolution import Resolution
from tests.model.scene import Lane, Silent, Violated, World
from tests.model.source import Rec
from tests.model.target import Batch


def ours(lane: Lane, until: int | None = None) -> list[Batch]:
    """The batches of the flow on the target."""
    return [b for b in lane.target.all_batches if b.ours and (until is None or b.base < until)]


def there(lane: Lane) -> set[int]:
    """Records that are on the target, or that retention removed there after they were lost."""
    return {i for b in ours(lane) for i in b.indexes}


def left(lane: Lane) -> list[Rec]:
    """Records that are still to be copied."""
    copied = there(lane)
    return [r for r in lane.source.records if r.index not in copied and r.index not in lane.target.removed]


def in_order(lane: Lane) -> None:
    """No record is there twice, and all are in their order.

    What retention has removed before a look at the log saw it may be copied again: a consumer finds it once.
    """
    appended = [i for b in ours(lane) if b.end > lane.target.start for i in b.indexes]
    if any(a >= b for a, b in pairwise(appended)):
        raise Violated(f"records are doubled or out of order: {appended}")


def exact(lane: Lane, found: Resolution, until: int | None = None) -> None:
    """Every source offset leads to the first copied record at or after it.

    :param until: target offset up to which the answer saw the log
    """
    places: list[tuple[int, int]] = []
    end, start = 0, lane.target.start
    for b in ours(lane, until):
        for i, index in enumerate(b.indexes):
            upstream = lane.offset_of[index]
            while places and places[-1][0] >= upstream:
                places.pop()
            places.append((upstream, b.base + i))
        end = b.end
    seen = ours(lane, until)
    if all(b.superseded.issuperset(b.indexes) for b in seen) or (until is not None and until <= start):
        return  # nothing was copied, or retention or the cleaner has removed all that was looked at
    if found.upstream is None:
        raise Violated(f"records were copied, and the map has no claim: {places[:5]}")
    if found.copied_end != end and max(found.copied_end, end) > start:
        raise Violated(f"the copy ends at {end}, the answer at {found.copied_end}")
    _leads(lane, found, places, end)


def _leads(lane: Lane, found: Resolution, places: list[tuple[int, int]], end: int) -> None:
    start, at = lane.target.start, 0
    first = next((p for _, p in places if p >= start), end)
    there = [b.base + i for b in ours(lane) for i, x in enumerate(b.indexes) if x not in b.superseded]
    for upstream in range(places[-1][0] + 2):
        while at < len(places) and places[at][0] < upstream:
            at += 1
        wanted = places[at][1] if at < len(places) else end
        got = found.segments.translate(SourceOffset(upstream), found.copied_end)
        # What retention has removed leads to what is left.
        removed = wanted <= first and (isinstance(got, Unavailable) or got <= max(first, start)) and start > 0
        # A consumer reads the first record that the cleaner has left there.
        same = not isinstance(got, Unavailable) and bisect_left(there, got) == bisect_left(there, wanted)
        if not same and not removed:
            raise Violated(
                f"source offset {upstream} is at {wanted}, not at {got}; start {start},"
                f" {found.segments.triples()}"
            )


def named(lane: Lane) -> None:
    """What came to a leader that has lost the records before it is copied twice, and never silently."""
    for b in lane.target.log:
        if b.misplaced and b.state == "committed" and b.end > lane.target.start and b.base not in lane.named:
            raise Violated(f"copied twice, and not named: {b}")


def reader(world: World, lane: Lane) -> Iterator[None]:
    """Translates or verifies beside running tasks; what it has read of the map is kept."""
    bucket = MapBucket(0, "map")
    for _ in range(3):
        leader, rewinds = lane.target.leader, lane.source.epoch
        try:
            ask = world.rng.choice([world.locate, world.compare])
            settled = yield from ask(lane, bucket)
        except Silent:
            continue
        found = settled.resolution
        same = leader == lane.target.leader and rewinds == lane.source.epoch
        if found is not None and same:
            # What was copied since the look may be in the answer, too.
            exact(lane, found, max(found.downstream, found.copied_end))
        yield
