"""The stage of a bubble on production's clusters: topics, replicator and clients with reserved names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count
import signal
import time
from typing import Any, ClassVar, Final, Self

from drkit.clock import monotonic, wall_ms
from drkit.config import ClusterSettings, Settings
from drkit.drill.entry import SOURCE, TARGET, MadeItem
from drkit.drill.plan import DrillPlan
from drkit.errors import Failed, raise_first
from drkit.exercise.checks import CHECKS, IN_ORDER
from drkit.exercise.clients import record_content
from drkit.exercise.events import PRIMARY, STANDBY, Acked, CommandEnded, Consumed, Read
from drkit.exercise.history import ScenarioHistory
from drkit.exercise.processes import Child
from drkit.exercise.stage import PARTITIONS, ClientStage
from drkit.failover.core.request import RunRequest
from drkit.failover.fencing.own_writers import Writers, fence
from drkit.flow_state import names
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError, Message, Producer, confluent_config
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.reading.range_reader import RangeReader
from drkit.kafka.requests import ask_leaders, describe_producers, metadata
from drkit.kafka.topics import TopicPlan, create_topics
from drkit.kafka.transactions import ProducerIdentity, hanging
from drkit.model import TopicPartition
from drkit.repoint.file import EndpointFile, endpoint_of
from drkit.topology.topic_configs import PASSIVE

_DAY_MS: Final = "86400000"
_THREE_YEARS_MS: Final = 3 * 365 * 86_400_000
_LARGE: Final = 900_000
"""Bytes of the largest record; Kafka's default limit is a megabyte."""
_DEFAULT_LIMIT: Final = "1048588"
"""Kafka's; a broker's own default may be lower, and topics of production override it."""
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_SEND_SECONDS: Final = 30.0
_FIRST_RECORDS: Final = 20
_STEADY_SECONDS: Final = 90.0
_FOLLOW_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.1
_CONSUMER_PROTOCOL: Final = {"group_protocol": "consumer"}
_NOWHERE: Final = "127.0.0.1:1"
WRITER: Final = "writer"
FOLLOWER: Final = "follower"
_CONTROL: Final = "put in by a control"
_CONTROL_SECONDS: Final = 15.0


