"""A return is killed, and another host aborts it: both sides are as before, and it can begin again.

It is the second return of the pair, so the old primary has roles of its own to give back: those of the first
switchover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from drkit.flow_state.records import FenceSizesRecord, PromotionRecord, ReturnRecord, RoleRecord
from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import RETURN, RunState, StepName
from drkit.model import TopicPartition
from tests.support.circles import in_soak
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.truth import values
from tests.support.flows.produce import fill

Where = tuple[StepName, str, EntryKind, str]
WHERE: tuple[Where, ...] = (
    (StepName.CONTACT, "", EntryKind.RESULT, "before"),
    (StepName.DEMOTE, "groups", EntryKind.INTENT, "after"),
    (StepName.DEMOTE, "roles", EntryKind.RESULT, "before"),
    (StepName.BEGIN, "", EntryKind.INTENT, "after"),
)
REQUEST = {"clients_cut": CUT}


class Stage:
    """A pair that has gone over and come home: the topics wait for their second return."""

    def __init__(self, pair: Pair, orchestrators: Orchestrators, number: int) -> None:
        self.pair, self._orchestrators = pair, orchestrators
        there = pair.now
        self.topics = [there.name(f"t{i}") for i in range(number)]
        for topic in self.topics:
            there.create(there.source, topic, 2, {"retention.ms": "-1"})
            fill(there.source, topic, 40)
        there.replicate()
        there.copied(self.topics)
        assert pair.switch()["state"] == "done"
        assert pair.reprotect()["state"] == "done"
        self.side, self.back = pair.now, pair.other
        for topic in self.topics:
            fill(self.side.source, topic, 20, first=500)
            at = TopicPartition(topic, 0)
            self.side.commit(self.side.source, f"{topic}-group", {at: 7})
        self.side.replicate()
        self.side.copied(self.topics, {f"{t}-group": None for t in self.topics})
        assert pair.switch()["state"] == "done"

    def standing(self, topic: str) -> dict[str, Any]:
        """What an abort gives back: roles and positions of the old primary, and its fence."""
        theirs, ours = self.back.state(), self.side.state()
        return {
            "role": theirs.get(RoleRecord.key(topic)),
            "promotion": theirs.get(PromotionRecord.KEY),
            "return": theirs.get(ReturnRecord.key(topic)),
            "promoted": ours[RoleRecord.key(topic)],
            "fence": ours[FenceSizesRecord.KEY]["topics"].get(topic, "none"),
            "positions": self.back.committed(self.back.target, f"{topic}-group"),
        }

    def returned(self, topic: str, kill: Kill | None = None) -> None:
        """One return of a topic."""
        more = {"topics": [topic], "request": REQUEST}
        found = self._orchestrators.run(self.side.plain(), "return", kill=kill, **more)
        assert found.killed is (kill is not None), found
        assert found.killed or found.error is None, found.error

    def aborted(self, topic: str) -> None:
        """Roll the return back on another host."""
        run = self.side.run_log()
        assert run.table is RETURN
        assert topic in run.opening["scope"]["topics"]
        found = self._orchestrators.run(self.side.plain(), "abort", elsewhere=True)
        assert found.error is None, found.error
        run = self.side.run_log()
        assert run.state is RunState.ABORTED
        assert not violations(run)


@pytest.mark.wide
@pytest.mark.parametrize("where", [WHERE[2:], in_soak(WHERE)], ids=["late", "everywhere"])
def test_an_abort_gives_everything_back(
    pair: Pair, orchestrators: Orchestrators, where: Sequence[Where]
) -> None:
    stage = Stage(pair, orchestrators, len(where) + 1)
    last, *others = stage.topics
    stage.returned(last)
    entries = stage.side.run_log().entries
    for topic, (step, effect, kind, when) in zip(others, where, strict=True):
        before = stage.standing(topic)
        assert before["role"]["role"] == "promoted", "of the first switchover"
        number = next(n for n, e in enumerate(entries) if (e.step, e.effect, e.kind) == (step, effect, kind))
        stage.returned(topic, Kill(number, when))
        stage.aborted(topic)
        assert stage.standing(topic) == before, (step, effect, kind, when)
        stage.returned(topic)
    _goes_on(pair, stage)


def _goes_on(pair: Pair, stage: Stage) -> None:
    """All of them are copied again, each record once."""
    pair.now, pair.other = pair.other, pair.now
    for topic in stage.topics:
        fill(pair.now.source, topic, 20, first=900)
    pair.now.replicate()
    pair.now.copied(stage.topics)
    assert pair.now.exact(stage.topics) > 0
    for topic in stage.topics:
        theirs, ours = (pair.now.records(c, topic) for c in (pair.now.source, pair.now.target))
        assert {p: values(r) for p, r in theirs.items()} == {p: values(r) for p, r in ours.items()}
