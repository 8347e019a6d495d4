"""A replay is killed, or replaced, at a request that changes something: each record is appended once."""

from __future__ import annotations

import pytest

from drkit.model import TopicPartition
from drkit.replay.compare import Same
from drkit.replay.writer import ReplayResult
from tests.support.flows.compare import read
from tests.support.replay.world import ReplayWorld, as_replayed, own, run_of, tail
from tests.support.waiting import eventually

NUMBER, PIECE = 60, 25
"""Records of the tail, and of it in one transaction: three transactions."""
IN_FIRST = 7
"""The request that would put the progress of the first transaction on record, after its records."""
IN_SECOND = 11
"""The same of the second transaction."""


def killed_and_resumed(world: ReplayWorld, topic: str, kill: int, *, quarantine: bool = False) -> bool:
    """Kill a replay at one of its requests, resume it, and check the log; False when it ended before."""
    mine, at = world.promoted(topic), TopicPartition(topic, 0)
    lost = tail(NUMBER)
    world.write(mine, [lost[0], lost[30]])
    manifest = world.export({at: lost})
    more = {"quarantine": True} if quarantine else {"same": "content"}
    first = world.process(manifest, kill=kill, piece=PIECE, **more).outcome()
    # A client that writes meanwhile, also what the tail has: it was compared before, or it was not.
    late = tail(3, word="late")
    world.write(mine, late)
    appended, already = (NUMBER, 0) if quarantine else (NUMBER - 2, 2)
    same = None if quarantine else Same.CONTENT
    found = world.replay(manifest, same, quarantine=quarantine)
    assert found == {str(at): ReplayResult(appended, already, 0)}, (kill, first)
    where = f"{mine}.divergent.7" if quarantine else mine
    left = [r for n, r in enumerate(lost) if quarantine or n not in {0, 30}]
    seen = world.seen(where)
    assert [s.content for s in own(seen)] == as_replayed(left, at, run_of(manifest)), (kill, first)
    if not quarantine:
        assert len(seen) == len(left) + 2 + len(late)
    ends = world.offsets(world.target, where)
    assert world.replay(manifest, same, quarantine=quarantine) == found
    assert world.offsets(world.target, where) == ends, "a second run appends nothing"
    return bool(first["killed"])


def test_killed_in_a_transaction_and_resumed(world: ReplayWorld, topic_name: str) -> None:
    assert killed_and_resumed(world, topic_name, IN_FIRST)


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("quarantine", [False, True])
def test_killed_at_every_request(world: ReplayWorld, topic_name: str, *, quarantine: bool) -> None:
    kill = 0
    while killed_and_resumed(world, f"{topic_name}-{kill}", kill, quarantine=quarantine):
        kill += 1
    assert kill >= 15


def test_quarantine_killed_and_resumed(world: ReplayWorld, topic_name: str) -> None:
    """After the topic was created, before its id is on record."""
    assert killed_and_resumed(world, topic_name, 1, quarantine=True)


def kept_after_a_kill(world: ReplayWorld, topic: str, kill: int) -> bool:
    """Kill the replay of a tail that is kept, resume it, and check the log; False when it ended before."""
    mine, at = world.promoted(topic), TopicPartition(topic, 0)
    lost, others = tail(NUMBER), [tail(3, word=word) for word in ("before", "meanwhile")]
    world.write(mine, others[0])
    manifest = world.export({at: lost})
    first = world.process(manifest, kill=kill, piece=PIECE, kept=True).outcome()
    world.write(mine, others[1])
    [found] = world.replay(manifest, kept=True).values()
    assert (found.appended, found.is_done) == (NUMBER, True), (kill, first)
    wrote, seen = world.wrote(mine), world.seen(mine)
    appended = [s for s in seen if wrote[s.offset] in set(found.ids or ())]
    equal = [(r.key, r.value, tuple((n.decode(), v) for n, v in r.headers), r.timestamp) for r in lost]
    assert [s.content for s in appended] == equal, (kill, first)
    assert found.copied_to == appended[-1].offset + 1
    assert [s.value for s in seen if s not in appended] == [r.value for some in others for r in some]
    ends = world.offsets(world.target, mine)
    assert world.replay(manifest, kept=True) == {str(at): found}
    assert world.offsets(world.target, mine) == ends, "a second run appends nothing"
    return bool(first["killed"])


def test_a_tail_that_is_kept_killed_in_a_transaction_and_resumed(world: ReplayWorld, topic_name: str) -> None:
    """What it wrote is known by its producers: exactly that is left out on the way back."""
    assert kept_after_a_kill(world, topic_name, IN_SECOND)


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_a_tail_that_is_kept_killed_at_every_request(world: ReplayWorld, topic_name: str) -> None:
    kill = 0
    while kept_after_a_kill(world, f"{topic_name}-{kill}", kill):
        kill += 1
    assert kill >= 15


@pytest.mark.soak
def test_killed_again_and_again(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(100)
    manifest = world.export({at: lost})
    deaths = [world.process(manifest, kill=kill, piece=10).outcome()["killed"] for kill in (3, 4, 6, 6, 8, 5)]
    assert all(deaths)
    assert world.replay(manifest) == {str(at): ReplayResult(100, 0, 0)}
    assert [s.content for s in own(world.seen(mine))] == as_replayed(lost, at, run_of(manifest))


def test_another_process_with_the_same_run_fences_the_first(world: ReplayWorld, topic_name: str) -> None:
    """The first is halted in the middle of a transaction; what it had open is aborted."""
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(NUMBER)
    manifest = world.export({at: lost})
    first = world.process(manifest, freeze=IN_SECOND, piece=PIECE)
    appended = lambda: len(own(read(world.target, mine, isolation="read_uncommitted")[0]))  # noqa: E731
    eventually(lambda: appended() > PIECE, what="an open transaction of the first")
    assert world.replay(manifest) == {str(at): ReplayResult(NUMBER, 0, 0)}
    first.resume()
    error = first.outcome()["error"]
    assert (error["kind"], error["exit_code"]) == ("ReplayTaken", 3)
    assert error["code"] == "replay_taken"
    assert [s.content for s in own(world.seen(mine))] == as_replayed(lost, at, run_of(manifest))


@pytest.mark.soak
def test_ten_thousand_records_while_a_client_writes(world: ReplayWorld, topic_name: str) -> None:
    mine, at = world.promoted(topic_name), TopicPartition(topic_name, 0)
    lost = tail(10_000, size=60)
    manifest = world.export({at: lost})
    running = world.process(manifest, piece=1_000, same="none")
    written = 0
    while running.running:
        world.write(mine, tail(20, word=f"meanwhile {written}"))
        written += 20
    outcome = running.outcome()
    assert "error" not in outcome, outcome
    assert outcome["results"] == {str(at): [10_000, 0, 0, True, None, None]}
    seen = world.seen(mine)
    assert [s.content for s in own(seen)] == as_replayed(lost, at, run_of(manifest))
    assert len(seen) == 10_000 + written
