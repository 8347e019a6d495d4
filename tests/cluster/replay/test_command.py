"""``drkit replay`` as it is typed: answers, refusals, exit codes, and what it says meanwhile."""

from __future__ import annotations

import io
import json
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import pytest

from drkit.flow_state.records import UnreplayedRecord
from drkit.model import TopicPartition
from drkit.replay import tail as tails
from drkit.replay.tail import export_at
from tests.support.cli.json_fields import pin
from tests.support.replay.world import ReplayWorld, as_replayed, own, run_of, tail
from tests.support.spark.here import drkit_here

NUMBER = 40


class Typed(NamedTuple):
    """A replay that is typed."""

    config: Path
    manifest: str

    def __call__(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, answer, and what stood on standard error."""
        more = ("--config", str(self.config), "--json")
        done = drkit_here("replay", "--from", self.manifest, *words, *more)
        answer = json.loads(done.stdout or "{}")
        if answer:
            pin("replay", answer)
        return done.returncode, answer, done.stderr

    def refused(self, *words: str) -> tuple[int, str, str]:
        """Exit code, and the code and the hint of the error."""
        code, _, said = self(*words)
        error = json.loads(said[said.index("{") :])
        return code, error["code"], error["hint"]


@pytest.fixture
def config(world: ReplayWorld, tmp_path: Path) -> Path:
    file, (a, b) = tmp_path / "drkit.toml", (world.source, world.target)
    clusters = [f'[clusters.{c.alias}]\nbootstrap_servers = "{c.bootstrap_servers}"\n' for c in (a, b)]
    file.write_text("".join(clusters) + f'[[flows]]\nsource = "{a.alias}"\ntarget = "{b.alias}"\n')
    return file


@pytest.mark.usefixtures("no_wait")
def test_from_the_plan_to_the_second_run(world: ReplayWorld, topic_name: str, config: Path):
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(NUMBER)
    changed = lost[5]._replace(value=b"newer")
    world.write(mine, [lost[0], lost[7], changed])
    replay = Typed(config, world.export({at: lost}))
    ends = world.offsets(world.target, mine)

    code, plan, said = replay("--dry-run")
    assert (code, plan["same"]) == (3, None)
    assert plan["replay"] == f"{NUMBER - 2} to append, and 2 records to decide about; nothing was changed"
    assert '"code": "replay_content_known"' in said
    code, plan, _ = replay("--dry-run", "--same", "content")
    assert (code, plan["replay"]) == (0, f"would append {NUMBER - 2} records; nothing was changed")
    (row,) = plan["partitions"]
    assert (row["partition"], row["to"], row["alike"]) == (str(at), f"{mine}-0", 2)
    assert (row["to_send"], row["first"], row["records"]) == (NUMBER - 2, 100, NUMBER)
    assert [each["offset"] for each in row["changed_keys"]] == [105, 117, 122, 124, 134, 139]
    assert replay.refused("--yes")[:2] == (3, "replay_content_known")
    code, error, hint = replay.refused("--same", "content")
    assert (code, error) == (2, "no_terminal")
    assert "--yes" in hint
    assert world.offsets(world.target, mine) == ends, "nothing was appended until now"

    code, answer, said = replay("--same", "content", "--yes")
    assert (code, answer["replay"]) == (0, f"done: {NUMBER - 2} records appended, 2 there already")
    assert f"20 of {NUMBER} records accounted for" in said
    assert (answer["flow"], answer["run"]) == (world.flow.name, run_of(replay.manifest))
    left = [r for n, r in enumerate(lost) if n not in {0, 7}]
    assert [s.content for s in own(world.seen(mine))] == as_replayed(left, at, run_of(replay.manifest))
    ends = world.offsets(world.target, mine)
    code, answer, _ = replay()
    assert (code, answer["replay"]) == (0, "done before: nothing was appended")
    assert world.offsets(world.target, mine) == ends


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small transactions, a line about each of them, and no terminal to ask on."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr(tails, "_PIECE_RECORDS", 10)
    monkeypatch.setattr("drkit.cli.screens.replay._EVERY_SECONDS", 0.0)


@pytest.mark.usefixtures("no_wait")
def test_another_export_than_the_one_on_record(world: ReplayWorld, topic_name: str, config: Path):
    world.promoted(topic_name)
    at, run = TopicPartition(topic_name, 0), "r1-5a"
    replay = Typed(config, world.export({at: tail(3)}, run))
    code, _, said = replay("--yes", "--dry-run")
    assert code == 0, said
    written = export_at(replay.manifest).sha256
    with world.state() as state:
        state.put(UnreplayedRecord("r1", 1, 3, replay.manifest, written, "replay"), f"{topic_name}/{run}")
    rmtree(Path(replay.manifest).parent)
    assert replay.manifest == world.export({at: tail(2)}, run)
    for words in (("--dry-run",), ("--yes",), ("--to-quarantine", "--yes")):
        assert replay.refused(*words)[:2] == (3, "export_altered")
    code, _, said = replay("--dry-run", "--sha256", export_at(replay.manifest).sha256)
    assert code == 0, said


def test_into_quarantine(world: ReplayWorld, topic_name: str, config: Path):
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(5)
    world.write(mine, lost)
    replay = Typed(config, world.export({at: lost}))
    code, answer, said = replay("--to-quarantine", "--yes")
    assert (code, answer["replay"]) == (0, "done: 5 records appended, 0 there already"), said
    assert answer["partitions"][0]["to"] == f"{mine}.divergent.7-0"
    assert not own(world.seen(mine))


def test_what_cannot_be_replayed(world: ReplayWorld, topic_name: str, config: Path):
    at = TopicPartition(topic_name, 0)
    world.promoted(topic_name)
    replay = Typed(config, world.export({at: tail(3)}))
    code, error, hint = replay.refused("--sha256", "0" * 64)
    assert (code, error) == (3, "export_altered")
    assert "export again: drkit divergence" in hint
    assert replay.refused("--topic", "other")[:2] == (3, "export_without_topic")
    assert replay.refused("--flow", "x->y")[0] == 2
    file = next(Path(replay.manifest).parent.glob("records/*/0/*.jsonl"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    code, error, _ = replay.refused("--yes")
    assert (code, error) == (3, "export_altered")
    nowhere = Typed(config, str(config.parent / "manifest.json"))
    assert nowhere.refused("--yes")[:2] == (2, "export_manifest_missing")
