"""A control key on real clusters: forged records change nothing, and a pair that had no key takes one.

The adversary may write to every `drkit-*` topic, and has no key.
"""

from __future__ import annotations

from collections.abc import Mapping
import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
import pytest

from drkit.detect.agents import AgentNote, Hold
from drkit.detect.noticeboard import ensure_board, read_notes, topic_name
from drkit.detect.votes import Vote
from drkit.errors import Refused
from drkit.flow_state.names import journal_topic, offset_map_topic, state_topic
from drkit.flow_state.records import ClustersRecord
from drkit.flow_state.state import Damaged
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind, JournalEntry, parts_of
from drkit.journal.topic import JournalTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.topics import ALL_KEPT, ensure_own_topic, topic_configs
from drkit.model import TopicPartition
from drkit.replicate.flow_run import InternalTopics
from tests.support.detect.any_notes import VOTE
from tests.support.errors import coded
from tests.support.failover.command import drkit
from tests.support.failover.control_key import KEYS, buckets, configured
from tests.support.failover.truth import values
from tests.support.failover.world import World
from tests.support.flow_state.old_bytes import RECORDS
from tests.support.flows.produce import fill
from tests.support.stored import stored

MOVING = {"lease", "source-seen", "checkpoints", "control-key"}
"""Records that a running replicator writes again and again."""


def forge(world: World, topic: str, records: Mapping[bytes, bytes | None], partition: int = 0) -> None:
    """Write as any principal with access to the topic could."""
    out = Producer({"bootstrap.servers": world.target.bootstrap_servers, "log_level": 0})
    for key, value in records.items():
        out.produce(topic, value, key, partition=partition)
    assert out.flush(30) == 0


def journal(world: World) -> JournalTopic:
    """The journal, read to its end."""
    loop = EventLoop()
    raw = RawCluster(loop, world.target, "test")
    found = JournalTopic(raw, world.source.alias, world.target.alias)

    async def ask() -> None:
        await raw.connected()
        await found.read()

    try:
        loop.run(ask)
    finally:
        raw.close()
        loop.close()
    return found


def forge_all(world: World, topic: str) -> None:
    """Everything of which FINDINGS show that it commands both clusters."""
    role = json.loads(RECORDS["role/orders"]) | {"run_id": "forged"}
    lease = json.loads(RECORDS["lease"]) | {"host": "another", "run_id": "forged", "renewed_ms": 2**52}
    acl = ["TOPIC", "LITERAL", "*", "User:mallory", "*", "ALL", "ALLOW"]
    acls = {k: [{"acl": acl, "names": [topic]}] for k in ("made", "held")} | {"left_out": [], "guard": []}
    state: dict[str, Any] = {
        f"role/{topic}": role, "lease": lease, "acls": acls, "promotion": json.loads(RECORDS["promotion"]),
        "control": {"run_id": "forged", "plan": 9, "action": "stop"},
    }  # fmt: skip
    forge(
        world, state_topic(world.source.alias), {k.encode(): json.dumps(v).encode() for k, v in state.items()}
    )
    forge(world, state_topic(world.source.alias), {b"flow": None, f"topic/{topic}".encode(): None})
    votes = {Vote.key(f"x{n}"): VOTE.to_json() | {"observer": f"x{n}"} for n in range(4)}
    agent = AgentNote("dc1", "r", 1, Hold.LEASED, 1, fenced=True, evidence=("forged",))
    notes = {k: json.dumps(v) for k, v in votes.items()} | {AgentNote.key("dc1"): agent.encode().decode()}
    ensure_board(Cluster.connect(world.target), world.settings.flows[0])
    forge(world, topic_name(world.settings.flows[0]), {k.encode(): v.encode() for k, v in notes.items()})
    standing = {n: [k for known in b.keys.values() for k in known] for n, b in buckets(world).items()}
    assert any(standing.values()), "something of the map is forged"
    for number, keys in ((n, keys) for n, keys in standing.items() if keys):
        forge(world, offset_map_topic(world.source.alias), {keys[0]: b"forged", keys[-1]: None}, number)


