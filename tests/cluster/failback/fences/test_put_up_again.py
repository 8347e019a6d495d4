"""Somebody lifts the fence of a switchover: `drkit fence pay` puts it up again, and the return is free."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
import json
from pathlib import Path

import pytest

from drkit.errors import Refused, Usage
from drkit.export.check import check_files
from drkit.failover import pending_fences
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.methods import SIZE
from drkit.failover.pending_fences import DueFences
from drkit.failover.returning.deciding import Undecided
from drkit.journal.machine import RunState
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs, topic_configs
from drkit.local.cluster import LocalCluster
from drkit.status.pair.model import PairAlarm, PairStatus
from drkit.status.paired import PairedCollector
from tests.support.errors import coded, sentence
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.settings_file import drkit, written
from tests.support.flows.produce import answers, fill


@pytest.fixture
def lifted(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> Iterator[tuple[Pair, str]]:
    """A pair after a switchover without a turn, whose old primary takes writes again."""
    with closing(Pair(source, target, tmp_path / "journal")) as pair:
        side, topic = pair.now, pair.now.name("orders")
        side.create(side.source, topic, 2, {"retention.ms": "-1"})
        fill(side.source, topic, 20)
        side.replicate()
        side.copied([topic])
        assert pair.switch()["state"] == "done"
        assert not alter_topic_configs(Cluster.connect(side.source), {topic: {SIZE: None}})
        yield pair, topic


@pytest.mark.wide
def test_what_was_written_meanwhile_is_exported_and_waits_for_a_decision(
    lifted: tuple[Pair, str], tmp_path: Path
) -> None:
    """The return ended as refused when it had exported them: the decision found nothing to resume."""
    pair, topic = lifted
    side = pair.now
    fill(side.source, topic, 6, first=9000)
    file, pay = written(side, tmp_path), ("fence", "pay", "--flow", side.settings.flows[0].name)
    asked = drkit(file, *pay)
    assert asked.returncode == Usage.exit_code, asked
    assert f"The fence of {topic} on {side.source.alias} was lifted outside drkit" in asked.stderr
    assert "--yes" in asked.stderr
    assert answers(side.source, topic, [b"still open"]) == [None], "nobody has said yes"
    paid = drkit(file, *pay, "--yes")
    assert paid.returncode == 0, paid
    request = RunRequest(clients_cut=CUT, export_to=str(tmp_path / "saved"))
    with side.desk() as desk, pytest.raises(Undecided, check=coded("decision_missing")):
        desk.begin_return(request, decides_later=True)
    with side.desk() as desk:
        assert desk.under_way is not None
        assert desk.under_way.state is RunState.HELD
    _is_said_while_it_is_held(pair, topic, file)
    with side.desk() as desk:
        decided = request._replace(dispositions={topic: "discard"}, reason="three stray orders")
        report = desk.resume(decided)
    assert report["state"] == "done", report
    found = check_files(str(next((tmp_path / "saved").rglob("manifest.json"))), None)
    assert sum(p.records for p in found.partitions) == 7


def _is_said_while_it_is_held(pair: Pair, topic: str, file: Path) -> None:
    """The plan names the run; somebody takes the fence away again: BOTH OPEN, and who owns the fence."""
    side, flow = pair.now, pair.now.settings.flows[0].name
    back, admin = f"drkit reprotect --flow '{flow}'", Cluster.connect(side.source)
    plan = json.loads(drkit(file, "reprotect", "--flow", flow, "--plan", "--json").stdout)
    assert (plan["run"]["state"], plan["run"]["step"]) == ("held", "DECIDE")
    assert sentence("decision_missing") in plan["run"]["held"]
    assert [(t["topic"], t["only_old"]) for t in plan["topics"]] == [(topic, 7)]
    choice = f"--disposition '{topic}=discard|replay|quarantine'" + ' --reason "WHY"'
    assert [line.replace(f" --config {file}", "") for line in plan["next"]] == [
        f"{back} --resume {choice}", f"to roll it back: {back} --abort",
    ]  # fmt: skip
    assert _pair(pair).alarms == ()
    assert not alter_topic_configs(admin, {topic: {SIZE: None}})
    [found] = [t for t in _pair(pair).topics if t.topic == topic]
    assert f"--resume; to roll it back: {back} --abort" in found.why
    assert f"is held at DECIDE: {back} --abort, then: drkit fence pay" in found.why_of(PairAlarm.BOTH_OPEN)
    with side.desk() as desk, pytest.raises(Refused, check=coded("fence_owned")) as owned:
        pending_fences.due(desk)
    assert "return" in str(owned.value)
    assert f"{back} --abort, then: drkit fence pay" in owned.value.hint
    assert not alter_topic_configs(admin, {topic: {SIZE: "0"}})


def _alarms(pair: Pair) -> tuple[PairAlarm, ...]:
    return _pair(pair).alarms


def _pair(pair: Pair) -> PairStatus:
    settings = pair.now.settings
    with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:
        found = collector.look().pair
    assert found is not None
    return found


@pytest.mark.wide
def test_a_person_puts_it_up_again_and_the_old_primary_becomes_the_standby(lifted: tuple[Pair, str]) -> None:
    pair, topic = lifted
    side, admin = pair.now, Cluster.connect(pair.now.source)
    assert _alarms(pair) == (PairAlarm.BOTH_OPEN,)
    with side.desk() as desk, pytest.raises(Refused, check=coded("old_primary_takes_writes")) as refused:
        pair.reprotect()
    assert "2 partitions" in str(refused.value)
    with side.desk() as desk:
        [shown] = pending_fences.shown(desk).topics
        assert (shown.topic, shown.fence, shown.promoted) == (topic, "taken away", True)
        assert shown.takes_writes.startswith("yes: partitions 0")
        assert pending_fences.apply_pending(desk) is None, "drkit watch leaves it to a person"
        assert any(e.what == f"fence 1 topic by {SIZE}" for e in pending_fences.planned(desk))
        assert topic_configs(admin, [topic])[topic][SIZE].value != "0"
        late = pending_fences.apply_pending(desk, DueFences())
        assert late is not None, "it was lifted after a person had looked"
        assert not late.is_paid
        assert f"the fence of {topic} was lifted outside drkit since this command has looked" in late.notes[0]
        assert topic_configs(admin, [topic])[topic][SIZE].value != "0", "nobody has agreed to that"
        agreed = pending_fences.due(desk)
        assert agreed == DueFences(taken_away=frozenset({topic}))
        done = pending_fences.apply_pending(desk, agreed)
        assert done is not None
        assert done.is_paid
        assert done.notes[0] == f"the fence of {topic} was lifted outside drkit: it is up again"
        assert done.evidence["proven"]
        [shown] = pending_fences.shown(desk).topics
        assert (shown.fence, shown.takes_writes) == (SIZE, "no")
        assert pending_fences.apply_pending(desk, agreed) is None
    assert _alarms(pair) == ()
    assert pair.reprotect()["state"] == "done"
    found = topic_configs(admin, [topic])[topic][SIZE]
    assert found.value != "0", "the return lifts it by its record of what was set before"
    assert not found.is_set_on_topic
    assert answers(side.source, topic, [b"no fence, by the word of a person"]) == [None]
    with side.desk() as desk:
        assert pending_fences.due(desk) == DueFences(), "the flow back copies there: a fence would stop it"
