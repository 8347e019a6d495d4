"""A return while people change the clusters and the configuration: each refusal names what clears it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
import random
import threading

from confluent_kafka import KafkaException

from drkit.errors import ClusterUnreachable, DrkitError
from drkit.failover.core.request import RunRequest
from drkit.failover.forgetting import forget
from drkit.model import TopicPartition
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.flows.produce import fill
from tests.support.waiting import eventually

_TRIES = 30
_AGAIN_SECONDS = 0.5
BLOCKS = {
    "small": "record_too_large",
    "left out": "reverse_flow_excludes",
    "deleted": "promoted_topic_recreated",
    "anew": "promoted_topic_recreated",
}
"""What a person does on the new primary that a return refuses, and the code of the refusal."""
PASSES = {
    "members_on_old_primary",
    "members_on_target",
    "old_primary_stopped_answering",
    "source_alive",
    "tail_unreachable",
}
"""Refusals that end by themselves."""
HARMLESS = ("isr", "stamp", "grown", "more", "reset")
DEATHS = ("new primary dies", "old primary dies")


class Operators:
    """People at work on a pair whose primary has died.

    :param home: failed over; the old primary is down
    """

    def __init__(self, home: DeadPrimary, folder: Path, chance: random.Random) -> None:
        self.home, self._folder, self._chance = home, folder, chance
        self._pause = threading.Event()
        self._active: dict[str, str] = {}
        """What stands in the way → the topic."""
        self.seen: Counter[str] = Counter()
        """Refusals, by their codes."""

    def meddle(self, number: int) -> dict[str, str]:
        """Do some of this on the new primary; returns what, and to which topic."""
        names = self._chance.sample([*BLOCKS, *HARMLESS], number)
        topics = self._chance.sample(self.home.topics, len(self.home.topics))
        done = {}
        for name, topic in zip(names, topics, strict=False):
            getattr(self, f"_{name.replace(' ', '_')}")(topic)
            if name in BLOCKS:
                self._active[name] = topic
            done[name] = topic
        return done

    def come_home(self, death: str = "") -> None:
        """Return, and clear what is refused, until it is done.

        :param death: which side dies on the way; empty: none
        """
        killer = threading.Thread(target=self._die, args=(death,), daemon=True)
        if death:
            killer.start()
        for _ in range(_TRIES):
            try:
                if self._once():
                    break
            except DrkitError as error:
                self._clear(error)
        else:
            raise AssertionError(f"{self._active}, {self.seen}")
        if death:
            killer.join(60)
        self.home.turned()

    def checked(self) -> None:
        """Compare both logs and each position."""
        home = self.home
        home.nothing_is_lost()
        home.copied_back()
        assert home.same_on_both() > 0
        eventually(lambda: _holds(home.reads_are_whole), 40, "positions of groups")

    # -- a return -----------------------------------------------------------------------------------

    def _once(self) -> bool:
        request: RunRequest = self.home.request(self._folder)
        with self.home.side.desk() as desk:
            report = desk.resume(request) if desk.under_way is not None else desk.begin_return(request)
        return bool(report["state"] == "done")

    def _clear(self, error: DrkitError) -> None:
        self.seen[error.code] += 1
        assert error.hint, error.code
        blocking = [n for n in self._active if BLOCKS[n] == error.code]
        if not blocking:
            assert error.exit_code == 1 or error.code in PASSES, error.in_full
            self._pause.wait(_AGAIN_SECONDS)
            return
        name = self._chance.choice(blocking)
        with suppress(ClusterUnreachable, KafkaException):  # it died meanwhile: the same again
            self._cleared(name, self._active[name])
            del self._active[name]

    def _cleared(self, name: str, topic: str) -> None:
        side = self.home.side
        if name == "small":
            side.configure(side.target, topic, "max.message.bytes", "1000000")
        elif name == "left out":
            del self.home.back.flow_fields["topics_exclude"]
        else:
            self._forgotten(topic)

    def _forgotten(self, topic: str) -> None:
        side = self.home.side
        with side.desk() as desk:
            if desk.under_way is not None:
                assert desk.abort("for the test")["state"] == "aborted"
        if not side.topic(side.source, topic).error:
            side.delete(side.source, topic)
        with side.desk() as desk:
            assert [t.topic for t in forget(desk, [topic], by="a test")] == [topic]
        self.home.cases.pop(topic)
        self.home.topics.remove(topic)
        for group in [g for g in self.home.groups if g.rpartition("-")[0] == topic]:
            del self.home.groups[group], self.home.read[group]
        for log in (self.home.before, self.home.copy):
            del log[topic]

    def _die(self, death: str) -> None:
        broker = self.home.side.brokers[DEATHS.index(death) == 0]
        self._pause.wait(self._chance.uniform(0.3, 6.0))
        broker.kill()
        self._pause.wait(self._chance.uniform(0.1, 2.0))
        broker.restart()

    # -- what people do -----------------------------------------------------------------------------

    def _small(self, topic: str) -> None:
        self._set(topic, "max.message.bytes", "90")
        self.home.cases[topic] = Case("replay")  # nothing else appends to the topic

    def _isr(self, topic: str) -> None:
        self._set(topic, "min.insync.replicas", "2")  # brokers count no more than there are replicas

    def _stamp(self, topic: str) -> None:
        self._set(topic, "message.timestamp.type", "LogAppendTime")

    def _left_out(self, topic: str) -> None:
        self.home.back.flow_fields["topics_exclude"] = [topic]

    def _deleted(self, topic: str) -> None:
        self.home.side.delete(self.home.side.target, topic)

    def _anew(self, topic: str) -> None:
        side = self.home.side
        self._deleted(topic)
        side.create(side.target, topic, 2, {"retention.ms": "-1"})
        fill(side.target, topic, 20, first=9000)

    def _grown(self, topic: str) -> None:
        side = self.home.side
        side.grow(side.target, topic, 3)
        fill(side.target, topic, 20, first=9000)

    def _more(self, topic: str) -> None:
        side, name = self.home.side, f"{topic}-more"
        side.create(side.target, name, 1, {"retention.ms": "-1"})
        fill(side.target, name, 20)

    def _reset(self, topic: str) -> None:
        side, group = self.home.side, f"{topic}-near"
        first = dict.fromkeys(self.home.groups[group], 0)
        side.commit(side.target, group, {TopicPartition(*at): offset for at, offset in first.items()})

    def _set(self, topic: str, name: str, value: str) -> None:
        self.home.side.configure(self.home.side.target, topic, name, value)


def _holds(check: object) -> bool:
    try:
        check()  # type: ignore[operator]
    except AssertionError:
        return False
    return True
