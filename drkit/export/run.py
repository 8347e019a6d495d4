"""Exports records of the old primary: a Spark job writes the files, a second one reads them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from drkit.config import FlowSettings, Settings
from drkit.export.manifest import Manifest, TailRange
from drkit.spark.conf import NO_CONF

Progress = Callable[[str], None]
"""Gets a sentence from time to time."""


class ExportRequest(NamedTuple):
    """Where to export to, and how."""

    to: str
    """A folder, or a URL of one as pyarrow knows them: ``s3://``, ``gs://``, ``hdfs://``."""
    run_id: str
    """The export's own folder below `to`; the caller holds the lock on this run."""
    format: str = "parquet"
    """``parquet`` or ``jsonl``."""
    master: str | None = None
    """Of Spark; None: this machine."""
    conf: Mapping[str, str] = NO_CONF
    """Settings of Spark."""
    term: int = 0
    """The newest term of the flow's roles, for the manifest."""


class Exported(NamedTuple):
    """A complete export."""

    path: str
    """Of the manifest."""
    sha256: str
    """Of the manifest; what the journal keeps."""
    manifest: Manifest
    is_reused: bool = False
    """It was complete before, and its files still are what they were."""


def export_tails(
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip_ids: frozenset[int],
    progress: Progress = lambda _line: None,
) -> Exported:
    """Export ranges of offsets of the flow's source, and read the files back.

    A complete export of the same run and the same ranges is kept; its files are hashed again. An export
    of the run that was interrupted is replaced.

    :param skip_ids: producers that are drkit's own: their records are named as copied back, not exported
    :raises ConfigError: no such format, no such place, or an id that is no name of a folder
    :raises Refused: a local folder with a Spark cluster, a range that cannot be read whole, another export
        in the run's folder, or files that are not what was written
    :raises Failed: the place is full or refuses the write, or a cluster stopped answering
    """
    raise NotImplementedError


def read_back(
    path: str,
    sha256: str | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] = NO_CONF,
    progress: Progress = lambda _line: None,
) -> Manifest:
    """Read every file of an export in a Spark job, and make the chains again.

    :param path: of the manifest
    :param sha256: the hash that the manifest must have; None: the one that it names itself
    :raises Refused: a file, a record or the manifest is not what was written; names the file or the offset
    """
    raise NotImplementedError
