"""The part of ``drkit verify`` that runs in Spark's executors: one range, both sides streamed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
import json
import resource
import time
from typing import Any

from drkit.config import ClusterSettings
from drkit.replicate.verify_compare import Rules, compare
from drkit.replicate.verify_finding import Counts, Finding, Kind
from drkit.replicate.verify_ranges import Range
from drkit.replicate.verify_read import LogStart, Reader

_readers: dict[str, tuple[str, Reader]] = {}


@dataclass(frozen=True, slots=True)
class RangeResult:
    """What became of one range."""

    topic: str
    partition: int
    source_from: int
    counts: Counts
    findings: list[Finding] = field(default_factory=list)
    undecided: str = ""
    first_waiting: int | None = None
    """First source record behind the frontier; None: all is copied."""
    seconds: float = 0.0
    peak_memory_bytes: int = 0

    def to_json(self) -> str:
        """The result as JSON, as it travels to the driver."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> RangeResult:
        """Read back what :meth:`to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        raw["counts"] = Counts.of(raw["counts"])
        raw["findings"] = [
            Finding(**{**f, "kind": Kind(f["kind"]), "fields": tuple(f["fields"])}) for f in raw["findings"]
        ]
        return cls(**raw)


def compare_range(piece: Range, source: ClusterSettings, target: ClusterSettings) -> RangeResult:
    """Compare one range; blocking.

    :raises Failed: a cluster stopped answering
    """
    started = time.monotonic()
    theirs, ours = _reader(source), _reader(target)
    rules = Rules(
        piece.source_compacted,
        piece.target_compacted,
        LogStart(theirs, piece.source),
        LogStart(ours, piece.target),
    )
    found = compare(
        theirs.read(piece.source, piece.source_from, piece.source_to),
        ours.read(piece.target, piece.target_from, piece.target_to),
        piece.segments,
        rules,
    )
    waiting = None
    if piece.lag_until is not None:
        waiting = next((s.offset for s in theirs.read(piece.source, piece.source_to, piece.lag_until)), None)
    return RangeResult(
        piece.source.topic,
        piece.source.partition,
        piece.source_from,
        found.counts,
        found.findings,
        found.undecided,
        waiting,
        time.monotonic() - started,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _reader(settings: ClusterSettings) -> Reader:
    """Spark reuses its Python workers, and a connected consumer is worth keeping."""
    known = _readers.get(settings.alias)
    address = settings.model_dump_json()
    if known is None or known[0] != address:
        if known is not None:
            known[1].close()
        known = _readers[settings.alias] = (address, Reader(settings))
    return known[1]
