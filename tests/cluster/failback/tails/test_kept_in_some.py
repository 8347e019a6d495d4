"""The method keep for every topic, where some have a tail in one partition, or none; what is said on the way.

Each command that a refusal names is one that can be typed at that moment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.flow_state.records import TailRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from tests.support.failback.killed import KilledReturns
from tests.support.failback.pair import CUT, Pair
from tests.support.failback.tail import REASON, Case, DeadPrimary
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import written
from tests.support.flows.produce import producer, put
from tests.support.shared_clusters import ModuleClusters

KEPT = Case("replay", "keep", tail=6)


def write_first_partition(cluster: ClusterSettings, topic: str) -> None:
    """Records of one partition."""
    out = producer(cluster)
    for n in range(12):
        put(out, topic, b"only here %d" % n, b"k%d" % n, partition=0)
    assert out.flush(30) == 0


CASES = {
    "whole": KEPT, "again": KEPT, "clean": Case(tail=0),
    "partly": Case("replay", "keep", write=write_first_partition),
}  # fmt: skip


class Typist:
    """A person who types about one flow."""

    def __init__(self, home: DeadPrimary, folder: Path) -> None:
        self.file, self.flow = written(home.side, folder), home.side.settings.flows[0].name

    def types(self, *words: str, code: int = 0) -> Said:
        """Type a return."""
        said = drkit(self.file, "reprotect", "--flow", self.flow, *words)
        assert said.code == code, (words, said.code, said.out, said.err)
        return said


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_a_topic_with_a_tail_in_one_partition_or_none(
    module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path, orchestrators: Orchestrators
) -> None:
    primary = module_cluster("primary")
    home = DeadPrimary(Pair(primary, target, tmp_path / "journal"), primary, CASES)
    try:
        stage = KilledReturns(home, orchestrators, tmp_path / "saved")
        whole, again, clean, partly = home.topics
        person = Typist(home, tmp_path)
        _no_run_is_under_way(person, partly, tmp_path / "saved")
        _is_asked_after_it_has_begun(stage, person, whole, again)
        _is_kept_where_there_is_one(home, person, clean, partly, tmp_path / "saved")
        stage.all_is_well()
    finally:
        home.close()


def _no_run_is_under_way(person: Typist, topic: str, saved: Path) -> None:
    cut = ("--topic", topic, "--clients-cut", CUT, "--export-to", str(saved), "--yes")
    held = person.types("--method", f"{topic}=delta", *cut, code=3)
    assert held.error == "delta_out_of_order", held
    refused = held.err
    assert f" --flow '{person.flow}' --topic {topic} --clients-cut" in refused
    assert f" --method {topic}=rebuild" in refused
    refused = person.types("--method", f"{topic}=keep", "--disposition", f"{topic}=discard", *cut, code=3).err
    assert f" --disposition {topic}=replay" in refused
    assert "--resume" not in refused


def _is_asked_after_it_has_begun(stage: KilledReturns, person: Typist, first: str, topic: str) -> None:
    """A client has sent a record of the tail again before the first of it was appended."""
    home = stage.home
    stage.begun(first)
    assert stage.begun(topic, Kill(f"{StepName.BEGIN} append {topic} {EntryKind.INTENT}", "after"))
    assert home.side.run_log().effects[StepName.BEGIN][f"append {topic}"]["result"] is None
    out, (partition, log) = producer(home.side.target), next(iter(home.tails[topic].items()))
    put(out, topic, log[0].value, log[0].key, partition=partition, headers=list(log[0].headers))
    assert out.flush(20) == 0
    refused = drkit(person.file, "reprotect", "--flow", person.flow, "--resume", "--yes")
    assert refused.code == 3
    assert refused.error == "keep_content_known", refused.err
    assert "--resume --same none" in refused.err
    assert f" --abort; then drkit reprotect --config {person.file} --flow" in refused.err
    assert f" --topic {topic} " in refused.err, "as the return was begun"
    rebuilt = f" --disposition {topic}=replay --method {topic}=rebuild --same content --reason"
    assert rebuilt in refused.err
    late = person.types(
        "--resume", "--method", f"{topic}=rebuild", "--disposition", f"{topic}=replay", "--same", "content",
        "--yes", code=3,
    )  # fmt: skip
    assert late.error == "decided_too_late", late.err
    assert " --abort, then a return" in late.err
    person.types("--resume", "--same", "none", "--yes")
    assert stage.ended(topic)["methods"] == {0: "keep", 1: "keep"}


def _is_kept_where_there_is_one(
    home: DeadPrimary, person: Typist, clean: str, partly: str, saved: Path
) -> None:
    some = ("--topic", clean, "--topic", partly, "--clients-cut", CUT, "--export-to", str(saved))
    said = ("--method", "*=keep", "--disposition", "*=replay", "--reason", REASON)
    plan = {t["topic"]: t for t in person.types(*some, *said, "--plan").data["topics"]}
    assert plan[clean]["methods"] == {"delta": 2}
    assert plan[partly]["methods"] == {"delta": 1, "keep": 1}
    assert plan[partly]["appended"] == plan[partly]["only_old"] == 12
    person.types(*some, *said, "--dry-run")
    done: dict[str, Any] = person.types(*some, *said, "--yes").data
    assert done["state"] == "done"
    with StateTopic(home.side.target, home.side.source.alias) as state:
        state.load()
        tails = state.all(TailRecord)
    assert tails[partly].methods == {0: "keep"}
    assert clean not in tails
