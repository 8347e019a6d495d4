"""Exports records of the old primary: a Spark job writes the files, a second one reads them back.

Modules that export only sometimes, as a failover's steps, import this one: it loads Spark when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drkit.config import FlowSettings, Settings
from drkit.export.manifest import Manifest, TailRange
from drkit.export.request import NO_CONF, Progress
from drkit.export.request import CopiedBack as CopiedBack
from drkit.export.request import Exported as Exported
from drkit.export.request import ExportRequest as ExportRequest


def export_tails(
    settings: Settings,
    flow: FlowSettings,
    request: ExportRequest,
    tails: Sequence[TailRange],
    skip: CopiedBack,
    progress: Progress = lambda _line: None,
) -> Exported:
    """Export ranges of offsets of the flow's source, and read the files back.

    A complete export of the same run and the same ranges is kept, and its files are hashed again. One that
    was interrupted, and so has no manifest, is replaced. After a failure nothing is left.

    :param tails: one range of a partition at most
    :param skip: records that drkit itself has written there: they are named as copied back, not exported
    :raises ConfigError: no such format, no such folder or URL, or an id that is not a valid folder name
    :raises Refused: a local folder with a Spark cluster, a range that cannot be read whole, another export
        in the run's folder, or files that are not what was written
    :raises Failed: the storage is full or refuses the write, or a cluster stopped answering
    """
    from drkit.export.jobs import export_by_spark  # noqa: PLC0415  loads Spark

    return export_by_spark(settings, flow, request, tails, skip, progress)


def read_back(
    path: str,
    sha256: str | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] = NO_CONF,
    progress: Progress = lambda _line: None,
) -> Manifest:
    """Read every file of an export in a Spark job, and build the chains again.

    :param path: of the manifest
    :param sha256: the hash that the manifest must have; None: the one that it names itself
    :raises ConfigError: there is no manifest, or no such Spark
    :raises Refused: a file, a record or the manifest is not what was written; names the file or the offset
    :raises Failed: the folder cannot be read
    """
    from drkit.export.jobs import read_by_spark  # noqa: PLC0415  loads Spark

    return read_by_spark(path, sha256, master, conf, progress)
