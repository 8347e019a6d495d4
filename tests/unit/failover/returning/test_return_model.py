"""A return killed at any entry of its journal, resumed or rolled back; a primary that changes."""

from __future__ import annotations

import pytest

from drkit.failover import interpreter
from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import RETURN, RunState, StepName
from tests.support.errors import sentence
from tests.support.failover.paper.return_model import RETURN_STEPS, ReturnPlay, ReturnWorld

SEEDS = range(400)


def undisturbed() -> ReturnPlay:
    play = ReturnPlay(0, None, calm=True)
    play.process(abort=False)
    assert play.run.state is RunState.DONE
    return play


WHOLE = undisturbed()
BOUNDARIES = range(1, len(WHOLE.run.entries))


@pytest.mark.parametrize("at", BOUNDARIES)
def test_killed_at_any_entry_and_resumed_it_ends_the_same(at: int) -> None:
    play = ReturnPlay(0, at, calm=True)
    play.process(abort=False)
    assert len(play.run.entries) == at + 1, "it was killed there"
    play.journal.kill_at = None
    if not play.run.state.is_over:
        assert play.again(abort=False) is None
    assert play.run.state is RunState.DONE
    assert not violations(play.run)
    assert play.world == WHOLE.world
    intents = {s: {n: e["intent"] for n, e in x.items()} for s, x in play.run.effects.items()}
    assert intents == {s: {n: e["intent"] for n, e in x.items()} for s, x in WHOLE.run.effects.items()}


@pytest.mark.parametrize("at", BOUNDARIES[:-1])
def test_killed_at_any_entry_and_aborted_it_is_undone_or_refused(at: int) -> None:
    play = ReturnPlay(0, at, calm=True)
    play.process(abort=False)
    play.journal.kill_at = None
    is_over = not play.run.abortable
    before = len(play.run.entries)
    error = play.again(abort=True)
    if is_over:
        assert error is not None
        assert error.what == sentence("point_of_no_return", last_abort="DONE")
        assert "drkit reprotect --resume" in error.hint
        assert len(play.run.entries) == before + 1, "only that it was taken over"
        assert play.again(abort=False) is None
        assert play.run.state is RunState.DONE
        assert play.world == WHOLE.world
        return
    assert play.run.state is RunState.ABORTED
    assert not violations(play.run)
    undone = [e.step for e in play.run.entries if e.kind is EntryKind.UNDONE]
    assert undone == [s for s in reversed(RETURN.order) if s in play.run.begun]
    as_before(play)


def as_before(play: ReturnPlay) -> None:
    """Nothing of a return is left that did not begin, but seeds and a new producer id, which harm nothing.

    One that began is copied on.
    """
    w, first = play.world, ReturnWorld()
    if w.may_copy:
        assert (w.promoted, set(w.commits), w.seeded_at) == (False, {"drkit's"}, 10)
        return
    assert (w.promoted, w.commits) == (first.promoted, first.commits)
    assert w.fenced or "lift" not in play.run.effects.get(StepName.BEGIN, {})


def test_a_primary_that_changes_right_before_begin_leaves_a_way_out() -> None:
    entry = next(n for n, e in enumerate(WHOLE.run.entries) if e.step is StepName.BEGIN)
    play = ReturnPlay(0, entry, calm=True)
    play.process(abort=False)
    assert not play.run.effects.get(StepName.BEGIN), "it has done nothing yet"
    play.world.end += 1
    play.journal.kill_at = None
    assert play.again(abort=False) is not None, "it refuses what has changed"
    assert play.again(abort=True) is None, "and can be rolled back"


def played(seed: int) -> ReturnPlay:
    play = ReturnPlay(seed, None if seed % 3 else seed % 20 + 1, calm=False)
    play.to_the_end()
    run, w = play.run, play.world
    assert not violations(run), (seed, violations(run))
    assert run.state.is_over, (seed, run.held)
    if run.state is RunState.DONE:
        assert (w.promoted, set(w.commits), w.may_copy) == (False, {"drkit's"}, True), seed
        assert w.seeded_at == 10, (seed, "it begins where both have the same")
    else:
        as_before(play)
    return play


def test_every_return_ends_right_or_is_rolled_back() -> None:
    states = [played(seed).run.state for seed in SEEDS]
    over = {s for s in states if s.is_over}
    assert over == {RunState.DONE, RunState.ABORTED, RunState.REFUSED}
    assert min(map(states.count, over)) > 10


def test_the_model_finds_an_abort_after_the_point_of_no_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "refuse_late_abort", lambda _: None)
    late = max(n for n, e in enumerate(WHOLE.run.entries) if e.step is StepName.DONE)
    with pytest.raises(AssertionError):
        test_killed_at_any_entry_and_aborted_it_is_undone_or_refused(late)


def test_an_unexpected_error_names_the_command_of_a_return(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_context: object) -> None:
        raise OSError(27, "File too large")

    monkeypatch.setattr(RETURN_STEPS[StepName.EXPORT], "run", fail, raising=False)
    error = ReturnPlay(0, None, calm=True).process(abort=False)
    assert error is not None
    assert "File too large" in (error.evidence or "")
    assert "drkit reprotect --resume" in error.hint
    assert "drkit reprotect --abort" in error.hint
    assert "drkit failover" not in error.hint
