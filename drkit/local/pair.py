"""The pair to play with: ``primary`` and ``standby``, which live on after the command that started them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
import json
import os
from pathlib import Path
import shutil
import signal
import time
from typing import Any

from drkit.errors import ConfigError, Failed, Refused
from drkit.local.broker import LocalBroker, ask
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.file_lock import locked
from drkit.local.jars import Progress, default_cache
from drkit.local.node import broker_command
from drkit.local.process import ProcessIdentity
from drkit.local.runtime import find_runtime
from drkit.local.spec import ClusterSpec


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker as the state file remembers it."""

    cluster: str
    node_id: int
    bootstrap: str
    host: str
    port: int
    pid: int
    started: str
    logs: str

    @property
    def process(self) -> ProcessIdentity:
        """The process that was started then."""
        return ProcessIdentity(self.pid, self.started)

    def with_process(self, pid: int) -> BrokerRecord:
        """Return the record with the process of a restarted broker."""
        identity = ProcessIdentity.of(pid)
        return replace(self, pid=identity.pid, started=identity.started)

    def launcher(self, java: Sequence[str]) -> LocalBroker:
        """Return a broker that starts again from the files of this one."""
        home = Path(self.logs)
        host, _, port = self.bootstrap.split(",")[self.node_id].rpartition(":")
        ask_at = (self.host, self.port)
        return LocalBroker(self.node_id, home, broker_command(java, home), ask_at, others=[(host, int(port))])

    def describe(self) -> dict[str, Any]:
        """The broker as data for people: whether it runs, and whether it answers."""
        running = self.process.alive
        answers = running and ask(self.host, self.port) is not None
        return {
            "cluster": self.cluster,
            "broker": self.node_id,
            "bootstrap": self.bootstrap,
            "pid": self.pid,
            "state": "ready" if answers else "silent" if running else "ended",
            "logs": self.logs,
        }


NAMES = ("primary", "standby")
_STOP_SECONDS = 20.0
_START_SECONDS = 120.0
_OWN = ".drkit-local"
"""In a cluster's folder: `drkit local up` made it."""
_CONFIG = """\
[clusters.primary]
bootstrap_servers = "{primary}"

[clusters.standby]
bootstrap_servers = "{standby}"

[[flows]]
source = "primary"
target = "standby"
topics = [".*"]
groups = [".*"]
"""


