"""Every acknowledged record and every group's position of a walk, and what must hold of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from drkit.model import TopicPartition
from tests.support.failover.truth import Load, values
from tests.support.flows.compare import Seen
from tests.support.flows.produce import producer, put
from tests.support.soak.flows_world import OTHER, A, Flow, FlowsWorld
from tests.support.waiting import eventually

PARTITIONS = 2
_NUMBERS = 1_000_000
"""Values of one load; each load has numbers of its own."""
Log = dict[int, list[Seen]]


@dataclass
class Topic:
    """A topic as its clients know it: the side they write to, and the acknowledged records."""

    name: str
    active: str = A
    is_protected: bool = True
    """Whether the other side is a standby: from the beginning, or after a return."""
    acked: dict[int, list[bytes]] = field(default_factory=lambda: {p: [] for p in range(PARTITIONS)})
    """By partition, in the order of the active side's log."""
    tail: set[bytes] = field(default_factory=set)
    """Values that a printed loss covers, until a return decides about them."""
    lost: set[bytes] = field(default_factory=set)
    """Values that a return has given up."""
    replayed: set[bytes] = field(default_factory=set)
    """Values that a return has appended: once each, in any order."""
    read: dict[str, dict[int, set[bytes]]] = field(default_factory=dict)
    """Group → partition → the values before its position."""
    ever_read: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """Group → each value that was ever before its position."""

    def decide(self, disposition: str) -> None:
        """Take what became of the tail in a return into account."""
        self.is_protected = True
        (self.replayed if disposition == "replay" else self.lost).update(self.tail)
        self.tail.clear()