@dataclass
class BubbleStage(ClientStage):
    """The topics and processes of a bubble; use it in a ``with``.

    :param settings: those of the bubble
    """

    WHERE: ClassVar[str] = "drill"

    settings: Settings = field(kw_only=True)
    plan: DrillPlan = field(kw_only=True)
    abort_reason: str = field(default="", init=False)
    """Empty: the drill continues."""
    failover: Child | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        topic, group = partial(names.drill_topic, self.plan.id), partial(names.drill_group, self.plan.id)
        orders, payments, ledger = map(topic, ("orders", "payments", "ledger"))
        self.flow = self.settings.flows[0]
        self.flows = {PRIMARY: self.flow}
        self.topics = orders, payments, ledger
        self.live_group = group("reader")
        self.members: dict[str, dict[str, str]] = {
            self.live_group: {},
            group("static"): {"group_instance_id": "static-1"},
            group("kip848"): _CONSUMER_PROTOCOL,
        }
        """Groups at work, and the properties of their one member."""
        self.idle_groups = {group("start"): orders, group("middle"): payments}
        """Groups without members, with the topic that each reads."""
        self.groups = dict.fromkeys(self.members, orders) | self.idle_groups

    def __enter__(self) -> Self:
        self.parent.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.parent.__exit__()
        self.recorder.close()

    def cluster(self, name: str) -> ClusterSettings:
        """Return a cluster's settings."""
        return self.settings.cluster(self.flow.source if name == PRIMARY else self.flow.target)

    def application(self, cluster: str) -> dict[str, Any]:
        """Return the properties of a client; drkit's own, unless the plan has others."""
        return confluent_config(self.cluster(cluster).with_client(self.plan.client))

    def choose_groups(self) -> None:
        """Leave out the group of the consumer protocol (KIP-848) where it cannot be rehearsed."""
        sides = map(self.cluster, (PRIMARY, STANDBY))
        is_known = all(
            ask_once(
                each, self.WHERE, lambda raw: Groups(raw).knows_consumer_groups(), what="ask for protocols"
            )
            for each in sides
        )
        # A member of it that was killed keeps its group for 45 s.
        if not is_known or self.plan.cut == "lost":
            for group in [g for g, member in self.members.items() if member == _CONSUMER_PROTOCOL]:
                del self.members[group], self.groups[group]

    def made(self) -> tuple[MadeItem, ...]:
        """Return all that the bubble makes, or that its failover does."""
        flow = self.flow
        both = *self.topics, names.watch_topic(flow.source, flow.target)
        of_copy = names.state_topic, names.offset_map_topic, names.journal_topic, flow.mm2_topics.checkpoints
        topics = {
            SOURCE: (*both, names.fence_topic(flow.source, flow.target)),
            TARGET: (*both, *(name_of(flow.source) for name_of in of_copy)),
        }
        return (
            *(MadeItem(side, "topic", name) for side, some in topics.items() for name in some),
            *(MadeItem(side, "group", name) for side in topics for name in self.groups),
        )

    def abort(self, reason: str) -> None:
        """Kill every process of the bubble; then :meth:`check_aborted` raises."""
        self.abort_reason = self.abort_reason or reason
        for child in (*self.clients.values(), *self.replicators.values(), self.failover):
            if child is not None:
                child.signal(signal.SIGKILL)

    def is_aborted(self) -> bool:
        """Return whether the drill was aborted. It is when others killed one of its processes."""
        if not self.abort_reason:
            named = {**self.clients, **self.replicators}
            killed = next((name for name, child in named.items() if child.was_killed()), "")
            if not self.parent.is_alive():  # the others die with it
                killed = "the parent of all"
            if killed:
                self.abort(f"a process of the drill was killed: {killed}")
        return bool(self.abort_reason)

    def check_aborted(self) -> None:
        """Raise Failed if the drill was aborted."""
        if self.is_aborted():
            self.abort("")  # a process may have started since
            raise Failed("drill_aborted", where=f"drill {self.plan.id}", reason=self.abort_reason)

    def wait_for(self, is_true: Callable[[], bool], what: str, seconds: float = _STEADY_SECONDS) -> None:
        """Wait until a condition is true. Raises Failed: not in time, or the drill was aborted meanwhile."""
        super().wait_for(lambda: self.is_aborted() or is_true(), what, seconds)
        self.check_aborted()

    def create_topics(self) -> None:
        """Create the topics on the source, and write the first records."""
        cluster = Cluster.connect(self.cluster(PRIMARY))
        EndpointFile(self.endpoint_file).tell(
            endpoint_of(self.cluster(PRIMARY), term=0, cluster_id=cluster.cluster_id)
        )
        *plain, ledger = self.topics
        common = {**PASSIVE, "max.message.bytes": _DEFAULT_LIMIT}
        configs = {topic: {"cleanup.policy": "delete", "retention.ms": _DAY_MS} for topic in plain}
        configs[ledger] = {"cleanup.policy": "compact"}
        # By default brokers may refuse old records; retention by time would delete them at once.
        plans = [TopicPlan(topic, PARTITIONS, configs={**common, **own}) for topic, own in configs.items()]
        raise_first(create_topics(cluster, plans))
        for number, codec in enumerate(_CODECS):
            self._seed(codec, "x" * _LARGE if number == 0 else "")

    def _seed(self, codec: str, filler: str) -> None:
        """Write records that are hard on purpose: old, large, without a key, of each codec."""
        old, orders, ledger = wall_ms() - _THREE_YEARS_MS, self.topics[0], self.topics[-1]
        records: list[dict[str, Any]] = [
            {"topic": ledger, "partition": n % PARTITIONS, "timestamp": old + n, "key": name, "value": name}
            for n, name in enumerate(f"seed {codec} {n}" for n in range(5))
        ]
        records.append({"topic": orders, "partition": 0, "value": f"seed {codec} {filler}"})
        answers: list[tuple[KafkaError | None, Message]] = []
        producer = Producer({**self.application(PRIMARY), "compression.type": codec, "log_level": 0})
        for record in records:
            producer.produce(**record, on_delivery=lambda *answer: answers.append(answer))
        producer.flush(_SEND_SECONDS)
        errors = [error for error, _ in answers if error is not None]
        if errors or len(answers) < len(records):
            evidence = str(errors[0] if errors else "no answer")
            raise Failed("drill_records_refused", where=self.cluster(PRIMARY).alias, evidence=evidence)
        for _, message in answers:
            self.recorder.record(Acked(PRIMARY, *record_content(message)))

    def start(self) -> None:
        """Start the replicator and the clients, and commit the positions of the groups without members."""
        orders, payments, _ = self.topics
        source = self.cluster(PRIMARY)
        direct = {"cluster": PRIMARY, "bootstrap": source.bootstrap_servers}
        self.start_client(WRITER, "writer", **direct, topics=[orders, payments])
        self.start_client(self._transactional_id(), "transactional writer", **direct, topics=[payments])
        self.start_followers()
        self.wait_acked(_FIRST_RECORDS)
        start, middle = self.idle_groups
        self.commit(PRIMARY, start, {TopicPartition(orders, p): 0 for p in range(PARTITIONS)})
        self.commit_behind_markers(middle, payments, 1)
        self.replicators[self.flow.name] = self.parent.start_replicator(self.settings, self.flow, self.folder)

    def _transactional_id(self) -> str:
        """Return the first transactional id of drills that works; Kafka cannot delete these ids.

        One whose marker the fence of an earlier bubble refused works again after a restart of its broker.
        """
        source, question = self.cluster(PRIMARY), "ask for transactions"
        waiting = ask_once(source, self.WHERE, lambda raw: hanging(raw, wall_ms()), what=question)
        ids = (f"{self.flow.source}.payments-{n}" for n in count(1))
        return next(each for each in ids if each not in waiting)

    def start_followers(self, writer: str = FOLLOWER) -> None:
        """Start the clients that follow the endpoint file; values are unique by the writer's name."""
        ids = {Cluster.connect(self.cluster(name)).cluster_id: name for name in (PRIMARY, STANDBY)}
        following = {"endpoint": str(self.endpoint_file), "clusters": ids, "topics": [self.topics[0]]}
        self.start_client(writer, "following writer", **following)
        for group, member in self.members.items():
            self.start_client(group, "following consumer", **following, group=group, **member)

    def lose_source(self) -> None:
        """Kill the replicator and the clients, and lead the flow's source to a port where nothing listens.

        The clusters live, so what a lost one does to clients is not rehearsed.
        """
        for child in (*self.replicators.values(), *self.clients.values()):
            child.signal(signal.SIGKILL)
            time.sleep(_PAUSE_SECONDS)  # the clients outlive the replicator: what they write now is lost
        self.clients.clear()
        self.replicators.clear()
        self.is_source_lost = True

    def fail_over(self, request: RunRequest) -> CommandEnded:
        """Run the failover in a process, and record its journal. Raises Failed: the drill was aborted."""
        settings, log = self.settings.model_dump(mode="json"), self.folder / "failover.log"
        if self.is_source_lost:
            settings["clusters"][self.flow.source]["bootstrap_servers"] = _NOWHERE
        child = self.failover = self.parent.start(
            ("drkit", "failover"), "failover", log=log, settings=settings, request=request.to_json()
        )
        self.check_aborted()
        while (entry := child.next_entry()) is not None:
            self.recorder.record(entry)
            is_repointed = (entry.step, entry.kind, entry.effect) == (StepName.REPOINT, "result", "")
            if self.is_source_lost and is_repointed:
                self.start_followers(f"{FOLLOWER} 2")
            child.proceed()
        ended = child.ended()
        if ended.code is None:
            self.abort("a process of the drill was killed: the failover")
        self.check_aborted()
        return ended

    def wait_followed(self) -> None:
        """Wait until each client that follows the endpoint file has worked on the target."""

        def have_followed() -> bool:
            events = self.history().events
            at_work = {e.by for e in events if isinstance(e, Acked | Consumed) and e.cluster == STANDBY}
            return at_work > self.members.keys()

        self.wait_for(have_followed, "the first good operation of each client on the target", _FOLLOW_SECONDS)


