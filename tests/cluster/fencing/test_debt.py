"""A pending fence: the primary was dead during FENCE, and is fenced when it is back."""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from drkit.config.loader import load
from drkit.errors import ClusterUnreachable, Refused, Usage
from drkit.failover import pending_fences
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.methods import SIZE
from drkit.failover.pending_fences import DueFences
from drkit.failover.service import FailoverService
from drkit.flow_state.pending_fence import owe
from drkit.flow_state.records import FenceSizesRecord, PendingFence
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failover.command import drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import ROOT, written
from tests.support.failover.settings_file import drkit as process
from tests.support.failover.world import World
from tests.support.flows.produce import answers, fill
from tests.support.shared_clusters import own_cluster
from tests.support.stored import flow_state
from tests.support.waiting import eventually


class Owing:
    """A world after a failover whose primary was dead; now it is back, and takes writes."""

    def __init__(self, primary: LocalCluster, target: LocalCluster, folder: Path) -> None:
        self.primary, self.folder = primary, folder
        self.world = world = World(primary, target, folder / "journal")
        self.topic, self.other = world.name("orders"), world.name("later")
        for name in (self.topic, self.other):
            world.create(world.source, name, 2, {"retention.ms": "-1"})
            fill(world.source, name, 50)
        world.commit(world.source, world.name("shop"), {TopicPartition(self.topic, 0): 3})
        world.commit(world.source, world.name("late"), {TopicPartition(self.other, 0): 3})
        world.replicate()
        world.copied([self.topic, self.other], {world.name("shop"): None, world.name("late"): None})
        primary.kill()
        with world.desk() as desk:
            report = desk.begin([world.name("shop")], RunRequest())
        assert report["state"] == "done"
        assert "may take writes" in report["next"][0]
        self.file = written(world, folder)

    def write(self, topic: str | None = None) -> str | None:
        """The name of the error that a producer of the old primary gets."""
        return answers(self.world.source, topic or self.topic, [b"late"])[0]

    def debt(self) -> PendingFence | None:
        return flow_state(self.world.state()).get(PendingFence)

    def size(self) -> str | None:
        found = topic_configs(Cluster.connect(self.world.source), [self.topic])[self.topic][
            "max.message.bytes"
        ]
        return found.value if found.is_set_on_topic else None


@pytest.fixture(scope="module")
def owing(target: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owing]:
    primary = own_cluster("primary").start()
    made = None
    try:
        made = Owing(primary, target, tmp_path_factory.mktemp("owing"))
        yield made
    finally:
        if made is not None:
            made.world.close()
        primary.stop()


@pytest.mark.wide
def test_while_it_is_dead_the_fence_stays_pending_and_cannot_be_applied(owing: Owing):
    debt = owing.debt()
    assert debt is not None
    assert debt.topics == (owing.topic,)
    assert "refused" in debt.why or debt.why
    with owing.world.desk() as desk:
        found = pending_fences.shown(desk)
        assert [(t.topic, t.fence, t.promoted) for t in found.topics] == [(owing.topic, "owed", True)]
        assert found.unanswered
        for work in (pending_fences.apply_pending, pending_fences.planned):
            with pytest.raises(ClusterUnreachable, check=coded("old_primary_unreachable")) as caught:
                work(desk)
            assert caught.value.evidence
            assert "drkit fence pay" in caught.value.hint
    assert owing.debt() == debt


@pytest.mark.wide
def test_a_dry_run_applies_nothing(owing: Owing):
    owing.primary.restart()
    eventually(lambda: owing.world.offsets(owing.world.source, owing.topic), what="the primary's return")
    assert owing.write() is None, "it is back, and takes what comes"
    done = drkit(owing.file, "fence", "pay", "--dry-run")
    assert done.code == 0, done.err
    assert "fence 1 topic by max.message.bytes" in {row["what"] for row in done.data}
    shown = drkit(owing.file, "fence", "show").data
    assert shown["owed"]["topics"] == [owing.topic]
    assert shown["topics"][0]["takes_writes"].startswith("yes: partitions 0")
    fault, debt = status(owing)
    assert f"), 1 topic: {owing.topic}; it answers, so now: drkit fence pay --flow" in fault
    assert debt["run_id"] in fault
    assert debt["topics"] == [owing.topic]
    assert owing.write() is None
    assert owing.size() is None


