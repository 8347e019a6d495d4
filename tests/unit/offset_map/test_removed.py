"""What a copy has lost at its beginning, against lists of all records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.checkpoints.shard import Shard
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.count import Lost, begins_later
from drkit.flow_state.copied_topics import CopiedTopics, Producers
from drkit.flow_state.records import ConfigsRecord
from drkit.offset_map.locate import Located
from drkit.offset_map.removed import Removed
from drkit.offsets import History, Intent, PartitionMap, SegmentMap, Unavailable
from drkit.offsets.map_record import Mode
from drkit.offsets.resolution import Resolution
from drkit.offsets.segments import OPEN, UNKNOWN
from drkit.offsets.translation import Exact, PartitionPosition
from drkit.topology.topic_configs import Retention
from tests.support.offsets.segments import build, runs

Shape = list[tuple[int, int, int]]


def removed_of(segments: SegmentMap, left: int, emptied: int, frontier: int | None) -> Removed:
    found = Located(Unavailable("not asked"), PartitionMap(segments=segments))
    return Removed.of(found, left, emptied, frontier)


@given(runs, st.integers(0, 80), st.lists(st.integers(0, 80), max_size=3))
def test_what_was_removed_is_what_was_copied_before_the_log_start(
    shape: Shape, start: int, packed: list[int]
) -> None:
    """Also after a map without the older segments was written, any number of times."""
    segments, pairs, end = build(shape)
    start = min(start, end)
    for at in sorted(packed):
        segments.trim(min(at, start))
    first, until = segments.removed(start)
    gone = [u for u, d in pairs if d < start]
    assert first == pairs[0][0]
    assert all(first <= u < until for u in gone)
    assert not [u for u, d in pairs if d >= start and u < until], "nothing that is left counts"


@given(runs, st.integers(0, 80), st.integers(0, 60), st.integers(0, 60))
def test_a_group_is_exact_or_skips_nothing_that_is_missing(
    shape: Shape, start: int, source_start: int, upstream: int
) -> None:
    segments, pairs, end = build(shape)
    start, frontier = min(start, end), pairs[-1][0] + 1
    removed = removed_of(segments, start, 0, frontier)
    missing = max(removed.first, source_start), removed.end
    place = PartitionPosition(
        segments, frontier, start, end, end, source_start, frontier,
        missing=missing if missing[0] < missing[1] else None,
    )  # fmt: skip
    found = place.forward(upstream)
    skipped = [u for u, d in pairs if u >= max(upstream, source_start) and d < start]
    if isinstance(found, Exact):
        assert not skipped
    elif skipped and upstream <= frontier:
        assert found.nearest == start
        assert "behind retention" in found.reason


def test_what_the_flow_never_copied_was_not_removed() -> None:
    """It began at the end of the source, after a turn that gave history up, or after MirrorMaker 2."""
    for segments in ([(500, 0, OPEN)], [(0, 0, UNKNOWN), (500, 0, OPEN)], [(0, 0, UNKNOWN), (500, 0, 0)]):
        assert removed_of(SegmentMap.of(segments), 0, 0, 600)[:2] == (500, 500)
    given_up = SegmentMap.of([(0, 0, UNKNOWN), (500, 90, OPEN)])
    assert removed_of(given_up, 90, 0, 600)[:2] == (500, 500)
    assert removed_of(given_up, 40, 90, 600)[:2] == (500, 500), "brokers brought deleted records back"
    assert removed_of(given_up, 95, 0, 600)[:2] == (500, 505)
    assert removed_of(SegmentMap(), 0, 0, None)[:2] == (0, 0)


def test_all_of_a_copy_may_be_gone() -> None:
    assert removed_of(SegmentMap.of([(3, 0, OPEN)]), 100, 0, 103)[:2] == (3, 103)
    assert removed_of(SegmentMap.of([(3, 0, OPEN)]), 100, 0, None)[:2] == (3, 0), "unknown: nothing counts"


@dataclass
class Value:
    value: str | None
    source: str = "DYNAMIC_TOPIC_CONFIG"
    is_set_on_topic: bool = True


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        ("delete", Retention(1000, None)),
        ("compact,delete", Retention(1000, None)),
        ("compact", Retention(None, None)),
    ],
)
def test_retention_counts_where_the_topic_expires(policy: str, limits: Retention) -> None:
    settings = {"cleanup.policy": policy, "retention.ms": "1000", "retention.bytes": "-1"}
    assert Retention.of({name: Value(value) for name, value in settings.items()}) == limits


def test_settings_that_are_held_limit_nothing():
    """A hold leaves these settings out: they are not the topic's own."""
    assert Retention.of({"cleanup.policy": Value("delete")}) == Retention(None, None)


def test_retention_travels_with_the_flow() -> None:
    record = ConfigsRecord({}, retention=Retention(None, 7), is_compacted_alone=True)
    assert ConfigsRecord.decode(record.encode()) == record
    known = CopiedTopics(
        {"t": ("t", UUID(int=1), UUID(int=2))},
        Producers(1, frozenset()),
        retention={"t": Retention(5, None)},
    )
    shard = Shard(0, "a", ("g",), known)
    assert Shard.from_json(shard.to_json()).known.pair("t", 0).retention == Retention(5, None)


def test_a_refusal_names_the_option_that_gives_up() -> None:
    error = begins_later("a->b: b", {"t": "t-0: 700", "u": "u-1: 3"})
    assert isinstance(error, Refused)
    assert "--give-up-history t --give-up-history u" in error.hint
    assert RunRequest(give_up_history=("*",)).gives_up("t")
    place = PartitionPosition(missing=(5, 12))
    lost = Lost("t", 0, 12, 12, 0, exact=True).removed(place)
    assert (lost.missing_from, lost.missing, lost.records) == (5, 7, 0)
    assert Lost("t", 0).removed(Unavailable("why")).missing == 0
    unclear = Lost("t", 0, 12, 12, 0, exact=True).removed(place, "no retention of t is on record")
    assert (unclear.missing, unclear.reason) == (7, "no retention of t is on record")
    assert Lost("t", 0, reason="why").removed(place, "another").reason == "why"


def test_what_was_claimed_and_never_confirmed_counts() -> None:
    """The log begins later before a mark says what was copied: the answer has the rest alone."""
    history, state = History(7, 0), PartitionMap()
    for first in (0, 400):
        state.apply(Intent(Mode.LIVE, first, history, first, first, first, 1, ((0, 400),)))
    left = SegmentMap.of([(400, 400, OPEN)])
    answer = Resolution(left, history, 800, 800, 800, 800, 1)
    assert Removed.of(Located(answer, state), 700, 0, 800)[:2] == (0, 700)
