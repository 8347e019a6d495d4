"""How many seconds a silent source may have taken with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.failover.risk import Sighting, of_answering_source, of_silent_source

NOW = 1_000_000
times = st.integers(0, NOW)
maybe = st.none() | times


def test_without_a_heartbeat_nobody_knows() -> None:
    assert of_silent_source(Sighting(NOW, None, NOW - 5, runner_alive=True), 0).seconds is None


def test_a_living_replicator_bounds_it_by_the_last_sight() -> None:
    seen = Sighting(NOW, NOW - 600_000, NOW - 599_500, runner_alive=True)
    assert of_silent_source(seen, 3).seconds == 0.5, "ten minutes of silence are not ten minutes of records"


def test_with_nobody_there_it_grows_until_now() -> None:
    seen = Sighting(NOW, NOW - 600_000, NOW - 599_500, runner_alive=False)
    assert of_silent_source(seen, 3).seconds == 600.0
    assert of_silent_source(seen._replace(last_seen_ms=NOW - 590_000), 3).seconds == 10.0, (
        "drkit watch saw it"
    )


def test_a_copy_that_has_all_of_the_noted_ends_is_younger() -> None:
    seen = Sighting(NOW, NOW - 600_000, NOW - 598_000, runner_alive=True, last_seen_ms=NOW - 597_000)
    assert of_silent_source(seen, 0).seconds == 1.0
    assert of_silent_source(seen, 1).seconds == 3.0


@given(times, maybe, maybe, st.booleans(), st.none() | st.integers(0, 9))
def test_it_is_never_negative_and_never_more_than_since_the_heartbeat(
    beat: int, ends: int | None, last: int | None, alive: object, records: int | None
) -> None:
    found = of_silent_source(Sighting(NOW, beat, ends, bool(alive), last), records).seconds
    assert found is not None
    assert 0 <= found <= (NOW - beat) / 1000 or (beat > NOW)


def test_of_a_source_that_answers() -> None:
    assert of_answering_source(3, 1.5, exact=True, reason="").exact
    assert of_answering_source(None, 1.5, exact=True, reason="why").basis == "why"
    assert of_answering_source(3, None, exact=True, reason="").seconds is None
