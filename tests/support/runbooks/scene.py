"""A pair of clusters that a stage breaks, and a person who types in a folder with ``drkit.toml``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest

from drkit.config import ClusterSettings, Settings
from drkit.local.cluster import LocalCluster
from drkit.local.ports import PortReservation
from drkit.model import TopicPartition
from tests.support.cli.screen import Screen, type_line
from tests.support.failback.pair import Pair
from tests.support.failover.settings_file import toml
from tests.support.failover.world import World
from tests.support.flows.produce import fill
from tests.support.runbooks.page import filled
from tests.support.waiting import eventually
from tests.support.watch.world import QUICK as QUICK
from tests.support.watch.world import Lookout

ANSWERS: Final = "y\n" * 9
RETAINED: Final = {"retention.ms": "-1"}
_DOCUMENTED: Final[Mapping[str, Collection[int]]] = {
    "drkit status": (0, 1),
    "drkit watch --once": (0, 1, 3),
    "drkit divergence": (0, 1, 3),
    "drkit control check": (0, 3),
    "drkit translate": (0, 3),
    "drkit failover --all --dry-run": (0, 3),
    "drkit failover --group G --dry-run": (0, 3),
}
"""Commands whose exit code is an answer, as docs/reference/exit-codes.md has it."""


class Scene:
    """What a stage sets up, and what the executor needs to know to type the commands of a page.

    :param source: the broker of the primary, shared by many pages
    :param target: the broker of the standby
    :param folder: of one page
    :param patch: shortens what drkit waits for
    """

    def __init__(
        self, source: LocalCluster, target: LocalCluster, folder: Path, patch: pytest.MonkeyPatch
    ) -> None:
        self.source, self.target, self.folder, self.patch = source, target, folder, patch
        self.tables: dict[str, Any] = {}
        """Tables of drkit.toml beside those of the world."""
        self.servers: dict[str, str] = {}
        """Alias → bootstrap servers that are written instead of the right ones."""
        self.values: dict[str, str] = {"HOW": "the listener is closed"}
        """Words of the page → what is typed instead."""
        self.codes: dict[str, int] = {}
        """Command as the page has it → its exit code, where it is not 0."""
        self.before: dict[str, Callable[[], object]] = {}
        """Command as the page has it → what a person does first, outside of drkit."""
        self.after: Callable[[], object] = lambda: None
        """What a person does at the end, outside of drkit."""
        self.ends: tuple[str, str] | None = None
        """A command and what it prints at the end; None: the sentence of the stage is gone."""
        self.cleanups = ExitStack()
        """What this scene has started is stopped by it, the newest first."""
        self.plain: Callable[[], dict[str, Any]] = dict
        self._ports = PortReservation()
        self.worlds: list[World] = []
        self.cleanups.callback(self._ports.release)

    # -- worlds ---------------------------------------------------------------------------------------

    def world(self, **flow: Any) -> World:
        """Create a flow between the two clusters; settings of ``FlowSettings`` as keywords."""
        world = World(self.source, self.target, self.folder / "journal", **flow)
        self._named(world)
        self.cleanups.callback(world.close)
        return world

    def pair(self, **flow: Any) -> Pair:
        """Create flows in both directions."""
        pair = Pair(self.source, self.target, self.folder / "journal", **flow)
        self._named(pair.now, pair.other)
        self.cleanups.callback(pair.close)
        return pair

    def _named(self, world: World, *others: World) -> None:
        self.worlds = [world, *others]
        self.plain = world.plain
        there, back = world.source.alias, world.target.alias
        self.values |= {"primary->standby": f"{there}->{back}", "standby->primary": f"{back}->{there}"}

    def copied(self, world: World, topic: str = "orders", records: int = 20) -> str:
        """Create and fill a topic, copy it, and return its name; commands name it, and a group of it."""
        name, group = world.name(topic), world.name("shop")
        world.create(world.source, name, 1, RETAINED)
        fill(world.source, name, records)
        world.commit(world.source, group, {TopicPartition(name, 0): 5})
        if world._replicator is None:
            world.replicate()
        world.copied([name], {group: None})
        self.values |= {"TOPIC": name, "orders": name, "GROUP": group, "G": group}
        return name

    def silence(self, *clusters: ClusterSettings) -> None:
        """Let the names of clusters lead to a closed port: for this person they are lost."""
        for cluster in clusters:
            self.servers[cluster.alias] = f"127.0.0.1:{self._ports.reserve()}"

    def lose_primary(self, world: World) -> None:
        """Stop the replicator, and let nothing answer under the primary's name."""
        world.stop_replicating()
        self.silence(world.source)

    # -- the person -----------------------------------------------------------------------------------

    def configuration(self) -> dict[str, Any]:
        """Return the content of drkit.toml as it is now."""
        plain = deepcopy(self.plain())
        for alias, servers in self.servers.items():
            plain["clusters"][alias]["bootstrap_servers"] = servers
        for name, table in self.tables.items():
            plain[name] = {**plain.get(name, {}), **table}
        return plain

    def observe(self, name: str) -> None:
        """Start an observer with the configuration as it is now; it votes until the page is over."""
        observer = Lookout(Settings.model_validate(self.configuration()), name)
        self.cleanups.callback(observer.stop)
        observer.start()

    def type(self, line: str, answer: str = ANSWERS, begun: Callable[[], object] = lambda: None) -> Screen:
        """Type a line, with words of the page, in the folder of the page."""
        (self.folder / "drkit.toml").write_text(toml(self.configuration()), encoding="utf-8")
        return type_line(self.filled(line), self.folder, answer, begun)

    def prepare(self, line: str, code: int = 0) -> Screen:
        """Type a line that belongs to the set-up, and check its exit code."""
        screen = self.type(line)
        assert screen.code == code, f"{line}: exit code {screen.code}\n{screen.text}"
        return screen

    def filled(self, line: str) -> str:
        """Return a command of the page with the names of this scene."""
        return filled(line, self.values)

    def run(self, line: str) -> Screen:
        """Type a command of the page, and check its exit code; a replicator starts beside."""
        if line in self.before:
            self.before[line]()
        if line.startswith("drkit replicate") and "--dry-run" not in line:
            self._replicate(self.filled(line))
            return Screen(0, "")
        screen = self.type(line)
        assert screen.code in self._codes(line), (
            f"{self.filled(line)}: exit code {screen.code}\n{screen.text}"
        )
        return screen

    def _codes(self, line: str) -> Collection[int]:
        if line in self.codes:
            return (self.codes[line],)
        starts = [s for s in _DOCUMENTED if line.startswith(s) and not line.startswith(f"{s} export")]
        return _DOCUMENTED[starts[0]] if starts else (0,)

    def _replicate(self, line: str) -> None:
        """Start the replicator of the flow that the line names; go on when `drkit status` has no fault."""
        flows = {f"{world.source.alias}->{world.target.alias}": world for world in self.worlds}
        name = next((name for name in flows if name in line), next(iter(flows)))
        flows[name].stop_replicating()
        flows[name].replicate()
        screens: list[Screen] = []

        def is_well() -> bool:
            screens[:] = [self.type(f"drkit status --flow '{name}'")]
            return screens[0].code == 0

        eventually(is_well, 90, lambda: f"no fault after {line}: {screens[0].text}")

    def close(self) -> None:
        """Stop what this scene has started."""
        self.cleanups.close()
