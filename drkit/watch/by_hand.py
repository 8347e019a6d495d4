"""What people tell the observers: pause, resume, acknowledge. Recorded on the target, for all of them."""

from __future__ import annotations

from typing import Any

from drkit.clock import Millis, wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.detect.marks import Automatic, Pause
from drkit.detect.noticeboard import put_note
from drkit.errors import Refused
from drkit.kafka.admin import Cluster
from drkit.watch.claim import acknowledge


def pause(
    settings: Settings, flow: FlowSettings, by: str, why: str, wall: Millis = wall_ms
) -> dict[str, Any]:
    """No failover is begun or proposed until somebody resumes; everything is still watched.

    :raises DrkitError: the target does not take it
    """
    note = Pause(by, why, wall()).to_json()
    put_note(Cluster.connect(_target(settings, flow)), flow, Pause.KEY, note)
    return {"flow": flow.name, "paused": True, **note}


def resume(settings: Settings, flow: FlowSettings) -> dict[str, Any]:
    """Take a pause back. Raises DrkitError when the target does not take it."""
    put_note(Cluster.connect(_target(settings, flow)), flow, Pause.KEY, None)
    return {"flow": flow.name, "paused": False}


def acknowledged(settings: Settings, flow: FlowSettings, by: str, wall: Millis = wall_ms) -> Automatic:
    """Somebody has looked at the last automatic failover.

    :raises Refused: there was none
    """
    found = acknowledge(_target(settings, flow), flow, by, wall())
    if found is None:
        raise Refused(
            "there is no automatic failover to acknowledge",
            where=f"flow {flow.name}",
            evidence="no observer ever began one",
            hint="drkit watch --once 5 shows what is seen now",
        )
    return found


def _target(settings: Settings, flow: FlowSettings) -> ClusterSettings:
    return settings.sides(flow)[1]
