"""A partition that does not answer the canary is not said to take writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drkit.errors import ClusterUnreachable, DrkitError, Refused
from drkit.failover.fencing.proof import Proof
from drkit.failover.returning import contact
from drkit.model import TopicPartition

SILENT, OPEN = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _refused(monkeypatch: pytest.MonkeyPatch, proof: Proof) -> DrkitError:
    context: Any = SimpleNamespace(
        settings=SimpleNamespace(failover=SimpleNamespace(fence=SimpleNamespace(canary={}))),
        scope=SimpleNamespace(topics={"orders": "orders"}), source_settings=None, clock=None,
        flow=SimpleNamespace(name="a->b", source="a", target="b"), run_id="r1", source_error="",
        effects=lambda _: {"hold": {}},
    )  # fmt: skip
    monkeypatch.setattr(contact, "prove", lambda *_: proof)
    monkeypatch.setattr(contact, "unplanned", lambda _: {"orders": None})
    with pytest.raises(DrkitError) as caught:
        contact.refuse_open(context)
    return caught.value


def test_silence_is_no_write(monkeypatch: pytest.MonkeyPatch) -> None:
    error = _refused(monkeypatch, Proof({}, (), {SILENT: "no answer"}, frozenset({SILENT})))
    assert isinstance(error, ClusterUnreachable)
    assert (error.code, error.evidence) == ("old_primary_unreachable", f"{SILENT}: no answer")
    assert "drkit reprotect --resume" in error.hint


def test_one_that_takes_a_record_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = Proof({}, (), {SILENT: "no answer", OPEN: "writable"}, frozenset({SILENT}))
    error = _refused(monkeypatch, proof)
    assert isinstance(error, Refused)
    assert error.code == "old_primary_takes_writes"
