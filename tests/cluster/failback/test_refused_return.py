"""Returns that are refused by name and change nothing: promoted by an earlier drkit, or unplanned."""

from __future__ import annotations

import json

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import ReturnRecord, RoleRecord
from drkit.flow_state.topic import StateTopic
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.truth import values
from tests.support.flows.produce import fill

NO_SWITCHOVER = "no switchover is on record"


def _promoted(pair: Pair) -> str:
    side = pair.now
    topic = side.name("orders")
    side.create(side.source, topic, 2, {"retention.ms": "-1"})
    fill(side.source, topic, 40)
    side.replicate()
    side.copied([topic])
    return topic


def _stays(pair: Pair, topic: str) -> None:
    """Neither by hand nor by the reverse flow is anything begun or copied."""
    side, back = pair.now, pair.other
    with side.desk() as desk, pytest.raises(Refused, match=NO_SWITCHOVER):
        desk.begin_return(RunRequest(clients_cut=CUT))
    fill(side.target, topic, 20, first=500)
    before = {p: values(r) for p, r in side.records(side.source, topic).items()}
    back.replicate()
    # It copies what comes later of others; this topic it leaves out.
    other = back.name("later")
    back.create(back.source, other, 1, {"retention.ms": "-1"})
    fill(back.source, other, 5)
    back.copied([other])
    assert {p: values(r) for p, r in side.records(side.source, topic).items()} == before
    with StateTopic(back.target, back.source.alias) as state:
        state.load()
        assert not state.all(ReturnRecord)


def test_a_switchover_by_the_version_before_this_one(pair: Pair) -> None:
    topic = _promoted(pair)
    assert pair.switch()["state"] == "done"
    side = pair.now
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        known = json.loads(state.records.value(RoleRecord.key(topic)) or b"")
        assert known.pop("planned")
        known.pop("clients_cut", None)
        state.write(RoleRecord.key(topic), json.dumps(known).encode())
    _stays(pair, topic)


def test_an_unplanned_failover(pair: Pair) -> None:
    topic = _promoted(pair)
    side = pair.now
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="for the test"))["state"] == "done"
    side.stop_replicating()
    _stays(pair, topic)
