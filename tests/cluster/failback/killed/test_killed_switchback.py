"""A switchover back is killed at a boundary of its journal, another host continues it: the end is the same.

Each of many topics has gone over and returned; each comes home by itself. What is written under a role after
the other (the promotion home, then the demotion that another return does) is judged by every offset.
"""

from __future__ import annotations

from typing import Any

import pytest

from drkit.flow_state.records import RoleRecord
from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import FAILOVER, RunState, StepName
from drkit.model import TopicPartition
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.truth import values
from tests.support.flows.produce import fill, fill_transactions

WHENS = ("before", "file", "after")
MOST_ENTRIES = 45
"""Of an unbroken run."""
A_FEW = (
    (StepName.FREEZE, EntryKind.RESULT, "before"),
    (StepName.OPEN, EntryKind.INTENT, "after"),
)
"""Where it hurts; ``make soak`` walks all boundaries."""
REQUEST = {"planned": True, "clients_cut": CUT}


class Stage:
    """A pair that has turned once: topics with a group each, clients on the second cluster."""

    def __init__(self, pair: Pair, orchestrators: Orchestrators, number: int) -> None:
        self.pair, self._orchestrators = pair, orchestrators
        there = pair.now
        self.topics = [there.name(f"t{i}") for i in range(number)]
        for topic in self.topics:
            there.create(there.source, topic, 2, {"retention.ms": "-1"})
        fill_transactions(there.source, self.topics, 20, most=5)
        for topic in self.topics:
            fill(there.source, topic, 40, linger_ms=0)
        there.replicate()
        there.copied(self.topics)
        assert pair.switch()["state"] == "done"
        assert pair.reprotect()["state"] == "done"
        self.side = pair.now
        for topic in self.topics:
            fill(self.side.source, topic, 30, first=5000, linger_ms=0)
            self.side.commit(self.side.source, self._group(topic), self._middle(topic))
        self.side.replicate()
        self.side.copied(self.topics, dict.fromkeys(map(self._group, self.topics)))
        self._left = iter(self.topics)

    def _group(self, topic: str) -> str:
        return f"{topic}-group"

    def _middle(self, topic: str) -> dict[TopicPartition, int]:
        ends = self.side.offsets(self.side.source, topic)
        return {TopicPartition(topic, p): e // 2 for p, e in ends.items()}

    def home(self, kill: Kill | None) -> dict[str, Any]:
        """The end state of one switchover back; killed once and resumed elsewhere unless there is no kill."""
        topic, side = next(self._left), self.side
        more = {"groups": [self._group(topic)], "request": REQUEST}
        first = self._orchestrators.run(side.plain(), "begin", kill=kill, **more)
        assert first.killed is (kill is not None), first
        assert first.killed or first.error is None, first.error
        if kill is not None:
            run = side.run_log()
            if run.table is not FAILOVER or self._group(topic) not in run.opening["scope"]["groups"]:
                again = self._orchestrators.run(side.plain(), "begin", **more)  # nothing was begun
            elif not run.state.is_over:
                again = self._orchestrators.run(side.plain(), "resume", elsewhere=True, request=REQUEST)
            else:
                again = first
            assert again.error is None or again is first, (kill, again.error)
        return self._end_state(topic)

    def _end_state(self, topic: str) -> dict[str, Any]:
        side, run = self.side, self.side.run_log()
        assert run.state is RunState.DONE, run.state
        assert not violations(run)
        open_ = [(s, n) for s, found in run.effects.items() for n, e in found.items() if e["result"] is None]
        assert not open_, "effects without an end"
        role = side.state()[RoleRecord.key(topic)]
        assert role["run_id"] == run.run_id
        theirs, ours = side.records(side.source, topic), side.records(side.target, topic)
        assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
        assert side.exact([topic]) > 0
        stands = side.all_committed(self._group(topic))
        for at, offset in self._middle(topic).items():
            p = at.partition
            rest = [s.value for s in theirs[p] if s.offset >= offset]
            assert [s.value for s in ours[p] if s.offset >= stands[at]] == rest, at
        return {
            "role": role["role"], "planned": role["planned"], "steps": sorted(run.results),
            "effects": {s: sorted(f) for s, f in sorted(run.effects.items()) if s != "COMMIT_OFFSETS"},
        }  # fmt: skip

    def turns_again(self) -> None:
        """The topics that are home are copied to the other side again, and nothing else."""
        home = self.side.state()
        topics = [t for t in self.topics if RoleRecord.key(t) in home]
        self.side.stop_replicating()
        for topic in topics:
            fill(self.side.target, topic, 20, first=9000)
        assert self.pair.reprotect()["state"] == "done"
        forth = self.pair.now
        forth.replicate()
        forth.copied(topics)
        assert forth.exact(topics) > 0
        for topic in topics:
            theirs, ours = forth.records(forth.source, topic), forth.records(forth.target, topic)
            assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}


@pytest.mark.soak
def test_killed_at_some_boundaries_and_resumed(pair: Pair, orchestrators: Orchestrators) -> None:
    stage = Stage(pair, orchestrators, len(A_FEW) + 1)
    unbroken = stage.home(None)
    assert unbroken["planned"]
    entries = stage.side.run_log().entries
    for step, kind, when in A_FEW:
        number = next(n for n, e in enumerate(entries) if (e.step, e.kind) == (step, kind))
        assert stage.home(Kill(number, when)) == unbroken, (step, kind, when)
    stage.turns_again()


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("when", WHENS)
def test_killed_at_every_boundary_and_resumed(pair: Pair, orchestrators: Orchestrators, when: str) -> None:
    stage = Stage(pair, orchestrators, MOST_ENTRIES + 1)
    unbroken = stage.home(None)
    entries = stage.side.run_log().entries
    assert len(entries) <= MOST_ENTRIES
    for number, entry in enumerate(entries):
        ended = stage.home(Kill(number, when))
        assert ended == unbroken, (number, entry.kind, entry.step, entry.effect, when)
    stage.turns_again()