def writers_of(stage: ClientStage) -> Writers:
    """Return the producers of each copy, each in the epoch that a fence gives it. Raises DrkitError."""

    async def ask(raw: RawCluster) -> Writers:
        topics = await metadata(raw, stage.topics)
        partitions = [TopicPartition(name, p) for name, topic in topics.items() for p in topic.leaders]
        described = await ask_leaders(raw, topics, partitions, partial(describe_producers, raw))
        if described.keys() != set(partitions):
            return {}
        return {
            tp: tuple(ProducerIdentity(i, state.epoch + 1) for i, state in producers.items())
            for tp, (_, producers) in described.items()
        }

    return ask_once(stage.cluster(STANDBY), stage.WHERE, ask, what="ask for producers")


def are_refused(stage: ClientStage, writers: Writers) -> bool:
    """Append as these producers did before the failover; return whether all are refused."""

    async def ask(raw: RawCluster) -> bool:
        return bool(writers) and not await fence(raw, writers, monotonic() + _CONTROL_SECONDS)

    return ask_once(stage.cluster(STANDBY), stage.WHERE, ask, what="append in an older epoch")


def is_foreign_record_named(stage: ClientStage) -> bool:
    """Write a record that no client of the drill wrote; return whether the check of the copy names it.

    :raises DrkitError: the target refuses the record, or does not answer
    """
    tp = TopicPartition(stage.topics[0], 0)
    error, offset = stage.send(STANDBY, tp.topic, _CONTROL)
    if error is not None:
        raise Failed("drill_control_refused", where=str(tp), evidence=error.name())
    with closing(RangeReader(stage.cluster(STANDBY))) as reader:
        reads = [
            Read(STANDBY, *tp, record.offset, (record.value or b"").decode(errors="replace"))
            for record in reader.read(tp, offset, offset + 1)
        ]
    history = ScenarioHistory((*stage.history().events, *reads))
    return any(_CONTROL in offence for offence in CHECKS[IN_ORDER](history).offences)
