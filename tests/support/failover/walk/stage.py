"""Two small clusters with a link for each party, and on them a flow of its own for each pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
import json
from pathlib import Path
from typing import Any, Self

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, Settings
from drkit.exercise.events import CommandEnded
from drkit.exercise.processes import Child, ProcessParent
from drkit.flow_state.lease.watch import replicator_of
from drkit.flow_state.records import SourceSeenRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.entries import RunLog
from drkit.journal.topic import JournalTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster, RawError
from drkit.kafka.topics import delete_topics, topic_names
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from drkit.model import TopicPartition
from tests.support.failover.walk.application import Application, Clients
from tests.support.failover.walk.pairs import Pair
from tests.support.failover.walk.sleeping_parent import MODULE
from tests.support.failover.world import World
from tests.support.waiting import eventually

OPERATOR, REPLICATION, APPLICATION = LINKED = ("PROBE", "REPLICATION", "APPLICATION")
_LISTENERS = ("CLIENT", *LINKED)
HERE, ELSEWHERE = "here", "elsewhere"
"""The machines of orchestrators."""


class Stage:
    """Two clusters of one broker, and a warm parent of commands; in a ``with``."""

    def __init__(self) -> None:
        self.primary = LocalCluster(ClusterSpec("primary", listeners=_LISTENERS, linked=LINKED))
        self.standby = LocalCluster(ClusterSpec("standby"))
        self.warm = ProcessParent(MODULE)

    def __enter__(self) -> Self:
        start_together(self.primary, self.standby)
        self.warm.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.warm.__exit__()
        self.primary.stop()
        self.standby.stop()

    def restore(self) -> None:
        """Everything answers again, and no flow is left."""
        self.links(cut=False, roles=LINKED)
        for cluster in (self.primary, self.standby):
            cluster.resume()
            cluster.restart()
            settings = ClusterSettings(alias="walk", bootstrap_servers=cluster.bootstrap())
            admin = Cluster.connect(settings)
            delete_topics(admin, [t for t in topic_names(admin) if not t.startswith("__")])

    def links(self, *, cut: bool, roles: tuple[str, ...]) -> None:
        """Cut or heal the links of some parties."""
        for role in roles:
            link = self.primary.link(role)
            link.cut() if cut else link.restore()

    @contextmanager
    def scene(self, pair: Pair, folder: Path) -> Iterator[Scene]:
        """The flow of a pair; what it leaves is removed."""
        scene = Scene(self, pair, folder)
        try:
            scene.prepare()
            yield scene
        finally:
            scene.close()
            self.restore()


class Scene(World):
    """A flow with two topics and a group for each; what moves is that of the pair."""

    def __init__(self, stage: Stage, pair: Pair, folder: Path) -> None:
        super().__init__(stage.primary, stage.standby, folder)
        self.stage, self.pair = stage, pair
        self.orders, self.pay = self.name("orders"), self.name("pay")
        self.shop, self.cash = self.name("shop"), self.name("cash")
        self.moving = [self.orders, self.pay] if pair.scope == "all" else [self.orders]
        self.read: dict[str, dict[TopicPartition, int]] = {}
        """Group → what it had committed on the primary last."""
        self.members = Clients(stage.warm, folder / "members")
        self.copier: Child | None = None
        self.files = {host: self._written(host) for host in (HERE, ELSEWHERE)}

    # -- before it ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Everything is copied, the application works, and the primary is as the pair has it."""
        for topic in (self.orders, self.pay):
            self.create(self.source, topic, 2, {"retention.ms": "-1"})
        bootstrap = self.stage.primary.bootstrap(APPLICATION)
        topics = [self.orders, self.pay]
        self.application = Application(self.stage.warm, self.folder / "application", bootstrap, topics)
        self.commits(self.shop, self.orders, 7)
        self.commits(self.cash, self.pay, 9)
        self.replicate()
        self._copied_once()
        if self.pair.kind == "dead":
            self.stage.primary.kill()
        elif self.pair.kind == "cut":
            self.stage.links(cut=True, roles=(OPERATOR, REPLICATION))

    def _copied_once(self) -> None:
        """Nothing waits for an end: the application writes on."""
        first = {t: len(self.application.of(t, 0)) for t in (self.orders, self.pay)}
        eventually(
            lambda: all(self.offsets(self.target, t).get(0, 0) >= n for t, n in first.items()),
            60, f"the copy: {self.said()}",
        )  # fmt: skip
        eventually(lambda: all(self._synced(g) for g in (self.shop, self.cash)), 60, "positions of groups")
        eventually(lambda: SourceSeenRecord.KEY in self.state(), 60, "the ends of the source")

    def commits(self, group: str, topic: str, offset: int) -> None:
        """A group commits on the primary."""
        at = {TopicPartition(topic, p): offset for p in (0, 1)}
        self.commit(self.source, group, at)
        self.read.setdefault(group, {}).update(at)

    def _written(self, host: str) -> Path:
        """The configuration of a machine, as a file."""
        path = self.folder / f"{host}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        way: dict[str, Any] = {"kind": "file", "path": str(self.folder / "endpoint.json")}
        if self.pair.scope != "all":
            way["groups"] = [self.shop]
        failover = {**self.failover_fields, "journal_folder": str(self.folder / host), "drain_seconds": 5.0}
        tables: dict[str, Mapping[str, Any]] = {
            f"[clusters.{self.source.alias}]": self._by(OPERATOR),
            f"[clusters.{self.target.alias}]": {"bootstrap_servers": self.target.bootstrap_servers},
            "[[flows]]": self.flow_fields,
            "[failover]": failover,
            "[failover.fence]": {"freeze_seconds": 5.0},
            "[[failover.repoint]]": way,
        }
        lines = [
            line
            for title, table in tables.items()
            for line in (title, *(f"{k} = {json.dumps(v)}" for k, v in table.items()))
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def _by(self, role: str) -> dict[str, str]:
        return {"bootstrap_servers": self.stage.primary.bootstrap(role)}

    # -- what may be done ---------------------------------------------------------------------------

    @property
    def begins(self) -> tuple[str, ...]:
        """The command that the pair begins with."""
        scope = {"all": ("--all",), "group": ("--group", self.shop), "topic": ("--topic", self.orders)}
        planned = ("--planned",) if self.pair.kind == "planned" else ()
        return ("failover", *scope[self.pair.scope], *planned, "--yes")

    def types(self, *words: str, host: str = HERE) -> Child:
        """Type a command on a machine."""
        return self.stage.warm.run_command(self.files[host], *words, elsewhere=host == ELSEWHERE)

    def replicate(self) -> None:
        """Start a replicator, unless one is at work."""
        if self.copier is None:
            plain = self.plain()
            plain["clusters"][self.source.alias] |= self._by(REPLICATION)
            settings = Settings.model_validate(plain)
            self.copier = self.stage.warm.start_replicator(settings, settings.flows[0], self.folder)

    def replicate_anew(self) -> None:
        """Restart it, as `drkit replicate` does by itself when its state topic was away for long."""
        self.stop_replicating()
        self.replicate()
        eventually(self._has_lease, 60, f"its lease: {self.said()}")

    def _has_lease(self) -> bool:
        with StateTopic(self.target, self.source.alias) as state:
            state.load()
            holder = replicator_of(state.records, wall_ms())
        return self.copier is not None and holder is not None and holder.process == self.copier.pid

    def stop_replicating(self) -> None:
        """SIGKILL the replicator."""
        if self.copier is not None:
            self.copier.kill()
            self.copier = None

    def said(self) -> str:
        """What the replicator printed."""
        log = self.folder / f"replicator-{self.source.alias}.log"
        return log.read_text(encoding="utf-8")[-3000:] if log.exists() else ""

    def joins(self, cluster: LocalCluster, group: str) -> None:
        """A member comes."""
        self.members.start("member", bootstrap=cluster.bootstrap(), group=group, topics=[self.orders])

    def heal(self, *, primary: bool) -> None:
        """Everything works again, and no member is in the way.

        :param primary: also one that is dead
        """
        self.stage.links(cut=False, roles=LINKED)
        self.members.stop()
        self.stage.standby.restart()
        if primary:
            self.stage.primary.resume()
            self.stage.primary.restart()

    # -- what is found ------------------------------------------------------------------------------

    def last_run(self) -> RunLog | None:
        """The newest run, as an independent reader of the journal sees it; None if the journal is empty."""
        loop = EventLoop()
        raw = RawCluster(loop, self.target, "test")
        topic = JournalTopic(raw, self.source.alias, self.target.alias)

        async def ask() -> RunLog | None:
            await raw.connected()
            if await topic.exists():
                await topic.read()
            return topic.history.last

        try:
            found: RunLog | None = loop.run(ask)
        except RawError:
            return None
        finally:
            raw.close()
            loop.close()
        return found

    def close(self) -> None:
        self.members.stop()
        if hasattr(self, "application"):
            self.application.stop()
        super().close()


def shown(said: CommandEnded) -> str:
    """A command and its answer, in a line."""
    error = said.error
    answer = f"{error['error']} [{error['evidence'][:200]}] {error['hint']}" if error else "done"
    return f"drkit {' '.join(said.words)}: {said.code} {answer}"
