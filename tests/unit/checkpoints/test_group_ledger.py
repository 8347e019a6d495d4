"""Which groups a round looks at: all that may have moved, all that are not settled, and in time every one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drkit.checkpoints.group_ledger import SOON_SECONDS, GroupLedger
from drkit.checkpoints.shard import NO_ROUND, ShardReport

LOOK = 300.0
PACE = 5.0
ALL = frozenset(f"g{i}" for i in range(6))
NO_GROUP: frozenset[str] = frozenset()


class Rounds:
    """A ledger, a clock, and tasks whose reports the test chooses."""

    def __init__(self, groups: frozenset[str] = ALL) -> None:
        self.ledger, self.groups, self.now, self.number = GroupLedger(), groups, 0.0, 0

    def next(
        self,
        changed: frozenset[str] | None,
        verdict: str = "UNCHANGED",
        *,
        sync: bool = True,
        pace: float = PACE,
        standing: frozenset[str] = NO_GROUP,
        **report: object,
    ) -> set[str]:
        self.now += pace
        self.number += 1
        due = self.ledger.due(self.groups, changed, self.now, look_seconds=LOOK, sync=sync)
        self.ledger.sent(due)
        told = ShardReport(
            0, self.number, len(due), synced=sync, positions_of=dict.fromkeys(due, 2),
            same=sorted(standing & self.ledger.quick),
            verdicts_of={g: {verdict: 2} for g in due} if sync else {}, **report,  # type: ignore[arg-type]
        )  # fmt: skip
        self.ledger.take(told, self.now)
        return set(due)

    @property
    def quick(self) -> frozenset[str]:
        return self.ledger.quick

    def settle(self) -> None:
        self.next(None)
        assert self.next(NO_GROUP) == set()


def test_the_first_round_looks_at_all_and_one_at_rest_at_none() -> None:
    rounds = Rounds()
    assert rounds.next(None) == ALL
    assert rounds.next(NO_GROUP) == set()
    assert (rounds.ledger.groups, rounds.ledger.positions, rounds.ledger.looked_at) == (6, 12, 0)


def test_a_group_that_moved_is_looked_at_in_two_rounds() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(frozenset({"g1", "of another flow"}), "WRITE") == {"g1"}
    assert rounds.ledger.verdicts() == {"WRITE": 2, "UNCHANGED": 10}
    assert rounds.next(NO_GROUP) == {"g1"}
    assert rounds.next(NO_GROUP) == set()
    assert rounds.ledger.verdicts() == {"UNCHANGED": 12}


def test_the_second_look_is_a_quick_one() -> None:
    rounds = Rounds()
    rounds.settle()
    rounds.next(frozenset({"g1"}), "WRITE")
    assert rounds.next(NO_GROUP, standing=frozenset({"g1"})) == rounds.quick == {"g1"}
    assert (rounds.ledger.verdicts(), rounds.ledger.looked_at) == ({"UNCHANGED": 12}, 1)
    assert rounds.ledger.sent(["g1"]) == (rounds.number,)
    assert rounds.next(NO_GROUP) == set()


def test_a_quick_look_at_a_group_that_moves_on_is_followed_by_another() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(frozenset({"g1"}), standing=frozenset({"g1"})) == {
        "g1"
    }  # the log was faster than the coordinator
    assert rounds.next(NO_GROUP, "WRITE") == rounds.quick == {"g1"}
    assert rounds.next(NO_GROUP) == set()


def test_nothing_is_quick_while_something_is_open_or_unknown() -> None:
    rounds = Rounds()
    rounds.next(None)
    assert not rounds.quick
    rounds.next(frozenset({"g2"}), "LIVE", again=["g2"])
    rounds.next(frozenset({"g1", "g2"}), "LIVE", again=["g2"])
    assert rounds.quick == {"g1"}
    rounds.next(None, "LIVE", again=["g2"])
    assert not rounds.quick
    rounds.groups = ALL | {"new"}
    rounds.next(NO_GROUP)
    assert rounds.quick == NO_GROUP


def test_a_group_that_commits_the_same_all_the_time_is_looked_at_whole_in_time() -> None:
    rounds = Rounds()
    rounds.settle()
    whole = 0
    for _ in range(int(LOOK / PACE) + 1):
        assert "g1" in rounds.next(frozenset({"g1"}), standing=frozenset({"g1"}))
        whole += "g1" not in rounds.quick
    assert whole == 1


def test_what_was_only_emitted_gets_no_quick_look_when_it_is_synced() -> None:
    rounds = Rounds()
    rounds.settle()
    rounds.next(frozenset({"g1"}), sync=False)
    assert rounds.next(NO_GROUP, sync=False, standing=frozenset({"g1"})) == rounds.quick == {"g1"}
    assert rounds.next(NO_GROUP, "WRITE") == {"g1"}
    assert not rounds.quick


def test_without_the_log_all_are_looked_at() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(None) == ALL
    assert rounds.next(NO_GROUP) == set()


def test_what_is_not_settled_is_looked_at_until_it_is() -> None:
    rounds = Rounds()
    rounds.settle()
    refused = [("g2", "t-0", "LIVE", "")]
    for _ in range(3):
        rounds.next(frozenset({"g2"}), "LIVE", again=["g2"], refused=refused)
        assert rounds.next(NO_GROUP, "LIVE", again=["g2"], refused=refused) == {"g2"}
        assert rounds.ledger.refused() == refused
    assert rounds.next(NO_GROUP) == {"g2"}
    assert rounds.next(NO_GROUP) == set()
    assert rounds.ledger.refused() == []


def test_groups_that_the_source_does_not_tell_are_asked_for_again() -> None:
    rounds = Rounds()
    rounds.settle()
    rounds.next(frozenset({"g2"}), unread={"g2": 15})
    assert rounds.ledger.unread() == {"g2": 15}
    rounds.next(NO_GROUP, unread={"g2": 15})
    assert rounds.next(NO_GROUP) == {"g2"}
    assert rounds.ledger.unread() == {}
    assert rounds.next(NO_GROUP) == set()


def test_a_round_that_broke_off_leaves_its_groups_due() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(frozenset({"g3"}), error="no answer") == {"g3"}
    assert rounds.next(NO_GROUP, error="still not") == {"g3"}
    assert rounds.ledger.sent(["g3", "g4"]) == (NO_ROUND, 1)  # what it emitted is unknown
    assert rounds.next(NO_GROUP) == {"g3"}
    assert rounds.next(NO_GROUP) == set()


def test_what_was_only_emitted_is_synced_when_it_is_time() -> None:
    rounds = Rounds()
    rounds.settle()
    assert rounds.next(frozenset({"g1"}), sync=False) == {"g1"}
    assert rounds.next(NO_GROUP, sync=False) == {"g1"}
    assert rounds.next(NO_GROUP, sync=False) == set()
    assert rounds.ledger.verdicts() == {"UNCHANGED": 12}
    assert rounds.next(NO_GROUP, "WRITE") == {"g1"}
    assert rounds.ledger.verdicts() == {"WRITE": 2, "UNCHANGED": 10}


def test_groups_come_and_go() -> None:
    rounds = Rounds()
    rounds.settle()
    rounds.groups = ALL - {"g0"} | {"new"}
    assert rounds.next(frozenset({"g0"})) == {"new"}
    assert rounds.ledger.groups == len(ALL)
    assert rounds.next(NO_GROUP) == set()


@given(
    st.lists(
        st.tuples(st.floats(0.1, 40), *[st.frozensets(st.sampled_from(sorted(ALL)))] * 2),
        min_size=5,
        max_size=80,
    )
)
def test_every_group_is_looked_at_in_time_and_never_all_at_once(
    steps: list[tuple[float, frozenset[str], frozenset[str]]],
) -> None:
    """Whatever moves: no group waits longer for a look at both sides, and none that moved is left out.

    Quick looks that found nothing new are none of these, also where the group commits the same all the time.
    """
    rounds = Rounds()
    rounds.settle()
    last = dict.fromkeys(ALL, PACE)
    before: frozenset[str] = NO_GROUP
    for pace, changed, standing in steps:
        due = rounds.next(changed, pace=pace, standing=standing)
        assert changed | before <= due
        last |= dict.fromkeys(due - (rounds.quick & standing), rounds.now)
        assert all(rounds.now - at < LOOK for at in last.values())
        before = changed


def test_the_slow_look_is_spread_evenly() -> None:
    many = frozenset(f"g{i:04d}" for i in range(2000))
    rounds = Rounds(many)
    rounds.next(None)
    looks = [rounds.next(NO_GROUP) for _ in range(60)]
    assert set().union(*looks) == many
    assert max(map(len, looks)) <= 2000 / 60 + 1


def test_after_look_soon_every_group_is_looked_at_some_in_each_round() -> None:
    rounds = Rounds(frozenset(f"g{i}" for i in range(600)))
    rounds.next(None)
    rounds.ledger.look_soon()
    looks: list[set[str]] = []
    quick: set[str] = set()
    for _ in range(int(SOON_SECONDS / PACE) + 1):
        looks.append(rounds.next(NO_GROUP))
        quick |= rounds.quick
    assert frozenset().union(*looks) == rounds.groups
    assert max(map(len, looks)) <= 600 * PACE / SOON_SECONDS + 600 * PACE / LOOK + 2
    assert len(quick) >= 600 * (1 - SOON_SECONDS / LOOK) - 1
    # Then the slow look continues.
    assert len(rounds.next(NO_GROUP)) <= 600 * PACE / LOOK + 1


def test_topics_that_come_one_after_the_other_leave_no_group_behind() -> None:
    rounds = Rounds(frozenset(f"g{i:03d}" for i in range(600)))
    rounds.next(None)
    looked: set[str] = set()
    for _ in range(int(SOON_SECONDS / PACE)):
        rounds.ledger.look_soon()
        looked |= rounds.next(NO_GROUP)
    assert looked == rounds.groups


def test_a_flow_that_writes_no_positions_forgets_the_groups_that_are_gone() -> None:
    rounds = Rounds()
    for number in range(20):
        rounds.groups = frozenset({"lasting", f"short-{number}"})
        rounds.next(None, sync=False)
    assert rounds.ledger._unsynced <= {"lasting", "short-19"}
