"""The primary is killed under load with groups at different lags: what moves is exact, what is lost is
stated exactly. One failover; each invariant is a test of its own.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
import json
from pathlib import Path

import pytest

from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import DivergenceState
from drkit.journal.entries import EntryKind
from drkit.journal.machine import ORDER
from drkit.local.cluster import LocalCluster
from tests.support.failover import lost_primary as checks
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.failover.story import PARTITIONS, Story, told_story
from tests.support.failover.world import World
from tests.support.shared_clusters import own_cluster


@pytest.fixture(scope="module")
def story(target: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    primary = own_cluster("primary").start()
    world = World(primary, target, tmp_path_factory.mktemp("journal"))
    try:
        yield told_story(world, primary)
    finally:
        world.close()
        primary.stop()


def test_it_is_done_and_all_groups_moved(story: Story):
    checks.it_is_done_and_all_groups_moved(story)


# P32
def test_i1_every_acknowledged_record_is_there_or_among_the_lost(story: Story):
    checks.i1_every_acknowledged_record_is_there_or_among_the_lost(story)


# P32
def test_i2_the_stated_loss_is_the_real_loss_record_by_record(story: Story):
    """All records from `lost_from` on; the count is a lower bound while the primary is gone."""
    checks.i2_the_stated_loss_is_the_real_loss_record_by_record(story)


# P32
def test_i3_i4_the_target_has_a_beginning_of_each_partition_each_record_once(story: Story):
    checks.i3_i4_the_target_has_a_beginning_of_each_partition_each_record_once(story)


# P32
def test_i5_i6_groups_are_between_what_they_had_read_and_what_not(story: Story):
    checks.i5_i6_groups_are_between_what_they_had_read_and_what_not(story)


def test_i5_a_group_that_worked_until_the_end_skips_nothing(story: Story):
    """Its last commits may have died with the primary: then it repeats records, but skips none."""
    checks.i5_a_group_that_worked_until_the_end_skips_nothing(story)


def test_i7_positions_lie_in_the_log_and_are_kept_as_they_were_written(story: Story):
    checks.i7_positions_lie_in_the_log_and_are_kept_as_they_were_written(story)


# P32
def test_i8_each_group_polls_all_that_it_had_not_committed(story: Story):
    checks.i8_each_group_polls_all_that_it_had_not_committed(story)


# P36
def test_i11_the_journal_follows_the_table(story: Story):
    checks.i11_the_journal_follows_the_table(story)


# P37
def test_i12_it_holds_who_decided_the_votes_and_the_evidence(story: Story):
    opening = story.run.entries[0]
    assert opening.kind is EntryKind.RUN
    decision = opening.body["decision"]
    assert decision["mode"] == "by hand"
    assert " on " in decision["by"]
    assert [(v["observer"], v["sight"], v["evidence"]) for v in decision["votes"]] == [
        ("o1", "gone", ["nothing listens"])
    ]
    assert story.report["decision"] == decision
    evidence = {step: result["evidence"] for step, result in story.run.results.items()}
    assert "refused" in evidence[ORDER[1]]["source_error"] or evidence[ORDER[1]]["source_error"]
    assert all(evidence[step] for step in ORDER)


# P32
def test_the_divergence_is_what_was_lost_record_by_record(story: Story):
    checks.the_divergence_is_what_was_lost_record_by_record(story)


def test_the_command_says_the_same(story: Story, tmp_path: Path):
    file, out = written(story.world, tmp_path), tmp_path / "lost.jsonl"
    done = drkit(file, "divergence", "--records", str(out))
    assert done.code == 1, done.err
    told = done.data
    assert told["records"] == len(story.lost)
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {(r["topic"], r["partition"], r["offset"]) for r in lines} == story.lost
    by_place = {
        (t, p, s.offset): s.value for t in story.topics for p, o in story.theirs[t].items() for s in o
    }
    assert all(b64decode(r["value"]) == by_place[r["topic"], r["partition"], r["offset"]] for r in lines)
    assert out.stat().st_mode & 0o077 == 0, "they are the records themselves"


def test_what_happened_to_the_old_log_since_is_said(story: Story):
    """Retention took a part of what was lost, and a topic was deleted and created again."""
    world, (topic, other) = story.world, story.topics
    [first] = [
        p["lost_from"]
        for p in story.report["loss"]["partitions"]
        if (p["topic"], p["partition"]) == (topic, 0)
    ]
    world.delete_records(topic, 0, first + 5)
    world.delete(world.source, other)
    world.create(world.source, other, 1, {})
    with world.desk() as desk:
        found = divergence(desk.context_outside_run())
    tails = {(t.topic, t.partition): t for t in found.tails}
    cut = tails[topic, 0]
    left = {o for t, p, o in story.lost if (t, p) == (topic, 0) and o >= first + 5}
    assert (cut.found, cut.lost_from, cut.removed, cut.records) == (
        DivergenceState.DIVERGED,
        first,
        5,
        len(left),
    )
    assert [tails[other, p].found for p in range(PARTITIONS)] == [
        DivergenceState.RECREATED,
        DivergenceState.GONE,
        DivergenceState.GONE,
    ]
    assert not found.is_clean
