"""What a trim would take from a group or a key is refused before anything is emptied; the plan names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drkit.errors import Refused
from drkit.kafka.requests import EARLIEST
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failback.pair import CUT
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.shared_clusters import ModuleClusters


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {
        "early": Case("discard", "trim", tail=6),
        "table": Case("discard", "trim", tail=6, settings={"cleanup.policy": "compact"}),
        "late": Case("replay", "keep", tail=6),
    }
    with dead_primary(primary, target, tmp_path, cases) as found:
        yield found


@pytest.mark.wide
@pytest.mark.timeout(400)
def test_no_position_and_no_key_is_trimmed_away(home: DeadPrimary, tmp_path: Path) -> None:
    side, (early, table, late) = home.side, home.topics
    at = TopicPartition(early, 0)
    cut = _cut(home, early)
    behind, ahead = f"{early}-behind", f"{late}-ahead"
    side.commit(side.target, behind, {at: cut - 1})
    side.commit(side.target, ahead, {TopicPartition(late, 0): _cut(home, late) + 1})
    where = f"{behind} at {cut - 1} of {early}-0, clients began at {cut}"
    planned = _planned(home, tmp_path)
    assert planned[early]["early_groups"] == [where]
    assert planned[late]["late_groups"] == [f"{ahead} at {_cut(home, late) + 1} of {late}-0"]
    assert not planned[early]["late_groups"]
    assert not planned[late]["early_groups"]

    error = _refused(home, tmp_path, early, "groups_before_trim")
    assert "1 group" in str(error)
    assert error.evidence == where
    assert f"--method {early}=rebuild" in error.hint
    error = _refused(home, tmp_path, table, "trim_compacted")
    assert error.evidence == table
    assert f"--method {table}=rebuild" in error.hint
    assert not any(any(side.offsets(side.source, t, EARLIEST).values()) for t in home.topics)

    side.commit(side.target, behind, {at: cut})  # it has read on
    assert not _planned(home, tmp_path)[early]["early_groups"]
    with side.desk() as desk:
        request = home.request(tmp_path / "saved", [early])
        assert desk.begin_return(request, topics=[early])["state"] == "done"
    assert all(side.offsets(side.source, early, EARLIEST).values())


def _cut(home: DeadPrimary, topic: str) -> int:
    """Where clients began to write on the new primary, in its first partition."""
    log = home.side.records(home.side.target, topic)[0]
    return log[len(home.copy[topic][0])].offset


def _planned(home: DeadPrimary, folder: Path) -> dict[str, dict[str, Any]]:
    """The plan that a person asks for, by topic."""
    methods = [f"--method={t}={c.method}" for t, c in home.cases.items() if "compact" not in str(c.settings)]
    file = written(home.side, folder)
    flow = home.side.settings.flows[0].name
    said = drkit(file, "reprotect", "--flow", flow, "--plan", "--clients-cut", CUT, *methods)
    assert said.code == 0, said.err
    return {t["topic"]: t for t in said.data["topics"]}


def _refused(home: DeadPrimary, folder: Path, topic: str, code: str) -> Refused:
    with home.side.desk() as desk, pytest.raises(Refused, check=coded(code)) as caught:
        desk.begin_return(home.request(folder / "refused", [topic]), topics=[topic])
    with home.side.desk() as desk:
        if not home.side.run_log().state.is_over:
            desk.abort("for the test")
    return caught.value
