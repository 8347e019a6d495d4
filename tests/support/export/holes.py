"""The holes of an export, read without drkit's reader of them."""

from __future__ import annotations

import json
from pathlib import Path

from drkit.export.manifest import Manifest
from drkit.export.record import HoleKind


def holes_of(path: str, manifest: Manifest, topic: str, partition: int) -> dict[int, HoleKind]:
    """Every offset in a hole, and its kind."""
    found = manifest.partition(topic, partition)
    assert found is not None
    holes: dict[int, HoleKind] = {}
    for part in found.parts:
        if part.holes_file is not None:
            file = Path(path).parent / found.folder / part.holes_file.name
            for hole in map(json.loads, file.read_bytes().splitlines()):
                holes |= dict.fromkeys(range(hole["first"], hole["end"]), HoleKind(hole["kind"]))
    return holes
