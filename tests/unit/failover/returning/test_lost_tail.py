"""What the old primary has lost of its tail: what an export has, and what nothing has. No broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.failover.core.request import RunRequest
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.failover.old_primary.lost_tail import Gone, Saved, gone, is_given_up, uncovered
from drkit.failover.returning.compare import NeedsMethod, _notes, to_json
from drkit.failover.returning.contact import _runs_again
from drkit.failover.returning.deciding import undecided
from drkit.failover.returning.pre_delete_checks import not_whole
from drkit.flow_state.records import IncompleteRecord, RoleRecord, SavedTailRecord, UnreplayedRecord
from drkit.journal.machine import StepName
from drkit.model import TopicPartition

ID, OTHER = UUID(int=1), UUID(int=2)
TAIL = PartitionDivergence("t", 0, DivergenceState.DIVERGED, 100, 112, records=12)
ALL_GONE = TAIL._replace(records=0, removed=12)
PART_GONE = TAIL._replace(records=5, removed=7)


def saved(run: str = "r1-5a", first: int = 100, records: int = 12, **more: Any) -> Saved:
    """An export of the tail from an offset on."""
    fields: dict[str, Any] = {
        "run_id": "r1",
        "at_ms": 1,
        "term": 3,
        "topic_id": ID,
        "manifest": f"/{run}",
        "sha256": "ab",
    }
    spans = {0: (first, 112)}
    return Saved("t", run, SavedTailRecord(**fields | {"spans": spans, "records": {0: records}} | more))


def lost(tail: PartitionDivergence | None, *exports: Saved, decided: tuple[str, ...] = ()) -> Gone | None:
    """What is gone of a topic in term 3."""
    return gone("t", str(ID), 3, [tail] if tail else [], exports, decided)


@pytest.mark.parametrize(
    ("tail", "number"),
    [
        (ALL_GONE, 12),
        (PART_GONE, 7),
        (None, 12),
        (TAIL._replace(records=0, found=DivergenceState.REGRESSED), 12),
        (TAIL._replace(records=11, found=DivergenceState.REGROWN), 12),
        (ALL_GONE._replace(end=120, records=8), 12),
        (PART_GONE._replace(end=115, records=8), 7),
        (TAIL._replace(end=115, records=3, emptied=12), 12),
    ],
    ids=[
        "all",
        "its beginning",
        "it is as copied",
        "a disk",
        "other records are there",
        "more came after all was gone",
        "more came after its beginning was gone",
        "more came after a return",
    ],
)
def test_a_tail_that_is_gone_is_in_its_export(tail: PartitionDivergence | None, number: int) -> None:
    found = lost(tail, saved())
    assert found is not None
    assert (found.records, [s.run for s in found.exported], found.lost) == (number, ["r1-5a"], {})
    assert "is in an export alone (/r1-5a)" in found.in_words.replace("are in", "is in")


def test_what_is_still_there_needs_no_export() -> None:
    assert lost(TAIL, saved()) is None
    assert lost(TAIL) is None
    assert lost(TAIL._replace(found=DivergenceState.REGROWN), saved()) is None


def test_the_export_with_most_of_it_stands_for_the_others() -> None:
    found = lost(ALL_GONE, saved("r3-5a", 107, 5), saved("r2-5a"), saved(at_ms=0))
    assert found is not None
    assert [s.run for s in found.exported] == ["r1-5a"]
    apart = lost(ALL_GONE, saved("r3-5a", records=13, spans={0: (101, 112)}), saved())
    assert apart is not None
    assert [s.run for s in apart.exported] == ["r3-5a", "r1-5a"], "neither has all of the other"


def test_what_was_decided_is_not_asked_again() -> None:
    name = UnreplayedRecord.name_of("t", "r1-5a")
    found = lost(ALL_GONE, saved(), saved("r2-5a", 107, 5), decided=(name,))
    assert found is not None
    assert (found.exported, found.lost, found.records) == ((), {}, 0)
    assert "about which it was decided" in found.in_words


def test_exports_of_another_failover_or_topic_say_nothing_of_offsets() -> None:
    found = lost(ALL_GONE, saved(term=2))
    assert found is not None
    assert (found.exported, found.lost) == ((), {0: [(100, 112)]})
    found = lost(ALL_GONE, saved(topic_id=OTHER))
    assert found is not None
    assert (len(found.exported), found.records, found.lost) == (1, 12, {0: [(100, 112)]})


def test_what_was_gone_before_it_was_exported_is_lost() -> None:
    found = lost(ALL_GONE, saved(first=104, records=8))
    assert found is not None
    assert (found.lost, found.offsets_lost, found.records) == ({0: [(100, 104)]}, 4, 8)
    assert "4 offsets are gone, and in no export (t-0 from 100 to 103)" in found.in_words


def test_what_a_return_has_emptied_is_not_lost() -> None:
    assert lost(TAIL._replace(records=0, emptied=12)) is None
    found = lost(TAIL._replace(records=0, emptied=5, removed=7))
    assert found is not None
    assert found.lost == {0: [(105, 112)]}


ranges = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda r: (min(r), max(r)))


@given(ranges, st.lists(ranges, max_size=4))
def test_what_no_range_covers_is_found(span: tuple[int, int], by: list[tuple[int, int]]) -> None:
    found = {o for first, end in uncovered(span, by) for o in range(first, end)}
    assert found == set(range(*span)) - {o for first, end in by for o in range(first, end)}


# -- somebody decides ------------------------------------------------------------------------------------


def context_of(tail: PartitionDivergence, *exports: Saved, **request: Any) -> Any:
    """A return of one topic in term 3, as far as COMPARE."""
    records: dict[Any, dict[str, Any]] = {
        RoleRecord: {"t": SimpleNamespace(term=3, planned=False)},
        SavedTailRecord: {s.name: s.record for s in exports},
        UnreplayedRecord: {},
        IncompleteRecord: {},
    }
    compared = {"unsound": to_json([NeedsMethod(tail, "diverged")]), "ids": {"t": str(ID)}}
    return SimpleNamespace(
        run_id="r9",
        named_topics=(),
        until_export=False,
        effects=lambda _: {"hold": {}},
        flow=SimpleNamespace(name="p->s", source="p", target="s"),
        scope=SimpleNamespace(topics={"t": "t"}),
        request=RunRequest(reason="why", **request),
        result=lambda step: compared if step is StepName.COMPARE else {},
        state=SimpleNamespace(all=lambda kind: records[kind]),
    )


def test_an_export_needs_a_decision_like_a_tail() -> None:
    error = undecided(context_of(ALL_GONE, saved()), [NeedsMethod(ALL_GONE, "diverged")], {})
    assert error is not None
    assert error.topics == {"t": 12}
    assert "/r1-5a" in error.evidence
    said = context_of(ALL_GONE, saved(), dispositions={"*": "replay"})
    assert undecided(said, [NeedsMethod(ALL_GONE, "diverged")], {}) is None


@pytest.mark.parametrize("tail", [ALL_GONE, PART_GONE])
@pytest.mark.parametrize(
    ("request_", "enough"),
    [
        ({"dispositions": {"*": "discard"}}, False),
        ({"dispositions": {"t": "replay"}}, False),
        ({"dispositions": {"*": "replay"}, "give_up_history": ("*",)}, False),
        ({"dispositions": {"t": "discard"}}, True),
        ({"dispositions": {"*": "replay"}, "give_up_history": ("t",)}, True),
    ],
)
def test_what_no_export_has_is_given_up_by_name(
    tail: PartitionDivergence, request_: dict[str, Any], *, enough: bool
) -> None:
    context = context_of(tail, **request_)
    error = undecided(context, [NeedsMethod(tail, "diverged")], {})
    assert (error is None) is enough is is_given_up(context.request, "t")
    if error is not None:
        assert f"{tail.removed} offsets are gone, and in no export" in error.evidence
        assert "--disposition t=discard" in error.hint


def test_the_comparison_says_what_retention_has_removed() -> None:
    context: Any = SimpleNamespace(flow=SimpleNamespace(source="p"))
    notes = "; ".join(_notes(context, {}, [NeedsMethod(PART_GONE, "diverged")]))
    assert "the retention of p has removed some: t-0: 7 offsets" in notes


def test_an_abort_says_whose_retention_runs_again() -> None:
    context = context_of(TAIL)
    [note] = _runs_again(context, ["t", "u"])
    assert "may remove what only it has of t: drkit reprotect --flow 'p->s'" in note
    assert _runs_again(context, ["u"]) == []
    records = {IncompleteRecord: {"t": IncompleteRecord("r1", 1, {7: 5})}}
    context.state.all = records.__getitem__
    assert _runs_again(context, ["t"]) == [note], "another partition was emptied"
    records[IncompleteRecord] = {"t": IncompleteRecord("r1", 1, {TAIL.partition: 111})}
    assert _runs_again(context, ["t"]) == [note], "a client has written since an earlier return emptied it"
    records[IncompleteRecord] = {"t": IncompleteRecord("r2", 1, {TAIL.partition: 112})}
    assert _runs_again(context, ["t"]) == [], "what only it had is in the export alone"
    context.result = lambda _step: {}
    assert _runs_again(context, ["u"]), "nobody has compared it"


@pytest.mark.parametrize(("outcome", "place"), [(None, "PLACE"), ({"manifest": "/saved/m.json"}, "/saved")])
def test_an_abort_does_not_send_to_a_place_that_could_not_be_written(
    outcome: dict[str, str] | None, place: str
) -> None:
    context = context_of(TAIL, export_to="/saved", clients_cut="x")
    context.effects = lambda step: (
        {"export": {"intent": {"to": "/saved"}, "result": outcome}} if step is StepName.EXPORT else {}
    )
    [note] = _runs_again(context, ["t"])
    assert f" --export-to {place} " in note
    assert note.count("--export-to") == 1
    assert "--clients-cut x " in note, "what else was said is said again"


def test_a_kept_tail_is_whole() -> None:
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    assert not_whole({a: 100, b: 7}, {a: 100, b: 0}) == []
    assert not_whole({a: 100, b: None}, {a: 101, b: 0}) == [
        "t-0: its tail begins at 100, the log at 101", "t-1: its tail begins at None, the log at 0",
    ]  # fmt: skip
    assert not_whole({a: 100}, {}) == ["t-0: its tail begins at 100, the log at None"]
