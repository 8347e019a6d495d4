"""One world per kind of adapter: the adapter, and what its clients know."""

from __future__ import annotations

from abc import ABC, abstractmethod
import fcntl
import os
from pathlib import Path
import threading
from typing import Any

from drkit.endpoint import parse_endpoint
from drkit.kafka.security.settings import Tls
from drkit.repoint.command import Command
from drkit.repoint.configmap import ConfigMap, KubeAccess
from drkit.repoint.contract import Adapter
from drkit.repoint.file import EndpointFile
from drkit.repoint.kinds import Printed
from drkit.repoint.webhook import Webhook
from tests.support.repoint.api_server import ApiServer
from tests.support.repoint.receiver import HttpReceiver, program

SECRETS = ("t0p-secret", "abc", "hush", "hunter2", "good-token")


class World(ABC):
    """What the contract is tested on."""

    breaks = True
    """Whether it can fail for a while."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def adapter(self) -> Adapter:
        """A new one, as another process would make it."""

    @abstractmethod
    def known(self) -> dict[str, Any] | None:
        """The endpoint that clients have."""

    @abstractmethod
    def changes(self) -> int:
        """How often that changed."""

    def break_once(self) -> None:  # noqa: B027  not all can break
        """The next try fails for a reason that passes."""

    def close(self) -> None:  # noqa: B027  not all hold something
        """End what the world started."""


class FileWorld(World):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "kafka-endpoint.json"
        self._inodes: set[int] = set()
        self._seen = 0

    def adapter(self) -> Adapter:
        return EndpointFile(self.path)

    def known(self) -> dict[str, Any] | None:
        return parse_endpoint(self.path.read_text()).as_dict() if self.path.exists() else None

    def changes(self) -> int:
        stamp = (self.path.stat().st_ino, self.path.stat().st_mtime_ns)
        self._seen += stamp != getattr(self, "_stamp", None)
        self._stamp = stamp
        return self._seen

    def break_once(self) -> None:
        lock = self.path.with_name(f".{self.path.name}.lock")
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        threading.Timer(0.1, lambda: os.close(handle)).start()


class CommandWorld(World):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.state = folder / "proxy.json"

    def adapter(self) -> Adapter:
        return Command(program(self.state), 20.0)

    def known(self) -> dict[str, Any] | None:
        return parse_endpoint(self.state.read_text()).as_dict() if self.state.exists() else None

    def changes(self) -> int:
        return len(self.state.with_suffix(".changes").read_text().splitlines())

    def break_once(self) -> None:
        self.state.with_suffix(".broken").touch()


class WebhookWorld(World):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.receiver = HttpReceiver("hush")

    def adapter(self) -> Adapter:
        url = self.receiver.url
        return Webhook(url, secret="hush", headers={"X-Team": "shop"}, ca_file=None, timeout_seconds=5.0)

    def known(self) -> dict[str, Any] | None:
        return self.receiver.known

    def changes(self) -> int:
        return self.receiver.changes

    def break_once(self) -> None:
        self.receiver.answers.append((503, {}))

    def close(self) -> None:
        self.receiver.close()


class ConfigMapWorld(World):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = ApiServer(folder)
        self.server.rights = {"good-token": {"get", "create", "patch"}}

    def adapter(self) -> Adapter:
        tls = Tls(ca_file=str(self.server.authority))
        access = KubeAccess(self.server.url, "shop", tls, "good-token")
        return ConfigMap(access, "kafka", namespace=None, key=None, timeout_seconds=5.0)

    def known(self) -> dict[str, Any] | None:
        found = self.server.maps.get("kafka")
        return parse_endpoint(found["data"]["endpoint.json"]).as_dict() if found else None

    def changes(self) -> int:
        return int(self.server.maps["kafka"]["metadata"]["resourceVersion"]) - 100

    def break_once(self) -> None:
        self.server.refuse = 1

    def close(self) -> None:
        self.server.close()


class PrintWorld(World):
    breaks = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lines: list[str] = []
        self._one = Printed(self.lines.append)

    def adapter(self) -> Adapter:
        return self._one  # what was said is not written anywhere

    def known(self) -> dict[str, Any] | None:
        told = self._one.current()
        assert told is None or any(told.bootstrap_servers in line for line in self.lines)
        return told.as_dict() if told else None

    def changes(self) -> int:
        return sum("Send the clients" in line for line in self.lines)


WORLDS = (FileWorld, CommandWorld, WebhookWorld, ConfigMapWorld, PrintWorld)
