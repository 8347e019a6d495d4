"""What would be lost, from looks while the source lived."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.detect.risk import Look, risk_of

ALIVE = Look(100.0, source_answers=True, target_answers=True, records=5, seconds=0.8)


def gone(at: float, records: int | None, seen: float | None) -> Look:
    return Look(
        at, source_answers=False, target_answers=True, records=records, seconds=None, seen_seconds=seen
    )


def test_while_both_answer_it_is_what_they_say():
    found = risk_of(ALIVE, ALIVE, None, 103.0)
    assert (found.seconds, found.records) == (0.8, 5)


def test_after_its_end_it_is_bounded_by_the_last_look():
    found = risk_of(ALIVE, gone(130.0, 12, 34.0), 103.0, 131.0)
    assert found.seconds is not None
    assert round(found.seconds, 3) == 3.8
    assert found.records == 12


def test_a_note_of_the_replicator_may_bound_it_better():
    # All that stood there 9 s before the look, at 121, is copied, and the source died at 122.
    found = risk_of(ALIVE, gone(130.0, 0, 9.0), 122.0, 131.0)
    assert found.seconds == 1.0
    # Its time is that of another clock.
    assert risk_of(ALIVE, gone(130.0, 0, 9.0), 122.0, 131.0, margin=2.0).seconds == 3.0


def test_a_restarted_observer_knows_by_the_note_alone():
    assert risk_of(None, gone(130.0, 0, 20.0), None, 131.0).seconds == 21.0
    assert risk_of(None, gone(130.0, 7, 20.0), None, 131.0).seconds is None
    assert risk_of(None, gone(130.0, 0, None), 120.0, 131.0).seconds is None
    assert risk_of(None, None, None, 131.0).seconds is None


@given(
    st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30),
    st.floats(0.0, 100.0),
    st.floats(0.0, 30.0),
    st.floats(0.0, 100.0),
)
def test_it_is_an_upper_bound(records: list[float], look_at: float, lag: float, died: float):
    """Records produced at these times, copied up to `look_at − lag` at the look: none lost is older."""
    look_at = min(look_at, died)
    produced = [t for t in records if t <= died]
    missing = [t for t in produced if look_at - lag <= t <= look_at]
    age = look_at - min(missing) if missing else 0.0
    live = Look(look_at, source_answers=True, target_answers=True, records=len(missing), seconds=age)
    lost = [t for t in produced if t in missing or t > look_at]
    found = risk_of(live, gone(died + 10, None, None), died, died + 11)
    assert found.seconds is not None
    assert all(died - t <= found.seconds + 1e-6 for t in lost)
