"""Planned switchovers there and back: one exact history on both sides."""

from __future__ import annotations

from contextlib import closing

import pytest

from drkit.model import TopicPartition
from drkit.status.paired import PairedCollector
from drkit.verify.report import VerifyVerdict
from tests.support.circles import in_soak
from tests.support.failback.pair import Pair, Side
from tests.support.failover.truth import values
from tests.support.flows.produce import fill, fill_transactions, producer, put
from tests.support.waiting import eventually


@pytest.mark.wide
@pytest.mark.parametrize("turns", [2, in_soak(3), in_soak(6)])
def test_turns_at_rest(pair: Pair, turns: int) -> None:
    """Groups idle from before the first turn, a lagging one, one that works; each offset after each turn."""
    first = pair.now
    topic = first.name("orders")
    first.create(first.source, topic, 3, {"retention.ms": "-1"})
    fill_transactions(first.source, [topic], 30, most=9)
    fill(first.source, topic, 100)
    idle, works = first.name("idle"), first.name("works")
    ends = first.offsets(first.source, topic)
    at_first = {TopicPartition(topic, p): 5 + p for p in ends}
    first.commit(first.source, idle, at_first)
    log = first.records(first.source, topic)
    read = {at: [s.value for s in log[at.partition] if s.offset < o] for at, o in at_first.items()}
    first.commit(first.source, works, {TopicPartition(topic, p): e // 2 for p, e in ends.items()})
    checked = 0
    for number in range(turns):
        side = pair.now
        side.replicate()
        side.copied([topic], dict.fromkeys([idle, works]))
        checked += side.exact([topic])
        assert side.verified([topic]).verdict is VerifyVerdict.EQUAL
        assert pair.switch()["state"] == "done"
        fill(side.target, topic, 40, first=1000 * (number + 1))
        side.commit(side.target, works, _nearly_at_the_end(side, topic))
        report = pair.reprotect()
        assert report["state"] == "done", report
        assert _not_noted(pair.now) == (topic,), (
            "a failover back is refused before its replicator has noted it"
        )
    assert checked > 300 * turns
    final = pair.now
    final.replicate()
    final.copied([topic], dict.fromkeys([idle, works]))
    eventually(lambda: not _not_noted(final), what="a note of what the new primary has")
    theirs, ours = final.records(final.source, topic), final.records(final.target, topic)
    assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
    stands = final.all_committed(idle)
    for at in at_first:
        assert [s.value for s in ours[at.partition] if s.offset < stands[at]] == read[at], at
    _differs_by_one_record(final, topic)


def _not_noted(side: Side) -> tuple[str, ...]:
    settings = side.settings
    with closing(PairedCollector(settings, settings.flows[0], groups=False)) as collector:
        return collector.look().not_noted_topics


def _differs_by_one_record(side: Side, topic: str) -> None:
    """A record that only the standby has is found."""
    same = side.verified([topic])
    assert (same.verdict, [f for p in same.partitions for f in p.findings]) == (VerifyVerdict.EQUAL, [])
    side.stop_replicating()
    out = producer(side.target)
    put(out, topic, b"planted", partition=1)
    assert out.flush(30) == 0
    report = side.verified([topic])
    assert report.verdict is VerifyVerdict.DIFFERENT
    assert [p.partition for p in report.partitions for _ in p.findings] == [1]


def _nearly_at_the_end(side: Side, topic: str) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, p): e - 3 for p, e in side.offsets(side.target, topic).items()}