def status(owing: Owing) -> tuple[str, Any]:
    """What `drkit status` says of the debt: its fault, and all that is known of it."""
    [flow] = drkit(owing.file, "status").data["flows"]
    return "".join(f["text"] for f in flow["faults"] if f["code"] == "fence_owed"), flow["pending_fence"]


@pytest.mark.wide
def test_another_cluster_of_that_name_is_not_fenced(owing: Owing, tmp_path: Path):
    """Its topics would be shut, and the pending fence of the old primary would be gone."""
    text, target = owing.file.read_text(encoding="utf-8"), owing.world.target
    wrong = tmp_path / "drkit.toml"
    wrong.write_text(text.replace(owing.world.source.bootstrap_servers, target.bootstrap_servers), "utf-8")
    debt = owing.debt()
    assert debt is not None
    lift = "lift", "--accept-divergence", "a typing error", "--yes"
    for words in (("pay", "--dry-run"), ("pay", "--yes"), lift):
        done = drkit(wrong, "fence", *words)
        assert done.code == 3, (done.out, done.err)
        told = json.loads(done.err)
        assert told["code"] == "old_primary_replaced"
        assert Cluster.connect(target).cluster_id in told["evidence"]
        assert "--new-primary CLUSTER_ID" in told["hint"]
    settings = load(wrong)
    another = pytest.raises(Refused, check=coded("old_primary_replaced"))
    with FailoverService(settings, settings.flows[0]) as service, another:
        pending_fences.apply_pending(service)  # as `drkit watch` does
    assert owing.debt() == debt
    assert not topic_configs(Cluster.connect(target), [owing.topic])[owing.topic][SIZE].is_set_on_topic


# P34
@pytest.mark.wide
def test_it_is_applied_and_proven(owing: Owing):
    done = drkit(owing.file, "fence", "pay")
    assert done.code == 0, done.err
    told = done.data
    assert told["paid"]
    assert told["proven"]
    assert told["details"]["refused"] == 2
    refused = owing.write()
    assert refused == "MSG_SIZE_TOO_LARGE"
    assert owing.write(owing.other) is None, "a topic that was not promoted is not fenced"
    assert owing.debt() is None
    [row] = drkit(owing.file, "fence", "show").data["topics"]
    assert row == {
        "topic": owing.topic, "fence": "max.message.bytes", "takes_writes": "no", "promoted": True
    }  # fmt: skip
    assert status(owing) == ("", None)
    again = drkit(owing.file, "fence", "pay").data
    assert again == {"paid": False, "owed": "nothing"}


@pytest.mark.wide
def test_a_fence_of_a_promoted_topic_is_not_lifted_without_a_reason(owing: Owing):
    done = drkit(owing.file, "fence", "lift", "--yes")
    assert done.code == 3
    told = json.loads(done.err)
    assert told["code"] == "lift_opens_both"
    assert owing.topic in told["evidence"]
    assert "--accept-divergence" in told["hint"]
    unknown = drkit(owing.file, "fence", "lift", "--yes", "--topic", "nobody")
    assert unknown.code == 2
    assert owing.write() is not None
    dry = drkit(owing.file, "fence", "lift", "--dry-run", "--accept-divergence", "test")
    assert dry.data == {"would lift": [owing.topic], "lifted": []}
    assert owing.write() is not None


@pytest.mark.wide
def test_it_is_lifted_without_residue(owing: Owing):
    done = drkit(owing.file, "fence", "lift", "--yes", "--accept-divergence", "test")
    assert done.code == 0, done.err
    assert done.data == {"lifted": [owing.topic]}
    assert owing.size() is None
    assert FenceSizesRecord.KEY not in owing.world.state()
    eventually(lambda: owing.write() is None, what="writing again")


