"""What holds after a failover whose primary was killed under load."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import DivergenceState
from drkit.journal.lost import violations
from drkit.journal.machine import ORDER, RunState
from drkit.model import TopicPartition
from drkit.wire import Record
from tests.support.failover.story import BEFORE, PARTITIONS, Story
from tests.support.failover.truth import check_order, check_position, values


def places(story: Story) -> Iterator[tuple[str, TopicPartition, int, int]]:
    """Group, source partition, its committed offset that the failover knew, and its position now."""
    topic = story.topics[0]
    for group, positions in story.report["groups"]["positions"].items():
        for name, (upstream, downstream, *_) in positions.items():
            yield group, TopicPartition(topic, int(name.rpartition("-")[2])), upstream, downstream


def it_is_done_and_all_groups_moved(story: Story) -> None:
    assert story.report["state"] == "done"
    assert sorted(story.report["groups"]["moved"]) == sorted([*story.groups, story.live])


def i1_every_acknowledged_record_is_there_or_among_the_lost(story: Story) -> None:
    with story.world.desk() as desk:
        listed: set[tuple[str, int, int]] = set()
        found = divergence(desk.context_outside_run(), lambda at, record: listed.add((*at, record.offset)))
    tails = {TopicPartition(t.topic, t.partition): t for t in found.tails}
    for topic in story.topics:
        there = {p: set(values(records)) for p, records in story.ours[topic].items()}
        for record in story.acked[topic]:
            gone = (topic, record.partition, record.offset) in listed
            copied = record.value in there[record.partition]
            at = TopicPartition(topic, record.partition)
            assert copied is not gone, (record, copied, gone, tails.get(at))


def i2_the_stated_loss_is_the_real_loss_record_by_record(story: Story) -> None:
    loss = story.report["loss"]
    assert not loss["exact"]
    assert "unknown: anything the primary accepted at or after" in loss["statement"]
    stated = {(p["topic"], p["partition"]): p for p in loss["partitions"]}
    assert stated.keys() == {(t, p) for t in story.topics for p in range(PARTITIONS)}
    said = {
        (t, p, s.offset)
        for (t, p), one in stated.items()
        for s in story.theirs[t][p]
        if s.offset >= one["lost_from"]
    }
    assert said == story.lost
    assert len(story.lost) >= BEFORE, "BEFORE records were never copied"
    assert sum(one["records"] for one in stated.values()) <= len(story.lost)


def i3_i4_the_target_has_a_beginning_of_each_partition_each_record_once(story: Story) -> None:
    for topic in story.topics:
        check_order(story.theirs[topic], story.ours[topic], topic)
        ours, theirs = (
            Counter(v for records in side[topic].values() for v in values(records))
            for side in (story.ours, story.theirs)
        )
        assert not ours - theirs


def i5_i6_groups_are_between_what_they_had_read_and_what_not(story: Story) -> None:
    topic, checked = story.topics[0], 0
    for group, at, upstream, downstream in places(story):
        if group in story.groups:
            assert upstream == story.groups[group][at], "the checkpoints have it as it was committed"
        p = at.partition
        check_position(at, upstream, downstream, story.theirs[topic][p], story.ours[topic][p])
        checked += 1
    assert checked == sum(map(len, story.groups.values())) + len(story.live_at)


def i5_a_group_that_worked_until_the_end_skips_nothing(story: Story) -> None:
    topic = story.topics[0]
    for group, at, upstream, downstream in places(story):
        if group == story.live:
            assert upstream <= story.live_at[at]
            ours = story.ours[topic][at.partition]
            after = set(values(ours[bisect_left([s.offset for s in ours], downstream) :]))
            unread = [s.value for s in story.theirs[topic][at.partition] if s.offset >= story.live_at[at]]
            there = set(values(ours))
            assert not [v for v in unread if v in there and v not in after], "skipped"


def i7_positions_lie_in_the_log_and_are_kept_as_they_were_written(story: Story) -> None:
    topic, world = story.topics[0], story.world
    starts, ends = world.starts(world.target, topic), world.offsets(world.target, topic)
    for group, at, _, downstream in places(story):
        assert starts[at.partition] <= downstream <= ends[at.partition]
        assert story.committed[group][at] == downstream
        before = _before(story, group).get(str(at))
        assert before is None or before[0] <= downstream, "never backwards"


def _before(story: Story, group: str) -> dict[str, list[int]]:
    """The committed offsets before COMMIT_OFFSETS wrote, from the journal's intents."""
    found: dict[str, list[int]] = {}
    for effects in story.run.effects.values():
        for effect in effects.values():
            found |= effect["intent"].get("before", {}).get(group, {})
    return found


def i8_each_group_polls_all_that_it_had_not_committed(story: Story) -> None:
    topic = story.topics[0]
    for group, offsets in story.groups.items():
        got = story.polled(group)
        for p in range(PARTITIONS):
            at = offsets.get(TopicPartition(topic, p), 0)
            read = {s.value for s in story.theirs[topic][p] if s.offset < at}
            assert got[p] == [v for v in values(story.ours[topic][p]) if v not in read], (group, p)


def i11_the_journal_follows_the_table(story: Story) -> None:
    assert story.run.state is RunState.DONE
    assert not violations(story.run)
    assert tuple(story.run.results) == ORDER
    numbers = [e.number for e in story.run.entries]
    assert numbers == list(range(len(numbers)))
    on_disk = (story.world.folder / f"{story.run.run_id}.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(on_disk) == len(numbers), "the file of this machine has it too"


def the_divergence_is_what_was_lost_record_by_record(story: Story) -> None:
    with story.world.desk() as desk:
        listed: list[tuple[TopicPartition, Record]] = []
        found = divergence(desk.context_outside_run(), lambda at, record: listed.append((at, record)))
    assert {(*at, r.offset) for at, r in listed} == story.lost
    assert len(listed) == len(story.lost)
    for at, record in listed:
        [same] = [s for s in story.theirs[at.topic][at.partition] if s.offset == record.offset]
        assert (same.key, same.value, same.timestamp) == (record.key, record.value, record.timestamp)
    assert found.is_known
    assert not found.is_clean
    assert found.owed, "it was dead during FENCE"
    kinds = {(t.topic, t.partition): t.found for t in found.tails}
    lost = {(t, p) for t, p, _ in story.lost}
    assert kinds == {at: DivergenceState.DIVERGED if at in lost else DivergenceState.CLEAN for at in kinds}
    assert found.to_json()["records"] == len(story.lost)
