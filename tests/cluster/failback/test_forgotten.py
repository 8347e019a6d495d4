"""A topic that was deleted on the new primary holds up the return until a person says what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_names
from tests.support.failback.pair import CUT, Pair
from tests.support.failback.tail import PARTITIONS, Case, DeadPrimary
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

CASES = {"gone": Case(), "anew": Case(), "fine": Case("discard")}


@pytest.fixture
def home(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    found = DeadPrimary(Pair(primary, module_cluster("standby"), tmp_path / "journal"), primary, CASES)
    yield found
    found.close()


@pytest.mark.wide
def test_what_neither_side_has_is_forgotten_by_name(home: DeadPrimary, tmp_path: Path) -> None:
    home.fall()
    side = home.side
    gone, anew, fine = (side.name(n) for n in CASES)
    _deleted(home, side.target, gone, anew)
    side.create(side.target, anew, PARTITIONS, {"retention.ms": "-1"})
    fill(side.target, anew, 30, first=9000)
    home.rise()
    file = written(side, tmp_path)

    # The old primary may have the only copy of their records.
    returned = ("reprotect", "--clients-cut", CUT, "--reason", "a test", "--yes",
                "--export-to", str(tmp_path / "saved"), "--disposition", f"{fine}=discard")  # fmt: skip
    said = drkit(file, *returned)
    assert (said.code, said.error) == (3, "promoted_topic_recreated"), said.err
    assert "--forget TOPIC" in said.err, said.err
    _refused_while_a_side_has_it(home, file, gone)
    assert _states(file) == dict.fromkeys((gone, anew, fine), "diverged")

    _deleted(home, side.source, gone, anew)
    wanted = [{"topic": anew, "copy": anew, "fate": "recreated", "also": ""},
              {"topic": gone, "copy": gone, "fate": "gone", "also": ""}]  # fmt: skip
    would = drkit(file, "reprotect", "--forget", "*", "--dry-run").data
    assert (would["forgotten"], sorted(would["topics"], key=str)) == (False, sorted(wanted, key=str))
    kept = drkit(file, "reprotect", "--flow", _flow(home), "--forget", fine, "--yes")
    assert (kept.code, f"{fine}: {side.source.alias} has it" in kept.err) == (3, True)
    assert set(_states(file)) == {gone, anew, fine}

    done = drkit(file, "reprotect", "--forget", anew, "--yes").data
    assert (done["forgotten"], done["topics"]) == (True, wanted[:1])
    with StateTopic(side.target, side.source.alias) as state:  # as a process leaves it that is killed in it
        state.load()
        state.delete(GenerationRecord, gone)
    done = drkit(file, "reprotect", "--forget", gone, "--yes").data
    assert (done["forgotten"], done["topics"]) == (True, wanted[1:])
    assert _states(file) == {fine: "diverged"}
    assert drkit(file, *returned).code == 0
    home.turned()
    home.back.replicate()
    home.back.copied([fine, anew])
    theirs, ours = (home.back.records(c, anew) for c in (home.back.source, home.back.target))
    assert {p: [s.content for s in r] for p, r in ours.items()} == {
        p: [s.content for s in r] for p, r in theirs.items()
    }
    eventually(
        lambda: _states(file) == {fine: "protected", anew: "protected"}, 30, lambda: str(_states(file))
    )
    assert not {f["code"] for f in _flows(file)[1]["faults"]} & {"both_open", "diverged", "topics_left_out"}


def _refused_while_a_side_has_it(home: DeadPrimary, file: Path, gone: str) -> None:
    side = home.side
    named = drkit(file, "reprotect", "--flow", _flow(home), "--forget", gone, "--yes")
    assert (named.code, f"{gone}: {side.source.alias} has it" in named.err) == (3, True), named.err
    assert drkit(file, "reprotect", "--forget", "*", "--yes").data["topics"] == []
    unknown = drkit(file, "reprotect", "--forget", "nothing", "--yes")
    assert (unknown.code, "not promoted: nothing" in unknown.err) == (3, True)


def _deleted(home: DeadPrimary, cluster: ClusterSettings, *topics: str) -> None:
    for topic in topics:
        home.side.delete(cluster, topic)
    eventually(
        lambda: not set(topics) & set(topic_names(Cluster.connect(cluster))),
        what=f"deleted on {cluster.alias}",
    )


def _flow(home: DeadPrimary) -> str:
    return home.side.settings.flows[0].name


def _flows(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = drkit(file, "status").data["flows"]
    return found


def _states(file: Path) -> dict[str, str]:
    return {t["topic"]: t["state"] for t in _flows(file)[0]["pair"]["topics"]}
