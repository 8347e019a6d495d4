"""From probes to what one observer makes of the cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.detect.seen import (
    DEAD,
    ILL,
    WELL,
    Address,
    Probe,
    ProbeOutcome,
    Sight,
    SightRules,
    SourceView,
    Track,
    see,
)
from drkit.watch.senses import last_seen_ms

RULES = SightRules(confirm=5.0, stale=10.0)
NOW = 100.0
RANK = {
    Sight.CLEAR: 0, Sight.FADING: 1, Sight.PARTIAL: 2, Sight.FEW: 3, Sight.REFUSING: 4, Sight.BLIND: 4,
    Sight.GONE: 5, Sight.WRONG: 6,
}  # fmt: skip


def track(outcome: ProbeOutcome, lasted: float = 60.0, age: float = 0.5) -> Track:
    """A track whose last probe ended `age` ago, failing for `lasted` unless it is well."""
    found = Track()
    if outcome not in WELL:
        found.take(Probe(outcome, NOW - lasted, NOW - lasted + 0.1))
    found.take(Probe(outcome, NOW - age - 0.1, NOW - age))
    return found


def cluster(*tracks: Track, listener: str = "own") -> dict[Address, Track]:
    return {Address(listener, f"h:{n}", n): t for n, t in enumerate(tracks)}


def sight(*tracks: Track) -> Sight:
    return see(cluster(*tracks), NOW, RULES).sight


FINE, KILLED = track(ProbeOutcome.WORKS), track(ProbeOutcome.REFUSED)
FROZEN, DOUBTFUL = track(ProbeOutcome.SILENT), track(ProbeOutcome.REFUSED, lasted=2.0)


def test_all_works():
    assert sight(FINE, FINE, FINE) is Sight.CLEAR
    assert sight(track(ProbeOutcome.ANSWERS)) is Sight.CLEAR


def test_one_of_three():
    seen = see(cluster(FINE, KILLED, FINE), NOW, RULES)
    assert (seen.sight, seen.brokers, seen.failing, seen.since) == (Sight.PARTIAL, 3, 1, None)
    assert seen.evidence == ("broker 1 (own, h:1): nothing listens, for 60.0 s",)


def test_two_of_three_are_most():
    assert sight(FINE, KILLED, FROZEN) is Sight.FEW


def test_half_is_not_enough_to_be_only_degraded():
    assert sight(FINE, KILLED) is Sight.FEW


def test_all_killed_frozen_or_cut_off():
    seen = see(cluster(KILLED, FROZEN, track(ProbeOutcome.NO_ROUTE, lasted=6.0)), NOW, RULES)
    assert seen.sight is Sight.GONE
    assert seen.since == NOW - 6.0  # the last to fall silent


def test_one_that_failed_only_just_keeps_the_rest_from_being_gone():
    assert sight(KILLED, KILLED, DOUBTFUL) is Sight.FEW
    assert sight(DOUBTFUL, DOUBTFUL, DOUBTFUL) is Sight.FADING
    assert sight(FINE, DOUBTFUL, FINE) is Sight.FADING


def test_answering_without_taking_records_is_not_gone():
    assert sight(track(ProbeOutcome.WRITE_REFUSED), KILLED, KILLED) is Sight.REFUSING
    assert sight(track(ProbeOutcome.WRITE_SILENT)) is Sight.REFUSING


def test_trouble_at_the_observer_is_blind_not_gone():
    assert sight(track(ProbeOutcome.UNRESOLVED), KILLED) is Sight.BLIND
    assert sight(track(ProbeOutcome.SHUT_OUT)) is Sight.BLIND
    assert see({}, NOW, RULES).sight is Sight.BLIND


def test_another_cluster_is_said_at_once():
    assert sight(FINE, track(ProbeOutcome.WRONG_CLUSTER, lasted=0.1), FINE) is Sight.WRONG


def test_a_broker_whose_probes_hang_is_not_gone():
    assert sight(KILLED, track(ProbeOutcome.REFUSED, age=11.0)) is Sight.FEW
    assert sight(track(ProbeOutcome.REFUSED, age=11.0)) is Sight.BLIND


def test_a_success_ends_a_failure():
    flapping = Track()
    for at in range(0, 100, 2):
        outcome = ProbeOutcome.WORKS if at % 4 else ProbeOutcome.REFUSED
        flapping.take(Probe(outcome, float(at), at + 0.1))
    assert see(cluster(flapping), 99.0, RULES).sight in {Sight.CLEAR, Sight.FADING}


def test_one_listener_down_is_degraded():
    both = cluster(FINE, FINE, FINE) | cluster(KILLED, KILLED, KILLED, listener="clients")
    seen = see(both, NOW, RULES)
    assert (seen.sight, seen.failing) == (Sight.PARTIAL, 0)
    assert all("clients" in line for line in seen.evidence)


def test_a_name_that_leads_to_the_brokers_is_no_broker():
    world = cluster(FINE, KILLED, FINE) | {Address("own", "vip:9092"): KILLED}
    seen = see(world, NOW, RULES)
    assert (seen.sight, seen.brokers, seen.failing) == (Sight.PARTIAL, 3, 1)
    assert see({Address("own", "vip:9092"): KILLED}, NOW, RULES).sight is Sight.GONE


def test_an_address_never_probed_does_not_count():
    assert see(cluster(FINE) | {Address("own", "new:1", 9): Track()}, NOW, RULES).sight is Sight.CLEAR


OUTCOMES = st.sampled_from(sorted(WELL | DEAD | ILL, key=lambda o: o.name))
TRACKS = st.lists(st.builds(track, OUTCOMES, st.floats(0.2, 20.0)), min_size=1, max_size=6)


@given(TRACKS, st.integers(0, 5), st.sampled_from(sorted(DEAD, key=lambda o: o.name)))
def test_one_more_dead_broker_never_looks_better(tracks: list[Track], which: int, dead: ProbeOutcome):
    worse = list(tracks)
    worse[which % len(tracks)] = track(dead)
    assert RANK[sight(*worse)] >= RANK[sight(*tracks)]


@given(TRACKS)
def test_gone_means_that_every_broker_is_confirmed_dead(tracks: list[Track]):
    seen: SourceView = see(cluster(*tracks), NOW, RULES)
    dead = all(
        t.last is not None and t.last.outcome in DEAD and t.failing_since is not None
        and NOW - t.failing_since >= RULES.confirm
        for t in tracks
    )  # fmt: skip
    assert (seen.sight is Sight.GONE) == dead
    assert (seen.since is not None) == all(t.failing_since is not None for t in tracks)


UNKNOWN_NAME = Address("own", "typo:9092")
UNRESOLVED = track(ProbeOutcome.UNRESOLVED)


def test_one_name_that_does_not_resolve_hides_no_loss():
    """All brokers are known and dead: a bootstrap name beside them leads to one of these."""
    dead = cluster(KILLED, FROZEN, KILLED) | {UNKNOWN_NAME: UNRESOLVED}
    seen = see(dead, NOW, RULES)
    assert (seen.sight, seen.brokers, seen.failing) == (Sight.GONE, 3, 3)
    assert seen.since is not None
    assert "server (own, typo:9092): its name does not resolve, for 60.0 s" in seen.evidence
    # A resolver that takes a minute for each answer makes no difference.
    slow = cluster(KILLED) | {UNKNOWN_NAME: track(ProbeOutcome.UNRESOLVED, age=30.0)}
    assert see(slow, NOW, RULES).sight is Sight.GONE
    assert see(cluster(FINE) | {UNKNOWN_NAME: UNRESOLVED}, NOW, RULES).sight is Sight.PARTIAL


def test_names_that_do_not_resolve_are_no_loss():
    """As without a name service: what is not reached may live."""
    own = Address("own", "p1:9092")
    assert see({UNKNOWN_NAME: UNRESOLVED}, NOW, RULES).sight is Sight.BLIND
    assert see({UNKNOWN_NAME: UNRESOLVED, own: KILLED}, NOW, RULES).sight is Sight.BLIND, "no broker is known"
    by_note = Track(KILLED.last, KILLED.failing_since, of_note=True)
    assert see({UNKNOWN_NAME: UNRESOLVED} | cluster(by_note), NOW, RULES).sight is Sight.BLIND
    assert see(cluster(KILLED, UNRESOLVED), NOW, RULES).sight is Sight.BLIND, "a broker's own name"
    assert see(cluster(by_note) | {UNKNOWN_NAME: UNRESOLVED, own: KILLED}, NOW, RULES).sight is Sight.GONE


def test_an_address_that_only_a_note_names_is_shown_when_it_answers():
    seen = see(cluster(KILLED, track(ProbeOutcome.UNCONFIRMED)), NOW, RULES)
    assert seen.sight is Sight.FEW
    assert seen.evidence[1] == f"broker 1 (own, h:1): {ProbeOutcome.UNCONFIRMED.value}"


def test_a_silent_cluster_was_seen_only_by_who_got_an_answer():
    """A watch that began after the end takes its own start for the time when the primary was last seen."""
    never = see(cluster(KILLED, FROZEN), NOW, RULES)
    assert (never.sight, never.since, never.answered) == (Sight.GONE, NOW - 60.0, False)
    assert last_seen_ms(never, 1_000_000, NOW) is None
    died = track(ProbeOutcome.WORKS, age=90.0)
    died.take(Probe(ProbeOutcome.REFUSED, NOW - 60.0, NOW - 59.9))
    died.take(Probe(ProbeOutcome.REFUSED, NOW - 0.5, NOW - 0.4))
    once = see(cluster(died, KILLED), NOW, RULES)
    assert (once.sight, once.since, once.answered) == (Sight.GONE, NOW - 60.0, True)
    assert last_seen_ms(once, 1_000_000, NOW) == 940_000
    assert last_seen_ms(see(cluster(FINE, died), NOW, RULES), 1_000_000, NOW) is None, "it answers"
