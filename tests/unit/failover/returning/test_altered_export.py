"""What is said of an export that is not what was written: by who else has its records. No broker."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from drkit import errors
from drkit.config import FlowSettings
from drkit.errors import ExportAltered, Refused
from drkit.export.check import PUT_BACK, altered
from drkit.failover.core.request import RunRequest
from drkit.failover.old_primary.altered import of_earlier, of_own, only_copy, way_out
from drkit.flow_state.records import IncompleteRecord, TailRecord, UnreplayedRecord
from drkit.journal.machine import StepName

MANIFEST = "/saved/r1-5a/manifest.json"
FLOW = FlowSettings(source="a", target="b", topics=(".*",))
CHECK = f"{PUT_BACK}: drkit divergence verify {MANIFEST}"
NEXT = "drkit reprotect --flow 'a->b'"
INCOMPLETE = IncompleteRecord("r1", 1, {0: 9})
LEFT = UnreplayedRecord("r1", 1, 9, MANIFEST, "ab", "replay")
TAIL = TailRecord("r1", 1, 9, {0: (0, 9)}, MANIFEST, "ab", "discard")


def context(*emptied: str) -> Any:
    begun: dict[str, Any] = {f"empty {topic}": {} for topic in emptied}
    return SimpleNamespace(
        flow=FLOW, result=lambda _: {"manifest": MANIFEST}, run_id="r1", request=RunRequest(),
        named_topics=(), until_export=False,
        effects=lambda step: begun if step is StepName.BEGIN else {"hold": {}},
    )  # fmt: skip


def said(hint: Any) -> str:
    with pytest.raises(Refused) as caught, way_out(hint):
        raise altered(MANIFEST, "missing: x")
    return caught.value.hint


def test_records_that_the_old_primary_still_has_are_exported_again() -> None:
    assert said(partial(of_own, context("other"), ["t"])) == (
        f"a still has the records of t: {CHECK}; then: drkit reprotect --resume; or export them again:"
        " drkit reprotect --abort, then: drkit reprotect --flow 'a->b' --export-to PLACE"
    )


@pytest.mark.parametrize(
    ("begun", "given_up"),
    [
        (False, f"{NEXT} --disposition t=discard --disposition 'two words=discard' --reason \"WHY\""),
        (True, f"drkit replay --from {MANIFEST} --topic t --topic 'two words' --give-up \"WHY\""),
    ],
)
def test_an_export_of_an_emptied_topic_is_the_only_copy(given_up: str, *, begun: bool) -> None:
    found = said(partial(of_own, context("t", "two words"), ["t", "two words", "u"], begun=begun))
    assert found == (
        f"t, two words: emptied on a, so the export is the only copy: {CHECK}; then: drkit reprotect"
        " --resume; without a copy of it give the records up by name: drkit reprotect --abort, then:"
        f" {given_up}"
    )
    assert "export again" not in found


@pytest.mark.parametrize(
    ("emptied", "given_up"),
    [
        ((), 'drkit reprotect --resume --disposition t=discard --reason "WHY"'),
        (("t",), f'drkit replay --from {MANIFEST} --topic t --give-up "WHY", then: drkit reprotect --resume'),
    ],
)
def test_what_the_old_primary_has_lost_since_is_given_up_by_name(
    emptied: tuple[str, ...], given_up: str
) -> None:
    found = said(partial(of_earlier, context(*emptied), "t", MANIFEST))
    assert found.endswith(f"; without a copy of it give them up by name: {given_up}")
    assert CHECK in found
    assert "export again" not in found


@pytest.mark.parametrize(
    ("records", "way"),
    [
        ({UnreplayedRecord: {"t/r1-5a": LEFT}}, f'drkit replay --from {MANIFEST} --topic t --give-up "WHY"'),
        (
            {TailRecord: {"t": TAIL}, IncompleteRecord: {"t": INCOMPLETE}},
            "drkit reprotect --flow 'a->b' --disposition t=discard --reason \"WHY\"",
        ),
        ({TailRecord: {"t": TAIL}}, ""),
        ({}, ""),
    ],
    ids=["a replay is left", "emptied", "not emptied", "nothing on record"],
)
def test_what_is_on_record_says_whether_an_export_is_the_only_copy(
    records: dict[type, dict[str, Any]], way: str
) -> None:
    kinds: dict[type, dict[str, Any]] = {TailRecord: {}, IncompleteRecord: {}, UnreplayedRecord: {}} | records
    state: Any = SimpleNamespace(all=kinds.__getitem__, get=lambda kind, name: kinds[kind].get(name))
    found = only_copy(state, FLOW, MANIFEST)
    assert found.endswith(way)
    assert bool(found) == bool(way)
    assert only_copy(state, FLOW, "/other/manifest.json") == ""


def test_elsewhere_both_ways_out_are_named() -> None:
    hint = altered(MANIFEST, "x").hint
    assert "drkit divergence verify MANIFEST" in hint
    assert "while the old primary has the records, export again" in hint
    assert "the export is the only copy" in hint


def test_a_task_of_spark_answers_with_the_same_error() -> None:
    """A task names the class, and the driver finds it among drkit's errors."""
    assert getattr(errors, type(altered(MANIFEST, "x")).__name__) is ExportAltered
