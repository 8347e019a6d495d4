"""How many seconds a silent source may have taken with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.failover.risk import Sighting, of_answering_source, of_silent_source

NOW = 1_000_000
times = st.integers(0, NOW)
maybe = st.none() | times


def test_without_a_heartbeat_it_is_not_known() -> None:
    assert of_silent_source(Sighting(NOW, None, NOW - 5), 0).seconds is None


def test_a_silent_source_may_have_taken_records_until_now() -> None:
    """Its applications may reach it when we, the replicator and every observer do not: only death ends it."""
    seen = Sighting(NOW, NOW - 600_000, NOW - 599_500)
    found = of_silent_source(seen, 3)
    assert (found.seconds, found.if_dead_seconds) == (600.0, 0.5)
    assert "nothing proves that it is dead" in found.basis
    assert "0.5 s if it died when it was last seen" in found.basis, "both numbers are shown"
    watched = of_silent_source(seen._replace(last_seen_ms=NOW - 590_000), 3)
    assert (watched.seconds, watched.if_dead_seconds) == (600.0, 10.0)


def test_proven_death_ends_it() -> None:
    seen = Sighting(NOW, NOW - 600_000, NOW - 599_500, dead_since_ms=NOW - 590_000)
    found = of_silent_source(seen, 3)
    assert (found.seconds, found.if_dead_seconds) == (10.0, None)


def test_a_death_before_a_sign_of_life_is_of_a_wrong_clock() -> None:
    """The clock of whoever proved it jumped back by an hour: the loss would be 0."""
    seen = Sighting(NOW, NOW - 60_000, NOW - 59_500, last_seen_ms=NOW - 55_000, dead_since_ms=NOW - 3_600_000)
    assert of_silent_source(seen, 3).seconds == 60.0


def test_a_clock_that_is_behind_the_heartbeats_makes_no_small_loss() -> None:
    """By 60 s: the newest that counts seems to be of this moment, whatever the silence."""
    seen = Sighting(NOW, NOW, None, ahead_seconds=30.0)
    found = of_silent_source(seen, 3)
    assert found.seconds is None
    assert "30.0 s ahead of this machine's clock" in found.basis


def test_a_copy_that_has_all_of_the_noted_ends_is_younger() -> None:
    seen = Sighting(NOW, NOW - 600_000, NOW - 598_000, last_seen_ms=NOW - 597_000)
    assert [of_silent_source(seen, n).if_dead_seconds for n in (0, 1)] == [1.0, 3.0]
    assert [of_silent_source(seen, n).seconds for n in (0, 1)] == [598.0, 600.0]


@given(times, maybe, maybe, maybe, st.none() | st.integers(0, 9))
def test_nothing_but_death_makes_it_less_than_since_the_last_copied_record(
    beat: int, ends: int | None, last: int | None, dead: int | None, records: int | None
) -> None:
    found = of_silent_source(Sighting(NOW, beat, ends, last, dead), records)
    assert found.seconds is not None
    copied = max(beat, ends) if records == 0 and ends is not None else beat
    is_dead = dead is not None and dead >= max(beat, last or 0)
    until = max(dead or 0, copied) if is_dead else max(NOW, beat, ends or 0, last or 0)
    assert found.seconds == (until - copied) / 1000


def test_of_a_source_that_answers() -> None:
    assert of_answering_source(3, 1.5, exact=True, reason="").exact
    assert of_answering_source(None, 1.5, exact=True, reason="why").basis == "why"
    assert of_answering_source(3, None, exact=True, reason="").seconds is None
