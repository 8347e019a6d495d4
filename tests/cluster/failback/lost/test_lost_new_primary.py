"""From the second round on the new primary is lost for good: the side that is left opens.

The role of an earlier round on that side is over. Its cluster was told so at the first contact, or at the end
of the run that ended it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from drkit.counted import utc
from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import OffsetMapRecord
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failback.dying_pair import DyingPair
from tests.support.failback.pair import CUT
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide
BURNT = ("--accept-data-loss", "it burnt", "--yes")


def test_an_old_primary_that_was_fenced_opens(lab: DyingPair) -> None:
    topic = lab.there.name("t")
    lab.begin([topic])
    lab.lose_primary([topic])
    there, home = lab.there.settings.flows[0].name, lab.home()
    assert lab.command("fence", "pay", "--flow", there, "--yes").code == 0
    refused = lab.command("failover", "--flow", home, "--all", *BURNT)
    assert (refused.code, refused.error) == (3, "not_returned"), "clients write to the standby, which answers"
    lab.standby.kill()
    assert not lab.accepts(lab.there, topic, ["fenced"])
    [found] = lab.topics_of_status(home)
    assert found["active"] == lab.there.target.alias, found
    assert (found["state"], "drkit failover" in found["why"]) == ("unknown", True), found
    undecided = lab.command("failover", "--flow", home, "--all", "--yes")
    assert undecided.code == 3, undecided
    done = lab.command("failover", "--flow", home, "--all", "--keep-positions", *BURNT)
    assert done.code == 0, done.err[-2000:]
    assert done.data["loss"]["records"] is None, "what the standby took is not known here"
    assert lab.accepts(lab.there, topic, ["at home"])
    [found] = lab.topics_of_status(home)
    assert found["active"] == lab.there.source.alias


def move_to_the_standby(lab: DyingPair, topic: str, *, planned: bool) -> None:
    """Open the standby, and fence the primary."""
    side = lab.there
    if planned:
        side.replicate()
        side.copied([topic], {lab.group: None})
        side.protected([topic])
        assert lab.pair.switch()["state"] == "done"
    else:
        lab.lose_primary([topic])
        assert lab.command("fence", "pay", "--flow", side.settings.flows[0].name, "--yes").code == 0


def standby_comes_back(lab: DyingPair, topic: str) -> None:
    """Restart the standby, which takes writes again until its fence is paid."""
    side, home = lab.there, lab.home()
    lab.standby.restart()
    eventually(lambda: side.offsets(side.target, topic), what="an answer of the standby")
    for flow in (side.settings.flows[0].name, home):
        [found] = lab.topics_of_status(flow)
        assert found["active"] == side.source.alias, found
        assert "both_open" in {each["alarm"] for each in found["alarms"]}, found
    assert lab.command("fence", "pay", "--flow", home, "--yes").code == 0
    assert not lab.accepts(side, topic, ["late"], on_target=True)
    assert lab.accepts(side, topic, ["at home still"])


@pytest.mark.parametrize(("planned", "old_record"), [(True, False), (False, False), (False, True)])
def test_in_the_first_round_nothing_was_copied_back(
    lab: DyingPair, monkeypatch: pytest.MonkeyPatch, *, planned: bool, old_record: bool
) -> None:
    """An old record of fences does not name the target's cluster."""
    if old_record:
        entry = FenceTopic.entry
        monkeypatch.setattr(
            FenceTopic, "entry", lambda *a, **more: replace(entry(*a, **more), target_id=None)
        )
    topic, side = lab.there.name("t"), lab.there
    side.create(side.source, topic, 1, {"retention.ms": "-1", "max.message.bytes": "700000"})
    lab.write(side, topic, "a", 100)
    side.commit(side.source, lab.group, {TopicPartition(topic, 0): 50})
    there, home = side.settings.flows[0].name, lab.home()
    move_to_the_standby(lab, topic, planned=planned)
    opens = ("failover", "--flow", home, "--all", *BURNT)
    refused = lab.command(*opens)
    assert (refused.code, refused.error) == (3, "never_copied"), "clients write to the standby, which answers"
    lab.standby.kill()
    assert not lab.accepts(side, topic, ["fenced"])
    for flow in (there, home):
        [found] = lab.topics_of_status(flow)
        assert (found["state"], found["active"]) == ("unknown", side.target.alias), found
        assert f"drkit failover --flow '{home}' --all --accept-data-loss" in found["why"], found
    pair = lab.command("status", "--flow", home).data["flows"][0]["pair"]
    [silent] = pair["silent"]
    assert silent["cluster"] == side.target.alias
    assert any(utc(silent["known_ms"]) in line for line in pair["lines"]), pair["lines"]
    unaccepted = lab.command("failover", "--flow", home, "--all", "--yes")
    assert (unaccepted.code, unaccepted.error) == (3, "never_copied")
    assert "--accept-data-loss" in unaccepted.err
    assert topic in unaccepted.err
    done = lab.command(*opens)
    assert done.code == 0, done.err[-2000:]
    assert done.data["loss"]["records"] is None, "what the standby took is not known here"
    assert lab.accepts(side, topic, ["at home"])
    sizes = topic_configs(Cluster.connect(side.source), [topic])[topic]
    assert sizes["max.message.bytes"].value == "700000"
    [found] = lab.topics_of_status(home)
    assert found["active"] == side.source.alias, found
    again = lab.command(*opens)
    assert (again.code, again.error) == (3, "all_promoted"), again
    standby_comes_back(lab, topic)


