"""A primary that died with records of its own comes home: what was there, what was decided, what holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drkit.config import ClusterSettings
from drkit.export.check import check_files, exported_records
from drkit.failover.core.request import RunRequest
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from drkit.model import TopicPartition
from tests.support.failback.crossed import Content, contents, crossed
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.truth import values
from tests.support.flows.compare import Seen
from tests.support.flows.produce import fill, fill_transactions
from tests.support.waiting import eventually

PARTITIONS = 2
COPIED = 60
TAIL = 24
DELTA = 30
REASON = "a test"
Log = dict[int, list[Seen]]
Write = Callable[[ClusterSettings, str], None]


@dataclass(frozen=True)
class Case:
    """A topic: what it has, and what is decided about it."""

    disposition: str = ""
    method: str = ""
    tail: int = TAIL
    """Records that only the old primary gets."""
    transactions: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    write: Write | None = None
    """Writes the tail; None: plain records."""

    def write_tail(self, cluster: ClusterSettings, topic: str) -> None:
        """What the primary gets that is not copied."""
        if self.write is not None:
            self.write(cluster, topic)
        elif self.transactions:
            fill_transactions(cluster, [topic], self.tail, most=5, seed=2)
        else:
            fill(cluster, topic, self.tail, first=1000)


class DeadPrimary:
    """A pair whose primary was killed with records that were not copied; failed over, and started again.

    :param primary: the cluster that is killed
    """

    def __init__(self, pair: Pair, primary: LocalCluster, cases: Mapping[str, Case]) -> None:
        self.pair, self.primary = pair, primary
        self.side, self.back = pair.now, pair.other
        self.cases = {self.side.name(name): case for name, case in cases.items()}
        self.topics = list(self.cases)
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.read: dict[str, dict[TopicPartition, int]] = {}
        """Group → partition → how many records it has read."""
        self.before: dict[str, Log] = {}
        """The old primary's log at its death."""
        self.copy: dict[str, Log] = {}
        """The new primary's log when clients began to write there."""
        self.term = 0
        """Of the failover."""

    def die(self) -> None:
        """Copy, write a tail, kill the primary, fail over, write on the new one, start the old one."""
        self.fall()
        self.rise()

    def fall(self) -> None:
        """Copy, write a tail, kill the primary, fail over, write on the new one."""
        side = self.side
        for topic, case in self.cases.items():
            side.create(side.source, topic, PARTITIONS, {"retention.ms": "-1", **case.settings})
            if case.transactions:
                fill_transactions(side.source, [topic], COPIED, most=5)
            else:
                fill(side.source, topic, COPIED, linger_ms=0, flush_every=COPIED // 6)
            for name in ("lags", "near"):
                self._group(topic, name)
        side.replicate()
        side.copied(self.topics, dict.fromkeys(self.groups))
        side.stop_replicating()
        for topic, case in self.cases.items():
            if case.tail:
                case.write_tail(side.source, topic)
        self._process_tails()
        self.before = {t: side.records(side.source, t) for t in self.topics}
        self.primary.kill()
        with side.desk() as desk:
            report = desk.begin([], RunRequest(accept_data_loss="for the test"))
        assert report["state"] == "done", report
        self.term = report["term"]
        self.copy = {t: side.records(side.target, t) for t in self.topics}
        for topic in self.topics:
            fill(side.target, topic, DELTA, first=5000)
        for group in self.groups:  # those of a trimmed topic have read all that was copied
            topic = group.rpartition("-")[0]
            if self.cases[topic].method == "trim":
                ends = side.offsets(side.target, topic)
                side.commit(side.target, group, {TopicPartition(topic, p): e for p, e in ends.items()})

    def _process_tails(self) -> None:
        """Let one group of each topic process what only the old primary has."""
        for group in self.groups:
            topic = group.rpartition("-")[0]
            if self.cases[topic].tail and group.endswith("-near"):
                ends = self.side.offsets(self.side.source, topic)
                self.side.commit(
                    self.side.source, group, {TopicPartition(topic, p): e for p, e in ends.items()}
                )

    def rise(self) -> None:
        """Start the old primary."""
        side = self.side
        self.primary.restart()
        eventually(lambda: side.offsets(side.source, self.topics[0]), what="the primary's return")

    def _group(self, topic: str, name: str) -> None:
        side = self.side
        log = side.records(side.source, topic)
        group = f"{topic}-{name}"
        read = {TopicPartition(topic, p): len(s) // 2 if name == "lags" else len(s) for p, s in log.items()}
        self.groups[group] = {at: (log[at.partition][n - 1].offset + 1 if n else 0) for at, n in read.items()}
        self.read[group] = read
        side.commit(side.source, group, self.groups[group])

    @property
    def tails(self) -> dict[str, Log]:
        """The truth: the records that only the old primary has."""
        found: dict[str, Log] = {}
        for topic, log in self.before.items():
            copied = {p: len(records) for p, records in self.copy[topic].items()}
            found[topic] = {p: records[copied[p] :] for p, records in log.items() if records[copied[p] :]}
        return found

    def own_settings(self, cluster: ClusterSettings) -> dict[str, dict[str, str]]:
        """What is set on each topic of a cluster itself."""
        found = topic_configs(Cluster.connect(cluster), self.topics)
        return {
            t: {n: str(v.value) for n, v in configs.items() if v.is_set_on_topic}
            for t, configs in found.items()
        }

    def request(self, folder: Path, topics: Collection[str] = (), **more: Any) -> RunRequest:
        """What is decided about each topic, or about some."""
        cases = {t: c for t, c in self.cases.items() if not topics or t in topics}
        said: dict[str, Any] = {
            "clients_cut": CUT,
            "dispositions": {t: c.disposition for t, c in cases.items() if c.disposition},
            "methods": {t: c.method for t, c in cases.items() if c.method},
            "reason": REASON, "export_to": str(folder),
        }  # fmt: skip
        return RunRequest(**said | more)

    def come_home(self, request: RunRequest) -> dict[str, Any]:
        """The return; the other direction copies afterwards."""
        with self.side.desk() as desk:
            report = desk.begin_return(request)
        assert report["state"] == "done", report
        self.turned()
        return report

    def turned(self) -> None:
        """From now on the other direction copies."""
        self.pair.now, self.pair.other = self.back, self.side

    def copied_back(self) -> None:
        """Let the reverse flow copy until it is in step."""
        self.back.replicate()
        self.back.copied(self.topics, dict.fromkeys(self.groups))

    def same_on_both(self) -> int:
        """Both logs hold the same records, every offset translates; returns how many offsets."""
        back = self.back
        for topic, case in self.cases.items():
            theirs, ours = back.records(back.source, topic), back.records(back.target, topic)
            for p, records in ours.items():
                wanted = values(theirs[p])
                if case.method == "keep":
                    assert Counter(values(records)) == Counter(wanted), f"{topic}-{p}: {case}"
                    assert contents(records) == [*contents(self.before[topic][p]), *self.since(topic, p)]
                    continue
                if case.method == "trim" and self.tails.get(topic, {}).get(p):
                    wanted = wanted[len(self.copy[topic][p]) :]
                assert values(records) == wanted, f"{topic}-{p}: {case}"
        kept = [t for t, c in self.cases.items() if c.method == "keep"]
        others = [t for t, c in self.cases.items() if c.method not in {"trim", "keep"}]
        return back.exact(others) + sum(crossed(back, topic) for topic in kept)

    def since(self, topic: str, partition: int) -> list[Content]:
        """What clients wrote on the new primary since, in its order; without the tail, which was appended."""
        tail = Counter(contents(self.tails.get(topic, {}).get(partition, [])))
        found = []
        log = contents(self.side.records(self.side.target, topic)[partition])
        for value in log[len(self.copy[topic][partition]) :]:
            if tail[value]:
                tail[value] -= 1
            else:
                found.append(value)
        return found

    def nothing_is_lost(self) -> None:
        """What was copied and what clients wrote since is on the new primary, each once and in order."""
        for topic, case in self.cases.items():
            ours = self.side.records(self.side.target, topic)
            for p, copied in self.copy[topic].items():
                now = values(ours[p])
                assert now[: len(copied)] == values(copied), topic
                more = Counter(now[len(copied) :])
                tail = Counter(values(self.tails.get(topic, {}).get(p, [])))
                has_tail = case.disposition == "replay"
                assert (tail - more == Counter()) is (has_tail or not tail), (topic, p, case)

    def reads_are_whole(self) -> int:
        """Each group reads on the old primary exactly what it has left on the new one; returns how many."""
        checked = 0
        for group in self.groups:
            topic = group.rpartition("-")[0]
            theirs, ours = (self.back.records(c, topic) for c in (self.back.source, self.back.target))
            there, here = self.side.all_committed(group), self.back.all_committed(group)
            for at, offset in there.items():
                wanted = [s for s in theirs[at.partition] if s.offset >= offset]
                found = [s for s in ours[at.partition] if s.offset >= here[at]]
                same = Counter if self.cases[topic].method == "keep" else list
                assert same(values(found)) == same(values(wanted)), f"{group} {at}: {here[at]} for {offset}"
                checked += 1
        return checked

    def manifest_is_the_truth(self, path: str, sha256: str) -> None:
        """What was exported is what only the old primary had, record by record."""
        manifest = check_files(path, sha256)
        assert {(p.topic, p.partition) for p in manifest.partitions} == {
            (t, p) for t, log in self.tails.items() for p in log
        }
        for topic, log in self.tails.items():
            for p, records in log.items():
                exported = exported_records(path, topic, p, manifest)
                found = [(r.offset, r.key, r.value, r.timestamp, r.headers) for r in exported]
                truth = [
                    (s.offset, s.key, s.value, s.timestamp, tuple((k.encode(), v) for k, v in s.headers))
                    for s in records
                ]
                assert found == truth, (topic, p)

    def positions_are_right(self) -> None:
        """Each group reads on the old primary what it has not read, and nothing twice."""
        eventually(lambda: not self._wrong_positions(), 40, lambda: f"positions: {self._wrong_positions()}")

    def _wrong_positions(self) -> list[Any]:
        back, wrong = self.back, []
        for group, read in self.read.items():
            topic = group.rpartition("-")[0]
            if self.cases[topic].method == "trim":
                continue
            log, stands = back.records(back.target, topic), back.all_committed(group)
            for at, number in read.items():
                before = sum(s.offset < stands[at] for s in log[at.partition])
                if before != number or stands[at] < log[at.partition][0].offset:
                    wrong.append((group, at, stands[at], number))
        return wrong

    def close(self) -> None:
        """Stop what runs."""
        with suppress(Exception):
            self.pair.close()


@contextmanager
def dead_primary(
    primary: LocalCluster, standby: LocalCluster, folder: Path, cases: Mapping[str, Case]
) -> Iterator[DeadPrimary]:
    """With a pair whose primary has died and is back."""
    found = DeadPrimary(Pair(primary, standby, folder / "journal"), primary, cases)
    try:
        found.die()
        yield found
    finally:
        found.close()
