"""The tails of primaries that died under load: what they are, and what was exported of them."""

from __future__ import annotations

from collections.abc import Iterator

from drkit.export.check import check_files, exported_records
from tests.support.failback.rounds import Log
from tests.support.flows.compare import Seen

Tails = dict[str, Log]


def common(theirs: list[Seen], ours: list[Seen]) -> int:
    """How many records both sides begin with."""
    pairs = zip(theirs, ours, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a.content != b.content), min(len(theirs), len(ours)))


def is_the_truth(tails: Tails, path: str, sha256: str) -> None:
    """What was exported is the tails, record by record."""
    manifest = check_files(path, sha256)
    assert {(p.topic, p.partition) for p in manifest.partitions if p.records} == set(_partitions(tails))
    for topic, p in _partitions(tails):
        exported = [(r.offset, r.key, r.value, r.timestamp, r.headers)
                    for r in exported_records(path, topic, p, manifest)]  # fmt: skip
        assert exported == [
            (s.offset, s.key, s.value, s.timestamp, tuple((k.encode(), v) for k, v in s.headers))
            for s in tails[topic][p]
        ], (topic, p)


def _partitions(tails: Tails) -> Iterator[tuple[str, int]]:
    return ((topic, p) for topic, log in tails.items() for p in log)


def is_overtaken(value: bytes, log: Log) -> bool:
    """Whether its key has a newer value: on a compacted topic an older one is not replayed."""
    number = int(value.split()[1])
    key = b"keys%d" % (number % 7)
    return any(s.key == key and s.value is not None and int(s.value.split()[1]) > number
               for records in log.values() for s in records)  # fmt: skip
