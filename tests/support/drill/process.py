"""A drill in a process of its own, to be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import json
import subprocess
import sys

from pydantic import TypeAdapter

from drkit.config import Settings
from drkit.drill.plan import DrillPlan

_PROGRAM = """
import json, sys
from pydantic import TypeAdapter
from drkit.config import Settings
from drkit.drill.history import DrillHistory
from drkit.drill.plan import DrillPlan
from drkit.drill.run_drill import run_drill
from drkit.drill.steps import DrillOptions
given = json.load(sys.stdin)
settings = Settings.model_validate(given["settings"])
history = DrillHistory.of(settings)
with history.lock():
    plan = TypeAdapter(DrillPlan).validate_python(given["plan"])
    run_drill(settings, plan, history, DrillOptions(begun=lambda step: print(step, flush=True)))
"""


@contextmanager
def drill_in(step: str, settings: Settings, plan: DrillPlan) -> Iterator[subprocess.Popen[str]]:
    """Start a drill, and yield its process when a step has begun; it is killed at the end."""
    given = {
        "settings": json.loads(settings.model_dump_json()),
        "plan": TypeAdapter(DrillPlan).dump_python(plan, mode="json"),
    }
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=-1, stdout=-1, text=True) as drill:
        assert drill.stdin is not None
        assert drill.stdout is not None
        drill.stdin.write(json.dumps(given))
        drill.stdin.close()
        assert f"{step}\n" in iter(drill.stdout.readline, "")
        yield drill
        drill.kill()