class Oracle:
    """Compares acknowledged records and positions with the clusters."""

    def __init__(self, world: FlowsWorld, names: Sequence[str]) -> None:
        self.world, self.topics = world, {name: Topic(name) for name in names}
        self.counted: Counter[str] = Counter()
        """What was compared."""

    def on(self, side: str, *, protected: bool | None = None) -> list[Topic]:
        """Return the topics whose clients write to a side, all or by whether the other one is a standby."""
        found = (t for t in self.topics.values() if t.active == side)
        return [t for t in found if protected in {None, t.is_protected}]

    def log(self, side: str, topic: Topic) -> Log:
        """Return everything in a topic of a side."""
        flow = self.world.flow_from(side)
        return flow.records(flow.source, topic.name)

    # -- what clients do ----------------------------------------------------------------------------

    def write(self, topic: Topic, number: int) -> None:
        """Write to the active side, which acknowledges everything."""
        out, failed = producer(self.world.flow_from(topic.active).source, message_timeout_ms=20_000), []
        for n in range(self.counted["written"], self.counted["written"] + number):
            value, partition = b"%s written %d" % (topic.name.encode(), n), n % PARTITIONS
            report = lambda error, _: failed.append(error) if error else None  # noqa: E731
            put(out, topic.name, value, value, partition=partition, on_delivery=report)
            topic.acked[partition].append(value)
        self.counted["written"] += number
        assert out.flush(30) == 0, f"{topic.name}: no answer of {topic.active}"
        assert not failed, f"{topic.name}: {topic.active} refuses its clients: {failed[0]}"

    def load(self, topic: Topic) -> Load:
        """Return a load of the active side; its values are its own."""
        self.counted["loads"] += 1
        source, first = self.world.flow_from(topic.active).source, _NUMBERS * self.counted["loads"]
        return Load(source, [topic.name], per_second=100, first=first, timeout_seconds=60)

    def take(self, load: Load) -> None:
        """Take the records that a load was acknowledged."""
        for name, records in load.acked.items():
            self.counted["written under load"] += len(records)
            for record in sorted(records, key=lambda r: r.offset):
                self.topics[name].acked[record.partition].append(record.value)

    def read_on(self, topic: Topic, group: str, share: float) -> None:
        """Commit for a group without members, past a share of the records that it has not read."""
        log, flow = self.log(topic.active, topic), self.world.flow_from(topic.active)
        topic.read[group], offsets = {}, {}
        for p, known in self._positions(topic.active, group, log).items():
            number = known + int((len(log[p]) - known) * share)
            offsets[TopicPartition(topic.name, p)] = log[p][number - 1].offset + 1 if number else 0
            topic.read[group][p] = {*values(log[p][:number])}
            topic.ever_read[group] |= topic.read[group][p]
        flow.commit(flow.source, group, offsets)

    # -- what must hold -----------------------------------------------------------------------------

    def check_active(self, topic: Topic) -> None:
        """Each acknowledged record is on the active side once and in order, but for a printed loss."""
        for p, records in self.log(topic.active, topic).items():
            found, where = Counter(values(records)), f"{topic.name}-{p} on {topic.active}"
            absent = topic.lost | topic.tail
            wanted = [v for v in topic.acked[p] if v not in absent]
            twice = [v for v in topic.acked[p] if found[v] > 1]
            missing, back = [v for v in wanted if not found[v]], [v for v in absent if found[v]]
            assert not twice, f"{where}: {len(twice)} records twice: {twice[:3]}"
            assert not missing, f"{where}: {len(missing)} of {len(wanted)} records missing: {missing[:3]}"
            assert not back, f"{where}: {len(back)} lost records are there: {back[:3]}"
            in_order = {*wanted} - topic.replayed
            assert [v for v in found if v in in_order] == [v for v in wanted if v in in_order], where
            self.counted["records"] += len(wanted)

    def check_loss(self, topic: Topic, loss: Mapping[str, Any], old_log: Log, target: str) -> None:
        """Records that are missing on the new active side are in the printed loss.

        :param old_log: of the old active side, before it died
        """
        stated = {p["partition"]: p for p in loss["partitions"] if p["topic"] == topic.name}
        assert stated.keys() == topic.acked.keys(), (topic.name, loss)
        for p, records in self.log(target, topic).items():
            topic.tail.difference_update(values(records))  # the target has kept what it had to itself
            wanted = {*topic.acked[p]} - {*values(records)} - topic.lost - topic.tail
            missing = [s for s in old_log[p] if s.value in wanted]
            first, number = stated[p]["lost_from"], stated[p]["records"]
            unsaid = [s.offset for s in missing if first is not None and s.offset < first]
            assert not unsaid, f"{topic.name}-{p}: lost, and not printed: {unsaid[:3]}, {stated[p]}"
            if loss["exact"] and number is not None:
                assert len(missing) <= number, f"{topic.name}-{p}: {len(missing)} lost, {stated[p]}"
            topic.tail.update(s.value or b"" for s in missing)
            self.counted["lost"] += len(missing)

    def check_groups(self, topic: Topic, side: str, *, exact: bool, seconds: float = 0) -> None:
        """No group skips a record on a side, or repeats one where positions are exact, after some seconds."""
        wrong = partial(self._wrong_positions, topic, side, exact=exact)
        eventually(lambda: not wrong(), seconds, lambda: "\n".join(wrong()))
        self.counted["positions"] += PARTITIONS * len(topic.read)

    def _wrong_positions(self, topic: Topic, side: str, *, exact: bool) -> list[str]:
        found, log = [], self.log(side, topic)
        for group, read in topic.read.items():
            for p, number in self._positions(side, group, log).items():
                before, behind = {*values(log[p][:number])}, {*values(log[p][number:])}
                skipped = before - (read[p] if exact else topic.ever_read[group])
                repeated = behind & read[p] if exact else set()
                if skipped or repeated:
                    where = f"{group} of {topic.name}-{p} on {side} continues at record {number}"
                    found.append(f"{where}: skips {len(skipped)}, repeats {len(repeated)}")
        return found

    def _positions(self, side: str, group: str, log: Log) -> dict[int, int]:
        """Return partition → the number of records before a group's position on a side."""
        flow = self.world.flow_from(side)
        at = {tp.partition: c.offset for tp, c in flow.committed(flow.source, group).items()}
        return {p: sum(s.offset < at.get(p, 0) for s in records) for p, records in log.items()}

    def check_copy(self, flow: Flow, topics: Sequence[Topic]) -> None:
        """Both logs of a flow at rest have the same records."""
        for topic in topics:
            copies = flow.records(flow.target, flow.prefix + topic.name)
            for p, records in flow.records(flow.source, topic.name).items():
                wanted, found = ([s.content for s in log] for log in (records, copies[p]))
                where = f"{topic.name}-{p} to {flow.target.alias}"
                assert wanted == found, f"{where}: {len(wanted)} records, {len(found)} copied"
                self.counted["copied"] += len(found)

    def check_status(self, data: Mapping[str, Any]) -> None:
        """No line of `drkit status` names an active side that is not, whatever answers."""
        aliases = {side: self.world.flow_from(side).source.alias for side in OTHER}
        for flow in data["flows"]:
            if {flow["source"], flow["target"]} == {*aliases.values()}:
                for row in (flow["pair"] or {}).get("topics", ()):
                    if (topic := self.topics.get(row["topic"])) is not None:
                        assert row["active"] in {aliases[topic.active], ""}, (row, topic.active)
                        self.counted["lines of status"] += 1