def test_a_flow_back_that_has_copied_nothing_opens(lab: DyingPair) -> None:
    """Its replicator waits for the return: there is a state, without any topic of clients."""
    topic, side, back = lab.there.name("t"), lab.there, lab.pair.other
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    lab.write(side, topic, "a", 100)
    side.commit(side.source, lab.group, {TopicPartition(topic, 0): 50})
    move_to_the_standby(lab, topic, planned=True)
    back.replicate()
    eventually(lambda: OffsetMapRecord.KEY in back.state(), what="the state of the flow back")
    back.stop_replicating()
    opens = ("failover", "--flow", lab.home(), "--all", *BURNT)
    refused = lab.command(*opens)
    assert (refused.code, refused.error) == (2, "nothing_to_move"), (
        "clients write to the standby, which answers"
    )
    lab.standby.kill()
    unaccepted = lab.command("failover", "--flow", lab.home(), "--all", "--yes")
    assert (unaccepted.code, unaccepted.error) == (3, "never_copied")
    assert topic in unaccepted.err
    assert not lab.accepts(side, topic, ["fenced"])
    done = lab.command(*opens)
    assert done.code == 0, done.err[-2000:]
    assert lab.accepts(side, topic, ["at home"])


def test_a_first_round_beside_a_topic_that_returned(lab: DyingPair) -> None:
    returned, topic, side = lab.there.name("t1"), lab.there.name("t2"), lab.there
    lab.begin([returned])
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    lab.write(side, topic, "a", 40)
    side.replicate()
    side.copied([returned, topic], {lab.group: None})
    side.protected([returned, topic])
    there, home = side.settings.flows[0].name, lab.home()
    moves = ("failover", "--flow", there, "--topic", topic, "--planned", "--clients-cut", CUT, "--yes")
    moved = lab.command(*moves)
    assert moved.code == 0, moved.err[-2000:]
    lab.standby.kill()
    assert not lab.accepts(side, topic, ["fenced"])
    for words in (["--yes"], ["--dry-run"], [*BURNT, "--dry-run"]):
        refused = lab.command("failover", "--flow", home, "--all", *words)
        assert (refused.code, refused.error) == (3, "never_copied"), words
        assert topic in refused.err, words
    opened = lab.command("failover", "--flow", home, "--all", *BURNT)
    assert opened.code == 0, opened.err[-2000:]
    assert [*opened.data["topics"]] == [topic]
    assert lab.accepts(side, topic, ["at home"])
    assert lab.accepts(side, returned, ["at home still"])


def test_a_topic_that_waits_for_its_return_is_not_called_moved(lab: DyingPair) -> None:
    t1, t2 = lab.there.name("t1"), lab.there.name("t2")
    lab.begin([t1, t2])
    lab.lose_primary([t1, t2])
    request = RunRequest(
        clients_cut=CUT, dispositions={t1: "discard"}, reason="r", export_to=str(lab.folder / "x")
    )
    with lab.there.desk() as desk:
        assert desk.begin_return(request, topics=[t1])["state"] == "done"
    back = lab.pair.other
    back.replicate()
    back.protected([t1])
    back.stop_replicating()
    lab.standby.kill()
    with back.desk() as desk:
        seen = desk.rehearse([], RunRequest())
        assert (sorted(seen.chosen.scope.topics), seen.chosen.moved) == ([t1, t2], ())
        with pytest.raises(Refused, check=coded("not_copied_back")) as caught:
            desk.begin([], RunRequest())
        assert t2 in caught.value.evidence
    with back.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="burnt", keep_positions=True))
    assert report["state"] == "done"
    assert {p["topic"]: p["records"] for p in report["loss"]["partitions"]}[t2] is None
    assert lab.accepts(lab.there, t2, ["at home"])


def test_home_and_not_turned_yet(lab: DyingPair) -> None:
    """The turn waits for a statement how clients are cut off; the primary dies before it is given."""
    topic, side = lab.there.name("t"), lab.there
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    lab.write(side, topic, "a", 100)
    side.commit(side.source, lab.group, {TopicPartition(topic, 0): 50})
    lab.turn([topic], "a")
    back = lab.pair.now
    lab.write(back, topic, "b", 40)
    back.replicate()
    back.copied([topic], {lab.group: None})
    back.protected([topic])
    assert lab.pair.switch()["state"] == "done"
    name = side.settings.flows[0].name
    assert not lab.accepts(side, topic, ["fenced"], on_target=True)
    lab.primary.kill()
    done = lab.command("failover", "--flow", name, "--all", "--keep-positions", *BURNT)
    assert done.code == 0, done.err[-2000:]
    assert lab.accepts(side, topic, ["at the standby"], on_target=True)
