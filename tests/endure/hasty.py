"""``python -m tests.endure.hasty``: drkit forgets after seconds what is gone, and counts its epochs.

What it keeps for an hour or a day would not be full at the end of a run, and a line would rise until then.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from drkit.cli.main import main
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.flow_state import events
from drkit.monitoring import board
from drkit.replicate.epochs import Epochs
from drkit.topic_sync import sync

EPOCHS: Final = "ENDURE_EPOCHS"
"""The environment variable that names a file; it grows by a byte with each epoch."""


def _count_epochs(path: Path) -> None:
    begin = Epochs.begin

    def counted(epochs: Epochs) -> tuple[TaskAssignment, ...]:
        with path.open("ab") as file:
            file.write(b".")
        return begin(epochs)

    Epochs.begin = counted  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    sync.GRACE_MS, sync._PAUSE_MS = 10_000, 2_000  # type: ignore[misc]
    events._FORGOTTEN_SECONDS, board._HISTORY = 20.0, 20  # type: ignore[misc]
    if EPOCHS in os.environ:
        _count_epochs(Path(os.environ[EPOCHS]))
    main()
