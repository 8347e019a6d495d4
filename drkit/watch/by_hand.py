"""Commands of people to the observers: pause, resume, acknowledge. Recorded on the target for all."""

from __future__ import annotations

from typing import Any

from drkit.clock import Millis, wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.detect.note_kinds import Automatic, Pause
from drkit.detect.noticeboard import put_note
from drkit.errors import Refused
from drkit.kafka.admin import Cluster
from drkit.watch.claim import acknowledge


def pause(
    settings: Settings, flow: FlowSettings, by: str, why: str, wall: Millis = wall_ms
) -> dict[str, Any]:
    """Pause failovers: none is started or proposed until :func:`resume`; the watch continues.

    :raises DrkitError: the target does not accept the record
    """
    note = Pause(by, why, wall()).to_json()
    put_note(Cluster.connect(_target(settings, flow)), flow, Pause.KEY, note)
    return {"flow": flow.name, "paused": True, **note}


def resume(settings: Settings, flow: FlowSettings) -> dict[str, Any]:
    """End a pause. Raises DrkitError when the target does not accept the record."""
    put_note(Cluster.connect(_target(settings, flow)), flow, Pause.KEY, None)
    return {"flow": flow.name, "paused": False}


def acknowledged(settings: Settings, flow: FlowSettings, by: str, wall: Millis = wall_ms) -> Automatic:
    """Acknowledge the last automatic failover.

    :raises Refused: there was none
    """
    found = acknowledge(_target(settings, flow), flow, by, wall())
    if found is None:
        raise Refused(
            "nothing_to_acknowledge", where=f"flow {flow.name}", evidence="no observer ever began one"
        )
    return found


def _target(settings: Settings, flow: FlowSettings) -> ClusterSettings:
    return settings.sides(flow)[1]
