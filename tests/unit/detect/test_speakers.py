"""Names that are not configured decide nothing; a name under which two processes publish is not believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from drkit.detect.agents import AgentNote, Agents, Hold, Lease
from drkit.detect.notes import ANYBODY, Notes, Speakers
from drkit.detect.risk import unknown
from drkit.detect.seen import NOTHING_SEEN, Sight
from drkit.detect.verdict import AutoFacts, Picture, Verdict, VerdictKind, judge
from drkit.detect.votes import Heard, Tally, Vote, VoteRules, tally

WALL: Final = 1_700_000_000_000
NAMED: Final = Speakers(frozenset({"a", "b", "c"}), frozenset({"p-1"}), 3.0, 3.0)
OWN: Final = Vote("a", "r", 1, WALL, Sight.GONE, abstained_seconds=99.0)
RULES: Final = VoteRules(observers=3)
LOST_AT: Final = 70.0
SEEN: Final = replace(NOTHING_SEEN, sight=Sight.GONE)


def vote(name: str, sight: Sight = Sight.GONE, run: str = "r", sequence: int = 1, **more: object) -> Vote:
    return Vote(name, run, sequence, WALL, sight, abstained_seconds=99.0, **more)  # type: ignore[arg-type]


def note(
    agent: str, run: str = "r", number: int = 1, *, fenced: bool = False, sequence: int = 0
) -> AgentNote:
    return AgentNote(agent, run, number, Hold.LEASED, WALL, fenced=fenced, sequence=sequence)


class Post:
    """The topic as one observer reads it, named a."""

    def __init__(self, speakers: Speakers = NAMED) -> None:
        self.reports: list[tuple[str, str]] = []
        self.notes = Notes(lambda *why: self.reports.append(why), speakers)
        self.agents = Agents(12.0)
        self.now = 100.0

    def write(self, *bodies: Vote | AgentNote, live: bool = True) -> None:
        for body in bodies:
            name = body.observer if isinstance(body, Vote) else body.agent
            self.notes.take(body.key(name).encode(), body.encode(), self.now, WALL, live=live)

    def later(self, seconds: float) -> None:
        self.now += seconds

    def tally(self) -> Tally:
        heard = [
            Heard(n.body, self.now, n.wall_ms, n.live, n.doubt.at(self.now)) for n in self.notes.all(Vote)
        ]
        return tally(OWN, heard, self.now, RULES, dropped=self.notes.strangers(self.now - 5.0).values())

    def verdict(self) -> Verdict:
        for each in self.notes.all(AgentNote):
            if each.doubt.at(self.now):
                self.agents.forget(each.body.agent)
            else:
                self.agents.take(each.body, each.arrived)
        auto = AutoFacts(
            agents=1, agents_armed=self.agents.armed(LOST_AT), agents_fenced=self.agents.fenced(LOST_AT)
        )
        return judge(Picture(
            seen=SEEN,
            gone_for=30.0, phi=20.0, beat_silence=30.0, moved_ago=30.0,
            risk=unknown("no look yet")._replace(seconds=1.0),
            tally=self.tally(), auto=auto,
        ))  # fmt: skip


FORGED: Final[Sequence[Vote | AgentNote]] = (*(vote(f"x{n}") for n in range(4)), note("y", fenced=True))


@pytest.mark.parametrize("others", [(Sight.CLEAR, Sight.CLEAR), (Sight.BLIND, Sight.CLEAR), ()])
def test_four_invented_names_and_an_invented_agent_turn_no_hold_into_lost(others: tuple[Sight, ...]):
    post = Post()
    post.write(*(vote(name, sight) for name, sight in zip("bc", others, strict=False)))
    before = post.verdict()
    post.write(*FORGED)
    assert before.kind is post.verdict().kind is VerdictKind.HOLD
    assert post.verdict().reason is before.reason
    assert post.tally().gone == ("a",)
    assert [key for key, _ in post.reports] == [*(f"vote/x{n}" for n in range(4)), "agent/y"]
    assert "it is not named in watch.observers" in " ".join(post.tally().in_words())
    assert post.notes.strangers(0.0)["agent/y"] == "it is not named in fence_agent.agents"
    post.later(60.0)
    assert post.notes.strangers(post.now - 5.0) == {}, "what is over is not shown for ever"


def test_with_a_number_any_name_counts():
    """Today's form, which mode auto refuses."""
    post = Post(ANYBODY)
    post.write(*FORGED)
    assert post.tally().is_decided


def test_configured_names_decide():
    post = Post()
    post.write(vote("b"), note("p-1", fenced=True))
    assert post.verdict().kind is VerdictKind.LOST
    assert post.reports == []


