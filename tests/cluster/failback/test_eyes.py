"""The old primary against its copy, class by class: ends alone would call the worst of them clean."""

from __future__ import annotations

from collections.abc import Iterator
import json
from pathlib import Path

import pytest

from drkit.errors import Failed, Refused
from drkit.failover.core.context import Scope
from drkit.failover.loss import divergence as comparison
from drkit.failover.loss import new_primary
from drkit.failover.loss.findings import CommitKind, CopyFate, DivergenceState
from drkit.failover.returning.compare import compared, unsound
from drkit.flow_state.records import RoleRecord
from drkit.kafka.reading.record_cursor import EpochEnd
from drkit.model import TopicPartition
from tests.support.failback.older_disk import (
    BIG,
    BIG_LATER,
    FIRST,
    LATER,
    QUICK_CLEANER,
    REGROWN,
    SHORT,
    OlderDisk,
    looked,
    told,
)
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.failover.world import World
from tests.support.shared_clusters import ModuleClusters


@pytest.fixture(scope="module")
def story(module_cluster: ModuleClusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlderDisk]:
    fields = {"properties": QUICK_CLEANER}
    primary, standby = module_cluster.ready({"primary": fields, "standby": fields})
    world = World(primary, standby, tmp_path_factory.mktemp("journal"))
    try:
        yield told(world, primary, standby, tmp_path_factory.mktemp("disk"))
    finally:
        world.close()


@pytest.mark.wide
@pytest.mark.parametrize("what", ["clean", "tx"])
def test_what_is_as_it_was_copied_is_clean_and_proven(story: OlderDisk, what: str) -> None:
    tail = story.tail(what)
    assert (tail.found, tail.copy, tail.is_clean, tail.proven) == (
        DivergenceState.CLEAN, CopyFate.KEPT, True, True,
    )  # fmt: skip
    assert (tail.records, tail.only_new, tail.differs_from) == (0, 0, None)


@pytest.mark.wide
def test_new_records_after_the_frontier_are_the_tail(story: OlderDisk) -> None:
    tail = story.tail("diverged")
    assert (tail.found, tail.lost_from, tail.records) == (DivergenceState.DIVERGED, FIRST, 5)
    assert (tail.only_new, tail.proven) == (0, True)


@pytest.mark.wide
@pytest.mark.parametrize("what", REGROWN)
def test_an_older_disk_with_other_records_is_regrown(story: OlderDisk, what: str) -> None:
    """With the same end, a later one and an earlier one."""
    tail, number = story.tail(what), REGROWN[what]
    assert (tail.found, tail.lost_from, tail.differs_from) == (DivergenceState.REGROWN, FIRST, FIRST)
    assert (tail.end, tail.records, tail.only_new) == (FIRST + number, number, LATER)
    assert (tail.only_new_from, tail.proven) == (FIRST, False)
    assert [r.offset for r in story.records(what)] == [*range(FIRST, FIRST + number)]


