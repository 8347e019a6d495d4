"""Format the storage of a cluster's nodes with Kafka's own tool, once for all clusters that are alike."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
import subprocess
from tempfile import TemporaryFile
import threading
import uuid

from drkit.errors import Failed
from drkit.local.process import Launched
from drkit.local.spec import properties_text

_TOOL = "kafka.tools.StorageTool"
_META = "meta.properties"
_TOOL_SECONDS = 120.0
_formatted: dict[tuple[object, ...], Mapping[str, bytes]] = {}
"""By what the tool was asked for, the files that it has written beside the one that names the node."""
_one_at_a_time = threading.Lock()


def random_kafka_uuid() -> str:
    """A UUID as Kafka writes it: URL-safe base64 without padding; a leading dash would read as an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def format_storage(
    java: Sequence[str],
    properties: Path,
    cluster_id: str,
    folders: Sequence[Path],
    scram_users: Mapping[str, str],
    mechanisms: Sequence[str] = ("SCRAM-SHA-512",),
) -> None:
    """Format ``folders``, the data folder of node 0, 1, ...; ``properties`` are those of node 0.

    What is written does not depend on the cluster and the node, besides the one file that names them. So the
    tool, a JVM that works for a second, runs once in a process for each set of users.

    :raises Failed: the tool refused; its words are the evidence
    """
    scram = [
        f"{mechanism}=[name={user},password={password}]"
        for mechanism in mechanisms
        if mechanism.startswith("SCRAM-")
        for user, password in scram_users.items()
    ]
    with _one_at_a_time:
        asked = (*java, *scram)
        if asked not in _formatted:
            _format(java, properties, cluster_id, scram)
            written = [file for file in folders[0].iterdir() if file.name != _META]
            _formatted[asked] = {file.name: file.read_bytes() for file in written}
    for node_id, folder in enumerate(folders):
        folder.mkdir(exist_ok=True)
        for name, content in _formatted[asked].items():
            (folder / name).write_bytes(content)
        meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id)}
        (folder / _META).write_text(properties_text(meta | {"directory.id": random_kafka_uuid()}))


def _format(java: Sequence[str], properties: Path, cluster_id: str, scram: Sequence[str]) -> None:
    command = [*java, _TOOL, "format", "--cluster-id", cluster_id, "--config", str(properties)]
    command += [word for user in scram for word in ("--add-scram", user)]
    with TemporaryFile() as console:
        tool = Launched(command, console)
        try:
            code = tool.wait(_TOOL_SECONDS)
        except subprocess.TimeoutExpired as error:
            tool.kill_launcher()
            raise Failed("format_does_not_end", where=str(properties)) from error
        console.seek(0)
        printed = console.read().decode(errors="replace")
    if code != 0:
        raise Failed("format_failed", where=str(properties), evidence=printed[-1500:])
