"""Mode auto and the fence agent, on real clusters: never two primaries, and one failover.

The two sites are cut apart while clients work at the primary: the agent loses its lease and stops the
brokers, and only then one of three observers fails over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import itertools
import json
from pathlib import Path
import secrets
import sys
import threading
import time
from typing import Any

from confluent_kafka import Producer
import pytest

from drkit.clock import wall_ms
from drkit.config import Settings
from drkit.detect.agents import Hold
from drkit.detect.awake import AwakeClock
from drkit.detect.noticeboard import Noticeboard
from drkit.detect.reasons import Reason
from drkit.detect.seen import Sight
from drkit.detect.votes import Vote
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.watch import automatic
from drkit.watch.agent import FenceAgent, lift, read_state
from drkit.watch.automatic import AutoFailover, by_service
from tests.support.stored import stored
from tests.support.waiting import eventually
from tests.support.watch.ready import ready
from tests.support.watch.world import Lookout, World

WATCH = {
    "observers": ["o1", "o2", "o3"], "vote_interval_seconds": 0.3, "vote_ttl_seconds": 2.0,
    "clock_margin_seconds": 0.5, "failover_delay_seconds": 12.0,
}  # fmt: skip
AGENT: dict[str, Any] = {"agents": ["dc1"], "ttl_seconds": 7.0, "check_seconds": 0.3, "fence_seconds": 4.0}
"""A lease that a busy machine does not lose by itself."""


class Site:
    """The agent beside the primary, in a thread; it reaches the others through links that can be cut."""

    def __init__(self, world: World, witness: LocalCluster, folder: Path) -> None:
        self.world, self.witness = world, witness
        pids = [b.pid for b in world.primary.brokers]
        kill = f"import os\nfor pid in {pids}:\n  os.kill(pid, 9)\n"
        self.tables: dict[str, Any] = {
            "failover": {
                "mode": "auto", "journal_folder": str(folder), "verify_seconds": 0.2,
                # A site that is cut off takes writes until its agent has fenced.
                "rpo_seconds": 120.0,
            },
            "watch": WATCH | {"third": "witness"},
            "fence_agent": AGENT | {
                "command": [sys.executable, "-c", kill], "state_file": str(folder / "agent.json"),
            },
        }  # fmt: skip
        self.state_file = folder / "agent.json"
        self.stop = threading.Event()
        self.agent = FenceAgent(self.settings("PROBE", "PROBE"), world.settings().flows[0], "dc1")
        self.thread = threading.Thread(target=self.agent.run, args=(self.stop,), daemon=True)
        self.thread.start()

    def settings(self, role: str = "PROBE", others: str = "CLIENT") -> Settings:
        """The configuration; the agent reaches the standby and the witness by their linked listeners."""
        found = self.world.plain(role, **self.tables)
        found["clusters"][self.world.target]["bootstrap_servers"] = self.world.standby.bootstrap(others)
        found["clusters"]["witness"] = {"bootstrap_servers": self.witness.bootstrap(others)}
        settings = Settings.model_validate(found)
        assert not settings.disagreements()
        settings.refuse_auto_without_key()
        return settings

    def close(self) -> None:
        self.stop.set()
        self.thread.join(10.0)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    primary = LocalCluster(ClusterSpec("primary", brokers=3, linked=("PROBE", "REPLICATION")))
    standby = LocalCluster(ClusterSpec("standby", linked=("PROBE",)))
    witness = LocalCluster(ClusterSpec("witness", linked=("PROBE",)))
    world, made = None, None
    try:
        start_together(primary, standby, witness)
        world, folder = World(primary, standby), tmp_path_factory.mktemp("agent")
        key = folder / "control.key"
        key.write_text(secrets.token_hex(32))
        key.chmod(0o600)
        world.base["control"] = {"key_file": str(key)}
        world.replicate()
        made = Site(world, witness, folder)
        yield made
    finally:
        if made is not None:
            made.close()
        if world is not None:
            world.close()
        for cluster in (primary, standby, witness):
            cluster.stop()


class Client:
    """Writes to the primary by the listener of clients, and notes when something was acknowledged."""

    def __init__(self, world: World) -> None:
        self.last = 0.0
        self._ended = threading.Event()
        self._topic = world.topic
        self._producer = Producer({"bootstrap.servers": world.primary.bootstrap("CLIENT"), "log_level": 0})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.02):
            number += 1
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._told)
            self._producer.poll(0)

    def _told(self, error: object, _message: object) -> None:
        if error is None:
            self.last = time.monotonic()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.purge()


@pytest.fixture(scope="module")
def observers(site: Site) -> Iterator[list[Lookout]]:
    """Three at the standby's site, each with an automat that notes when it acts."""
    made = []
    settings = site.settings()
    for name in ("o1", "o2", "o3"):
        lookout = Lookout(settings, name)
        made.append(lookout)
        lookout.start()
    ready(*made)
    yield made
    for lookout in made:
        lookout.stop()


@pytest.mark.wide
def test_an_agent_is_armed_by_the_observers(site: Site, observers: list[Lookout]):
    eventually(lambda: site.agent.state.armed, 20, "a lease")
    assert json.loads(site.state_file.read_text())["armed"]
    eventually(lambda: observers[0].moment and observers[0].moment.agents, 10)
    moment = observers[0].moment
    assert moment is not None
    assert moment.picture.auto is not None
    assert [(a.agent, a.hold) for a in moment.agents] == [("dc1", Hold.LEASED)]


