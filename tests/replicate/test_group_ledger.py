"""Which groups a round looks at: all that may have moved, all that are not settled, and in time every one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.replicate.checkpoint_shard import NO_ROUND, ShardReport
from drkit.replicate.group_ledger import SOON_SECONDS, GroupLedger

LOOK = 300.0
PACE = 5.0
ALL = frozenset(f"g{i}" for i in range(6))
NOBODY: frozenset[str] = frozenset()


class Rounds:
    """A ledger, a clock, and tasks that do what they are told to report."""

    def __init__(self, groups: frozenset[str] = ALL) -> None:
        self.ledger, self.groups, self.now, self.number = GroupLedger(), groups, 0.0, 0

    def next(
        self,
        changed: frozenset[str] | None,
        verdict: str = "UNCHANGED",
        *,
        sync: bool = True,
        pace: float = PACE,
        **report: object,
    ) -> set[str]:
        self.now += pace
        self.number += 1
        due = self.ledger.due(self.groups, changed, self.now, look_seconds=LOOK, sync=sync)
        self.ledger.sent(due)
        told = ShardReport(
            0, self.number, len(due), synced=sync, positions_of=dict.fromkeys(due, 2),
            verdicts_of={g: {verdict: 2} for g in due} if sync else {}, **report,  # type: ignore[arg-type]
        )  # fmt: skip
        self.ledger.take(told, self.now)
        return set(due)

    def settle(self) -> None:
        self.next(None)
        assert self.next(NOBODY) == set()


def test_the_first_round_looks_at_all_and_one_at_rest_at_none() -> None:
    rounds = Rounds()
    assert rounds.next(None) == ALL
    assert rounds.next(NOBODY) == set()
    assert (rounds.ledger.groups, rounds.ledger.positions, rounds.ledger.looked_at) == (6, 12, 0)


def test_a_group_that_moved_is_looked_at_in_two_rounds() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(frozenset({"g1", "of another flow"}), "WRITE") == {"g1"}
    assert rounds.ledger.verdicts() == {"WRITE": 2, "UNCHANGED": 10}
    assert rounds.next(NOBODY) == {"g1"}
    assert rounds.next(NOBODY) == set()
    assert rounds.ledger.verdicts() == {"UNCHANGED": 12}


def test_when_the_log_tells_nothing_all_are_looked_at() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(None) == ALL
    assert rounds.next(NOBODY) == set()


def test_what_is_not_settled_is_looked_at_until_it_is() -> None:
    rounds = Rounds()
    rounds.settle()
    refused = [("g2", "t-0", "LIVE", "")]
    for _ in range(3):
        rounds.next(frozenset({"g2"}), "LIVE", again=["g2"], refused=refused)
        assert rounds.next(NOBODY, "LIVE", again=["g2"], refused=refused) == {"g2"}
        assert rounds.ledger.refused() == refused
    assert rounds.next(NOBODY) == {"g2"}
    assert rounds.next(NOBODY) == set()
    assert rounds.ledger.refused() == []


def test_groups_that_the_source_does_not_tell_are_asked_for_again() -> None:
    rounds = Rounds()
    rounds.settle()
    rounds.next(frozenset({"g2"}), unread={"g2": 15})
    assert rounds.ledger.unread() == {"g2": 15}
    rounds.next(NOBODY, unread={"g2": 15})
    assert rounds.next(NOBODY) == {"g2"}
    assert rounds.ledger.unread() == {}
    assert rounds.next(NOBODY) == set()


def test_a_round_that_broke_off_leaves_its_groups_due() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(frozenset({"g3"}), error="the target does not answer") == {"g3"}
    assert rounds.next(NOBODY, error="still not") == {"g3"}
    assert rounds.ledger.sent(["g3", "g4"]) == (NO_ROUND, 1)  # nobody knows what it emitted
    assert rounds.next(NOBODY) == {"g3"}
    assert rounds.next(NOBODY) == set()


def test_what_was_only_emitted_is_synced_when_it_is_time() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(frozenset({"g1"}), sync=False) == {"g1"}
    assert rounds.next(NOBODY, sync=False) == {"g1"}
    assert rounds.next(NOBODY, sync=False) == set()
    assert rounds.ledger.verdicts() == {"UNCHANGED": 12}
    assert rounds.next(NOBODY, "WRITE") == {"g1"}
    assert rounds.ledger.verdicts() == {"WRITE": 2, "UNCHANGED": 10}


def test_groups_come_and_go() -> None:
    rounds = Rounds()
    rounds.settle()
    rounds.groups = ALL - {"g0"} | {"new"}
    assert rounds.next(frozenset({"g0"})) == {"new"}
    assert rounds.ledger.groups == len(ALL)
    assert rounds.next(NOBODY) == set()


@given(
    st.lists(
        st.tuples(st.floats(0.1, 40), st.frozensets(st.sampled_from(sorted(ALL)))), min_size=5, max_size=80
    )
)
def test_every_group_is_looked_at_in_time_and_never_all_at_once(
    steps: list[tuple[float, frozenset[str]]],
) -> None:
    """Whatever moves: no group waits longer than the look and one pause, and none that moved is left out."""
    rounds = Rounds()
    rounds.settle()
    last = dict.fromkeys(ALL, PACE)
    before: frozenset[str] = NOBODY
    for pace, changed in steps:
        due = rounds.next(changed, pace=pace)
        assert changed | before <= due
        last |= dict.fromkeys(due, rounds.now)
        assert all(rounds.now - at < LOOK for at in last.values())
        before = changed


def test_the_slow_look_is_spread_evenly() -> None:
    many = frozenset(f"g{i:04d}" for i in range(2000))
    rounds = Rounds(many)
    rounds.next(None)
    looks = [rounds.next(NOBODY) for _ in range(60)]
    assert set().union(*looks) == many
    assert max(map(len, looks)) <= 2000 / 60 + 1


def test_after_look_soon_every_group_is_looked_at_some_in_each_round() -> None:
    rounds = Rounds(frozenset(f"g{i}" for i in range(600)))
    rounds.next(None)
    rounds.ledger.look_soon(rounds.now)
    looks = [rounds.next(NOBODY) for _ in range(int(SOON_SECONDS / PACE) + 1)]
    assert frozenset().union(*looks) == rounds.groups
    assert max(map(len, looks)) <= 600 * PACE / SOON_SECONDS + 1
    # Then the slow look goes on.
    assert len(rounds.next(NOBODY)) <= 600 * PACE / LOOK + 1
