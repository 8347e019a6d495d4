"""What must hold after a random failover: of the loss, of each group, of transactions."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
import json
from typing import Any

from drkit.journal.entries import EntryKind
from drkit.journal.lost import violations
from drkit.journal.machine import RunState, StepName
from tests.support.failover.client_logs import ClientLog
from tests.support.failover.truth import values
from tests.support.soak.failover_stage import PARTITIONS, Done

_ANSWERS = ("planned", "answering")


class Verdict:
    """Judges one failover: what is wrong in ``wrong``, its figures in ``figures``."""

    def __init__(self, done: Done) -> None:
        self._done, self.wrong = done, list[str]()
        self.figures: dict[str, Any] = {}
        self._offsets = {
            t: {s.value or b"": (p, s.offset) for p, found in parts.items() for s in found}
            for t, parts in done.theirs.items()
        }
        self._there = {
            t: Counter(v for found in parts.values() for v in values(found)) for t, parts in done.ours.items()
        }
        self._written_there = {
            t: Counter(v for found in parts.values() for v in values(found))
            for t, parts in done.theirs.items()
        }
        self._lost_from = {
            (p["topic"], p["partition"]): p["lost_from"] for p in done.report["loss"]["partitions"]
        }
        self._answers = done.case.kind in _ANSWERS
        ends = {e.step: e.at_ms for e in done.run.entries if e.kind is EntryKind.RESULT and not e.effect}
        self._opened_ms, self._told_ms = ends[StepName.OPEN], ends[StepName.REPOINT]
        self._journal()
        self._copy()
        self._loss()
        self._written()
        for client in done.clients:
            if client.group:
                self._group(client)
        self._transactions()
        self._clients()

    def _must(self, holds: object, what: object) -> None:
        if not holds:
            self.wrong.append(str(what))

    def _journal(self) -> None:
        run = self._done.run
        self._must(run.state is RunState.DONE, run.state)
        self._must(not violations(run), violations(run))
        self.figures |= {
            "run": run.run_id, "entries": len(run.entries),
            "kills": sum(o.killed for o in self._done.outcomes),
            "refused": [o.error for o in self._done.outcomes if o.error and not o.killed],
            "seconds": {k: round(v, 2) for k, v in self._done.report["seconds"].items()},
        }  # fmt: skip

    # -- the loss -----------------------------------------------------------------------------------

    def _copy(self) -> None:
        """The copy ends where the loss is said to begin, each record once, in its order."""
        done = self._done
        for topic in done.topics:
            for p in range(PARTITIONS):
                copied = [s.value for s in done.theirs[topic][p] if s.offset < self._lost_from[topic, p]]
                copies = [s.value for s in done.ours[topic][p]][: len(copied)]
                self._must(
                    copies == copied,
                    f"{topic}-{p}: the copy is not what is below {self._lost_from[topic, p]}",
                )

    def _is_lost(self, topic: str, value: bytes) -> bool:
        """Whether a record is among what is stated as lost."""
        at = self._offsets[topic].get(value)
        return at is not None and at[1] >= self._lost_from[topic, at[0]]

    def _loss(self) -> None:
        done, loss = self._done, self._done.report["loss"]
        real = {
            topic: [
                s
                for p, found in done.theirs[topic].items()
                for s in found
                if s.offset >= self._lost_from[topic, p] and s.value not in self._there[topic]
            ]
            for topic in done.topics
        }
        number = sum(map(len, real.values()))
        self.figures |= {
            "stated": loss["records"],
            "real": number,
            "exact": loss["exact"],
            "bound": loss["seconds"],
        }
        if loss["exact"]:
            self._must(loss["records"] >= number, f"{number} records are lost, stated are {loss['records']}")
        if done.case.kind == "planned":
            self._must((loss["exact"], loss["records"], number) == (True, 0, 0), f"planned, and lost: {loss}")
        # A primary that is alive takes records until its applications switch.
        until = self._told_ms if "cut" in done.case.kind else done.lost_at_ms
        before = [s.timestamp for found in real.values() for s in found if s.timestamp <= until]
        if before:
            span = (max(before) - min(before)) / 1000
            self.figures["lost_seconds"] = span
            self._must(
                loss["seconds"] is None or loss["seconds"] >= span,
                f"records of {span:.2f} s are lost, stated are {loss['seconds']} s",
            )

    def _written(self) -> None:
        """Each acknowledged record is there, or stated as lost; once, unless its answer was not heard."""
        done, topic = self._done, self._done.topics[0]
        there = self._there[topic]
        writers = [c for c in done.clients if not c.group]
        acked = [r.value for r in done.stubborn.acked[topic]] + [v for c in writers for v in c.acked]
        gone = [v for v in acked if v not in there and not self._is_lost(topic, v)]
        self._must(
            not gone, f"{len(gone)} acknowledged records are neither there nor stated as lost: {gone[:3]}"
        )
        unsure = sum(getattr(c, "uncertain_number", 0) for c in writers)
        sent_again = {v for c in writers for v in c.uncertain}
        # A client may write a record twice by itself: then the copy has it twice, too.
        twice = [
            v for v, n in there.items() if n > max(1, self._written_there[topic][v]) and v not in sent_again
        ]
        self._must(
            len(twice) <= unsure,
            f"{len(twice)} records are there twice, {unsure} were uncertain: {twice[:3]}",
        )
        self.figures["twice on the primary"] = sum(n > 1 for n in self._written_there[topic].values())
        self.figures |= {"acked": len(acked), "twice": len(twice), "uncertain": unsure + len(sent_again)}

    # -- groups -------------------------------------------------------------------------------------

    def _group(self, client: ClientLog) -> None:
        done = self._done
        primary, standby = done.ids
        old, new = client.values_of(primary), client.values_of(standby)
        topics = {g.topic for g in client.got}
        for topic in topics:
            skipped = [v for v in self._there[topic] if v not in old and v not in new]
            self._must(not skipped, f"{client.kind}: skipped {len(skipped)} of {topic}: {skipped[:3]}")
        again = list(self._repeated(client))
        reported = done.report["groups"]["repeats"].get(client.group, 0)
        if self._answers:
            self._must(
                len(again) <= reported,
                f"{client.kind}: repeats {len(again)}, reported are {reported}: {again[:3]}",
            )
        twice = Counter((g.topic, g.partition, g.offset) for g in client.got if g.cluster == standby)
        if (most := max(twice.values(), default=0)) > 1:
            self.figures.setdefault("read twice on the standby", {})[client.kind] = most
        self.figures.setdefault("repeats", {})[client.kind] = [len(again), reported, len(old & new)]

    def _repeated(self, client: ClientLog) -> Iterator[bytes]:
        """What it had committed and was given again; none of it lies before the position in the report."""
        done = self._done
        primary, standby = done.ids
        positions = done.report["groups"]["positions"].get(client.group, {})
        for topic in {g.topic for g in client.got}:
            new = {g.value for g in client.got if g.cluster == standby and g.topic == topic}
            for p in range(PARTITIONS):
                place = positions.get(f"{topic}-{p}")
                until = client.committed.get((primary, topic, p), 0)
                again = [s for s in done.theirs[topic][p] if s.offset < until and s.value in new]
                # What an application writes once more on the standby is another record with the same value.
                once = [s for s in again if self._there[topic][s.value or b""] == 1]
                early = [s.offset for s in once if place is not None and s.offset < place[0]]
                self._must(
                    not early, f"{client.kind}: {topic}-{p} repeats {early[:3]}, its position is {place}"
                )
                self._first(client, topic, p, place)
                yield from (s.value or b"" for s in again)

    def _first(self, client: ClientLog, topic: str, p: int, place: Any) -> None:
        """It begins at the position that was reported."""
        standby = self._done.ids[1]
        read = [g.offset for g in client.got if (g.cluster, g.topic, g.partition) == (standby, topic, p)]
        if place is None or not read:
            return
        offsets = [s.offset for s in self._done.ours[topic][p]]
        first = bisect_left(offsets, place[1])
        self._must(
            min(read) == offsets[first], f"{client.kind}: {topic}-{p} began at {min(read)}, not at {place[1]}"
        )

    def _transactions(self) -> None:
        """Each record that is there was transformed once, unless the report says otherwise."""
        done = self._done
        given, made = done.topics
        [client] = [c for c in done.clients if c.kind == "python transactions"]
        positions = done.report["groups"]["positions"].get(client.group, {})
        missing = again = 0
        for value in self._there[given]:
            number = self._there[made][b"t:" + value]
            if number == 0:
                missing += 1
                self._must(
                    self._is_lost(made, b"t:" + value),
                    f"{value!r} was not transformed, and is not stated as lost",
                )
            elif number > self._there[given][value] and value in self._offsets[given]:
                p, offset = self._offsets[given][value]
                place = positions.get(f"{given}-{p}")
                again += number - 1
                self._must(
                    not self._answers and place is not None and offset >= place[0],
                    f"{value!r} was transformed {number} times, its group's position is {place}",
                )
        self.figures["transactions"] = {"missing": missing, "again": again}

    def _clients(self) -> None:
        """Times until the clients read again, and the errors that they got."""
        primary, standby = self._done.ids
        names = {primary: "primary", standby: "standby"}
        for client in self._done.clients:
            self._must(
                not getattr(client, "trouble", None), f"{client.kind}: {getattr(client, 'trouble', '')}"
            )
            firsts = [g.at_ms for g in client.got if g.cluster == standby]
            told = {f"{names.get(c, '')} {n}": k for (c, n), k in client.errors.items()}
            seconds = (min(firsts) - self._opened_ms) / 1000 if firsts else None
            self.figures.setdefault("clients", {})[client.kind] = {"first": seconds, "errors": told}

    def line(self) -> str:
        """As a line of JSON."""
        case = self._done.case
        return json.dumps({"case": case._asdict(), "wrong": self.wrong, **self.figures})
