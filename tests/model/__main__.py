"""Replays one schedule of the model: ``python -m tests.model SEED [STEPS]``."""

from __future__ import annotations

import sys

from tests.model.explorer import Explorer

explorer = Explorer(int(sys.argv[1]))
explorer.run(int(sys.argv[2]) if len(sys.argv) > 2 else 400)
sys.stdout.write(f"seed {explorer.seed}: {explorer.steps} steps, all as promised\n")
