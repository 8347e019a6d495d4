"""How an automatic failover that meets something unforeseen ends; clusters are made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from drkit.config import Settings
from drkit.detect.seen import Sight
from drkit.detect.verdict import AutoFacts
from drkit.watch import automatic
from drkit.watch.automatic import AutoFailover
from tests.support.watch.moments import moment

PLAIN = {
    "clusters": {"a": {"bootstrap_servers": "a:1"}, "b": {"bootstrap_servers": "b:1"}},
    "flows": [{"source": "a", "target": "b"}],
}
FENCED = AutoFacts(agents_armed=("dc1",), agents_fenced=("dc1",))
LOST = moment(Sight.GONE, phi=20.0, gone_for=9.0, beat_silence=9.0, auto=FENCED)


def test_an_unforeseen_end_is_reported(monkeypatch: pytest.MonkeyPatch):
    """The claim remains: without an event mode auto would be held off in silence."""
    monkeypatch.setattr(automatic, "claim", lambda *_: "")

    def act(decision: Mapping[str, Any]) -> str:
        raise RuntimeError(f"decided by {decision['by']}")

    settings = Settings.model_validate(PLAIN)
    found = AutoFailover(settings, settings.flows[0], act)
    with capture_logs() as told:
        found.see(LOST, 0.0)
        found.wait()
    (stopped,) = (e for e in told if e["event"] == "automatic_failover_stopped")
    assert "drkit failover --resume or --abort" in stopped["hint"]
    assert "RuntimeError: decided by drkit watch on o1" in found.outcome
    assert not found.is_acting
