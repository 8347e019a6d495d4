"""Up to three clusters, the flows between them, and two machines with a configuration file each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
import shlex
from typing import Any, Final
import uuid

from drkit.exercise.events import CommandEnded
from drkit.exercise.processes import ProcessParent
from drkit.local.cluster import LocalCluster
from drkit.local.storage import random_kafka_uuid
from tests.support.children import run_until
from tests.support.cli.printed import PRINTED
from tests.support.failback.pair import Side
from tests.support.failover.settings_file import toml
from tests.support.failover.world import World

HERE, ELSEWHERE = MACHINES = ("here", "elsewhere")
A, B, C = "abc"
OTHER: Final = {A: B, B: A}
FAN_OUTS: Final = ((A, C), (B, C))
_FILLED: Final = dict.fromkeys(("HOW", "REASON", "WHY"), "the walk")
Way = tuple[str, str]
"""Source and target of a flow."""


class Flow(Side):
    """One flow of several; its configuration names all of them, this one first."""

    world: FlowsWorld

    @property
    def prefix(self) -> str:
        """The beginning of the names of its copies."""
        return f"{self.source.alias}." if "naming" in self.flow_fields else ""

    def plain(self) -> dict[str, Any]:
        return self.world.plain(first=self)


class FlowsWorld:
    """The flows of one walk, with names of its own.

    :param fan_outs: flows to the third cluster, beside both directions of the pair
    :param parent: forks commands that can be killed at an entry of their journal
    """

    def __init__(
        self,
        clusters: Mapping[str, LocalCluster],
        folder: Path,
        parent: ProcessParent,
        fan_outs: Sequence[Way],
    ) -> None:
        self.clusters, self.folder, self._parent = dict(clusters), folder, parent
        self.tag = uuid.uuid4().hex[:6]
        self.steps: list[str] = []
        """What was done, for a person who repeats the walk."""
        self.flows: dict[Way, Flow] = {}
        """The configured flows."""
        for way in [(A, B), (B, A), *fan_outs]:
            self.add(way)

    def add(self, way: Way) -> None:
        """Put a flow into the configuration."""
        source, target = (self.clusters[side] for side in way)
        naming = {"naming": "prefix"} if C in way else {}
        flow = Flow(source, target, self.folder / HERE, tag=self.tag, sides="".join(way), **naming)
        flow.world, self.flows[way] = self, flow
        flow.failover_fields["fence"] = {"transaction_wait_seconds": 0.5}

    def remove(self, way: Way) -> None:
        """Stop the replicator of a flow, and take it out of the configuration."""
        self.flows.pop(way).close()
        self.did(f"{way} is taken out of the configuration")

    def replace(self, side: str) -> str:
        """Start an empty cluster under the name of one that died; return its id."""
        cluster = self.clusters[side]
        cluster.cluster_id = random_kafka_uuid()
        cluster.start()
        for way in [way for way in self.flows if side in way]:
            self.flows[way].close()
            self.add(way)
        self.did(f"an empty cluster replaces {side}")
        return cluster.cluster_id

    def did(self, what: str) -> None:
        """Keep a step, once if it is repeated, also in a file that outlives a walk without an end."""
        if self.steps[-1:] == [what]:
            return
        self.steps.append(what)
        with (self.folder / "steps").open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")

    def name(self, way: Way) -> str:
        """A flow's name in the configuration."""
        return "->".join(f"{side}{self.tag}" for side in way)

    def way_of(self, words: Sequence[str]) -> Way:
        """The flow that a command names."""
        name = words[words.index("--flow") + 1]
        return next(way for way in self.flows if self.name(way) == name)

    def plain(
        self, *, first: Flow | None = None, machine: str = HERE, topics: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The configuration of a machine as plain data.

        :param first: the flow to begin with
        :param topics: what it selects, if these are not all
        """
        flows = sorted(self.flows.values(), key=lambda flow: flow is not first)
        parts = [World.plain(flow) for flow in flows]
        selected = {"topics": [*topics]} if topics else {}
        return {
            "clusters": {alias: each for part in parts for alias, each in part["clusters"].items()},
            "flows": [flow.flow_fields | selected for flow in flows],
            "failover": parts[0]["failover"] | {"journal_folder": str(self.folder / machine)},
        }

    def types(
        self, *words: str, machine: str = HERE, topics: Sequence[str] = (), kill_at: int | None = None
    ) -> CommandEnded:
        """Type a command on a machine; returns how it ended.

        :param topics: what the machine's file selects, if these are not all
        :param kill_at: the number of the entry of its journal at which the process is killed
        """
        file = self.folder / f"{machine}.toml"
        file.write_text(toml(self.plain(machine=machine, topics=topics)), encoding="utf-8")
        child = self._parent.run_command(file, *words, elsewhere=machine == ELSEWHERE)
        entries = iter(range(1_000_000))
        killed_at = run_until(child, lambda _: next(entries) == kill_at)
        result = child.ended() if killed_at is None else child.kill()
        error = {} if "--dry-run" in words else result.error  # there are several of a dry run
        ended = f"killed at {killed_at}" if killed_at else f"{result.code} {error.get('code', '')}"
        self.did(f"{machine}: drkit {shlex.join(words)}: {ended} {error.get('evidence', '')[:160]}")
        return result

    def commands_in(self, lines: Sequence[str]) -> list[tuple[str, ...]]:
        """Commands that drkit prints in these lines, as a person types them, without the file's name."""
        found = []
        for line in lines:
            for command in PRINTED.findall(line):
                _, *words = [_FILLED.get(word, word) for word in shlex.split(command)]
                if "--config" in words:  # else it names the program; another machine's file has another name
                    at = words.index("--config")
                    found.append((*words[:at], *words[at + 2 :]))
        return found

    # -- replicators and clusters -------------------------------------------------------------------

    def replicate(self, *ways: Way) -> None:
        """Restart the replicators of these flows, by default of all: they list topics at their start."""
        self.stop(*ways)
        for way in ways or self.flows:
            self.flows[way].replicate()

    def stop(self, *ways: Way) -> None:
        """SIGKILL the replicators of these flows, by default of all."""
        for way in ways or self.flows:
            self.flows[way].stop_replicating()

    def flow_from(self, side: str) -> Flow:
        """Return the flow of the pair whose source is this side."""
        return self.flows[(side, OTHER[side])]

    def close(self) -> None:
        """Stop everything but the clusters, which the next walk uses again."""
        for flow in self.flows.values():
            flow.close()
