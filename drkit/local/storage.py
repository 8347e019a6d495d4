"""Format the storage of a cluster's nodes with Kafka's own tool, once per cluster."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
import shutil
import subprocess
import uuid

from drkit.errors import Failed

_TOOL = "kafka.tools.StorageTool"
_META = "meta.properties"
_TOOL_SECONDS = 120.0


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

    The nodes of a cluster differ only by their node id and directory id, so the tool, a JVM of its own,
    runs once.

    :raises Failed: the tool refused; its words are the evidence
    """
    command = [*java, _TOOL, "format", "--cluster-id", cluster_id, "--config", str(properties)]
    for mechanism in (m for m in mechanisms if m.startswith("SCRAM-")):
        for user, password in scram_users.items():
            command += ["--add-scram", f"{mechanism}=[name={user},password={password}]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed("formatting a broker's storage does not end", where=str(properties)) from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout)[-1500:]
        raise Failed("a broker's storage could not be formatted", where=str(properties), evidence=said)
    first, *others = folders
    for node_id, folder in enumerate(others, start=1):
        shutil.copytree(first, folder)
        (folder / _META).write_text(
            f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={random_kafka_uuid()}\n"
        )
