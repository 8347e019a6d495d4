"""A pair of clusters that die, there and back, with commands as they are typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drkit.failover.core.request import RunRequest
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failback.pair import Pair, Side
from tests.support.failover.command import Said, drkit
from tests.support.failover.settings_file import written
from tests.support.flows.produce import producer, put
from tests.support.waiting import eventually


class DyingPair:
    """A pair whose clusters die, and its commands."""

    def __init__(self, primary: LocalCluster, standby: LocalCluster, folder: Path) -> None:
        self.primary, self.standby, self.folder = primary, standby, folder
        self.pair = Pair(primary, standby, folder / "journal")
        self.there = self.pair.now
        self.group = self.there.name("g")

    def command(self, *words: str) -> Said:
        return drkit(written(self.there, self.folder), *words)

    def write(self, side: Side, topic: str, name: str, number: int) -> None:
        """Clients write where they are."""
        assert self.accepts(side, topic, [f"{name}{n}" for n in range(number)])

    def accepts(self, side: Side, topic: str, values: list[str], *, on_target: bool = False) -> bool:
        failed: list[Any] = []
        out = producer(side.target if on_target else side.source, message_timeout_ms=8000)
        for value in values:
            put(
                out,
                topic,
                value.encode(),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        return out.flush(30) == 0 and not failed

    def turn(self, topics: list[str], name: str) -> None:
        """Copy, switch over and return: the other direction copies then."""
        side = self.pair.now
        for topic in topics:
            self.write(side, topic, name, 40)
        side.replicate()
        side.copied(topics, {self.group: None})
        side.protected(topics)
        assert self.pair.switch()["state"] == "done"
        assert self.pair.reprotect()["state"] == "done"

    def begin(self, topics: list[str]) -> None:
        """Create the topics, and move them to the standby and back."""
        side = self.there
        for topic in topics:
            side.create(side.source, topic, 1, {"retention.ms": "-1"})
        self.write(side, topics[0], "a", 100)
        side.commit(side.source, self.group, {TopicPartition(topics[0], 0): 50})
        self.turn(topics, "a")
        self.turn(topics, "b")

    def lose_primary(self, topics: list[str]) -> None:
        """The primary dies with a tail; the standby is opened, and clients write there."""
        side = self.there
        assert self.pair.now is side
        for topic in topics:
            self.write(side, topic, "c", 60)
        side.replicate()
        side.copied(topics, {self.group: None})
        side.stop_replicating()
        for topic in topics:
            self.write(side, topic, "tail", 10)
        self.primary.kill()
        with side.desk() as desk:
            assert desk.begin([], RunRequest(accept_data_loss="dead"))["state"] == "done"
        for topic in topics:
            assert self.accepts(side, topic, [f"d{n}" for n in range(30)], on_target=True)
        self.primary.restart()
        eventually(lambda: side.offsets(side.source, topics[0]), what="an answer of the old primary")

    def home(self) -> str:
        return self.pair.other.settings.flows[0].name

    def topics_of_status(self, flow: str) -> list[dict[str, Any]]:
        pair = self.command("status", "--flow", flow).data["flows"][0]["pair"]
        return list(pair["topics"])
