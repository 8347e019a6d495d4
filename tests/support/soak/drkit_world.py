"""Two clusters of a test's own and `drkit replicate` between them, started and killed as often as wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import json
from pathlib import Path
from typing import Any

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.flow_state.names import state_topic
from drkit.flow_state.records import CheckpointsRecord, GenerationRecord
from drkit.flow_state.topic import StateTopic
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from drkit.translate.positions import look
from tests.support.flows.clusters import Clusters
from tests.support.flows.process import Replicator
from tests.support.stored import stored

QUICK: Mapping[str, float] = {
    "checkpoint_interval_seconds": 1,
    "sync_group_offsets_interval_seconds": 1,
    "refresh_topics_interval_seconds": 1,
    "bulk_commit_seconds": 0.5,
}


class DrkitWorld(Clusters):
    """A flow by its configuration file; the aliases are ``a`` and ``b``."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, folder: Path, copied: str, **more: Any
    ) -> None:
        a = ClusterSettings(alias="a", bootstrap_servers=source.bootstrap())
        b = ClusterSettings(alias="b", bootstrap_servers=target.bootstrap())
        super().__init__(a, b, min(3, len(target.brokers)))
        settings: dict[str, Any] = {"buckets": 4, "tasks": 2, **QUICK, **more}
        self.flow = FlowSettings(source="a", target="b", topics=(copied,), groups=("g-.*",), **settings)
        self.settings = Settings(clusters={"a": a, "b": b}, flows=(self.flow,))
        self._copied, self._folder = copied, folder
        self._config = folder / "drkit.toml"
        self._config.write_text(
            f'[clusters.a]\nbootstrap_servers = "{a.bootstrap_servers}"\n'
            f'[clusters.b]\nbootstrap_servers = "{b.bootstrap_servers}"\n'
            f'[[flows]]\nsource = "a"\ntarget = "b"\ntopics = ["{copied}"]\ngroups = ["g-.*"]\n'
            + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        )

    def replicate(self) -> Replicator:
        return Replicator(self._config, self._folder / "said")

    def rounds_since(self, at_ms: int) -> bool:
        """Whether a checkpoint round has ended since then."""
        return bool(self._state().get(CheckpointsRecord.KEY, {}).get("at_ms", 0) > at_ms)

    def knows_its_copy(self) -> bool:
        """Whether the target's state names the copied topic."""
        return GenerationRecord.key(self._copied) in self._state()

    def told(self, partitions: set[TopicPartition]) -> Iterator[str]:
        """The last round from the flow's state, the positions of some partitions, and drkit's output."""
        yield f"the last round: {self._state().get(CheckpointsRecord.KEY)}"
        looked = look(self.settings, self.flow, partitions, reverse=False)
        yield from (f"{at}: {place}" for at, place in sorted(looked.places.items()))
        yield (self._folder / "said").read_text(errors="replace")[-3000:]

    def _state(self) -> dict[str, Any]:
        if self.topic(self.target, state_topic("a")).error:
            return {}
        with StateTopic(self.target, "a") as state:
            state.load()
            return stored(state)
