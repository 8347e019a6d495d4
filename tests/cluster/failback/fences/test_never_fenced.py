"""A primary without an authorizer that died unfenced: what the return asks for, typed as it is printed."""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path
import re
import shlex

import pytest

from drkit.errors import Refused
from drkit.failover.returning import begin, contact
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded
from tests.support.failback.pair import CUT
from tests.support.failback.tail import REASON, Case, DeadPrimary, dead_primary
from tests.support.failover.command import Said, drkit
from tests.support.failover.settings_file import written
from tests.support.shared_clusters import ModuleClusters

pytestmark = [pytest.mark.wide, pytest.mark.timeout(600)]
SIZE = "max.message.bytes"
_HINT = re.compile(r'^  "hint": (".*"),$', re.MULTILINE)
_COMMAND = re.compile(r"drkit (reprotect(?: --[a-z-]+(?: (?:\"[^\"]*\"|'[^']*'|[^\s;,\"']+))?)*)")


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    with dead_primary(
        module_cluster("primary"), target, tmp_path, {"orders": Case("discard", tail=6)}
    ) as found:
        yield found


def _words(printed: str, **answers: str) -> list[str]:
    """The last command of a printed hint, with what a person puts in the place of its placeholders."""
    hint = json.loads(_HINT.findall(printed)[-1])
    words = shlex.split(_COMMAND.findall(hint)[-1])
    return [answers.get(w, w) for w in words if w != "--config" and not w.endswith(".toml")]


def _is_fenced(home: DeadPrimary) -> bool:
    found = topic_configs(Cluster.connect(home.side.source), home.topics)[home.topics[0]][SIZE]
    return found.value == "0"


def test_commands_typed_as_printed_lead_home(home: DeadPrimary, tmp_path: Path) -> None:
    file, [topic] = written(home.side, tmp_path), home.topics
    name = f"{home.side.source.alias}->{home.side.target.alias}"
    answers = {
        "HOW": CUT, "PLACE": str(tmp_path / "saved to"), "WHY": REASON,
        f"{topic}=discard|replay|quarantine": f"{topic}=discard",
    }  # fmt: skip
    plan = drkit(file, "reprotect", "--flow", name, "--plan")
    assert any("--clients-cut" in line for line in plan.data["asked"]), plan.out
    assert '--clients-cut "HOW"' in plan.data["next"][0]

    words = ["reprotect", "--flow", name]
    asked: list[str] = []
    while (said := drkit(file, *words, "--yes")).code == 3:
        assert len(asked) < 4, said.err
        asked.append(said.error)
        words = _words(said.err, **answers)
        assert "--resume" not in words, "no run is left behind"
    assert said.code == 0, said.err
    assert asked == ["late_fence_refuses_drkit", "export_place_missing", "decision_missing"]
    home.turned()
    home.copied_back()


@pytest.mark.parametrize("command", ["reprotect", "failback"])
def test_a_run_that_is_held_since_it_fenced_by_size_goes_on(
    home: DeadPrimary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Which fence it gets may change while the return begins; so were runs of earlier releases held."""
    file, name = written(home.side, tmp_path), f"{home.side.source.alias}->{home.side.target.alias}"
    for module in (contact, begin):
        monkeypatch.setattr(module, "fenced_by_size", lambda _: [])
    with home.side.desk() as desk, pytest.raises(Refused, check=coded("late_fence_refuses_drkit")) as held:
        desk.begin_return(home.request(tmp_path / "saved", clients_cut=""))
    monkeypatch.undo()
    assert held.value.hint.endswith('drkit reprotect --resume --clients-cut "HOW"')
    assert _is_fenced(home)
    if command == "failback":
        done: Said = drkit(
            file, command, "--flow", name, "--clients-cut", CUT, "--yes", "--wait-seconds", "0"
        )
        assert done.data["stages"][0]["report"]["state"] == "done", done.err
        return
    refused = drkit(file, "reprotect", "--flow", name, "--resume")
    assert refused.code == 3, refused.err
    done = drkit(file, *_words(refused.err, HOW=CUT))
    assert (done.code, done.data["state"]) == (0, "done"), done.err
