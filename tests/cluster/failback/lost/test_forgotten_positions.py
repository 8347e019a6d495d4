"""A quiet group whose position on the standby is gone, or another one, when clients go back there.

Its position on the primary is drkit's own, made from that on the standby: whoever deletes the group on the
standby, or whatever Kafka forgets there, leaves it as the only one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from drkit.errors import Failed
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.core.step import StepResult
from drkit.failover.runs import all_steps
from drkit.failover.steps.group_offsets import CommitOffsetsStep
from drkit.journal.machine import StepName
from drkit.kafka.groups.requests import Groups
from drkit.model import TopicPartition
from tests.support.errors import coded
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

READ: Final = 20
_PARTITIONS: Final = 2


class Disturbed(CommitOffsetsStep):
    """Something happens to the group on the target before positions are written, and before the proof."""

    def __init__(self, before: Callable[[], object], after: Callable[[], object]) -> None:
        self._before, self._after = before, after

    def run(self, context: Context) -> StepResult:
        self._before()
        done = super().run(context)
        self._after()
        return done


def deleted(side: Side, group: str) -> None:
    """Delete the group on the target, as an administrator does."""
    codes = side.ask(side.target, lambda raw: Groups(raw).delete([group]))
    assert codes == {group: 0}


@pytest.fixture
def quiet(pair: Pair) -> tuple[str, str]:
    """A topic, and a group that has read some of it and was switched over with it; it has not read since."""
    side = pair.now
    topic, group = side.name("quiet"), side.name("g")
    side.create(side.source, topic, _PARTITIONS, {"retention.ms": "-1"})
    fill(side.source, topic, 100)
    side.commit(side.source, group, {TopicPartition(topic, p): READ for p in range(_PARTITIONS)})
    side.replicate()
    side.copied([topic], {group: None})
    assert pair.switch()["state"] == "done"
    assert pair.reprotect(CUT)["state"] == "done"
    pair.now.replicate()
    pair.now.copied([topic], {group: None})
    return topic, group


def left(side: Side, topic: str, offsets: dict[TopicPartition, int]) -> dict[int, list[bytes]]:
    """Return what a group with these offsets reads next on the target."""
    log = side.records(side.target, topic)
    return {p: values([s for s in log[p] if s.offset >= offsets[TopicPartition(topic, p)]]) for p in log}


# P14
@pytest.mark.wide
def test_a_deleted_group_is_there_again_before_clients_return(pair: Pair, quiet: tuple[str, str]) -> None:
    topic, group = quiet
    side = pair.now
    wanted = left(side, topic, side.all_committed(group))
    deleted(side, group)
    eventually(lambda: len(side.all_committed(group)) == _PARTITIONS, 60, lambda: f"a round: {side.said()}")
    assert left(side, topic, side.all_committed(group)) == wanted

    # Again, when no round writes any more: the run finds it, and its proof finds what comes after it.
    first = TopicPartition(topic, 0)
    harm = [lambda: deleted(side, group), lambda: side.commit(side.target, group, {first: 1})]
    step = Disturbed(lambda: deleted(side, group), lambda: harm.pop(0)() if harm else None)
    with side.desk(steps={**all_steps(), step.name: step}) as desk:
        with pytest.raises(Failed, check=coded("positions_differ")) as caught:
            desk.begin([], RunRequest(planned=True, clients_cut=CUT))
        assert f"{first}: None, not " in caught.value.evidence
        with pytest.raises(Failed, check=coded("positions_differ")) as caught:
            desk.resume(RunRequest())
        assert f"{first}: 1, not " in caught.value.evidence
        deleted(side, group)  # a position of its own, which the gates refuse
        report = desk.resume(RunRequest())
    assert report["state"] == "done", report
    assert report["groups"]["moved"] == [group]
    proof = side.run_log().results[StepName.COMMIT_OFFSETS]["proof"]
    assert proof == {"read_back": _PARTITIONS}
    assert left(side, topic, side.all_committed(group)) == wanted
