"""The walk of beliefs on a model: what a step rests on is changed between any two entries of the journal."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
import pytest

from drkit.config import ClusterSettings
from drkit.failover import interpreter
from drkit.journal.lost import violations
from drkit.journal.machine import FAILOVER, TABLE, RunState, StepName
from drkit.journal.stall import ProcessSuspended, Stall
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.transport import permitted_by
from tests.pages.failover import GROUNDS, Belief, rests_on
from tests.support.failover.paper.model import Play

SEEDS = range(600)


def played(seed: int) -> Play:
    play = Play(seed)
    play.to_the_end()
    run, world = play.run, play.world
    assert run.state.is_over, (seed, run.state, run.held)
    assert not violations(run), (seed, violations(run))
    if run.state is RunState.DONE:
        assert world.opened
        assert world.placed is not None
    else:
        assert not world.opened
        assert not world.frozen, (seed, "copying continues")
        assert not world.fenced or world.lift_pending, (seed, "a fence whose lift is not pending")
    return play


def test_every_run_ends_right_or_is_rolled_back() -> None:
    plays = [played(seed) for seed in SEEDS]
    states = {p.run.state for p in plays}
    assert {RunState.DONE, RunState.ABORTED} <= states
    undone = [
        p for p in plays if p.run.state is RunState.DONE and any(e.kind == "undo" for e in p.run.entries)
    ]
    assert len(undone) > 10, "a primary that comes back leads back to FENCE"


@pytest.mark.parametrize("without", ["looks_again", "is_finding"])
def test_the_model_finds_what_the_table_keeps_off(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same schedules with a table that does not look again, or that believes an earlier process."""

    class Blind(interpreter.Interpreter):
        def _is_unfenced(self) -> bool:
            return without != "looks_again" and super()._is_unfenced()

        def _kept(self) -> set[StepName]:
            return super()._kept() if without != "is_finding" else set(self.journal.run.results)

    monkeypatch.setattr("tests.support.failover.paper.model.Interpreter", Blind)
    with pytest.raises(AssertionError):
        [played(seed) for seed in SEEDS]


def overtaken(entry: int) -> None:
    """A process is suspended after an entry, and another one brings the run to its end."""
    for abort in (False, True):
        play = Play(7)
        play.journal.calm, play.journal.kill_at = True, None
        if abort:
            play.journal.kill_at = 16
            play.process(abort=False)
            assert StepName.FREEZE in play.run.begun
        play.journal.stands_still_at = len(play.run.entries) + entry
        play.process(abort=abort)
        if play.journal.overtaken is not None:
            assert play.world == play.journal.overtaken, (entry, abort)


def every_entry() -> None:
    for entry in range(40):
        overtaken(entry)


def test_a_process_that_was_overtaken_while_it_stood_still_does_nothing_more() -> None:
    every_entry()


def test_the_model_finds_a_process_that_does_not_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stall, "ask", lambda _: None)
    with pytest.raises(AssertionError):
        every_entry()


def test_each_request_asks_first() -> None:
    def never() -> None:
        raise ProcessSuspended

    settings = ClusterSettings(alias="a", bootstrap_servers="127.0.0.1:1")
    loop = EventLoop()
    raw = RawCluster(loop, settings, "test")
    admin = Cluster(settings, AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}), "id", [])
    try:
        with permitted_by(never):
            for request in (lambda: loop.run(raw.send, None), lambda: admin.call("do it", print)):
                with pytest.raises(ProcessSuspended):
                    request()
    finally:
        raw.close()
        loop.close()


def test_the_table_names_what_each_step_rests_on() -> None:
    assert {g.belief for g in GROUNDS} == set(Belief)
    used = {belief for row in TABLE for belief in rests_on(FAILOVER, row.step)}
    assert used == set(Belief), "nothing is listed that no step rests on"
    for row in TABLE:
        may_be_wrong = Belief.SOURCE in rests_on(FAILOVER, row.step) and row.changes
        assert row.looks_again == (may_be_wrong and row.step is not StepName.FENCE), row.step
