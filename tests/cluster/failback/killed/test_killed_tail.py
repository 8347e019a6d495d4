"""The return of a primary that died is killed at a boundary of its journal, and another host continues it or
rolls it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drkit.journal.entries import EntryKind
from drkit.journal.machine import StepName
from drkit.local.cluster import LocalCluster
from tests.support.circles import in_wide
from tests.support.failback.killed import KilledReturns
from tests.support.failback.pair import Pair
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.shared_clusters import ModuleClusters

Boundary = tuple[StepName, str, EntryKind, str]
WHENS = ("before", "file", "after")
MOST_ENTRIES = 60
"""Of an unbroken run."""
REPLAYED = Case("replay", "rebuild", tail=6)
KEPT = Case("replay", "keep", tail=6)
DISCARDED = Case("discard", "rebuild", tail=6)
EXPORTED = (StepName.EXPORT, "export", EntryKind.RESULT, "before")
APPENDED = (StepName.REPLAY, "replay", EntryKind.RESULT, "before")
"""Where it hurts most: files, and appended records, that are not on record yet."""

WHERE_IT_IS_KEPT = (
    ("append ", EntryKind.INTENT, "after"),
    ("append ", EntryKind.RESULT, "before"),
    ("append ", EntryKind.RESULT, "after"),
    ("seeds ", EntryKind.INTENT, "after"),
    ("seeds ", EntryKind.RESULT, "before"),
)
"""Of BEGIN: the tail is not, or is, on the new primary, and the flow back has not begun."""
ABORTED = (
    (StepName.BEGIN, "empty ", EntryKind.INTENT, "after"),
    (StepName.BEGIN, "empty ", EntryKind.RESULT, "after"),
    (StepName.BEGIN, "", EntryKind.RESULT, "before"),
)
"""A topic is about to be emptied; was, and nothing is copied to it; is copied, and its tail not appended."""


def _at(step: StepName, effect: str, kind: EntryKind, when: str, topic: str) -> Kill:
    """By name: a run has more entries or fewer than the one before."""
    return Kill(f"{step} {effect}{topic if effect.endswith(' ') else ''} {kind}", when)


class Made:
    """Makes a dead primary with a number of topics."""

    def __init__(self, primary: LocalCluster, target: LocalCluster, folder: Path) -> None:
        self._clusters, self._folder = (primary, target), folder
        self.home: DeadPrimary | None = None

    def __call__(self, orchestrators: Orchestrators, number: int, case: Case = REPLAYED) -> KilledReturns:
        pair = Pair(*self._clusters, self._folder / "journal")
        self.home = DeadPrimary(pair, self._clusters[0], {f"t{i}": case for i in range(number)})
        return KilledReturns(self.home, orchestrators, self._folder / "saved")


@pytest.fixture
def made(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[Made]:
    found = Made(module_cluster("primary"), target, tmp_path)
    yield found
    if found.home is not None:
        found.home.close()


# P41
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kills", "aborted"),
    [in_wide((APPENDED,), ()), in_wide((EXPORTED,), ABORTED)],
    ids=["appended", "aborted"],
)
def test_killed_at_some_boundaries_and_resumed_or_aborted(
    made: Made, orchestrators: Orchestrators, kills: tuple[Boundary, ...], aborted: tuple[Boundary, ...]
) -> None:
    stage = made(orchestrators, len(kills) + len(aborted) + 1)
    first = next(stage.left)
    assert not stage.begun(first)
    unbroken = stage.ended(first)
    for (step, effect, kind, when), topic in zip(kills, stage.left, strict=not aborted):
        assert stage.begun(topic, _at(step, effect, kind, when, topic))
        stage.resumed()
        assert stage.ended(topic) == unbroken, (step, effect, when)
    for (step, effect, kind, when), topic in zip(aborted, stage.left, strict=True):
        before = stage.standing(topic)
        assert stage.begun(topic, _at(step, effect, kind, when, topic))
        stage.aborted()
        if not effect:
            assert stage.standing(topic)["return"] is not None
            stage.is_alarmed(topic)
            stage.replayed(topic)
            assert not stage.alarms()
            continue
        assert stage.standing(topic) == before, (step, effect, when)
        assert stage.is_fenced(topic), "a pending fence stays, once it is applied"
        assert stage.is_incomplete(topic), (step, effect, when)
        assert {"incomplete", "unreplayed"} <= set(stage.alarms())
        assert not stage.begun(topic)  # it appends what the first one has exported
        again = stage.ended(topic)
        assert (again["records"], again["methods"]) == (unbroken["records"], unbroken["methods"])
        assert not {"incomplete", "unreplayed"} & set(stage.alarms())
    stage.all_is_well()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_killed_while_a_tail_is_kept_and_resumed_or_aborted(made: Made, orchestrators: Orchestrators) -> None:
    """Each record is once on both sides; after an abort a return with another method adds nothing twice."""
    stage = made(orchestrators, len(WHERE_IT_IS_KEPT) + 2, KEPT)
    first = next(stage.left)
    assert not stage.begun(first)
    unbroken = stage.ended(first)
    assert unbroken["methods"] == {0: "keep", 1: "keep"}
    for effect, kind, when in WHERE_IT_IS_KEPT:
        topic = next(stage.left)
        assert stage.begun(topic, _at(StepName.BEGIN, effect, kind, when, topic))
        stage.resumed()
        assert stage.ended(topic) == unbroken, (effect, kind, when)
    topic = next(stage.left)
    before = stage.standing(topic)
    assert stage.begun(topic, _at(StepName.BEGIN, "append ", EntryKind.RESULT, "after", topic))
    stage.aborted()
    assert stage.standing(topic) == before
    assert stage.is_fenced(topic)
    assert not stage.is_incomplete(topic)
    with pytest.raises(AssertionError, match="keep_replayed_before"):
        stage.begun(topic)
    stage.aborted()
    stage.home.cases[topic] = REPLAYED
    assert not stage.begun(topic)  # what was appended is known: nothing is asked
    assert stage.ended(topic)["methods"] == {0: "rebuild", 1: "rebuild"}
    stage.all_is_well()


@pytest.mark.soak
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("case", [REPLAYED, KEPT], ids=["rebuilt", "kept"])
@pytest.mark.parametrize("when", WHENS)
def test_killed_at_every_boundary_and_resumed(
    made: Made, orchestrators: Orchestrators, when: str, case: Case
) -> None:
    stage = made(orchestrators, MOST_ENTRIES + 1, case)
    first = next(stage.left)
    stage.begun(first)
    unbroken, entries = stage.ended(first), stage.home.side.run_log().entries
    assert len(entries) <= MOST_ENTRIES
    for number, (entry, topic) in enumerate(zip(entries, stage.left, strict=False)):
        if stage.begun(topic, Kill(number, when)):
            stage.resumed()
        else:
            stage.begun(topic)
        assert stage.ended(topic) == unbroken, (number, entry.kind, entry.step, entry.effect, when)
    for topic in stage.left:
        stage.begun(topic)
    stage.all_is_well()


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_killed_at_every_boundary_and_aborted(made: Made, orchestrators: Orchestrators) -> None:
    """Before a topic has begun everything is given back; one that has begun is copied on; then all return."""
    stage = made(orchestrators, MOST_ENTRIES + 1, DISCARDED)
    first = next(stage.left)
    stage.begun(first)
    unbroken, entries = stage.ended(first), stage.home.side.run_log().entries
    for number, (entry, topic) in enumerate(zip(entries, stage.left, strict=False)):
        before = stage.standing(topic)
        if not stage.begun(topic, Kill(number, "after")):
            continue
        run = stage.home.side.run_log()
        if run.state.is_over or not run.abortable:
            stage.resumed()
        else:
            stage.aborted()
        now = stage.standing(topic)
        if now["return"] is None:
            assert now == before, (number, entry.kind, entry.step, entry.effect)
            # What was discarded and emptied is not there to be exported and decided about again.
            settled = ("disposition", "effects") if stage.is_incomplete(topic) else ()
            stage.begun(topic)
            again = stage.ended(topic) | {k: unbroken[k] for k in settled}
            assert again == unbroken, (number, entry.kind, entry.step, entry.effect)
    for topic in stage.left:
        stage.begun(topic)
    stage.all_is_well()