@pytest.mark.wide
def test_a_fence_off_its_record_is_offered_and_put_up_again_when_asked(owing: Owing):
    """`drkit fence pay` said that nothing is owed, while `drkit status` said BOTH OPEN."""
    what = f"close {owing.topic} again"
    dry = drkit(owing.file, "fence", "pay", "--dry-run")
    assert what in {row["what"] for row in dry.data}
    assert "fence 1 topic by max.message.bytes" in {row["what"] for row in dry.data}
    asked = process(owing.file, "fence", "pay")
    assert asked.returncode == Usage.exit_code, asked
    assert f"The fence of {owing.topic} on {owing.world.source.alias} is no longer recorded" in asked.stderr
    assert "--yes" in asked.stderr
    with owing.world.desk() as desk:
        assert pending_fences.due(desk) == DueFences(off_record=frozenset({owing.topic}))
        assert pending_fences.apply_pending(desk) is None, "drkit watch leaves it to a person"
    assert owing.write() is None, "nobody has said yes"
    paid = drkit(owing.file, "fence", "pay", "--yes")
    assert paid.code == 0, paid.err
    assert (
        paid.data["notes"][0] == f"the fence of {owing.topic} was not recorded: it is up again, and recorded"
    )
    assert owing.write() is not None
    assert owing.write(owing.other) is None, "a topic that was not promoted is not fenced"
    assert drkit(owing.file, "fence", "lift", "--yes", "--accept-divergence", "test").code == 0
    eventually(lambda: owing.write() is None, what="writing again")


def said_by(process: subprocess.Popen[str], word: str) -> str:
    """The next line with a word in it; the failure shows all other lines."""
    assert process.stdout is not None
    others = []
    for line in process.stdout:
        if word in line:
            return line
        others.append(line)
    raise AssertionError(f"it ended with {process.wait(20)}, having said:\n{''.join(others)}")


# P34
@pytest.mark.wide
def test_a_watch_applies_it_at_the_first_contact(owing: Owing):
    """It watches while the old primary is suspended, and fences it when it continues."""
    world = owing.world
    with StateTopic(world.target, world.source.alias) as state:
        state.load()
        owe(state, PendingFence("run", 1, 0, "for the test", (owing.topic,)))
    owing.primary.freeze()
    watch = subprocess.Popen(
        [sys.executable, "-m", "drkit", "--config", owing.file, "watch", "--json", "--log-format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        said_by(watch, '"verdict"')
        assert owing.debt() is not None
        owing.primary.resume()
        assert owing.topic in said_by(watch, "fence_paid")
        assert owing.debt() is None
        refused = owing.write()
        assert refused == "MSG_SIZE_TOO_LARGE"
    finally:
        owing.primary.resume()
        watch.terminate()
        watch.wait(20)


@pytest.mark.wide
def test_a_failover_under_way_owns_its_fence(owing: Owing):
    """It may still be aborted: until then no other command may apply or lift its fence."""
    world = owing.world
    entries = world.run_log().entries
    at = next(n for n, e in enumerate(entries) if (e.step, e.kind) == (StepName.FREEZE, EntryKind.INTENT))
    with Orchestrators() as orchestrators, world.desk() as earlier:
        group = world.name("late")
        plain = world.plain()
        plain["failover"]["rpo_seconds"] = 1000.0
        assert pending_fences.due(earlier) == DueFences()
        assert orchestrators.run(plain, "begin", groups=[group], kill=Kill(at, "after")).killed
        with world.desk() as desk:
            for work in (pending_fences.apply_pending, lambda d: pending_fences.lift(d, (), "test")):
                with pytest.raises(Refused, check=coded("fence_owned")) as caught:
                    work(desk)
                assert "--resume" in caught.value.hint
        with pytest.raises(Refused, check=coded("fence_owned")):  # it began while a person was asked
            pending_fences.apply_pending(earlier, DueFences())
        assert orchestrators.run(plain, "abort").error is None
    with world.desk() as desk:
        assert pending_fences.apply_pending(desk) is None
