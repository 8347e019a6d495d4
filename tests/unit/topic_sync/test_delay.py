"""How long a change that removes records waits: each value by itself, across restarts, and not for ever."""

from __future__ import annotations

from drkit.flow_state.records import ConfigsRecord, DelayedSetting
from drkit.topic_sync.change import Delayed, still_delayed
from drkit.topology.topic_plan import Removal

DAY = 86_400.0
DAY_MS = 86_400_000
SHORTER = {"retention.ms": Removal("604800000", "1000")}


def seen(now_ms: int, known: Delayed | None = None, after: str | None = "1000") -> dict[str, DelayedSetting]:
    return still_delayed({"retention.ms": Removal("604800000", after)}, known or {}, now_ms, DAY)


def test_it_waits_from_the_time_it_was_first_seen():
    first = seen(5)
    assert first["retention.ms"].since_ms == 5
    assert seen(5 + DAY_MS - 1, first) == first
    assert seen(5 + DAY_MS, first) == {}


def test_another_value_waits_by_itself():
    """Otherwise a small change of yesterday would let the erasing one of today pass."""
    first = seen(0, after="600000000")
    second = seen(DAY_MS - 1, first, after="1")
    assert second["retention.ms"].since_ms == DAY_MS - 1
    assert seen(DAY_MS - 1, first, after=None)["retention.ms"].since_ms == DAY_MS - 1


def test_what_was_taken_back_begins_again():
    assert still_delayed({}, seen(0), 10, DAY) == {}
    assert seen(20, {})["retention.ms"].since_ms == 20


def test_without_a_delay_nothing_waits():
    assert still_delayed(SHORTER, {}, 5, 0.0) == {}


def test_the_record_survives_a_restart():
    record = ConfigsRecord({"retention.ms": "1000"}, seen(7))
    assert ConfigsRecord.decode(record.encode()) == record
    assert ConfigsRecord.decode(b'{"set": {}}') == ConfigsRecord({})
    assert ConfigsRecord({}).encode() == b'{"set": {}}', "as without a delayed setting"


def test_the_words_name_the_change_and_its_time():
    text = seen(0)["retention.ms"].in_words("retention.ms", DAY)
    assert text == "retention.ms 604800000 → 1000, followed at 1970-01-02T00:00:00Z"
    assert "the brokers' default" in seen(0, after=None)["retention.ms"].in_words("retention.ms", DAY)
