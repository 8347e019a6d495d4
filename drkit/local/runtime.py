"""Java, Kafka's jars and an archive of loaded classes: what every local broker runs on.

The archive (class data sharing, JEP 350) holds what a broker loads while it starts, parsed and verified;
with it a broker starts in about half the time and 40 MB less. It is made once per Java and jar set by a
broker that only starts and stops.
"""

from __future__ import annotations

import os
from pathlib import Path
import tempfile
import time

from drkit.errors import Failed
from drkit.local.file_lock import locked
from drkit.local.jars import Progress, classpath
from drkit.local.java import archive_identity, find_java
from drkit.local.node import PROPERTIES_FILE, Runtime, prepare_broker
from drkit.local.ports import PortReservation
from drkit.local.spec import ClusterSpec, reserve_addresses
from drkit.local.storage import format_storage, random_kafka_uuid
from drkit.private_file import is_private

_TRAINING_SECONDS = 120.0


def find_runtime(cache: Path, progress: Progress) -> Runtime:
    """Fetch and check whatever is missing.

    :raises ConfigError: no usable Java, or pyspark is not installed
    :raises Failed: Kafka's jars could not be fetched
    """
    plain = Runtime(find_java(), classpath(cache, progress))
    jars = map(Path, plain.classpath.split(os.pathsep))
    archive = cache / "classes" / f"{archive_identity(plain.java, jars)}.jsa"
    with locked(
        cache / "locks" / "classes.lock", lambda: progress("waiting for another process that prepares Kafka")
    ):
        if not is_private(archive):
            progress("preparing Kafka to start faster (once; about ten seconds)")
            try:
                _train(plain, archive)
            except Failed as error:
                # Without it a start is only slower: the next cluster reports any real error.
                progress(f"brokers will start without a class archive: {error}")
                return plain
    return plain._replace(archive=archive)


def _train(runtime: Runtime, archive: Path) -> None:
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(archive.parent):
        raise Failed("cache_shared", where=str(archive.parent))
    fresh = archive.with_suffix(".new")
    spec = ClusterSpec("class-archive")
    with tempfile.TemporaryDirectory(prefix="drkit-class-archive-") as scratch, PortReservation() as ports:
        nodes = [reserve_addresses(spec, ports)]
        java = runtime.command(spec)
        broker = prepare_broker(spec, 0, nodes, Path(scratch), [*java, f"-XX:ArchiveClassesAtExit={fresh}"])
        format_storage(
            java, broker.folder / PROPERTIES_FILE, random_kafka_uuid(), [broker.folder / "data"], {}
        )
        ports.before_listen(nodes[0].listen.values())
        try:
            broker.start()
            broker.wait_ready(frozenset({0}), time.monotonic() + _TRAINING_SECONDS)
            broker.terminate(_TRAINING_SECONDS)
        finally:
            broker.kill()
    if not fresh.exists():
        raise Failed("no_class_archive", where=str(archive))
    fresh.rename(archive)
