"""The tail of one partition, from an export: read as often as it is needed, never kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from drkit.errors import Refused
from drkit.export.check import check_files, exported_records
from drkit.export.manifest import Manifest
from drkit.model import TopicPartition
from drkit.replay.records import Origin
from drkit.wire import Record

Read = Callable[[TopicPartition], Iterator[Record]]
"""The records of a partition of the old primary, in the order of their offsets."""


class Tail(NamedTuple):
    """The exported records of a partition of the old primary."""

    origin: Origin
    topic_id: UUID
    """On the old primary."""
    first: int
    end: int
    """Offsets on the old primary, half open."""
    records: int
    reading: Read
    term: int
    """Of the failover that left the records out."""

    @property
    def source(self) -> TopicPartition:
        """The partition on the old primary."""
        return self.origin.at

    def read(self) -> Iterator[Record]:
        """The records, in the order of their offsets. Raises Refused where a file is not what was written."""
        return self.reading(self.source)


class Export(NamedTuple):
    """What a replay needs of an export."""

    run_id: str
    sha256: str
    """Of the manifest."""
    cluster_id: str
    """Of the old primary."""
    flow: str
    """``source->target``."""
    tails: tuple[Tail, ...]
    """Of partitions with records, by topic and partition."""

    def of_topics(self, topics: frozenset[str]) -> Export:
        """The tails of some topics.

        :raises Refused: a topic has no tail
        """
        known = {tail.source.topic for tail in self.tails}
        if unknown := sorted(topics - known):
            raise Refused(
                "export_without_topic",
                where=f"export {self.run_id} of {self.flow}",
                evidence=f"{', '.join(unknown)}; it has {', '.join(sorted(known)) or 'none of any topic'}",
            )
        return self._replace(tails=tuple(t for t in self.tails if t.source.topic in topics))

    def kept(self) -> Export:
        """The same, of tails that the old primary keeps."""
        tails = (t._replace(origin=t.origin._replace(is_kept=True)) for t in self.tails)
        return self._replace(tails=tuple(tails))


def export_at(path: str, sha256: str | None = None) -> Export:
    """The export of a manifest; all files are checked first.

    :param sha256: what the journal says of the manifest; None: unknown here
    :raises Refused: something is not what was written
    :raises Failed: the folder cannot be read
    """
    manifest = check_files(path, sha256)

    def read(at: TopicPartition) -> Iterator[Record]:
        found = exported_records(path, at.topic, at.partition, manifest)
        return (Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found)

    return Export(
        manifest.run, manifest.sha256, manifest.cluster_id, manifest.flow,
        tuple(_tails(manifest, read)),
    )  # fmt: skip


def _tails(manifest: Manifest, read: Read) -> Iterator[Tail]:
    for p in manifest.partitions:
        if p.records:
            origin = Origin(manifest.cluster_id, TopicPartition(p.topic, p.partition), manifest.run)
            yield Tail(origin, p.topic_id, p.first, p.end, p.records, reading=read, term=manifest.term_of(p))