def forge_run(world: World, run: str = "f1", term: int = 99) -> None:
    name = journal_topic(world.source.alias)
    ensure_own_topic(Cluster.connect(world.target), name, ALL_KEPT)
    opening = {"scope": {"topics": {}, "groups": []}, "request": {}, "decision": {}, "holder": {"token": "x"}}
    entry = JournalEntry(run, 0, "x", term, EntryKind.RUN, None, "", 1, opening)
    forge(world, name, {run.encode(): parts_of(entry)[0]})


def committed(world: World, group: str, topic: str, offset: int) -> None:
    world.commit(world.source, group, {TopicPartition(topic, p): offset for p in range(2)})


@pytest.fixture
def copied(world: World) -> tuple[str, str]:
    """A topic and a group, copied by a pair that has no key."""
    topic, group = world.name("orders"), world.name("billing")
    world.create(world.source, topic, 2, {"retention.ms": "-1"})
    fill(world.source, topic, 200)
    committed(world, group, topic, 10)
    world.replicate()
    world.copied([topic], {group: None})
    forge_run(world, "f0", 1)  # whatever the journal held before there was a key
    return topic, group


def takes_a_key(world: World, file: Path) -> None:
    """What has no MAC is refused by name, with the command that adopts it."""
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        with pytest.raises(Damaged, check=coded("state_unsigned")) as refused:
            state.records.refuse_damaged()
        assert "drkit control adopt" in refused.value.hint
    with pytest.raises(Refused, check=coded("journal_unsigned")):
        journal(world)
    assert drkit(file, "control", "check").code == 3
    said = drkit(file, "control", "adopt", "--yes")
    assert said.code == 0, said.err
    said = drkit(file, "control", "check")
    assert said.code == 0, said.out
    assert set(journal(world).history.runs) == {"f0"}, "what was there is adopted as it was"
    name = state_topic(world.source.alias)
    kept = topic_configs(Cluster.connect(world.target), [name])[name]["delete.retention.ms"].value
    assert int(kept or 0) > 10**12
    # A process without the key says what it meets.
    with StateTopic(world.target.with_control(None), world.source.alias) as state:
        state.load()
        with pytest.raises(Damaged) as refused:
            state.get(ClustersRecord)
        assert "names no control key" in refused.value.evidence


@pytest.mark.wide
def test_a_pair_takes_a_key_and_forged_records_change_nothing(
    world: World, copied: tuple[str, str], tmp_path: Path
):
    topic, group = copied
    file = configured(world, tmp_path, KEYS[0])
    assert drkit(file, "control", "adopt", "--yes").error == "adopt_flow_running"
    world.stop_replicating()
    takes_a_key(world, file)
    world.replicate()
    fill(world.source, topic, 200, first=200)
    committed(world, group, topic, 20)
    world.copied([topic], {group: None})
    with StateTopic(world.target, world.source.alias) as watching:
        watching.load()
        before = stored(watching)
        looked = InternalTopics(Cluster.connect(world.target), world.settings.flows[0], watching)
        forge_all(world, topic)
        forge_run(world)
        watching.load()
        during = stored(watching)
        assert {k: during[k] for k in before if k not in MOVING} == {
            k: v for k, v in before.items() if k not in MOVING
        }
        assert not {f"role/{topic}", "promotion"} & during.keys()
        assert during["lease"]["run_id"] == before["lease"]["run_id"]
        looked.restore()  # what `drkit replicate` does all the time
    fill(world.source, topic, 200, first=400)
    world.copied([topic], {group: None})
    after = world.state()
    assert not {f"role/{topic}", "promotion"} & after.keys()
    assert "mallory" not in json.dumps(after)
    notes = read_notes(Cluster.connect(world.target), world.settings.flows[0])
    assert (notes.all(Vote), notes.all(AgentNote)) == ([], [])
    assert notes.dropped >= 5
    read = journal(world)
    assert (set(read.history.runs), read.dropped.count) == ({"f0"}, 1), (
        "a forged run of term 99 does not count"
    )
    found = buckets(world).values()
    assert sum(b.refused for b in found)
    assert not any(b.doubt(key) for b in found for key in b.partitions)
    theirs, ours = (world.records(c, topic) for c in (world.source, world.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
