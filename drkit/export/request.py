"""What is asked of an export, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from drkit.export.manifest import Manifest

Progress = Callable[[str], None]
"""Gets a sentence from time to time."""
NO_CONF: Final[Mapping[str, str]] = {}
NO_TERMS: Final[Mapping[str, int]] = {}


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
    terms: Mapping[str, int] = NO_TERMS
    """Topic → term of the failover that left its records out, for the manifest."""


class Exported(NamedTuple):
    """A complete export."""

    path: str
    """Of the manifest."""
    sha256: str
    """Of the manifest; what the journal keeps."""
    manifest: Manifest
    is_reused: bool = False
    """It was complete before, and its files still are what they were."""
    peak_memory_bytes: int = 0
    """Of the largest task."""
