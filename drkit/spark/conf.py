"""Spark's settings: the user's own, those that drkit must set itself, and what keeps secrets off the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import os
from pathlib import Path
import sys
from typing import Final

from drkit.config import FlowSettings, Settings
from drkit.config.mm2.properties import MalformedEscape, parse
from drkit.errors import ConfigError, Refused, error_text
from drkit.masking import is_secret, is_secret_argument
from drkit.spark.jvm import IMPORTS_WITHOUT_THREADS, NO_CURRENT_FOLDER, QUICK_JVM
from drkit.spark.master import Master, MasterRoute

_SECRET: Final = "spark.authenticate.secret"  # noqa: S105  its name
_PYTHON: Final = "spark.pyspark.python"
_PYTHON_PATH: Final = "spark.executorEnv.PYTHONPATH"
_IMAGE: Final = "spark.kubernetes.container.image"
_TLS: Final = "spark.ssl.rpc.enabled"
_AUTHENTICATE: Final = "spark.authenticate"
_ENCRYPT: Final = "spark.network.crypto.enabled"
NO_CONF: Final[Mapping[str, str]] = {}
OWNED: Final = {
    "spark.master": "it is --master",
    "spark.submit.deployMode": "the driver is this process",
    "spark.driver.extraJavaOptions": "drkit sets it; JAVA_TOOL_OPTIONS adds to it",
    "spark.python.daemon.module": "drkit has a daemon of its own",
    "spark.python.worker.module": "drkit's daemon forks Spark's own workers",
    "spark.python.worker.reuse": "connections stay open in the workers",
    "spark.pyspark.driver.python": "the driver's Python is this one",
    "spark.speculation": "a second copy of a task waits for the same source",
    "spark.dynamicAllocation.enabled": "a copy task holds its slot for as long as the flow runs",
    "spark.broadcast.UDFCompressionThreshold": "larger code of a task would become a file, with its secrets",
}
"""Settings of Spark that only drkit can choose, and why."""
_EVERYWHERE: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # drkit asks for the newest job of a flow twice a second; the answer names every one that Spark retains.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    # A second copy of a task is harmless, and useless: it would wait for the same source.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "drkit.spark.worker_daemon",
    # Larger code of a task would become a file, with the secrets in it.
    "spark.broadcast.UDFCompressionThreshold": str(2**31 - 1),
    "spark.locality.wait": "0s",
    "spark.shuffle.service.enabled": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.eventLog.enabled": "false",
}
# Records never pass through a JVM: a quick start is worth more than optimised code.
_ON_A_CLUSTER: Final = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_JVM,
    # A failed machine sends nothing: its executors count as lost when their heartbeats stop.
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "20s",
    "spark.network.timeoutInterval": "2s",
    # A running master reports at once why a connection ended; a dead one is not waited for.
    "spark.standalone.executorRemoveDelayOnDisconnection": "1s",
}
_IN_A_CONTAINER: Final = {
    "spark.executor.cores": "1",
    # Python's memory counts there, and a container that takes more is ended.
    "spark.executor.memoryOverhead": "1g",
}
_ENCRYPTED: Final = {_AUTHENTICATE: "true", _ENCRYPT: "true", "spark.network.crypto.saslFallback": "false"}


def given_conf(pairs: Iterable[str], file: Path | None) -> dict[str, str]:
    """The user's settings: of ``--conf``, which win, and of ``--spark-properties``.

    :raises ConfigError: no pair, no such file, a secret in a list of processes, or a setting of drkit's own
    """
    conf = _of_file(file) if file is not None else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            hint = "write --conf KEY=VALUE with a KEY of Spark's, such as spark.cores.max=4"
            raise ConfigError("spark_setting_unknown", where="--conf", hint=hint, key=key)
        if is_secret_argument(key):
            raise ConfigError("secret_argument", where="--conf", key=key)
        conf[key.strip()] = value.strip()
    for key in conf:
        if key in OWNED:
            where = f"{key}={conf[key]}"
            raise ConfigError("spark_setting_owned", where=where, key=key, owned=OWNED[key])
    return conf


def secrets_of(settings: Settings, flows: Iterable[FlowSettings]) -> list[str]:
    """Return the names of the secrets that tasks of these flows need."""
    names: dict[str, None] = {}
    for flow in flows:
        for cluster in (*settings.task_sides(flow), *settings.sides(flow)):
            names |= dict.fromkeys(f"{name} of {cluster.alias}" for name in cluster.client if is_secret(name))
            names |= {} if cluster.control is None else {"the control key": None}
    return list(names)


def refuse_clear_text(master: Master, conf: Mapping[str, str], secrets: Iterable[str]) -> None:
    """Refuse to send secrets to Spark's executors in clear text.

    :raises Refused: there are secrets, and no encryption
    """
    names = sorted(secrets)
    if names and not is_encrypted(master, conf):
        raise Refused(
            "spark_secrets_in_clear", where=master.url, evidence=f"{', '.join(names)}; no {_SECRET} is given"
        )


def is_encrypted(master: Master, conf: Mapping[str, str]) -> bool:
    """Return whether traffic between this process and the executors is encrypted."""
    if master.is_local or _on(conf, _TLS):
        return True
    # YARN and Kubernetes give every application a secret of its own.
    has_own = master.url == "yarn" or master.is_kubernetes
    has_secret = has_own or _SECRET in conf or f"{_SECRET}.file" in conf
    return has_secret and _on(conf, _AUTHENTICATE, default=True) and _on(conf, _ENCRYPT, default=True)


def spark_settings(
    master: Master, route: MasterRoute | None, tasks: int, given: Mapping[str, str], shipped: str = ""
) -> dict[str, str]:
    """Return Spark's settings at its start, without the files of this session.

    :param tasks: tasks at once
    :param given: the user's settings, which win
    :param shipped: name of the file with drkit's code on the executors
    """
    conf = dict(_EVERYWHERE)
    if master.is_local:
        conf["spark.driver.host"] = os.environ.get("SPARK_LOCAL_HOSTNAME", "localhost")
        conf |= _ENCRYPTED
        return {**conf, **given}
    conf |= _ON_A_CLUSTER
    if master.is_standalone:
        # One more than needed: a task whose worker is lost restarts at once.
        conf["spark.cores.max"] = str(tasks + 1)
    else:
        conf |= _IN_A_CONTAINER | {"spark.executor.instances": str(tasks + 1)}
    if is_encrypted(master, given) and not _on(given, _TLS):
        conf |= _ENCRYPTED
    if host := os.environ.get("SPARK_LOCAL_HOSTNAME", route.driver if route is not None else ""):
        conf["spark.driver.host"] = host
    environment = {**IMPORTS_WITHOUT_THREADS, **NO_CURRENT_FOLDER}
    conf |= {f"spark.executorEnv.{name}": value for name, value in environment.items()}
    conf |= given
    # A drkit that is installed on the workers may have another version: the shipped one comes first.
    conf[_PYTHON_PATH] = os.pathsep.join(path for path in (shipped, given.get(_PYTHON_PATH, "")) if path)
    return conf


def workers_python(master: Master, route: MasterRoute | None, given: Mapping[str, str]) -> str:
    """The Python that Spark's workers run.

    On this machine it is this one, as another one shows only as "Python worker failed to connect back". On
    other machines that path means nothing, so it is the name of the same version there.

    :raises ConfigError: another Python than this one is asked for where tasks run below this process
    """
    asked = given.get(_PYTHON, "")
    if master.is_local:
        if asked:
            hint = "leave it out, or name a cluster with --master"
            raise ConfigError("spark_python_set", where=_PYTHON, hint=hint)
        return sys.executable
    if asked or os.environ.get("PYSPARK_PYTHON"):
        return asked or os.environ["PYSPARK_PYTHON"]
    if route is not None and route.is_loopback and not master.is_kubernetes:
        return sys.executable
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def refuse_unfit(master: Master, given: Mapping[str, str]) -> None:
    """Refuse what cannot work before anything is started.

    :raises ConfigError: Kubernetes without an image
    """
    if master.is_kubernetes and _IMAGE not in given:
        raise ConfigError("spark_image_missing", where=master.url)


def may_be_seen(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that may appear in the arguments of Spark's process: those without secrets."""
    return {key: value for key, value in conf.items() if not is_secret_argument(key)}


def _of_file(file: Path) -> dict[str, str]:
    try:
        entries = parse(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("spark_settings_unreadable", where=str(file), evidence=error_text(error)) from error
    except MalformedEscape as error:
        raise ConfigError("spark_file_malformed", where=str(file), problem=error) from error
    return {entry.key: entry.value for entry in entries if entry.key.startswith("spark.")}


def _on(conf: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    return conf.get(key, str(default)).strip().lower() == "true"
