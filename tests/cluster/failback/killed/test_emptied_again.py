"""A side whose brokers have brought back what was deleted there is emptied again before it opens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.errors import Failed, Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.emptying import standing
from drkit.flow_state.records import CutRecord, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.requests import EARLIEST
from drkit.kafka.topics import topic_configs
from tests.support.errors import coded, made
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.flows.produce import answers, fill

BACK_TO = 7


@pytest.fixture
def side(pair: Pair) -> Side:
    """A direction that has turned, with two topics that are copied; one of them is only compacted."""
    there = pair.now
    for name, policy in (("orders", "delete"), ("table", "compact")):
        there.create(there.source, there.name(name), 1, {"cleanup.policy": policy, "retention.ms": "-1"})
        fill(there.source, there.name(name), 40)
    topics = [there.name("orders"), there.name("table")]
    there.replicate()
    there.copied(topics)
    assert pair.switch()["state"] == "done"
    assert pair.reprotect()["state"] == "done"
    back = pair.now
    back.replicate()
    back.copied(topics)
    return back


def _emptied(side: Side, offset: int) -> None:
    """Record that everything before an offset was deleted; it is there."""
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        for name, cut in state.all(CutRecord).items():
            state.put(replace(cut, emptied={0: offset}), name)


def _request(side: Side) -> RunRequest:
    """A switchover; by the record of :func:`_emptied` the copies begin later than their source."""
    topics = (side.name("orders"), side.name("table"))
    return RunRequest(planned=True, clients_cut=CUT, give_up_history=topics)


def _policy(side: Side, topic: str) -> tuple[str | None, bool]:
    found = topic_configs(Cluster.connect(side.target), [topic])[topic]
    return found["cleanup.policy"].value, found["retention.bytes"].is_set_on_topic


@pytest.mark.wide
def test_what_came_back_is_emptied_before_the_side_opens(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the settings that a topic has for that moment could not be taken back at once."""
    topics = [side.name("orders"), side.name("table")]
    _emptied(side, BACK_TO)
    before = [_policy(side, topic) for topic in topics]

    def refused(*_arguments: object) -> None:
        raise made(Failed, "the settings are not taken", where="", evidence="", hint="")

    with monkeypatch.context() as patch:
        patch.setattr(standing, "put_back", refused)
        with side.desk() as desk, pytest.raises(Failed, match="not taken"):
            desk.begin([], _request(side))
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        assert not any(role.is_promoted for role in state.all(RoleRecord).values()), "not open yet"
    assert _policy(side, topics[1]) == ("compact,delete", True)
    with side.desk() as desk:
        report = desk.resume(RunRequest())
    side.stop_replicating()
    assert report["state"] == "done"
    assert [side.offsets(side.target, topic, EARLIEST) for topic in topics] == [{0: BACK_TO}] * 2
    assert [_policy(side, topic) for topic in topics] == before


@pytest.mark.soak
def test_a_side_that_ends_before_is_not_opened(side: Side) -> None:
    """What was emptied cannot be proven there: it has lost its end. Clients of the other side go on."""
    _emptied(side, 1_000)
    with side.desk() as desk, pytest.raises(Refused, check=coded("empty_refused")) as refused:
        desk.begin([], _request(side))
    assert "it ends before that offset, so it lost records" in refused.value.hint
    assert answers(side.source, side.name("orders"), [b"still served"]) == [None]


@pytest.mark.soak
def test_open_proves_it_once_more(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    _emptied(side, BACK_TO)
    """It was not seen before the fence, nor right before: the proof stands alone."""
    with monkeypatch.context() as patch:
        for place in ("steps.opening", "emptying.standing"):
            patch.setattr(f"drkit.failover.{place}.empty_again", lambda *_: ())
        with (
            side.desk() as desk,
            pytest.raises(Failed, check=coded("emptied_records_back")),
        ):
            desk.begin([], _request(side))
    with side.desk() as desk:
        assert desk.resume(RunRequest())["state"] == "done"
    assert side.offsets(side.target, side.name("orders"), EARLIEST) == {0: BACK_TO}
