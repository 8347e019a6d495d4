"""The translation drill on a real pair: healthy, and with positions and records broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
import re
from typing import Any

import pytest

from drkit.config import FlowSettings
from drkit.drill.evidence import TRANSLATION, DrillEvidence, VerdictLimits
from drkit.drill.judge import judge
from drkit.drill.position_rows import PackedPositions, PositionAnswer, PositionForm, judge_position
from drkit.drill.positions import PositionsCollected, collect_positions
from drkit.exercise.verdict import FAIL, INCONCLUSIVE, PASS
from drkit.kafka.groups.asking import NO_ANSWER, Answered
from drkit.kafka.groups.requests import Committed, Groups
from drkit.model import TopicPartition
from drkit.offsets.group_guard import OffsetMark
from tests.support.drill.inventory import inventory
from tests.support.failover.story import Worker
from tests.support.failover.truth import Load
from tests.support.failover.world import World
from tests.support.flows.produce import fill, fill_transactions, now_ms, producer, put
from tests.support.waiting import eventually

PARTITIONS = 2
EQUAL, TAIL = 40, 20
BEHIND, NOT_COPIED = PositionAnswer.BEHIND, PositionAnswer.NOT_COPIED
CLEAN = {PositionAnswer.SAME, PositionAnswer.AT_END}


@dataclass
class Pair:
    """A replicated pair with groups at known offsets of its topics."""

    world: World
    groups: dict[str, dict[TopicPartition, int]]
    topics: tuple[str, str, str]

    def collect(self) -> PositionsCollected:
        settings = self.world.settings
        return collect_positions(settings, settings.flows[0])

    def add(self, name: str, tp: TopicPartition, offset: int) -> str:
        group = self.world.name(name)
        self.groups[group] = {tp: offset}
        return group

    def shift(self, group: str, by: int) -> TopicPartition:
        """Store another position on the target, with a mark as drkit writes it; return its partition."""
        [(tp, kept)] = self.world.committed(self.world.target, group).items()
        mark = OffsetMark.of(kept.metadata)
        assert mark is not None
        wrong = mark._replace(downstream=mark.downstream + by)
        self.store(group, tp, Committed(wrong.downstream, wrong.text()))
        return tp

    def store(self, group: str, tp: TopicPartition, offset: Committed) -> None:
        answer = self.world.ask(self.world.target, lambda raw: Groups(raw).alter({group: {tp: offset}}))
        assert answer[group].value == {tp: 0}


def equal_records(world: World, topic: str) -> None:
    """A run of equal records, a few others, and equal ones up to the end."""
    out, sent = producer(world.source), now_ms()
    for number, count in enumerate((EQUAL, 1, 1, 1, TAIL)):
        for _ in range(count):
            put(out, topic, b"%d" % (number % 4), b"k", partition=0, timestamp=sent)
    assert out.flush(30) == 0


@pytest.fixture
def pair(world: World) -> Pair:
    plain, tx, equal = topics = (world.name("plain"), world.name("tx"), world.name("equal"))
    for topic in topics:
        world.create(world.source, topic, PARTITIONS, {"retention.ms": "-1"})
    fill(world.source, plain, 400)
    fill_transactions(world.source, [tx], 60, most=7)
    equal_records(world, equal)
    pair = Pair(world, {}, topics)
    ends = {t: world.offsets(world.source, t) for t in topics}
    for i in range(12):
        name, topic = world.name(f"g{i}"), topics[i % 3]
        pair.groups[name] = {TopicPartition(topic, p): end * i // 11 for p, end in ends[topic].items()}
    for name, tp, offset in (
        ("later", TopicPartition(plain, 1), 20),
        ("earlier", TopicPartition(plain, 1), 30),
        ("last-later", TopicPartition(plain, 1), ends[plain][1] - 1),
        ("end-earlier", TopicPartition(plain, 1), ends[plain][1]),
        ("end-later", TopicPartition(plain, 1), ends[plain][1]),
        ("run-later", TopicPartition(equal, 0), 5),
        ("run-earlier", TopicPartition(equal, 0), EQUAL + 10),
        ("no-mark", TopicPartition(plain, 1), 40),
        ("behind", TopicPartition(plain, 1), 50),
    ):
        pair.add(name, tp, offset)
    for group, offsets in pair.groups.items():
        world.commit(world.source, group, offsets)
    world.replicate()
    world.copied(topics, pair.groups)
    return pair


def judged(found: PositionsCollected) -> dict[tuple[str, TopicPartition, PositionForm], PositionAnswer]:
    return {
        (e.group, TopicPartition(e.topic, e.partition), e.form): judge_position(e)[0] for e in found.evidence
    }


def without_answer(group: str) -> Callable[..., Any]:
    """Return the request for committed offsets, of which one group's has no answer."""
    ask = Groups.committed

    async def committed(self: Groups, groups: Iterable[str]) -> Any:
        return await ask(self, groups) | {group: Answered(NO_ANSWER)}

    return committed


def with_foreign_record(pair: Pair) -> PositionsCollected:
    """Append a record of another client to a copy, and look."""
    out = producer(pair.world.target)
    put(out, pair.topics[2], b"foreign", b"x", partition=0)
    assert out.flush(30) == 0
    return pair.collect()


def without_copy(world: World) -> tuple[str, TopicPartition, PositionForm]:
    """Commit a group in a topic that nothing copies; return its position."""
    at, group = TopicPartition(world.name("late"), 0), world.name("only-late")
    world.create(world.source, at.topic, 1, {})
    fill(world.source, at.topic, 20)
    world.commit(world.source, group, {at: 12})
    return group, at, PositionForm.TRANSLATED


