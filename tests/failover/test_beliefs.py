"""The walk of beliefs on a model: what a step rests on is changed between any two entries of the journal."""

from __future__ import annotations

import pytest

from drkit.failover import interpreter
from drkit.failover.entries import violations
from drkit.failover.machine import GROUNDS, TABLE, Belief, State, StepName
from tests.failover.model import Play

SEEDS = range(600)


def played(seed: int) -> Play:
    play = Play(seed)
    play.to_the_end()
    run, world = play.run, play.world
    assert run.state.is_over, (seed, run.state, run.held)
    assert not violations(run), (seed, violations(run))
    if run.state is State.DONE:
        assert world.opened
        assert world.placed is not None
    else:
        assert not world.opened
        assert not world.frozen, (seed, "copying goes on")
        assert not world.fenced or world.lift_pending, (seed, "a fence that nobody lifts")
    return play


def test_every_run_ends_right_or_taken_back() -> None:
    plays = [played(seed) for seed in SEEDS]
    states = {p.run.state for p in plays}
    assert {State.DONE, State.ABORTED} <= states
    undone = [p for p in plays if p.run.state is State.DONE and any(e.kind == "undo" for e in p.run.entries)]
    assert len(undone) > 10, "a primary that comes back leads back to FENCE"


@pytest.mark.parametrize("without", ["looks_again", "is_finding"])
def test_the_model_finds_what_the_table_keeps_off(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same schedules with a table that does not look again, or that believes an earlier process."""

    class Blind(interpreter.Interpreter):
        def _is_unfenced(self) -> bool:
            return without != "looks_again" and super()._is_unfenced()

        def _kept(self) -> set[StepName]:
            return super()._kept() if without != "is_finding" else set(self._journal.run.results)

    monkeypatch.setattr("tests.failover.model.Interpreter", Blind)
    with pytest.raises(AssertionError):
        [played(seed) for seed in SEEDS]


def test_the_table_names_what_each_step_rests_on() -> None:
    assert {g.belief for g in GROUNDS} == set(Belief)
    used = {belief for row in TABLE for belief in row.rests_on}
    assert used == set(Belief), "nothing is listed that no step rests on"
    for row in TABLE:
        may_be_wrong = Belief.SOURCE in row.rests_on and row.changes and row.step is not StepName.FENCE
        assert row.looks_again == may_be_wrong, row.step
