"""One copy task as a process: the job as JSON on standard input, the report as JSON on the last line."""

from __future__ import annotations

import json
import sys

from drkit.config import ClusterSettings, FlowSettings
from drkit.copy_task.copier import copy_task
from drkit.copy_task.core.assignment import TaskAssignment


def main() -> None:
    job = json.load(sys.stdin)
    report = copy_task(
        TaskAssignment.from_json(job["lease"]),
        ClusterSettings(**job["source"]),
        ClusterSettings(**job["target"]),
        FlowSettings(**job["flow"]),
    )
    sys.stdout.write(json.dumps(report.as_dict()) + "\n")


if __name__ == "__main__":
    main()
