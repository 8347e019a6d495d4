"""``python -m tests.endure.hasty``: drkit with a grace of seconds for what is deleted."""

from __future__ import annotations

from drkit.cli.main import main
from drkit.topic_sync import sync

if __name__ == "__main__":
    sync.GRACE_MS, sync._PAUSE_MS = 10_000, 2_000  # type: ignore[misc]
    main()