@pytest.mark.wide
def test_an_outage_of_the_standby_does_not_fence_the_primary(site: Site, observers: list[Lookout]):
    """Votes and leases travel through the third cluster too."""
    eventually(lambda: site.agent.state.armed, 20, "a lease")
    site.world.standby.broker(0).freeze()
    frozen = time.monotonic()
    try:
        eventually(lambda: time.monotonic() - frozen > 3 * AGENT["ttl_seconds"], 40)
        assert site.agent._lease.hold(site.agent._boot()) is Hold.LEASED
        assert not site.agent.state.fenced
    finally:
        site.world.standby.broker(0).resume()
    try:
        ready(*observers)
    except AssertionError as late:
        raise AssertionError(f"{late}; the replicator: {site.world.said()}") from None


@pytest.mark.wide
def test_one_observer_of_three_that_lies_neither_fails_over_nor_fences(site: Site, observers: list[Lookout]):
    """It has the control key and a configured name, votes "gone" all the time, and renews no lease."""
    eventually(lambda: site.agent.state.armed, 20, "a lease")
    settings, acted = site.settings(), list[Mapping[str, Any]]()
    flow = settings.flows[0]
    honest, votes = observers[:2], itertools.count(1)

    def act(decision: Mapping[str, Any]) -> str:
        acted.append(decision)
        return "done"

    observers[2].stop()
    for lookout in honest:
        lookout.automat = AutoFailover(settings, flow, act)
    boards = [Noticeboard(settings.cluster(a), flow, AwakeClock(), 5.0) for a in (flow.target, "witness")]
    for board in boards:
        board.start()

    def lie() -> None:
        number, evidence = next(votes), ("no broker answers",)
        vote = Vote("o3", "liar", number, wall_ms(), Sight.GONE, evidence, 99.0, 999.0, 999.0, mode="auto")
        for board in boards:
            board.publish(Vote.key("o3"), vote)

    def is_counted() -> bool:
        lie()
        moments = [lookout.moment for lookout in honest]
        return all(m is not None and m.picture.tally.gone == ("o3",) for m in moments)

    def has_renewed(since: int) -> bool:
        """The lie counts all the time in which a lease would have ended."""
        return is_counted() and site.agent._number > since + AGENT["ttl_seconds"] / AGENT["check_seconds"]

    try:
        eventually(is_counted, 60, "the lie")
        since = site.agent._number
        eventually(lambda: has_renewed(since), 90, "leases by the other two")
        assert [lookout.reason for lookout in honest] == [Reason.WELL, Reason.WELL]
        assert site.agent._lease.hold(site.agent._boot()) is Hold.LEASED
        assert not site.agent.state.fenced
        assert acted == []
    finally:
        for board in boards:
            board.stop()
        observers[2] = Lookout(settings, "o3")
        observers[2].start()
    ready(observers[2])


# P40
def test_cut_apart_the_agent_fences_and_then_one_observer_acts(site: Site, observers: list[Lookout]):
    """The old primary acknowledges no write once a failover has begun; only one observer acts."""
    eventually(lambda: site.agent.state.armed, 20, "a lease")
    settings, acted = site.settings(), []
    fail_over = by_service(settings, settings.flows[0])

    def act(decision: Mapping[str, Any]) -> str:
        acted.append((time.monotonic(), decision))
        return fail_over(decision)

    for lookout in observers:
        lookout.automat = AutoFailover(settings, settings.flows[0], act)
    client = Client(site.world)
    try:
        eventually(lambda: client.last > 0, 20)
        cut = time.monotonic()
        for cluster in (site.world.primary, site.world.standby, site.witness):
            cluster.link("PROBE").cut()
        site.world.primary.link("REPLICATION").cut()
        eventually(lambda: client.last > cut + 1, 20, "clients work on while the sites are apart")
        eventually(lambda: site.agent.state.fenced, 40, "the fence")
        fenced = time.monotonic()
        eventually(lambda: acted, 60, "the failover")
    finally:
        client.close()
    at, decision = acted[0]
    assert client.last < fenced < at
    assert decision["reason"] == Reason.CONFIRMED
    assert {v["observer"] for v in decision["votes"] if v["sight"] == "gone"} == {"o1", "o2", "o3"}
    automats = [o.automat for o in observers if o.automat is not None]
    eventually(lambda: "done" in {a.outcome for a in automats}, 60, "the end of the failover")
    with StateTopic(settings.sides(settings.flows[0])[1], site.world.source) as state:
        state.load()
        assert stored(state)[f"role/{site.world.topic}"]["role"] == "promoted"
    assert len(acted) == 1


# P40
def test_it_stays_fenced_until_lifted_and_auto_stays_off_until_acknowledged(
    site: Site, observers: list[Lookout]
):
    if not site.agent.state.fenced:
        pytest.skip("nothing was fenced before")
    settings = site.settings()
    found = automatic.acknowledged(settings, settings.flows[0], "ann")
    assert found.acknowledged_by == "ann"
    assert found.outcome == "done"
    assert found.evidence
    eventually(lambda: observers[0].moment and observers[0].moment.automatic == found, 20, "the note")
    again = FenceAgent(site.settings("PROBE", "PROBE"), settings.flows[0], "dc1")
    assert again.state.fenced
    assert lift(settings).fenced
    assert not read_state(site.state_file).fenced
    eventually(lambda: not site.agent.state.fenced, 10, "the agent sees that it was lifted")