Written = Callable[[str, int], Vote | AgentNote]
KINDS: Final[dict[str, Written]] = {
    "vote/b": lambda run, number: vote("b", run=run, sequence=number),
    "agent/p-1": lambda run, number: note("p-1", run, number=7, sequence=number, fenced=True),
}


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(
    "taking_turns",
    [
        [("honest", 1), ("forged", 1), ("honest", 2)],
        [("honest", 5), ("honest", 900), ("honest", 6)],  # the run is copied, its number guessed
        [("honest", 5), ("f1", 1), ("f2", 1), ("f3", 1), ("honest", 6)],
    ],
)
def test_two_processes_under_one_name_are_named_and_neither_is_believed(
    key: str, taking_turns: list[tuple[str, int]]
):
    post, write = Post(), KINDS[key]
    for run, number in taking_turns:
        post.write(write(run, number))
        post.later(0.5)
    doubt = post.notes.by_key()[key].doubt
    assert "two processes publish under this name" in doubt.at(post.now)
    assert [k for k, _ in post.reports] == [key]
    assert post.verdict().kind is VerdictKind.HOLD
    # The forger writes on, more seldom than the other one.
    for number in range(10, 30):
        post.write(write("honest", number))
        post.later(1.0)
        if number % 2:
            post.write(write("forged", 7))
        assert post.notes.by_key()[key].doubt.at(post.now)
    assert [k for k, _ in post.reports] == [key], "once while it lasts"
    for number in range(30, 40):
        post.write(write("honest", number))
        post.later(1.0)
    assert not post.notes.by_key()[key].doubt.at(post.now), "alone again"


def test_a_vote_of_the_same_number_that_says_something_else_is_a_second_process():
    post = Post()
    post.write(vote("b"), vote("b"))  # a request that was sent again
    assert not post.notes.by_key()["vote/b"].doubt.at(post.now)
    post.write(vote("b", Sight.CLEAR))
    assert post.notes.by_key()["vote/b"].doubt.at(post.now)


def test_a_process_that_was_restarted_counts_when_the_old_one_is_silent():
    post = Post()
    post.write(vote("b", run="old", sequence=99))
    post.later(1.5)
    post.write(vote("b", run="new"))
    assert "another process published under this name 1.5 s before" in post.tally().ignored[0]
    post.later(1.6)
    post.write(vote("b", run="new", sequence=2))
    assert post.tally().gone == ("a", "b")
    assert post.reports == [], "no conflict"
    post.later(10.0)
    post.write(vote("b", run="newest"))
    assert post.tally().gone == ("a", "b"), "after a pause at once"


def test_what_was_written_before_we_listened_is_no_conflict():
    post = Post()
    for run in ("r1", "r2", "r1"):
        post.write(vote("b", run=run), live=False)
    post.later(4.0)
    post.write(vote("b", run="r9"))
    assert post.tally().gone == ("a", "b")
    assert post.reports == []


def test_forged_renewals_keep_no_lease():
    """Names that are not configured, and configured ones whose processes speak, too."""
    post, lease = Post(), Lease(3, 12.0)
    first = lease.ask(0.0)
    lease.heard("b", first)
    lease.heard("c", first)
    for second in range(1, 300):
        post.later(1.0)
        number = lease.ask(float(second))
        renews = {"p-1": number}
        post.write(*(vote(f"x{n}", Sight.CLEAR, sequence=second, renews=renews) for n in range(4)))
        for name in "bc":
            post.write(vote(name, sequence=second), vote(name, Sight.CLEAR, "f", second, renews=renews))
        for each in post.notes.all(Vote):
            if not each.doubt.at(post.now) and "p-1" in each.body.renews:
                lease.heard(each.body.observer, each.body.renews["p-1"])
    assert lease.left(0.0) == 12.0, "as long as the last honest answer allows"


def test_who_guesses_the_next_number_is_believed_until_the_process_speaks():
    """The run of a vote is readable in the topic. The process publishes each `vote_interval_seconds`."""
    post = Post()
    post.write(vote("b", Sight.CLEAR, sequence=5))
    post.later(0.5)
    post.write(vote("b", sequence=6))
    assert post.tally().gone == ("a", "b")
    post.later(0.5)
    post.write(vote("b", Sight.CLEAR, sequence=6))
    assert post.tally().gone == ("a",)
    assert [key for key, _ in post.reports] == ["vote/b"]


def test_observers_that_are_silenced_renew_no_lease():
    """The agent then stops the primary's writes: two processes publish under the names of most observers."""
    post, lease = Post(), Lease(3, 12.0)
    for second in range(30):
        number = lease.ask(float(second))
        for name in "bc":
            honest = vote(name, Sight.CLEAR, sequence=second, renews={"p-1": number})
            post.write(honest, *([vote(name, run="f", sequence=second)] if second >= 5 else []))
        for each in post.notes.all(Vote):
            if not each.doubt.at(post.now) and "p-1" in each.body.renews:
                lease.heard(each.body.observer, each.body.renews["p-1"])
        post.later(1.0)
    left = lease.left(17.0)
    assert left is not None
    assert left <= 0.0