@pytest.mark.wide
def test_content_tells_where_leader_epochs_say_nothing(
    story: OlderDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarts may bring both histories to the same epoch."""

    async def none(*_: object) -> dict[TopicPartition, EpochEnd]:
        return {}

    monkeypatch.setattr(comparison, "epoch_ends", none)
    names = {what: story.world.name(what) for what in REGROWN}
    found = looked(story.world, topics=[*names.values()])
    assert {what: found.tail(what)[2:7] for what in names} == {what: story.tail(what)[2:7] for what in names}


@pytest.mark.wide
def test_an_older_disk_hands_out_producer_ids_again(
    story: OlderDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of drkit's ids after the frontier were copied back; not where others can have these ids."""
    monkeypatch.setattr(new_primary, "on_record", lambda _: range(10_000))
    found = looked(story.world, topics=[story.world.name(what) for what in ("more", "diverged")])
    assert found.tail("more").records == REGROWN["more"]
    assert (found.tail("diverged").found, found.tail("diverged").records) == (DivergenceState.CLEAN, 0)


@pytest.mark.wide
def test_the_first_difference_is_found_far_before_the_frontier(story: OlderDisk) -> None:
    tail = story.tail("big")
    assert (tail.found, tail.differs_from) == (DivergenceState.REGROWN, BIG)
    assert (tail.records, tail.only_new) == (BIG_LATER, BIG_LATER)


@pytest.mark.wide
def test_an_older_disk_alone_is_regressed(story: OlderDisk) -> None:
    tail = story.tail("regressed")
    assert (tail.found, tail.end, tail.records) == (DivergenceState.REGRESSED, FIRST, 0)
    assert (tail.only_new, tail.only_new_from, tail.differs_from) == (LATER, FIRST, None)


@pytest.mark.wide
def test_topics_that_are_other_ones_or_gone(story: OlderDisk) -> None:
    recreated, gone = story.tail("recreated"), story.tail("gone")
    assert (recreated.found, recreated.lost_from, recreated.records) == (DivergenceState.RECREATED, 0, 3)
    assert (gone.found, gone.end, gone.proven) == (DivergenceState.GONE, None, False)


@pytest.mark.wide
def test_a_partition_more_is_named_also_when_it_is_empty(story: OlderDisk) -> None:
    assert story.tail("wider").found is DivergenceState.CLEAN
    more = story.tail("wider", 1)
    assert (more.found, more.records, more.is_clean, more.proven) == (DivergenceState.MORE, 0, False, False)


@pytest.mark.wide
@pytest.mark.parametrize("what", ["after", "between"])
def test_records_of_others_on_the_standby_are_counted(story: OlderDisk, what: str) -> None:
    """After the last copied record, and between copied records; not those of the new primary's clients."""
    tail = story.tail(what)
    assert (tail.found, tail.only_new, tail.only_new_from) == (DivergenceState.CLEAN, 2, FIRST)
    assert (tail.is_clean, tail.proven) == (False, True)


@pytest.mark.wide
def test_a_copy_that_lost_its_last_records_leaves_them_on_the_old_primary_only(story: OlderDisk) -> None:
    """Its end is far after the promotion's again; the leader epoch of the promotion ends before it."""
    tail = story.tail("short")
    assert (tail.copy, tail.copy_end, tail.found) == (CopyFate.REGRESSED, SHORT, DivergenceState.DIVERGED)
    assert (tail.lost_from, tail.records, tail.differs_from) == (SHORT, FIRST - SHORT, None)
    assert [r.offset for r in story.records("short")] == [*range(SHORT, FIRST)]
    with story.world.desk() as desk:
        role = desk.context_outside_run().state.get(RoleRecord, story.world.name("short"))
    assert role is not None
    assert role.epochs is not None
    assert [(number, type(epoch)) for number, epoch in role.epochs.items()] == [(0, int)]


@pytest.mark.wide
def test_a_copy_that_is_another_topic_now_leaves_everything(story: OlderDisk) -> None:
    tail = story.tail("elsewhere")
    assert (tail.copy, tail.found) == (CopyFate.RECREATED, DivergenceState.DIVERGED)
    assert (tail.lost_from, tail.records, tail.proven) == (0, FIRST, False)


@pytest.mark.wide
def test_what_compaction_removed_on_one_side_is_no_difference(story: OlderDisk) -> None:
    tail = story.tail("keys")
    assert (tail.found, tail.lost_from, tail.differs_from) == (DivergenceState.DIVERGED, FIRST, None)
    assert (tail.proven, tail.only_new) == (True, 0)
    there = story.tail("keys-there")
    assert (there.found, there.only_new, there.proven) == (DivergenceState.CLEAN, 0, True)


@pytest.mark.wide
def test_topics_that_were_never_copied_are_all_tail(story: OlderDisk) -> None:
    found = {t.topic: t for t in story.found.uncopied}
    late, empty = (story.world.name(n) for n in ("late", "late-empty"))
    assert found.keys() == {late, empty}
    assert (found[late].found, found[late].records, found[late].is_clean) == (
        DivergenceState.DIVERGED, 3, False,
    )  # fmt: skip
    assert found[empty].is_clean


@pytest.mark.wide
def test_committed_offsets_say_who_processed_the_tail(story: OlderDisk) -> None:
    assert not story.found.commits_unknown
    name = story.world.name
    found = {c.group: (c.kind, c.offset, c.translated, c.beyond) for c in story.found.commits}
    assert found == {
        name("moved"): (CommitKind.SUPERSEDED, 20, 20, 0),
        name("older"): (CommitKind.OTHER, 7, 5, 0),
        name("ahead"): (CommitKind.BEYOND, FIRST + 12, None, 12),
    }


@pytest.mark.wide
def test_the_command_names_every_class(story: OlderDisk, tmp_path: Path) -> None:
    file = written(story.world, tmp_path)
    done = drkit(file, "divergence")
    assert done.code == 1, done.err
    found = {p["topic"]: p["found"] for p in done.data["partitions"] if p["partition"] == 0}
    assert found[story.world.name("same")] == "regrown"
    assert (done.data["clean"], done.data["proven"]) == (False, False)
    assert json.loads(json.dumps(done.data["uncopied"]))


@pytest.mark.wide
@pytest.mark.parametrize(("side", "what", "at"), [(0, "clean", 80), (1, "clean", 80), (0, "diverged", -1)])
def test_what_cannot_be_read_is_unknown(story: OlderDisk, side: int, what: str, at: int) -> None:
    """A byte of a copied record on either side, and one of the tail, is another one on the disk."""
    topics = [story.world.name(what), story.world.name("tx")]
    with story.broken(story.world.brokers[side], what, at):
        broken = looked(story.world, topics=topics)
        assert _refused(story, what).startswith("not_comparable: ")
    tail = broken.tail(what)
    assert (tail.found, tail.proven, tail.is_clean) == (DivergenceState.UNKNOWN, False, False)
    assert "CRC-32C does not match" in tail.why
    assert broken.tail("tx").is_clean
    assert not broken.found.is_known
    assert looked(story.world, topics=topics).tail(what) == story.tail(what)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("same", "0: regrown"),
        ("regressed", "0: regressed"),
        ("wider", "1: more"),
        ("after", "only on the new primary"),
        ("short", "its copy is regressed"),
        ("elsewhere", "promoted_topic_recreated: "),
    ],
)
def test_a_return_sees_each_of_them(story: OlderDisk, what: str, said: str) -> None:
    assert said in _refused(story, what)


@pytest.mark.wide
def test_a_return_continues_what_is_clean(story: OlderDisk) -> None:
    assert not _refused(story, "clean")


def _refused(story: OlderDisk, what: str) -> str:
    topic = story.world.name(what)
    with story.world.desk() as desk:
        context = desk.context_outside_run(Scope({topic: topic}, (), whole_flow=False))
        context.state.load()
        try:
            found = unsound(context, compared(context))
        except (Refused, Failed) as error:
            return f"{error.code}: {error.evidence}"
    return "; ".join(f"{u.at}: {u.tail.in_words}" for u in found)
