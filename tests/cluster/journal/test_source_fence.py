"""A planned run's fence is on record on the source: an abort needs the source alone while the target is away.

The target is away where the abort is called with no service for it; once its broker is killed indeed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.source_record import RECORD, AbortedAtSource
from drkit.failover.steps import fence
from drkit.flow_state.records import RoleRecord
from drkit.flow_state.source_fence.entries import FenceMark
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.journal.entries import EntryKind
from drkit.journal.machine import RunState, StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.circles import in_soak, in_wide
from tests.support.errors import coded
from tests.support.failover.orchestrator import Kill
from tests.support.failover.switchovers import PLANNED, SIZE, Switchovers, switchovers_between
from tests.support.waiting import eventually

NUMBER = 13


@pytest.fixture(scope="module")
def stage(
    source: LocalCluster, target: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Switchovers]:
    with switchovers_between(source, target, tmp_path_factory.mktemp("journal"), NUMBER) as found:
        yield found


@pytest.mark.wide
def test_the_record_is_before_the_fence_and_done_with_open(stage: Switchovers) -> None:
    names = [(e.effect, e.kind) for e in stage.entries if e.step is StepName.FENCE and e.effect]
    assert names[:3] == [(RECORD, EntryKind.INTENT), (RECORD, EntryKind.RESULT), (SIZE, EntryKind.INTENT)]
    assert stage.record.mark is FenceMark.OPENED
    assert stage.record.sizes == {stage.topic: "900000"}
    with pytest.raises(Refused, check=coded("point_of_no_return")):
        stage.abort()
    with pytest.raises(Refused, check=coded("point_of_no_return")):
        stage.abort(statement="it burnt down")
    assert stage.is_closed()


@pytest.mark.parametrize(
    ("step", "kind", "when", "effect"),
    [
        in_soak(StepName.FENCE, EntryKind.RESULT, "before", RECORD),
        in_wide(StepName.FENCE, EntryKind.RESULT, "before", SIZE),
        in_soak(StepName.COMMIT_OFFSETS, EntryKind.RESULT, "after", ""),
    ],
)
def test_the_source_alone_is_enough(
    stage: Switchovers, step: StepName, kind: EntryKind, when: str, effect: str
) -> None:
    """Killed between record and fence, after the fence, and right before OPEN."""
    stage.killed_at(step, kind, when, effect)
    assert stage.is_closed() is (effect != RECORD)
    report = stage.abort()
    assert report["lifted"] == [stage.topic]
    assert (stage.size, stage.is_closed()) == ("900000", False)
    assert (stage.record.mark, stage.record.lifted) == (FenceMark.ABORTED, True)
    assert stage.abort()["lifted"] == [stage.topic], "it may be repeated"
    stage.ends_here()


@pytest.mark.soak
def test_before_the_record_nothing_is_fenced(stage: Switchovers) -> None:
    stage.killed_at(StepName.FENCE, EntryKind.INTENT, "after", RECORD)
    assert not stage.is_closed()
    with pytest.raises(Refused, check=coded("point_of_no_return")):  # of the run before
        stage.abort()
    assert stage.again("resume").error is None


@pytest.mark.wide
def test_once_open_is_marked_a_person_must_say_that_the_target_is_lost(stage: Switchovers) -> None:
    stage.killed_at(StepName.OPEN, EntryKind.INTENT, "before")
    assert stage.record.mark is FenceMark.OPENING
    with pytest.raises(Refused, check=coded("open_unknown")):
        stage.abort()
    assert stage.is_closed()
    stage.abort(statement="its site burnt down")
    assert not stage.is_closed()
    assert stage.record.why == "its site burnt down"
    since = {stage.topic: {SIZE: "800000"}}
    assert not alter_topic_configs(Cluster.connect(stage.world.source), since)
    stage.ends_here("800000")  # what was set since is kept


@pytest.mark.soak
def test_an_open_that_has_begun_goes_on_after_an_abort_only_by_a_reason(stage: Switchovers) -> None:
    stage.killed_at(StepName.OPEN, EntryKind.INTENT, "after", "settings")
    with pytest.raises(Refused, check=coded("open_unknown")):
        stage.abort()
    stage.abort(statement="its site burnt down")
    for verb in ("resume", "abort"):
        assert stage.again(verb).error is not None
    request = {"accept_data_loss": "the old primary took test records only"}
    done = stage.orchestrators.run(stage.world.plain(), "resume", request=request)
    assert done.error is None, done.error
    assert stage.world.run_log().state is RunState.DONE
    assert stage.record.mark is FenceMark.OPENED
    assert stage.is_closed(), "fenced once more before it went on"


@pytest.mark.soak
def test_an_open_that_has_begun_is_finished(stage: Switchovers) -> None:
    stage.killed_at(StepName.OPEN, EntryKind.INTENT, "after")
    with pytest.raises(Refused, check=coded("open_unknown")):
        stage.abort()
    assert stage.again("resume").error is None
    assert stage.record.mark is FenceMark.OPENED


@pytest.mark.wide
@pytest.mark.parametrize("lifts", [in_soak(True), False])
def test_an_abort_races_with_a_run_that_is_about_to_open(stage: Switchovers, *, lifts: bool) -> None:
    """The orchestrator is halted right before OPEN: the first mark in the log counts.

    An abort that dies after its mark leaves the fence up, so only the mark holds the run.
    """
    number = next(n for n, e in enumerate(stage.entries) if e.step is StepName.OPEN)
    stage.number += 1
    freeze = Kill(number - 1, "after")
    running = stage.orchestrators.start(
        stage.world.plain(), "begin", groups=[stage.group], request=PLANNED, freeze=freeze
    )
    eventually(running.is_stopped, 60, "a halted orchestrator")
    if lifts:
        stage.abort()
    else:
        run, kept = stage.world.run_log(), FenceTopic(stage.world.source, stage.world.settings.flows[0])
        kept.append(kept.entry(FenceMark.ABORTED, run.run_id, run.term))
    running.wake()
    error = running.outcome().error
    assert error is not None
    assert error["kind"] == AbortedAtSource.__name__, error
    assert stage.world.state().get(RoleRecord.key(stage.topic), {}).get("role") != "promoted"
    assert stage.is_closed() is not lifts
    stage.abort()
    stage.ends_here()


@pytest.mark.soak
def test_a_run_of_an_older_drkit_is_resumed(stage: Switchovers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no record on the source: it opens, and an abort at the source finds nothing."""
    monkeypatch.setattr(fence, "write_down", lambda *_: None)
    stage.number += 1
    with stage.world.desk() as desk:
        assert desk.begin([stage.group], RunRequest(planned=True))["state"] == "done"
    with pytest.raises(Refused, check=coded("point_of_no_return")):  # by records of runs before
        stage.abort()
    assert stage.is_closed()


