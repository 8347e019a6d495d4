"""How many seconds a silent source may have taken with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.detect.reasons import FailoverFacts, Reason, against
from drkit.detect.risk import Sighting, of_answering_source, of_silent_source

NOW = 1_000_000
times = st.integers(0, NOW)
maybe = st.none() | times


def test_a_heartbeat_says_nothing_of_other_partitions() -> None:
    """While partitions were rebuilt after a return, a million missing records once were a loss of 1.0 s."""
    seen = Sighting(NOW, NOW - 6000, NOW - 8000, NOW - 5500, dead_since_ms=NOW - 5000)
    found = of_silent_source(seen, 1_000_000)
    assert (found.seconds, found.records) == (None, 1_000_000)
    assert found.basis == (
        "1,000,000 records were missing at the last look, the age of the oldest is not known"
    )
    assert [r.reason for r in against(FailoverFacts(found, 30.0))] == [Reason.LAG_UNKNOWN]
    noted = of_silent_source(seen._replace(noted_copied_ms=NOW - 600_000), 1_000_000)
    assert noted.seconds == 595.0
    assert [r.reason for r in against(FailoverFacts(noted, 30.0))] == [Reason.LAG_ABOVE_RPO]
    unseen = of_silent_source(seen, None)
    assert (unseen.seconds, unseen.basis) == (
        None, "what some partitions of the source had at the last look is not known",
    )  # fmt: skip


def test_a_heartbeat_counts_for_a_short_time_beyond_the_note() -> None:
    """Where notes fail and heartbeats pass, a topic whose copy has stopped since would be overlooked."""
    seen = Sighting(NOW, NOW - 1000, NOW - 6000, dead_since_ms=NOW)
    assert of_silent_source(seen, 0).seconds == 1.0
    assert of_silent_source(seen._replace(ends_seen_ms=NOW - 600_000), 0).seconds == 580.0


def test_a_newer_look_at_both_clusters_says_more_than_a_heartbeat() -> None:
    """A partition stopped right after the note, 12 s before the end: a look saw it, and mode auto lost 32 s
    with rpo_seconds = 30, for heartbeats passed: 23 s."""
    died = NOW - 21_000
    seen = Sighting(
        NOW, died - 1000, died - 12_000, died, NOW - 1000, copied_ms=died - 12_000, margin_ms=2000
    )
    assert of_silent_source(seen, 0).seconds == 23.0, "the note is newer, or no look has said anything"
    assert of_silent_source(seen._replace(looked_ms=died - 13_000), 0).seconds == 23.0
    assert of_silent_source(seen._replace(looked_ms=died - 2000), 0).seconds == 32.0
    whole = seen._replace(looked_ms=died - 2000, copied_ms=died - 2000)
    assert of_silent_source(whole, 0).seconds == 22.0


def test_none_is_no_number_of_a_source_that_died_since_it_was_counted() -> None:
    """205 s after the last count `at risk 0 records` was printed, and 1,900 were lost."""
    seen = Sighting(NOW, NOW - 200_000, NOW - 205_000)
    assert of_silent_source(seen, 0).records_in_words == "unknown (last counted 205 s ago)"
    assert of_silent_source(seen, None).records_in_words == "unknown (last counted 205 s ago)"
    assert of_silent_source(seen, 1850).records_in_words == "at least 1,850 records (last counted 205 s ago)"
    assert of_silent_source(seen._replace(ends_seen_ms=None), None).records_in_words == "unknown"
    answers = of_answering_source(0, 0.0, exact=True, reason="")
    assert answers.records_in_words == "0 records", "they were counted now"


def test_without_a_heartbeat_it_is_not_known() -> None:
    assert of_silent_source(Sighting(NOW, None, NOW - 5), 0).seconds is None


def test_a_silent_source_may_have_taken_records_until_now() -> None:
    """Its applications may reach it when we, the replicator and every observer do not: only death ends it."""
    seen = Sighting(NOW, NOW - 600_000, NOW - 599_500, noted_copied_ms=NOW - 600_000)
    found = of_silent_source(seen, 3)
    assert (found.seconds, found.if_dead_seconds) == (600.0, 0.5)
    assert "nothing proves that it is dead" in found.basis
    assert "0.5 s if it died when it was last seen" in found.basis, "both numbers are shown"
    watched = of_silent_source(seen._replace(last_seen_ms=NOW - 590_000), 3)
    assert (watched.seconds, watched.if_dead_seconds) == (600.0, 10.0)


def test_proven_death_ends_it() -> None:
    seen = Sighting(NOW, NOW - 600_000, None, dead_since_ms=NOW - 590_000)
    found = of_silent_source(seen, 0)
    assert (found.seconds, found.if_dead_seconds) == (10.0, None)


def test_a_death_before_a_sign_of_life_is_of_a_wrong_clock() -> None:
    """The clock of the process that proved it jumped back by an hour: the loss would be 0."""
    seen = Sighting(NOW, NOW - 60_000, None, last_seen_ms=NOW - 55_000, dead_since_ms=NOW - 3_600_000)
    assert of_silent_source(seen, 0).seconds == 60.0


def test_a_clock_that_is_behind_the_heartbeats_makes_no_small_loss() -> None:
    """By 60 s: the newest that counts seems to be of this moment, whatever the silence."""
    seen = Sighting(NOW, NOW, None, ahead_seconds=30.0)
    found = of_silent_source(seen, 3)
    assert found.seconds is None
    assert "from the future: one of two clocks is wrong" in found.basis


def test_a_copy_that_has_all_of_the_noted_ends_is_younger() -> None:
    seen = Sighting(NOW, NOW - 600_000, NOW - 598_000, NOW - 597_000, noted_copied_ms=NOW - 600_000)
    assert [of_silent_source(seen, n).if_dead_seconds for n in (0, 1)] == [1.0, 3.0]
    assert [of_silent_source(seen, n).seconds for n in (0, 1)] == [598.0, 600.0]


def test_what_is_from_the_future_does_not_hide_a_loss() -> None:
    """A forged or wrong time of a heartbeat, or of the replicator's note, once made an hour 0.0 s."""
    ahead = NOW + 3_600_000
    beats = of_silent_source(Sighting(NOW, ahead, None), 0)
    assert (beats.seconds, beats.basis) == (
        None, "the newest heartbeat is from the future: one of two clocks is wrong",
    )  # fmt: skip
    noted = of_silent_source(Sighting(NOW, NOW - 600_000, ahead), 0)
    assert (noted.seconds, noted.if_dead_seconds) == (600.0, 0.0)
    watched = of_silent_source(Sighting(NOW, NOW - 600_000, None, last_seen_ms=ahead), 0)
    assert watched.seconds == 600.0


