"""A primary of three brokers is hurt in each way there is; observers with quick settings look on.

In the order of harm: the last tests leave nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
import json
import random
import threading
import time
from typing import Any
from urllib.request import urlopen

import pytest

from drkit.config import Settings
from drkit.detect.reasons import Reason
from drkit.detect.seen import ProbeOutcome, Sight
from drkit.detect.verdict import VerdictKind
from drkit.kafka.admin import Cluster
from drkit.local.ports import PortReservation
from drkit.monitoring.page.server import Listen
from drkit.watch import automatic, run
from drkit.watch.identity import ObserverIdentity, this_process
from drkit.watch.observer import Moment, Observer
from drkit.watch.run import WatchOptions, watch
from tests.support.circles import in_soak
from tests.support.flows.beside import SideJobs
from tests.support.waiting import eventually
from tests.support.watch.disturbances import no_alarm
from tests.support.watch.ready import protected, ready
from tests.support.watch.world import Lookout, World


@pytest.fixture(scope="module")
def lookout(world: World) -> Iterator[Lookout]:
    """One observer for all tests that need only one."""
    made = Lookout(world.settings(), "o1")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def watched(calm: World, lookout: Lookout) -> Lookout:
    """The same, with everything well."""
    assert calm.primary.brokers
    ready(lookout)
    return lookout


@pytest.mark.soak
@pytest.mark.parametrize("name", ["pause", in_soak("flap"), in_soak("restart")])
def test_with_the_default_settings_nothing_that_passes_by_itself_alarms(calm: World, name: str):
    """None of it is a HOLD or a LOST."""
    patient = calm.lookout("d1", detection={})
    ready(patient)
    no_alarm(calm, patient, name, random.Random(7))


@pytest.mark.wide
def test_all_is_well(watched: Lookout):
    probes = watched.observer.senses.probes
    eventually(
        lambda: {p.outcome for p in probes.newest().values() if p} == {ProbeOutcome.WORKS}, 40, "canaries"
    )
    assert len(probes.newest()) == 3
    moment = watched.moment
    assert moment is not None
    assert moment.picture.tally.gone == ()
    assert moment.picture.risk.seconds is not None
    assert moment.picture.risk.seconds < 5
    assert all(d.free > 0 for d in watched.observer.senses._ready.look(None).disks or ())


class Serving(SideJobs):
    """`drkit watch --metrics-port`, with what it shows thrown away."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.port = PortReservation().reserve()
        self._settings = world.settings()

    def _run(self) -> None:
        options = WatchOptions(ObserverIdentity("o9", "page"), listen=Listen("127.0.0.1", self.port))
        watch(self._settings, self._settings.flows, options, self._stop, lambda _said: None)

    def get(self, path: str) -> str:
        """What it serves; nothing before it is there, or while it is not well."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


@pytest.mark.wide
def test_an_observer_serves_the_page_too(watched: Lookout, calm: World):
    """The same facts as where the flow runs, and the verdict."""
    with Serving(calm) as serving:

        def shown() -> Any:
            flows = json.loads(serving.get("/status.json") or "{}").get("flows", ())
            return next((f for f in flows if f.get("topics") and f["heartbeat"]), None)

        flow = eventually(shown, 30, "figures of the flow")
        assert (flow["flow"], flow["role"]) == (f"{calm.source}->{calm.target}", "replicating")
        assert [t["topic"] for t in flow["topics"]] == [calm.topic]
        assert "<title>drkit</title>" in serving.get("/")
        level = f'drkit_verdict_level{{source="{calm.source}",target="{calm.target}"}} '
        eventually(lambda: level in serving.get("/metrics"), 30, "the verdict")
    assert watched.moment is not None


@pytest.mark.wide
def test_one_broker_of_three_is_degraded(calm: World, watched: Lookout):
    calm.primary.broker(2).freeze()
    moment = watched.sees(Reason.BROKERS_DOWN)
    assert moment.verdict.kind is VerdictKind.DEGRADED
    assert "broker 2" in moment.verdict.evidence[-1]
    assert "does not answer" in moment.verdict.evidence[-1]
    calm.primary.broker(2).resume()
    watched.sees(Reason.WELL)


# P39
@pytest.mark.wide
def test_a_freeze_shorter_than_the_confirmation_is_a_suspicion(calm: World, watched: Lookout):
    began = time.monotonic()
    calm.primary.freeze()
    watched.sees(Reason.UNCONFIRMED)
    calm.primary.resume()
    watched.sees(Reason.WELL)
    assert watched.worst_since(began) is VerdictKind.SUSPECT


@pytest.mark.wide
def test_our_own_stall_is_no_silence_of_others(watched: Lookout):
    """The clock of the observer is held still, as when its process is."""
    began = time.monotonic()
    with watched.clock._lock:  # every thread that asks for the time waits
        eventually(lambda: time.monotonic() - began > 4, 10)
    eventually(lambda: watched.clock.lost_seconds > 3, 5)
    assert watched.worst_since(began) <= VerdictKind.SUSPECT
    watched.sees(Reason.WELL)


@pytest.mark.wide
def test_a_look_beside_an_observer_is_no_vote(calm: World, watched: Lookout):
    """`drkit watch --once` casts no vote, as operators run it at any time."""
    settings = calm.settings()
    look = Observer(settings, settings.flows[0], this_process("guest", votes=False), watched.clock)
    look.start()
    try:
        eventually(lambda: look.is_ready and look.look().picture.target_answers, 20, "a look")
        eventually(lambda: look.look().picture.tally.alive == ("o1",), 20, "the vote of the other")
        eventually(lambda: look.target_board._notes.by_key("look"), 20, "what it writes")
        assert watched.moment is not None
        assert not [n for n in watched.observer.target_board._notes.by_key() if "guest" in n]
        assert "guest" not in json.dumps(watched.moment.as_dict())
    finally:
        look.stop()


# P39
@pytest.mark.wide
def test_cut_off_while_replication_moves_holds(calm: World, watched: Lookout):
    calm.primary.link("PROBE").cut()
    moment = watched.sees(Reason.REPLICATION_MOVES)
    assert moment.picture.seen.sight is Sight.GONE
    # The verdict does not change: heartbeats continue.
    since = time.monotonic()
    eventually(lambda: time.monotonic() - since > 3, 10)
    assert watched.reason is Reason.REPLICATION_MOVES
    assert watched.worst_since(since) is VerdictKind.HOLD
    calm.primary.link("PROBE").restore()
    watched.sees(Reason.WELL)


@pytest.mark.soak
def test_half_open_is_cut_off_too(calm: World, watched: Lookout):
    calm.primary.link("PROBE").half_open()
    moment = watched.sees(Reason.REPLICATION_MOVES)
    assert any("does not answer" in line for line in moment.verdict.evidence)
    calm.primary.link("PROBE").restore()
    watched.sees(Reason.WELL)


@pytest.mark.wide
def test_another_cluster_behind_the_name(calm: World, watched: Lookout):
    assert watched.moment is not None
    plain = calm.plain()
    plain["clusters"][calm.source]["bootstrap_servers"] += f",{calm.standby.bootstrap()}"
    other = Lookout(type(watched.observer._settings).model_validate(plain), "o9")
    calm._lookouts.append(other)
    other.start()
    moment = other.sees(Reason.WRONG_CLUSTER)
    assert moment.verdict.kind is VerdictKind.HOLD
    ids = Cluster.connect(calm.settings().cluster(calm.target)).cluster_id
    assert any(ids in line and "expected" in line for line in moment.verdict.evidence)


# P39
@pytest.mark.soak
def test_partitioned_sites_hold_while_one_observer_sees_it(calm: World, watched: Lookout):
    """Replication is cut, and so is one of three observers; the others see the primary at work."""
    watch = {"observers": 3, "vote_interval_seconds": 0.5}
    cut_off = calm.lookout("a1", watch=watch)
    near = calm.lookout("a2", "CLIENT", watch=watch)
    ready(cut_off, near)
    calm.primary.link("REPLICATION").cut()
    calm.primary.link("PROBE").cut()
    moment = cut_off.sees(Reason.OBSERVERS_DISAGREE)
    assert moment.picture.tally.alive == ("a2",)
    near.sees(Reason.BEATS_LATE)
    assert watched.observer.identity.name not in moment.picture.tally.in_words()


# P39
@pytest.mark.wide
def test_frozen_is_lost_only_by_a_majority(calm: World, watched: Lookout):
    """No observer of several decides alone, and two of three do."""
    # A loss counts until now: what this asks for is the quorum, however long a busy machine takes.
    tables: dict[str, Any] = {
        "watch": {"observers": 3, "vote_interval_seconds": 0.5},
        "failover": {"rpo_seconds": 600.0},
    }
    watched.observer.stop()
    first = calm.lookout("b1", **tables)
    ready(first)
    protected(first)
    calm.primary.freeze()
    moment = first.sees(Reason.NO_QUORUM)
    assert moment.picture.tally.gone == ("b1",)
    second = calm.lookout("b2", **tables)
    lost = first.sees(Reason.CONFIRMED, 40)
    assert lost.verdict.kind is VerdictKind.LOST
    assert lost.picture.tally.gone == ("b1", "b2")
    # The second never saw it alive: what would be lost it knows by the replicator's last note alone.
    moment = second.sees(Reason.CONFIRMED, 40)
    assert moment.vote.alive_ms is None
    assert moment.picture.risk.seconds is not None
    assert {a.broker for a in second.observer.senses.probes.newest()} == {0, 1, 2}


def looked_once(settings: Settings, seconds: float) -> Moment:
    """The only answer of `drkit watch --once`."""
    identity = this_process(None, votes=False, watch=settings.watch)
    options = WatchOptions(identity, once=seconds)
    (found,) = watch(settings, settings.flows, options, threading.Event(), lambda _said: None)
    return found.moment


# P39
def test_killed_is_lost_and_a_pause_holds_it(world: World, lookout: Lookout, monkeypatch: pytest.MonkeyPatch):
    """The last test: the primary is not started again. One observer is left, and decides alone."""
    lookout.observer.stop()
    lookout = world.lookout("c1", failover={"rpo_seconds": 600.0})
    ready(lookout)
    protected(lookout)
    eventually(lambda: lookout.moment and lookout.moment.picture.tally.alive == ("c1",), what="one vote")
    settings = world.settings()
    world.primary.kill()
    moment = lookout.sees(Reason.CONFIRMED)
    assert moment.picture.risk.seconds is not None
    assert moment.picture.risk.seconds < 30
    told = moment.as_dict()
    assert told["lost_at_ms"] <= told["at_ms"]
    assert told["source_last_seen_ms"] <= told["lost_at_ms"] + 2000
    # A watch that begins now does not answer before it knows whether replication moves. Its first look at
    # a dead primary takes longer on a busy machine than such a watch waits for it.
    monkeypatch.setattr(run, "_SETTLING_SECONDS", 90.0)
    late = looked_once(world.settings(failover={"rpo_seconds": 600.0}), 0.5)
    assert late.verdict.reason is Reason.CONFIRMED, late.verdict
    assert late.picture.watched_for is not None
    assert late.picture.watched_for >= late.picture.still_seconds
    # It never saw the primary, so its own start says nothing about when that died.
    assert late.sensed.loss.sighting.last_seen_ms is None
    automatic.pause(settings, settings.flows[0], "ann", "rack move")
    held = lookout.sees(Reason.PAUSED)
    assert held.verdict.evidence == ("paused by ann: rack move",)
    automatic.resume(settings, settings.flows[0])
    lookout.sees(Reason.CONFIRMED)
    world.standby.broker(0).freeze()
    try:
        lookout.sees(Reason.TARGET_UNREACHABLE)
    finally:
        world.standby.broker(0).resume()