@pytest.mark.wide
def test_a_later_run_takes_over_what_an_earlier_one_has_left(stage: Switchovers) -> None:
    """The value before the first fence is given back, and the earlier record lifts nothing any more."""
    stage.number += 1
    source, flow = stage.world.source, stage.world.settings.flows[0]
    kept = FenceTopic(source, flow)
    kept.append(
        kept.entry(FenceMark.RAISED, "lost-run", 1, topics=[stage.topic], sizes={stage.topic: "900000"})
    )
    assert not alter_topic_configs(Cluster.connect(source), {stage.topic: {SIZE: "0"}})
    number = next(n for n, e in enumerate(stage.entries) if e.step is StepName.DRAIN)
    assert stage.orchestrators.run(
        stage.world.plain(), "begin", groups=[stage.group], request=PLANNED, kill=Kill(number, "after")
    ).killed  # fmt: skip
    assert stage.record.sizes == {stage.topic: "900000"}
    assert [r.run_id for r in kept.read().open][-1] == stage.world.run_log().run_id
    assert not kept.read().records["lost-run"].is_open
    assert stage.again("abort").error is None
    assert stage.size == "900000"
    assert not [r for r in kept.read().open if stage.topic in r.topics]


@pytest.mark.soak
def test_what_was_aborted_is_copied_on(stage: Switchovers) -> None:
    if not stage.aborted:
        pytest.skip("nothing was aborted before")
    world = stage.world
    world.stop_replicating()
    world.replicate()
    world.copied(stage.aborted)
    for topic in stage.aborted:
        theirs, ours = world.records(world.source, topic), world.records(world.target, topic)
        assert [s.value for s in ours[0]] == [s.value for s in theirs[0]], topic
        assert ours[0][-1].value == b"late"
