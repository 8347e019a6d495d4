"""Primaries that die under load with records of their own, and come home, round after round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
import random
from typing import Any, NamedTuple

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import CommitKind
from drkit.failover.returning.deciding import Undecided
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.repoint import endpoint_of
from drkit.repoint.file import EndpointFile
from tests.support.failback.pair import CUT, Pair, Side
from tests.support.failback.rounds import Standing
from tests.support.failback.unplanned_tails import Tails, common, is_overtaken, is_the_truth
from tests.support.failover.followers import Reader, Transactor, Writer
from tests.support.failover.truth import values
from tests.support.flows.produce import aged, fill
from tests.support.waiting import eventually

PARTITIONS = 2
OLD_MS = 3 * 365 * 86_400_000
_MORE = 60
"""Records that each client works on before its primary dies, before that is back, and after the return."""


class RoundCounts(NamedTuple):
    """One round in numbers."""

    tail: int
    """Records that only the old primary had."""
    offsets: int
    """That were compared by the map, both ways."""
    places: int
    """Positions of groups that were compared."""
    again: int
    """Records that the reader processed again, after a replay."""


class UnplannedRounds:
    """A pair with a load that follows: plain, in transactions with aborts, compacted, and years old."""

    def __init__(self, pair: Pair, folder: Path, *, tick: float) -> None:
        self.pair, self._folder, self._chance = pair, folder, random.Random(11)
        side = pair.now
        self.orders, self.tx, self.keys, self.old = (side.name(n) for n in ("orders", "tx", "keys", "old"))
        self.topics = [self.orders, self.tx, self.keys, self.old]
        for topic in self.topics:
            more = {"cleanup.policy": "compact"} if topic == self.keys else {}
            side.create(side.source, topic, PARTITIONS, {"retention.ms": "-1", **more})
            fill(side.source, topic, 100, timestamp=aged(OLD_MS) if topic == self.old else None)
        file = folder / "endpoint.json"
        cluster_id = Cluster.connect(side.source).cluster_id
        EndpointFile(file).tell(endpoint_of(side.source, term=0, cluster_id=cluster_id))
        for each in (pair.now, pair.other):
            each.failover_fields |= {
                "repoint": [{"kind": "file", "path": str(file)}], "fence": {"transaction_wait_seconds": 0.5},
            }  # fmt: skip
        self._writers = [
            Writer("plain", self.orders, file),
            Writer("idempotent", self.orders, file, enable_idempotence=True),
            Writer("keys", self.keys, file),
            Writer("old", self.old, file, age_ms=OLD_MS),
        ]
        self._transactor = Transactor("tx", self.tx, file, aborts=3, transaction_timeout_ms=8000)
        self.reader = Reader(side.name("works"), self.orders, file)
        for application in (*self._writers, self._transactor):
            application.tick = tick
        self._standing = Standing()
        self._given_up: Counter[bytes] = Counter()
        """Values of tails that are not replayed."""
        self._again: Counter[bytes] = Counter()
        """Values that the reader may process a second time."""

    @property
    def _clients(self) -> tuple[Writer | Transactor | Reader, ...]:
        return *self._writers, self._transactor, self.reader

    def run(self, rounds: Sequence[Mapping[str, str]], *, loaded: int) -> list[RoundCounts]:
        """Let the primary of the moment die, once for each of these.

        :param rounds: topic, without the pair's tag → what becomes of its tail
        :param loaded: the round in which the replicator is killed while clients write; before it is in the
            others everything is copied
        """
        with ExitStack() as stack:
            for each in self._clients:
                stack.enter_context(each)
            self.pair.now.replicate()
            self._works(_MORE)  # a group that has committed nothing has no position to be kept
            found = [
                self._round({self.pair.now.name(t): d for t, d in each.items()}, under_load=n == loaded)
                for n, each in enumerate(rounds)
            ]
            self._balance()
        assert not [t for each in self._clients for t in each.trouble]
        assert not [e for w in self._writers for e in w.failed]
        return found

    # -- a round ------------------------------------------------------------------------------------

    def _round(self, dispositions: Mapping[str, str], *, under_load: bool) -> RoundCounts:
        side, back = self.pair.now, self.pair.other
        if under_load:  # but for the reader: it processes again what its position on the standby lacks
            self.reader.pause()
            self._settle(side)
        else:
            self._at_rest(side)
        read = len(self.reader.processed)
        side.stop_replicating()
        self._works(_MORE, reads=not under_load)
        side.brokers[0].kill()
        committed = self.reader.committed
        with side.desk() as desk:
            report = desk.begin([], RunRequest(accept_data_loss="for the test"))
        assert report["state"] == "done", report
        window, known = Counter(self.reader.processed[read:]), Counter(self.reader.processed[read:committed])
        self._standing.check(side, {t: side.records(side.target, t) for t in self.topics})
        self._works(_MORE)
        side.brokers[0].restart()
        eventually(lambda: side.offsets(side.source, self.orders), what="the primary's return")
        named = self._named_beforehand(side)
        tails, report = self._returned(side, dispositions)
        if any("restart broker" in line for line in report["next"]):
            side.brokers[0].kill()
            side.brokers[0].restart()
        self.pair.now, self.pair.other = back, side
        back.replicate()
        self._works(_MORE)
        self._at_rest(back)
        offsets, places = self._compared(back)
        again = self._allow(tails, dispositions, window)
        orders = Counter(v for records in tails[self.orders].values() for v in values(records))
        assert (orders & known).total() <= named, "what it has committed is named beforehand"
        assert again <= named + window.total() - known.total(), (
            "and nothing else, but what it had not committed"
        )
        self._resume()
        number = sum(len(records) for log in tails.values() for records in log.values())
        return RoundCounts(number, offsets, places, again)

    def _at_rest(self, side: Side) -> None:
        """Pause the load until all is copied and every group's position is on the standby."""
        for each in self._clients:
            each.pause()
        self._group(side)
        side.copied(self.topics)
        self._settle(side)

    def _settle(self, side: Side) -> None:
        """Wait until every group's position is on the standby."""
        eventually(lambda: not self._behind(side), 60, lambda: f"positions: {self._behind(side)}")

    def _resume(self) -> None:
        for each in self._clients:
            each.resume()

    def _behind(self, side: Side) -> list[str]:
        """Groups whose position on the standby is not that on the primary."""
        there = {t: side.records(side.source, t) for t in self.topics}
        here = {t: side.records(side.target, t) for t in self.topics}
        wrong = []
        for group in (side.name("works"), *self._standing.read):
            theirs, ours = side.committed(side.source, group), side.all_committed(group)
            for at, position in theirs.items():
                wanted = sum(s.offset < position.offset for s in there[at.topic][at.partition])
                found = sum(s.offset < ours.get(at, -1) for s in here[at.topic][at.partition])
                if wanted != found:
                    wrong.append(f"{group} {at}: {found} for {wanted}")
        return wrong

    def _group(self, side: Side) -> None:
        """One more group without members, somewhere in one topic."""
        topic = self._chance.choice(self.topics)
        log = side.records(side.source, topic)
        read = {TopicPartition(topic, p): self._chance.randint(0, len(s)) for p, s in log.items()}
        self._standing.put(side, side.name(f"idle{len(self._standing.read)}"), read)

    def _works(self, number: int, *, reads: bool = True) -> None:
        """Let every client work for this number of further records.

        :param reads: the reader, too
        """
        for each in self._clients:
            if reads or each is not self.reader:
                each.resume()
        acked = [len(w.acked) for w in self._writers]
        committed, read = len(self._transactor.committed), len(self.reader.processed)
        eventually(
            lambda: all(len(w.acked) > n + number for w, n in zip(self._writers, acked, strict=True))
            and len(self._transactor.committed) > committed + number
            and (not reads or len(self.reader.processed) > read + number),
            90, lambda: f"clients at work: {[each.trouble for each in self._clients]}",
        )  # fmt: skip

    def _named_beforehand(self, side: Side) -> int:
        """Records of the tail of which the command says that the reader has processed them."""
        with side.desk() as desk:
            found = divergence(desk.context_outside_run())
        assert found.is_known, found.statement()
        mine = [c for c in found.commits if c.group == side.name("works")]
        return sum(c.beyond for c in mine if c.kind is CommitKind.BEYOND)

    # -- the return ---------------------------------------------------------------------------------

    def _returned(self, side: Side, dispositions: Mapping[str, str]) -> tuple[Tails, dict[str, Any]]:
        """Save first, decide later; the tails as a consumer reads them in between, and the report."""
        request = RunRequest(clients_cut=CUT, export_to=str(self._folder), same="content")
        eventually(lambda: _is_held(side, request), 60, "the last consumers leave")
        tails = self._truth(side)
        exported = side.run_log().results[StepName.EXPORT]["evidence"]
        is_the_truth(tails, exported["manifest"], exported["sha256"])
        with side.desk() as desk:
            report = desk.resume(request._replace(dispositions=dict(dispositions), reason="a test"))
        assert report["state"] == "done", report
        return tails, report

    def _truth(self, side: Side) -> Tails:
        """What only the old primary has: its log behind what both sides have, record by record."""
        found: Tails = {}
        for topic in self.topics:
            theirs, ours = (side.records(c, topic) for c in (side.source, side.target))
            for p, records in theirs.items():
                tail = records[common(records, ours[p]) :]
                if tail:
                    found.setdefault(topic, {})[p] = tail
        assert set(found) == set(self.topics), "each topic has a tail"
        return found

    def _compared(self, back: Side) -> tuple[int, int]:
        """Check that both logs are the same, and each position of the map and of groups."""
        log = {}
        for topic in self.topics:
            theirs, log[topic] = (back.records(c, topic) for c in (back.source, back.target))
            for p, records in theirs.items():
                assert [s.content for s in log[topic][p]] == [s.content for s in records], (topic, p)
        return back.exact(self.topics), self._standing.check(back, log)

    def _allow(self, tails: Tails, dispositions: Mapping[str, str], window: Counter[bytes]) -> int:
        """Note what may be missing at the end, and what the reader may process again; returns how much."""
        again = 0
        for topic, log in tails.items():
            tail = Counter(v for records in log.values() for v in values(records))
            if dispositions[topic] != "replay":
                self._given_up += tail
            elif topic == self.orders:
                self._again += tail & window
                again = sum((tail & window).values())
        return again

    def _balance(self) -> None:
        """Nothing acknowledged is missing that was not given up; no client reads too much or too little."""
        for each in (*self._writers, self._transactor):
            each.finish()
        side = self.pair.now
        log = {t: side.records(side.source, t) for t in self.topics}
        there = Counter(v for topic in self.topics for r in log[topic].values() for v in values(r))
        written = Counter(v for w in self._writers for v in w.acked) + Counter(self._transactor.committed)
        lost = written - there - self._given_up
        overtaken = {v for v in lost if v.startswith(b"keys ") and is_overtaken(v, log[self.keys])}
        assert not {v: n for v, n in lost.items() if v not in overtaken}
        repeated = {v: n for v, n in there.items() if n > 1 and v in written}
        assert not repeated
        orders = Counter(v for r in log[self.orders].values() for v in values(r))
        eventually(lambda: not orders - Counter(self.reader.processed), 60, "the reader at the end")
        twice = {v: n - 1 for v, n in Counter(self.reader.processed).items() if v in written}
        assert not (more := Counter(twice) - self._again), sorted(more)


def _is_held(side: Side, request: RunRequest) -> bool:
    """Begin a return that waits for a decision; False: a consumer of the old primary is still its member."""
    with side.desk() as desk:
        try:
            desk.begin_return(request, decides_later=True)
        except Undecided:
            return True
        except Refused as error:
            if error.code != "members_on_old_primary":
                raise
    return False