def test_clocks_of_other_machines_may_differ_by_the_margin() -> None:
    seen = Sighting(NOW, NOW - 10_000, NOW - 8_000, noted_copied_ms=NOW - 10_000, margin_ms=2000)
    assert [of_silent_source(seen, n).seconds for n in (0, 1)] == [10.0, 12.0]
    assert of_silent_source(seen._replace(heartbeat_ms=NOW + 1500), 0).seconds == 2.0
    assert of_silent_source(seen._replace(heartbeat_ms=NOW + 2500), 0).seconds is None


def test_a_look_of_this_machine_bounds_it_without_any_heartbeat() -> None:
    seen = Sighting(NOW, None, None, copied_ms=NOW - 5000, margin_ms=2000)
    assert of_silent_source(seen, None).seconds == 5.0
    assert of_silent_source(seen._replace(heartbeat_ms=NOW + 99_999), None).seconds == 5.0
    assert of_silent_source(seen._replace(dead_since_ms=NOW - 4000), None).seconds == 1.0


@given(
    st.lists(st.integers(0, NOW), min_size=1, max_size=30),
    st.integers(0, 30_000),
    st.lists(st.tuples(times, st.integers(-2000, 2000)), max_size=3),
    times,
)
def test_it_is_an_upper_bound(produced: list[int], lag: int, beats: list[tuple[int, int]], died: int) -> None:
    """Copied up to `lag` before its end, as the notes say: no lost record is older."""
    copied_until = max(0, died - lag)
    lost = [t for t in produced if copied_until < t <= died]
    # Heartbeats have a partition of their own, and pass all the time; their clock is off by up to 2 s.
    heard = max((at + off for at, off in beats), default=None)
    seen = Sighting(NOW, heard, None, copied_ms=copied_until, margin_ms=2000)
    noted = seen._replace(copied_ms=None, ends_seen_ms=died, noted_copied_ms=copied_until)
    for found in (of_silent_source(seen, None), of_silent_source(noted, len(lost))):
        assert found.seconds is not None or heard is None
        assert all(NOW - t <= found.above * 1000 for t in lost)


@given(times, maybe, maybe, maybe, st.none() | st.integers(0, 9))
def test_nothing_but_death_makes_it_less_than_since_the_last_copied_record(
    beat: int, ends: int | None, last: int | None, dead: int | None, records: int | None
) -> None:
    found = of_silent_source(Sighting(NOW, beat, ends, last, dead), records)
    assert (found.seconds is None) is (records != 0)
    if found.seconds is None:
        return
    if ends is None:
        ends = beat
    copied = max(min(beat, ends + 20_000), ends)
    is_dead = dead is not None and dead >= max(beat, last or 0)
    until = max(dead or 0, copied) if is_dead else max(NOW, beat, ends or 0, last or 0)
    assert found.seconds == (until - copied) / 1000


def test_of_a_source_that_answers() -> None:
    assert of_answering_source(3, 1.5, exact=True, reason="").exact
    assert of_answering_source(None, 1.5, exact=True, reason="why").basis == "why"
    assert of_answering_source(3, None, exact=True, reason="").seconds is None
