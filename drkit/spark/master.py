"""Spark's master: its URL, whether it answers, and the network addresses of both sides."""

from __future__ import annotations

from contextlib import suppress
import os
import re
import socket
from typing import Final, NamedTuple

from drkit.counted import counted
from drkit.errors import ConfigError, Failed, Refused

TASK_RETRIES: Final = 4
_MOST_BATCH_TASKS: Final = 8
_PROBE_SECONDS: Final = 3.0
_LOCAL: Final = re.compile(r"local(?:\[(?P<slots>\d+|\*)(?:,\s*(?P<retries>\d+))?\])?")
_KUBERNETES: Final = re.compile(r"k8s://(?:(?P<scheme>https?)://)?(?P<address>[^/]+)/?")
_PORTS: Final = {"http": 80, "https": 443}


class Master(NamedTuple):
    """The master that runs tasks."""

    url: str
    slots: int | None
    """Tasks that can run at once; None when only the cluster itself knows."""

    @property
    def is_local(self) -> bool:
        """Return whether tasks run on this machine, below this process."""
        return self.slots is not None

    @property
    def is_standalone(self) -> bool:
        """Return whether it is Spark's own cluster manager."""
        return self.url.startswith("spark://")

    @property
    def is_kubernetes(self) -> bool:
        """Return whether executors are pods."""
        return self.url.startswith("k8s://")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return the address of the master, or of one of several; empty if it is not in the URL."""
        if self.is_standalone:
            return [_address(part, self.url) for part in self.url.removeprefix("spark://").split(",")]
        if found := _KUBERNETES.fullmatch(self.url):
            port = _PORTS[found["scheme"] or "https"]
            return [_address(found["address"], self.url, port)]
        return []


class MasterRoute(NamedTuple):
    """A way to a master that answers."""

    master: str
    """host:port"""
    driver: str
    """The address by which this machine reaches it, and the cluster reaches this machine."""

    @property
    def is_loopback(self) -> bool:
        """Return whether the master, and with it every worker, is on this machine."""
        return self.driver.startswith("127.") or self.driver == "::1"


def batch_tasks() -> int:
    """Tasks at once of a batch job: other processes keep the rest of a large machine."""
    return max(1, min(_MOST_BATCH_TASKS, os.cpu_count() or 1) - 1)


def choose_master(url: str | None, tasks: int) -> Master:
    """The master URL to use, with retries switched on where Spark has them off.

    Local mode retries a failed task only when the URL asks for it: ``local[N]`` becomes ``local[N,4]``.

    :param url: the user's choice; None runs in this process, one slot more than there are tasks
    :raises ConfigError: no such kind of master
    :raises Refused: fewer slots than tasks: those without a slot would never run
    """
    if url is None:
        return Master(f"local[{tasks + 1},{TASK_RETRIES}]", tasks + 1)
    match = _LOCAL.fullmatch(url)
    if match is None:
        return _of_a_cluster(url)
    asked = match["slots"] or "1"
    slots = (os.cpu_count() or 1) if asked == "*" else int(asked)
    if slots < tasks:
        evidence = f"{counted(slots, 'slot')}, {counted(tasks, 'task')}"
        raise Refused("spark_slots_missing", where=url, evidence=evidence, tasks=tasks)
    return Master(f"local[{asked},{match['retries'] or TASK_RETRIES}]", slots)


def find_route(master: Master) -> MasterRoute | None:
    """Connect to the master: Spark itself would wait a minute for one that does not answer.

    :returns: None where the URL names no address
    :raises Failed: no address of the master accepts a connection
    """
    refused = []
    for host, port in master.addresses:
        try:
            with socket.create_connection((host, port), _PROBE_SECONDS) as connection:
                return MasterRoute(f"{host}:{port}", connection.getsockname()[0])
        except OSError as error:
            refused.append(f"{host}:{port}: {error.strerror or error}")
    if not refused:
        return None
    raise Failed("spark_master_silent", where=master.url, evidence="; ".join(refused))


def _of_a_cluster(url: str) -> Master:
    found = Master(url, None)
    known = url == "yarn" or url.startswith("local-cluster[")
    with suppress(ValueError):
        if known or found.addresses:
            return found
    evidence = "a host and a port are needed" if found.is_standalone else ""
    raise ConfigError("spark_master_malformed", where="--master", evidence=evidence, url=url)


def _address(text: str, url: str, default: int | None = None) -> tuple[str, int]:
    """Host and port. Raises ValueError for any other text."""
    host, colon, port = text.rpartition(":")
    if not colon and default is not None:
        return text, default
    if not host or not port.isdecimal():
        raise ValueError(url)
    return host.strip("[]"), int(port)