def default_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Where the pair of this user lives: ``drkit/local`` in the state folder (XDG base directories)."""
    home = env.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home, "drkit", "local")


@dataclass(frozen=True, slots=True)
class LocalPair:
    """The pair that belongs to a folder.

    :param folder: holds its state file, its brokers' data and logs
    """

    folder: Path

    def up(
        self, config: Path, *, brokers: int = 1, progress: Progress = lambda _line: None
    ) -> dict[str, Any]:
        """Start both clusters and write ``config``; nothing happens when they run already.

        :raises ConfigError: ``config`` exists and was not written by drkit
        :raises Refused: a part of the pair has ended
        :raises Failed: the clusters do not start
        """
        with self._locked(progress):
            if records := self._records():
                return self._already_up(records)
            if config.exists() and not config.read_text().startswith(self._mark):
                raise ConfigError("config_not_ours", where=str(config))
            self._claim_folders()
            clusters = [
                LocalCluster(ClusterSpec(name, brokers=brokers), folder=self.folder / name, progress=progress)
                for name in NAMES
            ]
            progress("starting two Kafka clusters")
            start_together(*clusters)
            try:
                addresses = {cluster.spec.name: cluster.bootstrap() for cluster in clusters}
                config.write_text(self._mark + _CONFIG.format(**addresses))
                self._remember(clusters, config)
                for cluster in clusters:
                    cluster.detach()
            except BaseException:
                for cluster in clusters:
                    cluster.stop(keep_logs=True)
                raise
        return self.status()

    def down(self) -> dict[str, Any]:
        """Stop the brokers that :meth:`up` started, and only those; remove their data and the config.

        :raises Refused: folders of these names exist, and no ``up`` made them
        :raises Failed: a broker does not end
        """
        if not self.folder.is_dir():
            return {"stopped": [], "folder": str(self.folder)}
        self._refuse_folders_of_others(self._records())  # before a lock file is made there
        with self._locked():
            records = self._records()
            stopped = [record.pid for record in records if record.process.alive]
            _stop(records)
            config = Path(self._state().get("config", ""))
            if config.is_file() and config.read_text().startswith(self._mark):
                config.unlink()
            for name in NAMES:
                shutil.rmtree(self.folder / name, ignore_errors=True)
            self._file.unlink(missing_ok=True)
        return {"stopped": stopped, "folder": str(self.folder)}

    def kill(self, cluster: str) -> dict[str, Any]:
        """End the brokers of one cluster at once, as a power cut does; their data remains.

        :raises Refused: there is no such pair
        """
        with self._locked():
            for record in self._of(cluster):
                record.process.signal(signal.SIGKILL)
                if not record.process.wait_ended(time.monotonic() + _STOP_SECONDS):
                    raise Failed("broker_does_not_end", where=f"{cluster} broker {record.node_id}")
        return self.status()

    def start(self, cluster: str, progress: Progress = lambda _line: None) -> dict[str, Any]:
        """Start the brokers of one cluster that do not run, with their data, ids and ports.

        :raises Refused: there is no such pair
        :raises Failed: a broker does not start
        """
        with self._locked(progress):
            records = self._of(cluster)
            runtime = find_runtime(default_cache(), progress)
            java = runtime.command(ClusterSpec(cluster, brokers=len(records)))
            ended = [record for record in records if not record.process.alive]
            brokers = {record.node_id: record.launcher(java) for record in ended}
            everyone = frozenset(record.node_id for record in records)
            try:
                for broker in brokers.values():
                    broker.start()
                for broker in brokers.values():
                    broker.wait_ready(everyone, time.monotonic() + _START_SECONDS)
                self._renew(cluster, brokers)
                for broker in brokers.values():
                    broker.detach()
            except BaseException:
                for broker in brokers.values():
                    broker.kill()
                raise
        return self.status()

    def status(self) -> dict[str, Any]:
        """What runs: ``state`` is up, down or degraded."""
        found = [record.describe() for record in self._records()]
        ready = [broker for broker in found if broker["state"] == "ready"]
        state = "down" if not found else "up" if len(ready) == len(found) else "degraded"
        return {"state": state, "config": self._state().get("config", ""), "brokers": found}

    def _already_up(self, records: list[BrokerRecord]) -> dict[str, Any]:
        ended = [record for record in records if not record.process.alive]
        if ended:
            evidence = ", ".join(f"{record.cluster} broker {record.node_id}" for record in ended)
            raise Refused("local_pair_incomplete", where=str(self.folder), evidence=evidence)
        return self.status()

    def _of(self, cluster: str) -> list[BrokerRecord]:
        found = [record for record in self._records() if record.cluster == cluster]
        if not found:
            raise Refused(
                "no_local_pair", where=str(self.folder), evidence=f"no broker of {cluster} is recorded there"
            )
        return found

    def _claim_folders(self) -> None:
        """Mark the clusters' folders as made by drkit, unless they exist already."""
        self._refuse_folders_of_others([])
        for name in NAMES:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / name / _OWN).touch()

    def _refuse_folders_of_others(self, records: list[BrokerRecord]) -> None:
        """A state with brokers in it was written by ``up``, which made their folders."""
        found = [name for name in NAMES if (self.folder / name).exists()]
        others = [name for name in found if not records and not (self.folder / name / _OWN).exists()]
        if others:
            raise Refused("folders_not_ours", where=str(self.folder), evidence=", ".join(others))

    @property
    def _mark(self) -> str:
        return f"# Written by `drkit local up` for {self.folder.resolve()}; `drkit local down` removes it.\n"

    @property
    def _file(self) -> Path:
        return self.folder / "state.json"

    def _locked(self, progress: Progress = lambda _line: None) -> AbstractContextManager[None]:
        waiting = "waiting for another `drkit local` in the same folder"
        return locked(self.folder / "lock", lambda: progress(waiting))

    def _state(self) -> dict[str, Any]:
        try:
            state = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise Failed("local_state_unreadable", where=str(self._file), evidence=str(error)) from error
        return dict(state)

    def _records(self) -> list[BrokerRecord]:
        return [BrokerRecord(**each) for each in self._state().get("brokers", [])]

    def _remember(self, clusters: list[LocalCluster], config: Path) -> None:
        records = [
            BrokerRecord(
                cluster.spec.name,
                broker.node_id,
                cluster.bootstrap(),
                *broker.ask_at,
                *ProcessIdentity.of(broker.pid),
                str(broker.folder),
            )
            for cluster in clusters
            for broker in cluster.brokers
        ]
        self._write(config.resolve(), records)

    def _renew(self, cluster: str, started: Mapping[int, LocalBroker]) -> None:
        """Put the new processes of one cluster's brokers into the state file."""
        self._write(
            Path(self._state()["config"]),
            [
                record.with_process(started[record.node_id].pid)
                if record.cluster == cluster and record.node_id in started
                else record
                for record in self._records()
            ],
        )

    def _write(self, config: Path, records: list[BrokerRecord]) -> None:
        state = {"config": str(config), "brokers": [asdict(record) for record in records]}
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(state, indent=1))
        fresh.replace(self._file)


def _stop(records: list[BrokerRecord]) -> None:
    for record in records:
        record.process.signal(signal.SIGCONT)  # a frozen one would not hear the next signal
        record.process.signal(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    for record in records:
        if not record.process.wait_ended(deadline):
            record.process.signal(signal.SIGKILL)
            if not record.process.wait_ended(time.monotonic() + _STOP_SECONDS):
                raise Failed("broker_does_not_end", where=f"{record.cluster} broker {record.node_id}")
