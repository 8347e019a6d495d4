"""Topics that no switchover has promoted wait for a person; names that would not come back are refused."""

from __future__ import annotations

from collections.abc import Mapping
import json
from typing import Any

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.returning.deciding import Undecided
from drkit.failover.runs import Runs
from drkit.flow_state.records import ReturnRecord, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind
from drkit.journal.journal import Journal
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.truth import values
from tests.support.flows.produce import fill


def _promoted(pair: Pair) -> str:
    side = pair.now
    topic = side.name("orders")
    side.create(side.source, topic, 2, {"retention.ms": "-1"})
    fill(side.source, topic, 40)
    side.replicate()
    side.copied([topic])
    return topic


def _waits_for_a_person(pair: Pair, topic: str) -> None:
    """The reverse flow begins nothing by itself, and copies nothing of it; a person begins it."""
    side, back = pair.now, pair.other
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
    with side.desk() as desk:
        assert desk.begin_return(RunRequest(clients_cut=CUT))["state"] == "done"
    back.stop_replicating()  # the return fenced its writer: it starts again, as a flow's next attempt does
    back.replicate()
    back.copied([topic, other])
    theirs, ours = (back.records(c, topic) for c in (back.source, back.target))
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}


@pytest.mark.wide
def test_a_switchover_by_the_version_before_this_one(pair: Pair) -> None:
    topic = _promoted(pair)
    assert pair.switch()["state"] == "done"
    side = pair.now
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        known = json.loads(state.records.value(RoleRecord.key(topic)) or b"")
        assert known.pop("planned")
        known.pop("clients_cut", None)
        frontiers = known.pop("frontiers")  # as one that noted too little
        state.write(RoleRecord.key(topic), json.dumps(known).encode())
        with side.desk() as desk, pytest.raises(Refused, check=coded("copy_end_unrecorded_role")) as error:
            desk.begin_return(RunRequest(clients_cut=CUT))
        assert topic in error.value.where
        assert "of an earlier version of drkit" in error.value.evidence
        state.write(RoleRecord.key(topic), json.dumps(known | {"frontiers": frontiers}).encode())
    _waits_for_a_person(pair, topic)


@pytest.mark.wide
def test_an_unplanned_failover(pair: Pair) -> None:
    topic = _promoted(pair)
    side = pair.now
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="for the test"))["state"] == "done"
    side.stop_replicating()
    _waits_for_a_person(pair, topic)


@pytest.mark.wide
def test_topics_that_would_not_come_back_are_not_emptied(pair: Pair) -> None:
    """The configuration may be changed between the failover and the return, and during the return."""
    topic = _promoted(pair)
    side, back = pair.now, pair.other
    side.stop_replicating()
    fill(side.source, topic, 9, first=300)
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="for the test"))["state"] == "done"
    saved = RunRequest(clients_cut=CUT, export_to=str(side.folder), reason="a test")
    decided = saved._replace(dispositions={topic: "discard"})
    before = {p: values(r) for p, r in side.records(side.source, topic).items()}
    back.flow_fields["topics_exclude"] = [topic]
    with side.desk() as desk, pytest.raises(Refused, check=coded("reverse_flow_excludes")) as error:
        desk.begin_return(decided)
    assert topic in error.value.evidence
    del back.flow_fields["topics_exclude"]
    with side.desk() as desk, pytest.raises(Undecided):
        desk.begin_return(saved, decides_later=True)
    chosen, back.flow_fields["topics"] = back.flow_fields["topics"], ["others"]
    with side.desk() as desk, pytest.raises(Refused, check=coded("reverse_flow_excludes")):
        desk.resume(decided)
    assert {p: values(r) for p, r in side.records(side.source, topic).items()} == before
    back.flow_fields["topics"] = chosen
    with side.desk() as desk:
        assert desk.resume(decided)["state"] == "done"


class _BreaksOff(Journal):
    """Of a process on another machine that dies when CONTACT begins."""

    def _holder(self) -> dict[str, Any]:
        return super()._holder() | {"host": "another-machine"}

    def write(self, kind: EntryKind, step: StepName | None, effect: str, body: Mapping[str, Any]) -> None:
        super().write(kind, step, effect, body)
        if (kind, step) == (EntryKind.INTENT, StepName.CONTACT):
            raise KeyboardInterrupt


@pytest.mark.wide
def test_a_run_that_is_resumed_and_ends_says_again_how_it_was_begun(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has changed nothing, so it cannot be resumed once more; its process knows only the journal."""
    topic = _promoted(pair)
    side, back = pair.now, pair.other
    assert pair.switch()["state"] == "done"
    with monkeypatch.context() as patch:
        patch.setattr(Runs, "journal_class", _BreaksOff)
        with side.desk() as desk, pytest.raises(KeyboardInterrupt):
            desk.begin_return(RunRequest(clients_cut=CUT), topics=[topic], until_export=True)
    back.flow_fields["topics_exclude"] = [topic]
    with side.desk() as desk:
        with pytest.raises(Refused, check=coded("reverse_flow_excludes")) as error:
            desk.resume(RunRequest(), take_over=True)
        assert desk.under_way is None
    assert f" --topic {topic} --until-export --clients-cut " in error.value.hint


def test_names_that_would_not_come_back(source: LocalCluster, target: LocalCluster, pair: Pair) -> None:
    prefixed = Pair(source, target, pair.now.folder, naming="prefix")
    try:
        side = prefixed.now
        topic = side.name("orders")
        side.create(side.source, topic, 1, {"retention.ms": "-1"})
        fill(side.source, topic, 10)
        side.replicate()
        side.copied([topic])
        assert prefixed.switch()["state"] == "done"
        with side.desk() as desk, pytest.raises(Refused, check=coded("reverse_names_differ")):
            desk.begin_return(RunRequest(clients_cut=CUT))
    finally:
        prefixed.close()
