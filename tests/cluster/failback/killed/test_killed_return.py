"""A return is killed at a boundary of its journal, and another host continues it: the end is the same."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.flow_state.records import CutRecord, FenceSizesRecord, GenerationRecord, ReturnRecord, RoleRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import RETURN, RunState, StepName
from drkit.model import TopicPartition
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.truth import values
from tests.support.flows.produce import fill, fill_transactions
from tests.support.stored import stored

WHENS = ("before", "file", "after")
MOST_ENTRIES = 30
"""Of an unbroken run."""
A_FEW = (
    (StepName.BEGIN, "lift", EntryKind.INTENT, "after"),
    (StepName.BEGIN, "", EntryKind.RESULT, "file"),
)
"""Where it hurts; ``make soak`` walks all boundaries."""
REQUEST = {"clients_cut": CUT}


class Stage:
    """A pair after a switchover, with a topic and a group for each return."""

    def __init__(self, pair: Pair, orchestrators: Orchestrators, number: int) -> None:
        self.pair, self._orchestrators = pair, orchestrators
        side = pair.now
        self.topics = [side.name(f"t{i}") for i in range(number)]
        for topic in self.topics:
            side.create(side.source, topic, 2, {"retention.ms": "-1"})
        fill_transactions(side.source, self.topics, 20, most=5)
        for topic in self.topics:
            fill(side.source, topic, 40, linger_ms=0)
            side.commit(side.source, self._group(topic), self._middle(topic))
        side.replicate()
        side.copied(self.topics, dict.fromkeys(map(self._group, self.topics)))
        assert pair.switch()["state"] == "done"
        self._left = iter(self.topics)

    def _group(self, topic: str) -> str:
        return f"{topic}-group"

    def _middle(self, topic: str) -> dict[TopicPartition, int]:
        ends = self.pair.now.offsets(self.pair.now.source, topic)
        return {TopicPartition(topic, p): e // 2 for p, e in ends.items()}

    def returned(self, kill: Kill | None) -> dict[str, Any]:
        """The end state of one return; killed once and resumed elsewhere, unless there is no kill."""
        topic, side = next(self._left), self.pair.now
        more = {"topics": [topic], "request": REQUEST}
        first = self._orchestrators.run(side.plain(), "return", kill=kill, **more)
        assert first.killed is (kill is not None), first
        assert first.killed or first.error is None, first.error
        if kill is not None:
            run = side.run_log()
            if run.table is not RETURN or topic not in run.opening["scope"]["topics"]:
                again = self._orchestrators.run(side.plain(), "return", **more)  # nothing was begun
            elif not run.state.is_over:
                again = self._orchestrators.run(side.plain(), "resume", elsewhere=True)
            else:
                again = first
            assert again.error is None or again is first, (kill, again.error)
        return self._end_state(topic)

    def _end_state(self, topic: str) -> dict[str, Any]:
        side, back, run = self.pair.now, self.pair.other, self.pair.now.run_log()
        assert run.state is RunState.DONE, run.state
        assert not violations(run)
        open_ = [(s, n) for s, found in run.effects.items() for n, e in found.items() if e["result"] is None]
        assert not open_, "effects without an end"
        assert back.exact([topic]) > 0
        with StateTopic(back.target, back.source.alias) as state:
            state.load()
            known = stored(state)
            promoted_by = side.state()[RoleRecord.key(topic)]["run_id"]
            assert known[ReturnRecord.key(topic)]["promoted_by"] == promoted_by
            cut = state.get(CutRecord, topic)
            assert cut is not None
            assert RoleRecord.key(topic) not in known
            assert GenerationRecord.key(topic) in known
        marks = back.committed(back.target, self._group(topic))
        assert topic not in side.state().get(FenceSizesRecord.KEY, {"topics": {}})["topics"]
        return {
            "cuts": sorted(cut.skip_from),
            "positions": {at.partition: c.offset for at, c in marks.items()}
            == {at.partition: o for at, o in self._middle(topic).items()},
            "marked": all(c.metadata.startswith(f"drkit/1 {back.source.alias} ") for c in marks.values()),
            "steps": sorted(run.results),
            "effects": {s: sorted(found) for s, found in sorted(run.effects.items())},
        }

    def goes_on(self) -> None:
        """The reverse flow copies what clients write from now on, and nothing else."""
        side, back = self.pair.now, self.pair.other
        for topic in self.topics:
            fill(side.target, topic, 30, first=5000)
        back.replicate()
        back.copied(self.topics)
        assert back.exact(self.topics) > 0
        for topic in self.topics:
            theirs, ours = back.records(back.source, topic), back.records(back.target, topic)
            assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}


@pytest.mark.wide
def test_killed_at_some_boundaries_and_resumed(pair: Pair, orchestrators: Orchestrators) -> None:
    stage = Stage(pair, orchestrators, len(A_FEW) + 1)
    unbroken = stage.returned(None)
    assert unbroken["positions"]
    assert unbroken["marked"]
    entries = pair.now.run_log().entries
    for step, effect, kind, when in A_FEW:
        found = (n for n, e in enumerate(entries) if (e.step, e.effect, e.kind) == (step, effect, kind))
        assert stage.returned(Kill(next(found), when)) == unbroken, (step, effect, kind, when)
    stage.goes_on()


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("when", WHENS)
def test_killed_at_every_boundary_and_resumed(pair: Pair, orchestrators: Orchestrators, when: str) -> None:
    stage = Stage(pair, orchestrators, MOST_ENTRIES + 1)
    unbroken = stage.returned(None)
    entries = pair.now.run_log().entries
    assert len(entries) <= MOST_ENTRIES
    for number, entry in enumerate(entries):
        ended = stage.returned(Kill(number, when))
        assert ended == unbroken, (number, entry.kind, entry.step, entry.effect, when)
    stage.goes_on()
