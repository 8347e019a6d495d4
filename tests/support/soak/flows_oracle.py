"""Every acknowledged record and every group's position of a walk, and what must hold of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drkit.model import TopicPartition
from tests.support.failover.truth import Load, values
from tests.support.flows.compare import Seen
from tests.support.flows.produce import producer, put
from tests.support.soak.flows_world import OTHER, A, Flow, FlowsWorld

PARTITIONS = 2
Log = dict[int, list[Seen]]


@dataclass
class Topic:
    """What clients know of a topic: where they write, and what was acknowledged."""

    name: str
    active: str = A
    is_protected: bool = True
    """Whether the passive side has returned as a standby, or was one from the beginning."""
    acked: dict[int, list[bytes]] = field(default_factory=lambda: {p: [] for p in range(PARTITIONS)})
    """Acknowledged values by partition, in the order of the log of the active side."""
    lost: set[bytes] = field(default_factory=set)
    """Values of a tail that a printed loss covers, and that nothing has appended since."""
    replayed: set[bytes] = field(default_factory=set)
    """Values of a tail that a return has appended: once each, in any place."""
    read: dict[str, dict[int, set[bytes]]] = field(default_factory=dict)
    """Group → partition → the values that it has read."""


class Oracle:
    """What was acknowledged and read, compared with the clusters."""

    def __init__(self, world: FlowsWorld, names: Sequence[str]) -> None:
        self.world = world
        self.topics = {name: Topic(name) for name in names}
        self.counted: Counter[str] = Counter()
        """What was compared."""

    def on(self, cluster: str, *, protected: bool | None = None) -> list[Topic]:
        """Topics whose clients write to a cluster, by default whether the other side is a standby or not."""
        found = (t for t in self.topics.values() if t.active == cluster)
        return [t for t in found if protected in {None, t.is_protected}]

    def log(self, cluster: str, topic: Topic) -> Log:
        """Everything in a topic of a cluster of the pair."""
        flow = self.world.flow_at(cluster)
        return flow.records(flow.source, topic.name)

    # -- what clients do ----------------------------------------------------------------------------

    def write(self, topic: Topic, number: int) -> None:
        """Clients write to the active side, and everything is acknowledged."""
        out = producer(self.world.flow_at(topic.active).source, message_timeout_ms=20_000)
        failed: list[Any] = []
        for _ in range(number):
            self.counted["written"] += 1
            n = self.counted["written"]
            value, p = b"%s w %d" % (topic.name.encode(), n), n % PARTITIONS
            more = {"partition": p, "on_delivery": lambda e, _: failed.append(e) if e else None}
            put(out, topic.name, value, value, **more)
            topic.acked[p].append(value)
        assert out.flush(30) == 0, f"{topic.name}: no answer of {topic.active}"
        assert not failed, f"{topic.name}: {topic.active} refuses its clients: {failed[0]}"

    def heard(self, load: Load) -> None:
        """Take what a load was told."""
        for name, records in load.acked.items():
            for record in sorted(records, key=lambda r: r.offset):
                self.topics[name].acked[record.partition].append(record.value)
                self.counted["under load"] += 1

    def reads(self, topic: Topic, group: str, share: float) -> None:
        """A group without members reads on, up to a share of what is there."""
        flow = self.world.flow_at(topic.active)
        read = topic.read.setdefault(group, {p: set() for p in range(PARTITIONS)})
        offsets = {}
        for p, records in self.log(topic.active, topic).items():
            known = max((n for n, s in enumerate(records, 1) if s.value in read[p]), default=0)
            number = known + int((len(records) - known) * share)
            offsets[TopicPartition(topic.name, p)] = records[number - 1].offset + 1 if number else 0
            read[p] = {*values(records[:number])}
        flow.commit(flow.source, group, offsets)

    # -- what must hold -----------------------------------------------------------------------------

    def active_is_right(self, topic: Topic) -> None:
        """Each acknowledged record is on the active side once and in order, but for a printed loss."""
        for p, records in self.log(topic.active, topic).items():
            found, where = values(records), f"{topic.name}-{p} on {topic.active}"
            wanted = [v for v in topic.acked[p] if v not in topic.lost]
            known = {*topic.acked[p]}
            twice = [v for v, n in Counter(found).items() if n > 1 and v in known]
            assert not twice, f"{where}: {len(twice)} records twice: {twice[:3]}"
            missing = [v for v in wanted if v not in {*found}]
            assert not missing, f"{where}: {len(missing)} of {len(wanted)} records missing: {missing[:3]}"
            back = [v for v in found if v in topic.lost]
            assert not back, f"{where}: {len(back)} records that were lost are back: {back[:3]}"
            ordered = [v for v in found if v in known and v not in topic.replayed]
            assert ordered == [v for v in wanted if v not in topic.replayed], f"{where}: another order"
            self.counted["records"] += len(wanted)

    def loss_is_printed(self, topic: Topic, report: Mapping[str, Any], source_log: Log, target: str) -> None:
        """What is missing on the new active side is in the printed loss; it counts as lost from then on.

        :param source_log: the old active side's log when it was last read
        """
        loss = report["loss"]
        stated = {p["partition"]: p for p in loss["partitions"] if p["topic"] == topic.name}
        assert stated.keys() == topic.acked.keys(), (topic.name, loss)
        for p, records in self.log(target, topic).items():
            there, where = {*values(records)}, f"{topic.name}-{p} → {target}"
            offsets = {s.value or b"": s.offset for s in source_log[p]}
            missing = [v for v in topic.acked[p] if v not in there and v not in topic.lost]
            first, number = stated[p]["lost_from"], stated[p]["records"]
            unsaid = [v for v in missing if first is not None and offsets.get(v, first) < first]
            early = stated[p]["missing_from"]
            unsaid = [v for v in unsaid if early is None or offsets[v] < early]
            assert not unsaid, f"{where}: {len(unsaid)} lost that are not printed: {unsaid[:3]}, {stated[p]}"
            assert not (missing and loss["drained"]), f"{where}: drained, and {len(missing)} are missing"
            if loss["exact"] and number is not None:
                assert len(missing) <= number, f"{where}: {len(missing)} lost, {number} printed"
            topic.lost.update(missing)
            self.counted["lost"] += len(missing)

    def groups_are_right(self, topic: Topic, cluster: str, *, exact: bool) -> None:
        """Each group continues at its next record: nothing is skipped, and nothing repeated where exact."""
        flow, log = self.world.flow_at(cluster), self.log(cluster, topic)
        for group, read in topic.read.items():
            committed = flow.committed(flow.source, group)
            for p, records in log.items():
                at = TopicPartition(topic.name, p)
                offset = committed[at].offset if at in committed else 0
                before, after = (
                    {s.value or b"" for s in records if (s.offset < offset) is side} for side in (True, False)
                )
                skipped = before - read[p]
                assert not skipped, (
                    f"{group} {at} on {cluster}: {offset} skips {len(skipped)}: {[*skipped][:3]}"
                )
                repeated = read[p] & after
                assert not (exact and repeated), (
                    f"{group} {at} on {cluster}: {offset} repeats {len(repeated)}: {[*repeated][:3]}"
                )
                read[p] = before  # what it reads again, it has not read
                self.counted["positions"] += 1

    def copy_is_right(self, flow: Flow, topics: Sequence[Topic]) -> None:
        """Compare both logs of a flow at rest, record by record."""
        prefix = f"{flow.source.alias}." if flow.settings.flows[0].naming == "prefix" else ""
        for topic in topics:
            there = flow.records(flow.source, topic.name)
            here = flow.records(flow.target, f"{prefix}{topic.name}")
            for p, records in there.items():
                wanted, found = ([s.content for s in log] for log in (records, here[p]))
                assert wanted == found, (
                    f"{topic.name}-{p} {flow.source.alias}->{flow.target.alias}: {len(wanted)} records,"
                    f" {len(found)} copied, {len({*found} & {*wanted})} in both"
                )
                self.counted["copied"] += len(found)

    def status_is_right(self, data: Mapping[str, Any]) -> None:
        """No line of `drkit status` names an active side that is not, while both sides answer."""
        for flow in data["flows"]:
            for row in (flow.get("pair") or {}).get("topics", ()):
                topic = self.topics.get(row["topic"])
                if topic is not None and {flow["source"], flow["target"]} == self._pair:
                    wanted = self.world.flow_at(topic.active).source.alias
                    assert row["active"] in {wanted, ""}, (row, wanted)
                    self.counted["lines of status"] += 1

    @property
    def _pair(self) -> set[str]:
        return {self.world.flow_at(name).source.alias for name in OTHER}


def replaced(topic: Topic, disposition: str) -> None:
    """Take the disposition of a tail into account."""
    if disposition == "replay":
        topic.replayed |= topic.lost
        topic.lost.clear()