def at_the_end(pair: Pair, end: TopicPartition) -> set[tuple[str, TopicPartition, PositionForm]]:
    """Return the positions whose next records reach the end of the topic with equal records."""
    return {
        (group, tp, form)
        for group, offsets in pair.groups.items()
        for tp, offset in offsets.items()
        for form in PositionForm
        if tp == end and offset >= EQUAL + 3
    }


def verdict(found: PositionsCollected):
    return judge(TRANSLATION, DrillEvidence(PackedPositions.of(found.evidence)), VerdictLimits())


def test_a_healthy_pair_passes_and_exactly_what_is_broken_is_named(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, name = pair.world, pair.world.name
    before = inventory(world)
    found = pair.collect()
    rows = judged(found)
    assert {(g, tp, f) for g, offsets in pair.groups.items() for tp in offsets for f in PositionForm} == set(
        rows
    )
    assert set(rows.values()) == CLEAN, found.evidence
    healthy = verdict(found)
    assert (healthy.word, healthy.reasons, set(healthy.controls.values())) == (PASS, (), {True})
    assert inventory(world) == before, "a drill changes nothing"

    unanswered = next(iter(pair.groups))
    with monkeypatch.context() as patch:
        patch.setattr(Groups, "committed", without_answer(unanswered))
        found = pair.collect()
    unknown = [e for e in found.evidence if judge_position(e)[0] not in CLEAN]
    assert [(e.group, judge_position(e)[0]) for e in unknown] == [(unanswered, PositionAnswer.UNKNOWN)]
    assert verdict(found).word == INCONCLUSIVE, "a look without an answer is never clean"

    world.stop_replicating()
    plain, _, equal = pair.topics
    broken = {
        (name(group), pair.shift(name(group), by), PositionForm.STORED): PositionAnswer.DIFFERS
        for group, by in (
            ("later", 1), ("earlier", -1), ("last-later", 1), ("end-earlier", -1), ("end-later", 1),
            ("run-later", 1), ("run-earlier", -1),
        )
    }  # fmt: skip
    at = TopicPartition(plain, 1)
    kept = world.committed(world.target, name("no-mark"))[at]
    pair.store(name("no-mark"), at, Committed(kept.offset))
    world.commit(world.source, name("behind"), {at: 59})
    broken[name("no-mark"), at, PositionForm.STORED] = PositionAnswer.NO_MARK
    broken[name("behind"), at, PositionForm.STORED] = PositionAnswer.BEHIND
    no_copy = without_copy(world)
    broken[no_copy] = PositionAnswer.NO_POSITION
    found = pair.collect()
    assert {k: a for k, a in judged(found).items() if a not in CLEAN} == broken
    failed = verdict(found)
    assert failed.word == FAIL
    expected = {k for k, a in broken.items() if a is not PositionAnswer.BEHIND}
    assert {r.split(":")[0] for r in failed.reasons} == {f"group {g}, {tp}, {f}" for g, tp, f in expected}
    seen = {k for k, a in judged(with_foreign_record(pair)).items() if a is PositionAnswer.DIFFERS}
    no_mark = (name("no-mark"), at, PositionForm.STORED)
    assert seen == expected - {no_mark, no_copy} | at_the_end(pair, TopicPartition(equal, 0))


@pytest.mark.wide
def test_a_pair_under_load_passes(world: World) -> None:
    """Groups at work are behind, positions wait for the copy, compaction removes records on both sides."""
    plain, keys = world.name("plain"), world.name("keys")
    world.create(world.source, plain, PARTITIONS, {"retention.ms": "-1"})
    cleaned = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    world.create(world.source, keys, PARTITIONS, cleaned)
    groups = {world.name(f"g{i}"): {TopicPartition(keys, 0): i * 20} for i in range(10)}
    waiting = world.name("waiting")
    groups[waiting] = {TopicPartition(plain, 0): 0}
    for turn in range(3):
        fill(world.source, keys, 200, first=turn)
    for group, offsets in groups.items():
        world.commit(world.source, group, offsets)
    world.replicate()
    world.copied([plain, keys], groups)
    with (
        Load(world.source, [plain], per_second=300) as load,
        Worker(world, world.name("live"), plain) as live,
    ):
        eventually(lambda: load.count > 300 and live.read > 100, what="load")
        for _ in range(4):
            fill(world.source, keys, 100)
            settings = world.settings
            found = collect_positions(settings, settings.flows[0])
            assert verdict(found).word == PASS, verdict(found).reasons
            assert found.groups == 12

    world.stop_replicating()
    fill(world.source, plain, 40)
    end = world.offsets(world.source, plain)[0]
    world.commit(world.source, waiting, {TopicPartition(plain, 0): end})
    settings = world.settings
    flow = FlowSettings(**dict(settings.flows[0]) | {"groups": (re.escape(waiting),)})
    found = collect_positions(settings, flow, wait_seconds=1.0)
    assert [judge_position(e)[0] for e in found.evidence] == [BEHIND, NOT_COPIED]
    assert verdict(found).word == INCONCLUSIVE
    world.replicate()
    found = collect_positions(settings, flow, wait_seconds=60.0, behind_seconds=0.0)
    answers = {(e.form, e.upstream): judge_position(e)[0] for e in found.evidence}
    assert answers == {(form, end): PositionAnswer.AT_END for form in PositionForm}, "asked again until then"
