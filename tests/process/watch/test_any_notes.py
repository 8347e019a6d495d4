"""Observers and fence agents beside a topic with arbitrary records. No broker is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
import json
from pathlib import Path
import sys
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.config import Settings
from drkit.detect.agents import AgentNote, Hold
from drkit.detect.awake import AwakeClock
from drkit.detect.note_kinds import Automatic, KnownBrokers
from drkit.detect.notes import Notes
from drkit.detect.noticeboard import Noticeboard
from drkit.detect.seen import Address, Sight
from drkit.detect.votes import Vote
from drkit.errors import ConfigError
from drkit.local.ports import PortReservation
from drkit.watch.agent import AgentState, FenceAgent, read_state, write_state
from drkit.watch.automatic import acknowledgement, against_claim
from drkit.watch.identity import ObserverIdentity, this_process
from drkit.watch.observer import Observer
from drkit.wire import Record
from tests.support.detect.any_notes import AUTOMATIC, HARD, NOW_MS, records
from tests.support.errors import coded

Written = Sequence[tuple[bytes, bytes | None]]


class Post(NamedTuple):
    """An observer and an agent that are not started; the tests set what their topics hold."""

    observer: Observer
    agent: FenceAgent
    boards: list[Noticeboard]

    def write(self, key: bytes, value: bytes | None) -> None:
        for board in self.boards:
            board.take(Record(0, 0, key, value), "")


def settings(folder: Path, ports: PortReservation) -> Settings:
    server = f"127.0.0.1:{ports.reserve()}"
    script = f"open({str(folder / 'fenced')!r}, 'w').close()"
    return Settings.model_validate({
        "clusters": {alias: {"bootstrap_servers": server} for alias in ("a", "b", "w")},
        "flows": [{"source": "a", "target": "b"}],
        "watch": {"observers": 3, "third": "w", "vote_ttl_seconds": 60.0},
        "failover": {"mode": "auto"},
        "fence_agent": {
            "agents": 1, "ttl_seconds": 60.0, "check_seconds": 0.0001, "fence_seconds": 3.0,
            "command": [sys.executable, "-c", script], "state_file": str(folder / "agent.json"),
        },
    })  # fmt: skip


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    with PortReservation() as ports:
        found = settings(tmp_path_factory.mktemp("agent"), ports)
        wall = lambda: NOW_MS  # noqa: E731
        observer = Observer(found, found.flows[0], ObserverIdentity("o1", "r"), AwakeClock(), wall)
        agent = FenceAgent(found, found.flows[0], "dc1", wall=wall)
        boards = [*observer.boards, *agent._boards]
        for board in boards:
            board.is_read = True
        for board in boards:
            board._wall = wall
        yield Post(observer, agent, boards)
        observer.senses.probes.stop()


@given(st.lists(records(), max_size=5))
def test_good_notes_count_beside_whatever_is_written(post: Post, written: Written):
    post.agent.step()
    number = post.agent._number
    asking = AgentNote("dc1", "r", number, Hold.LEASED, NOW_MS)
    granting = Vote("good", "r", 1, NOW_MS, Sight.CLEAR, renews={"dc1": number})
    good = [(AgentNote.key("dc1"), asking.encode()), (Vote.key("good"), granting.encode())]
    for key, value in [*written[::2], *((k.encode(), v) for k, v in good), *written[1::2]]:
        post.write(key, value)
    moment = post.observer.look()
    assert "good" in moment.picture.tally.alive
    assert moment.vote.renews["dc1"] == number
    assert "dc1" in {agent.agent for agent in moment.agents}
    json.dumps(moment.as_dict(), allow_nan=False, ensure_ascii=False).encode()
    post.agent.step()
    assert "good" in post.agent._lease.answered(post.agent._boot())


@given(st.lists(records(), max_size=5))
def test_a_claim_and_its_acknowledgement_are_made_beside_whatever_is_written(written: Written):
    notes = Notes()
    for key, value in written:
        notes.take(key, value)
    against = against_claim(notes, replace(AUTOMATIC, at_ms=NOW_MS + 1), 3600.0)
    assert isinstance(against, str)
    said = acknowledgement(notes, "me", NOW_MS)
    if notes.automatic is None:
        assert (against, said) == ("", None)
    else:
        assert said is not None
        notes.take(Automatic.KEY.encode(), said.encode())
        assert notes.automatic == said
        assert said.acknowledged_ms is not None


def test_a_claim_says_what_holds_it_back_and_an_acknowledgement_clears_a_damaged_note():
    notes = Notes()
    notes.take(b"automatic", HARD[0])
    mine = replace(AUTOMATIC, at_ms=NOW_MS)
    assert "drkit watch acknowledge" in against_claim(notes, mine, 3600.0)
    said = acknowledgement(notes, "me", NOW_MS)
    assert said is not None
    notes.take(b"automatic", said.encode())
    assert against_claim(notes, mine, 3600.0) == "unknown acted 0 s ago"
    assert against_claim(notes, replace(mine, at_ms=NOW_MS + 3_600_000), 3600.0) == ""


@pytest.mark.parametrize("value", HARD, ids=range(len(HARD)))
def test_an_agent_fences_whatever_the_note_of_the_brokers_holds(tmp_path: Path, value: bytes):
    """Its lease is over: the command runs, and is proven by the addresses that the settings have."""
    with PortReservation() as ports:
        found = settings(tmp_path, ports)
        write_state(tmp_path / "agent.json", AgentState(armed=True))
        agent = FenceAgent(found, found.flows[0], "dc1", boot=iter(range(0, 10_000, 100)).__next__)
        for board in agent._boards:
            for key in (KnownBrokers.KEY, "vote/x", "agent/dc1"):
                board.take(Record(0, 0, key.encode(), value), "")
        agent.step()
        assert (tmp_path / "fenced").exists()
        assert read_state(tmp_path / "agent.json").fenced


def named(folder: Path, ports: PortReservation) -> Settings:
    """The same with the observers and the agent by name."""
    raw = settings(folder, ports).model_dump(mode="json")
    raw["watch"]["observers"], raw["fence_agent"]["agents"] = ["o1", "o2", "o3"], ["dc1"]
    return Settings.model_validate(raw)


def test_an_agent_is_leased_by_configured_names_alone(tmp_path: Path):
    with PortReservation() as ports:
        found = named(tmp_path, ports)
        agent = FenceAgent(found, found.flows[0], "dc1", boot=iter(range(100, 10_000)).__next__)
        for board in agent._boards:
            board.is_read = True

        def answer(name: str, run: str = "r", sequence: int = 1) -> None:
            vote = Vote(name, run, sequence, NOW_MS, Sight.CLEAR, renews={"dc1": agent._number})
            for board in agent._boards:
                board.take(Record(0, 0, Vote.key(name).encode(), vote.encode()), "")

        agent.step()
        for name in ("x1", "x2", "x3", "o1"):
            answer(name)
        agent.step()
        assert agent._lease.hold(101.0) is Hold.UNARMED, "one of three is not enough"
        answer("o2", "honest", 5)
        answer("o2", "forged")
        answer("o2", "honest", 6)
        agent.step()
        assert agent._lease.hold(102.0) is Hold.UNARMED, "two processes under one name"
        answer("o3")
        agent.step()
        assert agent._lease.hold(103.0) is Hold.LEASED


def test_a_name_that_is_not_configured_is_refused_at_the_start(tmp_path: Path):
    with PortReservation() as ports:
        found = named(tmp_path, ports)
        with pytest.raises(ConfigError, check=coded("name_not_listed")) as refused:
            FenceAgent(found, found.flows[0], "dc2")
        assert (refused.value.where, refused.value.evidence) == ("--name", "fence_agent.agents = dc1")
        with pytest.raises(ConfigError, check=coded("name_not_listed")) as refused:
            this_process("o9", watch=found.watch)
        assert "o9" in str(refused.value)
        assert refused.value.evidence == "watch.observers = o1, o2, o3"
        assert this_process("o9", votes=False, watch=found.watch).name == "o9", "it only looks on"
        mine = found.watch.model_copy(update={"name": "o2"})
        assert this_process(watch=mine).name == "o2"


@pytest.mark.parametrize("name", ["x" * 257, "dc1\n", "\x1b[2J"])
def test_a_name_that_others_would_drop_is_refused_at_the_start(tmp_path: Path, name: str):
    with PortReservation() as ports:
        found = settings(tmp_path, ports)
        with pytest.raises(ConfigError, check=coded("name_unprintable")) as refused:
            FenceAgent(found, found.flows[0], name)
        assert refused.value.where == "--name"
        with pytest.raises(ConfigError, check=coded("name_unprintable")):
            this_process(name)


def test_the_command_runs_before_addresses_are_looked_up(tmp_path: Path):
    with PortReservation() as ports:
        found = settings(tmp_path, ports)
        agent = FenceAgent(found, found.flows[0], "dc1")
        seen: list[bool] = []
        address = Address("own", f"127.0.0.1:{ports.reserve()}", 7)

        def known() -> list[str]:
            seen.append((tmp_path / "fenced").exists())
            return [address.server]

        agent._known_servers = known  # type: ignore[method-assign]
        done = agent._fence_here()
        assert seen == [True]
        assert done.proven
        assert any(address.server in line for line in done.evidence)
