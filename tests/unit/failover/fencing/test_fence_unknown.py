"""What a canary that some partitions do not answer is worth: neither a proof of the fence nor of writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drkit.errors import ClusterUnreachable, DrkitError, Failed, Refused
from drkit.failover import pending_fences as canary_answers
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.proof import WRITABLE, Proof, code_name
from drkit.failover.steps.fence import FenceStep
from drkit.model import TopicPartition
from tests.support.errors import sentence

SILENT, TAKING = TopicPartition("orders", 0), TopicPartition("orders", 1)
UNKNOWN = Proof({}, (), {SILENT: "no answer"}, frozenset({SILENT}))
MIXED = UNKNOWN._replace(open={**UNKNOWN.open, TAKING: code_name(WRITABLE)})


def context(**request: Any) -> Any:
    return SimpleNamespace(
        flow=SimpleNamespace(source="a"), request=RunRequest(**request), source=object,
        result=lambda _: {"how": "acl"}, source_settings=None, state=None,
        settings=SimpleNamespace(failover=SimpleNamespace(fence=SimpleNamespace(canary={}))),
    )  # fmt: skip


@pytest.mark.parametrize("planned", [False, True])
def test_silence_holds_the_failover_as_silence(*, planned: bool) -> None:
    with pytest.raises(ClusterUnreachable) as caught:
        FenceStep()._unproven(context(planned=planned), UNKNOWN)
    assert caught.value.what == sentence("fence_unproven", state="does not answer in 1 partition")
    assert "super users" not in caught.value.hint
    assert "--accept-data-loss" in caught.value.hint


def test_partitions_that_take_a_record_are_counted_without_the_silent_ones() -> None:
    with pytest.raises(Refused) as caught:
        FenceStep()._unproven(context(), MIXED)
    assert caught.value.what == sentence("fence_leaks", partitions="1 partition")
    assert "super users" in caught.value.hint


@pytest.mark.parametrize(
    ("proof", "error", "in_words"),
    [
        (UNKNOWN, ClusterUnreachable, "does not answer in 1 partition"),
        (MIXED, Failed, "still takes writes in 1 partition"),
    ],
)
def test_neither_proves_that_the_fence_holds(
    monkeypatch: pytest.MonkeyPatch, proof: Proof, error: type[DrkitError], in_words: str
) -> None:
    monkeypatch.setattr(FenceStep, "_proof", lambda *_: proof)
    with pytest.raises(error) as caught:
        FenceStep().prove(context())
    assert (type(caught.value), caught.value.what) == (
        error,
        sentence("fence_unproven", state=in_words),
    )


@pytest.mark.parametrize(
    ("proof", "told"),
    [
        (UNKNOWN, "unknown: partitions 0 (no answer)"),
        (MIXED, "yes: partitions 1, 0 (no answer)"),
    ],
)
def test_what_is_shown_of_a_topic(monkeypatch: pytest.MonkeyPatch, proof: Proof, told: str) -> None:
    monkeypatch.setattr(canary_answers, "canary_rights", lambda *_: None)
    monkeypatch.setattr(canary_answers, "prove", lambda *_: proof)
    assert canary_answers.canary_answers(context(), ["orders"]) == {"orders": told}
