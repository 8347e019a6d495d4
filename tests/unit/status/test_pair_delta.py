"""Until when the active side keeps what clients wrote since a promotion. No clusters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.flow_state.records import HeldSettingsRecord
from drkit.status.pair.delta import PartitionDelta, bound_of, may_lack_tombstones
from drkit.status.pair.model import DeltaBound

SINCE, HOUR = 1_700_000_000_000, 3_600_000
DELETE = {"cleanup.policy": "delete", "retention.ms": str(24 * HOUR), "retention.bytes": "-1"}
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": str(HOUR)}
WRITTEN = PartitionDelta(cut=10, start=0, end=20, oldest_ms=SINCE + 500, size=1000)


def bound(settings: dict[str, str], *parts: PartitionDelta, now_ms: int = SINCE + HOUR) -> DeltaBound:
    return bound_of(settings, parts, SINCE, now_ms)


def test_time_counts_from_the_first_record_of_the_delta():
    found = bound(DELETE, WRITTEN, WRITTEN._replace(oldest_ms=SINCE + 9000))
    assert (found.until_ms, found.by) == (SINCE + 500 + 24 * HOUR, "retention.ms")
    assert found.used == pytest.approx(1 / 24, abs=1e-6)
    assert not found.is_due
    assert bound(DELETE, WRITTEN, now_ms=SINCE + 13 * HOUR).is_due


def test_without_a_record_of_clients_nothing_ends():
    assert bound(DELETE, WRITTEN._replace(end=10, oldest_ms=None)) == DeltaBound()
    assert bound(COMPACT, WRITTEN._replace(end=10, oldest_ms=None)) == DeltaBound()


def test_unlimited_retention_has_no_end():
    assert bound({**DELETE, "retention.ms": "-1"}, WRITTEN) == DeltaBound()


def test_an_unknown_time_is_said():
    assert bound(DELETE, WRITTEN._replace(oldest_ms=None)).unknown


def test_old_timestamps_may_go_at_once():
    assert bound(DELETE, WRITTEN._replace(oldest_ms=SINCE - 25 * HOUR)).used == 1


def test_what_was_removed_is_not_whole():
    found = bound({**DELETE, "retention.ms": "-1"}, WRITTEN._replace(start=11))
    assert found.is_due
    assert found.used == 1


def test_tombstones_of_compacted_topics():
    found = bound(COMPACT, WRITTEN)
    assert (found.until_ms, found.by) == (SINCE + HOUR, "delete.retention.ms")
    both = bound({**DELETE, **COMPACT, "cleanup.policy": "compact,delete"}, WRITTEN)
    assert both.by == "delete.retention.ms"


def test_by_size():
    found = bound({**DELETE, "retention.ms": "-1", "retention.bytes": "1000"}, WRITTEN)
    assert (found.until_ms, found.by, found.size_used) == (None, "retention.bytes", 0.5)
    assert found.is_due


LAGS = {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "9"}
REST = HeldSettingsRecord(SINCE + HOUR // 2, "ada", dict.fromkeys(LAGS), LAGS)
"""A hold that began while no tombstone could be gone."""


def test_no_tombstone_goes_while_the_cleaner_is_held():
    held = bound_of({**COMPACT, **LAGS}, [WRITTEN], SINCE, SINCE + 9 * HOUR, REST)
    assert held == DeltaBound(held_ms=REST.at_ms)


@pytest.mark.parametrize(
    ("settings_", "record"),
    [
        ({**COMPACT, **LAGS}, replace(REST, at_ms=SINCE + HOUR)),
        ({**COMPACT, **LAGS, "min.compaction.lag.ms": "0"}, REST),
        ({**COMPACT, **LAGS}, replace(REST, ended_ms=SINCE + HOUR)),
        ({**COMPACT, **LAGS}, None),
    ],
    ids=["began too late", "a person has changed it", "it was put back", "since when is unknown"],
)
def test_a_hold_that_may_have_come_too_late_counts_for_nothing(
    settings_: dict[str, str], record: HeldSettingsRecord | None
):
    found = bound_of(settings_, [WRITTEN], SINCE, SINCE + 9 * HOUR, record)
    assert (found.until_ms, found.by, found.used) == (SINCE + HOUR, "delete.retention.ms", 1.0)


@pytest.mark.parametrize(
    ("settings_", "now", "held", "may"),
    [
        (COMPACT, SINCE, None, "there"),
        (COMPACT, SINCE + HOUR - 1, None, "there"),
        (COMPACT, SINCE + HOUR, None, "gone"),
        (COMPACT, SINCE - 1, None, "gone"),
        (DELETE, SINCE + 9 * HOUR, None, "there"),
        ({**COMPACT, **LAGS}, SINCE + 9 * HOUR, REST, "there"),
        (COMPACT, SINCE + 9 * HOUR, REST, "gone"),
        ({"cleanup.policy": "compact"}, SINCE, None, "gone"),
    ],
)
def test_tombstones_may_be_gone(
    settings_: dict[str, str], now: int, held: HeldSettingsRecord | None, may: str
):
    assert may_lack_tombstones(settings_, SINCE, now, held) is (may == "gone")


def test_the_bytes_of_a_delta_are_its_part_of_the_partition():
    assert WRITTEN.bytes == 500
    assert WRITTEN._replace(start=15).bytes == 1000, "all that is left of it"
    assert WRITTEN._replace(end=10).bytes == 0
    assert WRITTEN._replace(size=None).bytes is None


parts = st.builds(
    lambda start, cut, written, late, size: PartitionDelta(
        cut, min(start, cut), cut + written, SINCE + late if written else None, size
    ),
    st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 99 * HOUR),
    st.integers(0, 10**9),
)  # fmt: skip
settings = st.fixed_dictionaries({
    "cleanup.policy": st.sampled_from(["delete", "compact", "compact, delete"]),
    "retention.ms": st.integers(-1, 99 * HOUR).map(str),
    "retention.bytes": st.integers(-1, 10**9).map(str),
    "delete.retention.ms": st.integers(0, 99 * HOUR).map(str),
})  # fmt: skip


@given(settings, st.lists(parts, min_size=1, max_size=4), st.integers(0, 200 * HOUR))
def test_no_record_can_go_before_the_bound(chosen: dict[str, str], held: list[PartitionDelta], late: int):
    found = bound_of(chosen, held, SINCE, SINCE + late)
    earliest = []
    for p in held:
        if (
            p.oldest_ms is not None
            and "delete" in chosen["cleanup.policy"]
            and chosen["retention.ms"] != "-1"
        ):
            earliest.append(p.oldest_ms + int(chosen["retention.ms"]))
        if p.end > p.cut and "compact" in chosen["cleanup.policy"]:
            earliest.append(SINCE + int(chosen["delete.retention.ms"]))
    assert found.until_ms == min(earliest, default=None)
    if found.until_ms is not None and SINCE + late >= found.until_ms:
        assert found.used >= 1
    later = bound_of(chosen, held, SINCE, SINCE + late + HOUR)
    assert later.used >= found.used, "time never makes a delta safer"
