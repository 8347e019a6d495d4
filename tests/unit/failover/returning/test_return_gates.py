"""What is found on the old primary, and what follows: which method, and which are refused. No broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import json
from types import MappingProxyType, SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.failover.core.context import Scope
from drkit.failover.core.read_cache import ReadCache
from drkit.failover.core.request import Method, RunRequest
from drkit.failover.loss.findings import CopyFate, DivergenceState, PartitionDivergence
from drkit.failover.returning.compare import NeedsMethod, method_of, of_json, to_json, why_unsound
from drkit.failover.returning.exporting import refuse_lacking
from drkit.failover.returning.gates import refuse_methods
from drkit.flow_state.records import IncompleteRecord
from drkit.model import TopicPartition
from tests.support.errors import coded

CLEAN = PartitionDivergence("t", 0, DivergenceState.CLEAN, 10, 10, proven=True)
DIVERGED = CLEAN._replace(found=DivergenceState.DIVERGED, end=14, records=4)


def refused(tail: PartitionDivergence, method: Method, **request: Any) -> str:
    """Return the code with which a method is refused for a partition; no cluster is asked."""
    return refusal(tail, method, **request).code


def refusal(
    tail: PartitionDivergence,
    method: Method,
    *,
    incomplete: IncompleteRecord | None = None,
    more: Mapping[TopicPartition, Method] = MappingProxyType({}),
    run_id: str = "",
    flows: Sequence[FlowSettings] = (),
    **request: Any,
) -> Refused:
    """The refusal of a method for a partition.

    :param incomplete: what an aborted return has left
    :param more: other partitions
    :param run_id: of the run that is under way
    """
    context: Any = SimpleNamespace(
        settings=SimpleNamespace(flows=flows, clusters=dict.fromkeys(("p", "s"))),
        flow=SimpleNamespace(name="p->s", source="p", target="s"),
        scope=Scope({"t": "t"}, (), whole_flow=False),
        kept=ReadCache(),
        request=RunRequest(**request),
        run_id=run_id,
        named_topics=(),
        until_export=False,
        effects=lambda _: {"hold": {}},
        state=SimpleNamespace(get=lambda *_: incomplete),
    )
    at = TopicPartition("t", 0)
    why = why_unsound(tail, proven=False, copied_back=None)
    with pytest.raises(Refused) as caught:
        refuse_methods(context, [NeedsMethod(tail, why)], {at: method, **more})
    return caught.value


def test_a_flow_that_would_copy_rebuilt_records_twice_is_named() -> None:
    reports = FlowSettings(source="p", target="r", topics=("t", "u"))
    error = refused(DIVERGED, Method.REBUILD, flows=[FlowSettings(source="p", target="s"), reports])
    assert error == "other_flow_reads"


def test_partitions_that_only_the_old_primary_has_are_refused() -> None:
    assert refused(DIVERGED._replace(found=DivergenceState.MORE), Method.REBUILD) == "fewer_partitions"


def test_a_partition_that_is_not_the_beginning_of_the_other_does_not_continue() -> None:
    assert refused(DIVERGED, Method.DELTA) == "delta_out_of_order"


def test_a_refusal_names_a_command_that_can_be_typed_now() -> None:
    """Before a run begins there is nothing to resume."""
    for method in (Method.DELTA, Method.KEEP):
        tail = DIVERGED._replace(proven=False)
        assert refusal(tail, method).hint.startswith("drkit reprotect --flow 'p->s' --method")
        assert refusal(tail, method, run_id="r1").hint.startswith("drkit reprotect --resume --method")


def test_a_copy_that_lost_records_is_not_trimmed() -> None:
    short = CLEAN._replace(copy=CopyFate.REGRESSED, copy_end=7)
    assert refused(short, Method.TRIM) == "new_primary_lost_records"


def test_an_export_with_fewer_records_than_were_compared_is_refused() -> None:
    wrong = [NeedsMethod(DIVERGED, "it has a tail"), NeedsMethod(DIVERGED._replace(partition=1), "it, too")]

    def exported(*records: int) -> Any:
        there = [SimpleNamespace(topic="t", partition=p, records=n) for p, n in enumerate(records)]
        return SimpleNamespace(path="/saved/manifest.json", manifest=SimpleNamespace(partitions=there))

    refuse_lacking(wrong, exported(4, 5))
    for lacking, said in ((exported(4, 3), "t-1: 3 of 4"), (exported(4), "t-1: 0 of 4")):
        with pytest.raises(Refused, check=coded("export_short")) as caught:
            refuse_lacking(wrong, lacking)
        assert caught.value.evidence == said


@pytest.mark.parametrize(
    ("tail", "seen"),
    [
        (CLEAN._replace(proven=False), "could not be proven"),
        (DIVERGED._replace(proven=False), "could not be proven"),
        (DIVERGED._replace(proven=False, why="epochs"), "epochs"),
        (DIVERGED._replace(found=DivergenceState.REGROWN, differs_from=7), "regrown"),
        (DIVERGED._replace(found=DivergenceState.RECREATED), "recreated"),
        (DIVERGED._replace(found=DivergenceState.REGRESSED, records=0), "regressed"),
        (DIVERGED._replace(only_new=2), "only on the new primary"),
        (DIVERGED._replace(copy=CopyFate.REGRESSED), "its copy is regressed"),
        (DIVERGED._replace(records=0), "diverged"),
    ],
)
def test_a_tail_is_kept_behind_a_proven_beginning_only(tail: PartitionDivergence, seen: str) -> None:
    error = refusal(tail, Method.KEEP)
    assert error.code == "keep_unproven"
    assert seen in error.evidence


def test_a_tail_is_not_kept_where_an_aborted_return_has_emptied_the_beginning() -> None:
    error = refusal(DIVERGED, Method.KEEP, incomplete=IncompleteRecord("r1", 1, {0: 14}))
    assert "the return r1, which was aborted, has emptied it" in error.evidence


def test_a_topic_of_which_a_partition_has_to_be_emptied_keeps_no_tail() -> None:
    """A partition that is younger than the failover has records of its own on both sides."""
    error = refusal(DIVERGED, Method.KEEP, more={TopicPartition("t", 1): Method.REBUILD})
    assert error.evidence == "t-1: it is younger than the failover"


@pytest.mark.parametrize("chosen", ["discard", "quarantine"])
def test_a_kept_tail_is_replayed(chosen: str) -> None:
    for name in ("t", "*"):
        error = refusal(DIVERGED, Method.KEEP, dispositions={name: chosen})
        assert error.code == "keep_contradicts"
        assert chosen in error.evidence


@pytest.mark.parametrize(
    ("tail", "proven", "back", "why"),
    [
        (CLEAN, False, None, ""),
        (CLEAN._replace(proven=False), True, None, ""),
        (CLEAN._replace(proven=False), False, None, "could not be proven"),
        (CLEAN._replace(only_new=3), False, None, "it does not have 3 records of the new primary"),
        (CLEAN._replace(only_new=1), False, None, "it does not have 1 record of the new primary"),
        (CLEAN, True, 12, "copied back to it before, at 12"),
        (CLEAN._replace(outlived=1), True, None, "1 key deleted on the new primary lives on"),
        (CLEAN._replace(outlived=None, why="too many"), True, None, "too many; keys that were deleted"),
        (CLEAN._replace(copy=CopyFate.REGRESSED), False, None, "its copy is regressed"),
        (DIVERGED, True, None, "diverged"),
    ],
)
def test_what_may_continue(tail: PartitionDivergence, *, proven: bool, back: int | None, why: str) -> None:
    said = why_unsound(tail, proven=proven, copied_back=back)
    assert (why in said) if why else not said


@pytest.mark.parametrize("chosen", [None, *Method])
@pytest.mark.parametrize("is_sound", [True, False])
def test_the_default_is_exact_and_a_sound_partition_just_continues(
    chosen: str | None, *, is_sound: bool
) -> None:
    found = method_of(chosen, is_sound=is_sound)
    if chosen is None:
        assert found is (Method.DELTA if is_sound else Method.REBUILD)
    elif chosen in {Method.TRIM, Method.KEEP}:
        assert found is (Method.DELTA if is_sound else Method(chosen))
    else:
        assert found == chosen


tails = st.builds(
    PartitionDivergence,
    st.text(min_size=1, max_size=9), st.integers(0, 9), st.sampled_from(DivergenceState),
    st.integers(0, 99), st.none() | st.integers(0, 99),
    records=st.integers(0, 9), only_new=st.integers(0, 9), copy=st.sampled_from(CopyFate),
)  # fmt: skip


@given(st.lists(st.builds(NeedsMethod, tails, st.text(max_size=9)), max_size=4))
def test_what_was_found_is_read_from_the_journal_as_it_was_written(partitions: list[NeedsMethod]) -> None:
    plain = json.loads(json.dumps(to_json(partitions)))
    assert of_json(plain) == partitions
    later = [{**entry, "of a later version": 1} for entry in plain]
    assert of_json(later) == partitions
    for u in partitions:
        first, end = u.span
        assert 0 <= first <= end or end == 0
