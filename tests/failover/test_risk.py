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
    until = max(NOW, beat, ends or 0, last or 0) if dead is None else max(dead, copied)
    assert found.seconds == (until - copied) / 1000


def test_of_a_source_that_answers() -> None:
    assert of_answering_source(3, 1.5, exact=True, reason="").exact
    assert of_answering_source(None, 1.5, exact=True, reason="why").basis == "why"
    assert of_answering_source(3, None, exact=True, reason="").seconds is None
