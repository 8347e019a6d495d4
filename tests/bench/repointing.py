"""From the repoint to the first good record: clients that follow the endpoint file, and others.

``python -m tests.bench.repointing`` starts clusters, moves ten clients at a time, and prints a table.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
import json
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer

from drkit.client import FailoverConsumer
from drkit.local import jars
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.java import find_java
from drkit.local.spec import ClusterSpec
from tests.bench.relay import Relay
from tests.bench.tables import table
from tests.bench.waiting import moments, pause, until
from tests.support.client.world import World

READ: Final = 50
"""Records that are read and committed on the primary; the standby holds as many more."""
_TUNED: Final = {
    "socket.timeout.ms": 5000,
    "topic.metadata.refresh.interval.ms": 2000,
    "metadata.recovery.rebootstrap.trigger.ms": 5000,
}
_JAVA_TUNED: Final = {
    "request.timeout.ms": 5000,
    "default.api.timeout.ms": 10000,
    "metadata.max.age.ms": 2000,
    "metadata.recovery.rebootstrap.trigger.ms": 5000,
}
_CALM_SECONDS: Final = 1.0
"""For this long all clients wait at the end of the log."""
_FAILOVER_SECONDS: Final = 5.0
"""Between the loss of the primary and the repoint: as long as a failover takes."""
_LOOK_SECONDS: Final = 0.1
STATES: Final = ("killed", "frozen", "alive, listener closed", "alive, fenced")


class Moved(NamedTuple):
    """What became of one client."""

    state: str
    """Of the primary."""
    kind: str
    """Of the client."""
    seconds: float | None
    """Until the first record that it had not read; None: it was not waited for any longer."""
    repeats: int
    gap: bool
    """That record was not the next one."""

    def show(self) -> str:
        text = "never" if self.seconds is None else f"{self.seconds:.1f} s"
        return text + (f", {self.repeats} repeated" if self.repeats else "") + (", gap" if self.gap else "")


@dataclass
class Client:
    """A consumer in a process of its own, and when it got what."""

    kind: str
    group: str
    got: list[tuple[float, str]] = field(default_factory=list)
    stop: Callable[[], object] = lambda: None

    def verdict(self, state: str, moved: float) -> Moved:
        """What it did since a moment."""
        later = [(at - moved, value) for at, value in self.got if at > moved]
        at, value = next(((a, v) for a, v in later if int(v[1:]) >= READ), (None, ""))
        repeats = sum(int(v[1:]) < READ for _, v in later)
        gap = at is not None and value != f"v{READ}"
        return Moved(state, self.kind, None if at is None else round(at, 2), repeats, gap)


def _follow(path: str, topic: str, config: dict[str, Any], out: Connection) -> None:
    _read(FailoverConsumer(config, endpoint=path), topic, out)


def _plain(address: str, topic: str, config: dict[str, Any], out: Connection) -> None:
    _read(Consumer({**config, "bootstrap.servers": address}), topic, out)


def _read(consumer: Any, topic: str, out: Connection) -> None:
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            out.send((time.monotonic(), message.value().decode()))
            consumer.commit(asynchronous=True)


def _start(target: Any, kind: str, where: str, topic: str, group: str, config: dict[str, Any]) -> Client:
    spawn = get_context("spawn")
    theirs, ours = spawn.Pipe(duplex=False)
    common = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    process = spawn.Process(target=target, args=(where, topic, {**common, **config}, ours), daemon=True)
    process.start()
    client = Client(kind, group, stop=process.kill)

    def collect() -> None:
        while True:
            try:
                client.got.append(theirs.recv())
            except (EOFError, OSError):
                return

    threading.Thread(target=collect, daemon=True).start()
    return client


def _java(address: str, topic: str, group: str, kind: str, config: dict[str, Any]) -> Client:
    given = {"group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200, **config}
    properties = [part for k, v in given.items() for part in ("--consumer-property", f"{k}={v}")]
    process = subprocess.Popen(
        [str(find_java()), "-Xmx128m", "-cp", jars.classpath(progress=lambda _: None),
         "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", address,
         "--topic", topic, *properties],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    client = Client(kind, group, stop=process.kill)

    def collect() -> None:
        for line in process.stdout or ():
            if line.startswith("v"):
                client.got.append((time.monotonic(), line.strip()))

    threading.Thread(target=collect, daemon=True).start()
    return client


def _clients(world: World, relay: Relay, state: str, each: int, *, java: bool) -> list[Client]:
    where, topic = str(world.path), world.topic
    found: list[Client] = []
    for n in range(each):
        tag = f"{state[:8].replace(' ', '')}-{n}"
        for protocol in ("classic", "consumer"):
            name = {"group.protocol": protocol}
            group = f"{protocol}-{tag}"
            found += [
                _start(_follow, f"FailoverConsumer, {protocol}", where, topic, f"f-{group}", name),
                _start(_plain, f"confluent-kafka, {protocol}", relay.address, topic, f"p-{group}", name),
                _start(_plain, f"confluent-kafka, {protocol}, tuned", relay.address, topic, f"t-{group}",
                       {**name, **_TUNED}),
            ]  # fmt: skip
        found += (
            []
            if not java
            else [
                _java(relay.address, topic, f"j-{tag}", "Java", {}),
                _java(relay.address, topic, f"jt-{tag}", "Java, tuned", _JAVA_TUNED),
            ]
        )
    return found


def measure(
    states: Sequence[str], each: int, patience: float, tell: Callable[[str], None], *, java: bool = True
) -> Iterator[Moved]:
    """Move clients of each kind, with a primary in each of the states.

    :param each: clients of each kind
    :param patience: seconds after which a client is not waited for
    """
    standby = LocalCluster(ClusterSpec("standby"))
    try:
        start_together(standby)
        for state in states:
            found = _moved(standby, state, each, patience, java=java)
            tell(f"    primary {state}: {', '.join(f'{m.kind} {m.show()}' for m in found)}")
            yield from found
    finally:
        standby.stop()


def _moved(standby: LocalCluster, state: str, each: int, patience: float, *, java: bool) -> list[Moved]:
    primary = LocalCluster(ClusterSpec("primary", linked=("CLIENT",))).start()
    folder = Path(tempfile.mkdtemp(prefix="drkit-repoint-"))
    world = World(primary, standby, f"orders-{int(time.time())}", folder)
    clients: list[Client] = []
    try:
        world.create()
        world.send(primary, [f"v{i}" for i in range(READ)])
        world.send(standby, [f"v{i}" for i in range(2 * READ)])
        relay = Relay(primary.bootstrap())
        clients = _clients(world, relay, state, each, java=java)
        until(lambda: all(len(c.got) >= READ for c in clients), 90, "all have read on the primary")
        for client in clients:
            world.group = client.group
            world.place_group(READ)
        pause(_CALM_SECONDS, "clients wait for records")
        {"killed": primary.kill, "frozen": primary.freeze, STATES[2]: primary.link("CLIENT").cut}.get(
            state, lambda: None
        )()
        pause(_FAILOVER_SECONDS, "as long as a failover takes")
        moved = time.monotonic()
        relay.lead_to(standby.bootstrap())
        world.lead_to(standby)
        for _ in moments(patience, every=_LOOK_SECONDS):
            if all(c.verdict(state, moved).seconds is not None for c in clients):
                break
        return [client.verdict(state, moved) for client in clients]
    finally:
        for client in clients:
            client.stop()
        primary.stop()


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = ArgumentParser(prog="python -m tests.bench.repointing", description=__doc__)
    parser.add_argument("--each", type=int, default=2, help="clients of each kind")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds after which it is never")
    parser.add_argument("--only", default=",".join(STATES), help="some of the states, with commas")
    parser.add_argument("--json", help="also write the figures into this file")
    options = parser.parse_args(arguments)
    states = [s for s in STATES if any(s.startswith(o) for o in options.only.split(","))]
    found = list(measure(states, options.each, options.patience, _tell))
    rows = [
        [kind, *("; ".join(m.show() for m in found if (m.kind, m.state) == (kind, s)) for s in states)]
        for kind in dict.fromkeys(m.kind for m in found)
    ]
    sys.stdout.write(table(["client", *states], rows) + "\n")
    if options.json:
        Path(options.json).write_text(json.dumps([m._asdict() for m in found], indent=1))
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
