"""All inputs of one observer: probes, heartbeats, growth, status, the target's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
import threading
from typing import Final, NamedTuple

from drkit import observe
from drkit.background import Background
from drkit.clock import Seconds, boottime, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.config.tables.detection import DetectionSettings
from drkit.detect.awake import AwakeClock
from drkit.detect.phi import PhiAccrual, PhiRules
from drkit.detect.probes import OWN, Probes
from drkit.detect.readiness import ReadinessFinding, readiness
from drkit.detect.risk import Risk, Sighting, of_answering_source, of_silent_source, unknown
from drkit.detect.seen import SourceView
from drkit.detect.verdict import Picture
from drkit.errors import DrkitError
from drkit.flow_state.names import journal_topic, state_topic
from drkit.flow_state.pending_fence import paid_with
from drkit.flow_state.records import ClustersRecord
from drkit.flow_state.state import FlowState
from drkit.journal.machine import FAILOVER
from drkit.journal.topic import JournalReader
from drkit.kafka.admin import Cluster
from drkit.kafka.raw import EventLoop, RawCluster
from drkit.kafka.reading.compacted import newest_values
from drkit.kafka.requests import LATEST, by_leader, list_offsets, metadata, partitions_of
from drkit.model import TopicPartition
from drkit.monitoring.board import FlowWatch
from drkit.offsets.mm2_records import Heartbeat
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.status.lag.source import NOTHING_HELD, HeldBack, held_total
from drkit.status.model import FlowStatus
from drkit.status.progress import Progress
from drkit.status.protection import not_noted, not_protected, since_promoted
from drkit.status.readiness_look import ReadinessLook

_CONNECT_MS: Final = 3000
_REQUESTS_SHARE: Final = 10
"""Requests may take a tenth of the time."""
_RUN_SECONDS: Final = 10.0
"""A run is under way for this long after an entry of its journal; it writes one at least every 4 s."""


class Growth(Background):
    """Requests the end offsets of copies from its own thread, until :meth:`stop`.

    Producers do not write to a passive copy, so a new record comes from replication, and the replicator still
    reads the source; or from a failover, whose canaries and transaction markers are no sign of the source. A
    failover writes to its journal before each change: growth beside a new entry does not count. Other records
    in the journal are none: else who may write there hides that replication moves.

    :param source: the flow's source, which is in the name of its journal
    :param topics: the current copies
    :param grown: called with a line of evidence when one of them has grown
    """

    def __init__(
        self,
        target: ClusterSettings,
        source: str,
        topics: Callable[[], Iterable[str]],
        grown: Callable[[str], None],
        seconds: float = 1.0,
    ) -> None:
        super().__init__(f"growth {target.alias}")
        self._target, self._source = target, source
        self._journal = TopicPartition(journal_topic(source), 0)
        self._entries = self._known = 0
        """Entries of the journal that were read over this connection, and over any."""
        self._run_until = float("-inf")
        self._topics = topics
        self._grown = grown
        self._seconds = seconds
        self._ends: dict[TopicPartition, int] = {}
        self.began: float | None = None
        """The time of the first known end offsets, on the clock of `monotonic`, or None before them."""
        self._raw: RawCluster | None = None

    def _run(self) -> None:
        loop = EventLoop()
        try:
            while not self._ended.is_set():
                began = monotonic()
                try:
                    loop.run(self._look, loop)
                except DrkitError:  # others report that the target does not answer
                    self._drop()
                self._ended.wait(max(self._seconds, _REQUESTS_SHARE * (monotonic() - began)))
        finally:
            self._drop()
            loop.close()

    async def _look(self, loop: EventLoop) -> None:
        names = {*self._topics()}
        if not names:
            return
        if self._raw is None:
            self._raw = RawCluster(loop, self._target, "growth")
            await self._raw.connect(_CONNECT_MS)
            self._reader, self._entries = JournalReader(self._raw, self._source, tolerant=True), 0
        names.add(self._journal.topic)
        topics = await metadata(self._raw, sorted(names))
        ends: dict[TopicPartition, int] = {}
        for node, partitions in by_leader(topics, partitions_of(topics)).items():
            latest = await list_offsets(self._raw, node, dict.fromkeys(partitions, LATEST), committed=False)
            ends |= {tp: each.offset for tp, each in latest.items() if not each.error}
        if ends.get(self._journal, 0) > self._ends.get(self._journal, 0):
            with suppress(DrkitError):  # growth counts beside a journal that cannot be read
                self._entries += len(await self._reader.read())
                self._reader.history.forget_ended(())
        self._compare(ends)
        self._ends = {tp: end for tp, end in self._ends.items() if tp.topic in names}

    def _compare(self, ends: dict[TopicPartition, int]) -> None:
        now = monotonic()
        if self.began is not None and self._entries > self._known:
            self._run_until = now + _RUN_SECONDS
        self._known = max(self._known, self._entries)
        copies = [(tp, end - self._ends.get(tp, end)) for tp, end in ends.items() if tp != self._journal]
        grown = [(tp, offsets) for tp, offsets in copies if offsets > 0]
        self._ends |= ends
        self.began = now if self.began is None else self.began
        if grown and now >= self._run_until:
            tp, offsets = max(grown, key=lambda g: g[1])
            self._grown(f"{tp} grew by {offsets}, and {len(grown) - 1} other partitions")

    def _drop(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()


class Arrivals(NamedTuple):
    """Arrivals of heartbeats. None: no heartbeat of this flow ever arrived."""

    phi: float | None
    silence: float | None
    newest_ms: int | None = None
    """When the newest one that counts was written, by its emitter's clock."""
    ahead: float = 0.0
    """How far the last one is ahead of our clock, in seconds, if too far to count; else 0."""


class HeartbeatListener:
    """Listens from its own thread until :meth:`stop`.

    :param ahead_ms: a heartbeat further ahead of our clock does not count
    """

    def __init__(
        self,
        target: ClusterSettings,
        flow: FlowSettings,
        settings: DetectionSettings,
        clock: AwakeClock,
        ahead_ms: int,
    ) -> None:
        self._clock = clock
        self._rules = PhiRules(
            flow.heartbeats_interval_seconds,
            settings.phi_threshold,
            settings.phi_window,
            settings.phi_min_deviation_seconds,
            settings.phi_pause_seconds,
        )
        self._lock = threading.Lock()
        self._detector: PhiAccrual | None = None
        self._asked_at = clock.now()
        self._tail = HeartbeatTail(target, flow, arrived=self._arrived, ahead_ms=ahead_ms)

    def start(self) -> None:
        """Start the thread."""
        self._tail.follow()

    def stop(self) -> None:
        """Stop the thread."""
        self._tail.close()

    def now(self) -> Arrivals:
        """Arrivals until now."""
        with self._lock:
            now = self._clock.now()
            if self._detector is not None and self._clock.stalled_since(self._asked_at):
                self._detector.interrupted()
            self._asked_at = now
            if self._detector is None and (newest := self._tail.newest()) is not None:
                # It arrived before we listened: its own timestamp shows for how long no other has arrived.
                self._detector = PhiAccrual(self._rules, now - newest.age_seconds)
            if self._detector is None:
                return Arrivals(None, None, None, self._tail.ahead_seconds)
            return Arrivals(
                self._detector.phi(now), self._detector.silence(now), self._tail.newest_ms,
                self._tail.ahead_seconds,
            )  # fmt: skip

    def _arrived(self, _beat: Heartbeat) -> None:
        with self._lock:
            now = self._clock.now()
            if self._detector is None:
                self._detector = PhiAccrual(self._rules, now)
            self._detector.beat(now)


def last_seen_ms(seen: SourceView, wall_ms: int, now: float) -> int | None:
    """Return when the source last answered this observer, or None if it answers now or never did.

    If the watch never saw the source alive, failing addresses prove nothing.

    :param now: the current time of the clock of `seen`
    """
    if seen.since is None or not seen.answered:
        return None
    return wall_ms - round((now - seen.since) * 1000)


class LossKnown(NamedTuple):
    """For a silent source, the parts of the bound; else the bound itself."""

    counted: Risk | None
    """The loss if the source answers, or None if it is silent."""
    sighting: Sighting
    records: int | None = None
    held: HeldBack = NOTHING_HELD
    gone: int = 0
    """Number of copied records that the target has lost."""

    def risk(self, dead_for: float | None) -> Risk:
        """The loss of a failover now.

        :param dead_for: seconds for which the primary provably takes no record, or None if that is not proven
        """
        if self.counted is not None:
            return self.counted
        seen = self.sighting
        dead_since = None if dead_for is None else seen.now_ms - round(dead_for * 1000)
        return of_silent_source(seen._replace(dead_since_ms=dead_since), self.records, self.held, self.gone)


def loss_known(status: FlowStatus | None, sighting: Sighting, *, silent: bool) -> LossKnown:
    """Return what is known about the loss.

    :param status: the newest look at the flow, or None before the first
    :param sighting: without the replicator's note, which is in the status
    :param silent: our probes do not reach the source
    """
    if status is None:
        return LossKnown(unknown("there was no look at the flow yet"), sighting)
    loss = status.loss
    held = held_total(p.held_back for p in status.partitions)
    if status.source_answers and status.target_answers and not silent:
        risk = of_answering_source(loss.records, loss.seconds, exact=loss.exact, reason="", held=held)
        return LossKnown(risk, sighting)
    ends = None
    if loss.source_seen_seconds is not None:
        ends = status.at_ms - round(loss.source_seen_seconds * 1000)
    records = None if loss.records is None else loss.records - loss.held_back
    noted = sighting._replace(ends_seen_ms=ends, noted_copied_ms=status.copied_ms)
    return LossKnown(
        None,
        noted,
        records,
        held,
        sum(p.gone for p in status.partitions if p.topic not in status.promoted_topics),
    )


_LOOK_SECONDS: Final = 4.0
_LOOK_SHARE: Final = 1.0
"""The loss is known as precisely as the last look before the primary's end is fresh."""
_READY_SECONDS: Final = 15.0
_GROWTH_SECONDS: Final = 20.0
"""A new watch waits this long for the first end offsets of the copies."""


class Watched:
    """A flow that another process runs."""

    progress: Progress | None = None

    def __init__(self, flow: FlowSettings) -> None:
        self.flow = flow


class Sensed(NamedTuple):
    """The current inputs."""

    picture: Picture
    """Without the votes of others, pauses, and the settings: the observer adds these."""
    loss: LossKnown
    findings: tuple[ReadinessFinding, ...]


class Senses:
    """Threads that look, until :meth:`stop`; reading their results never waits."""

    def __init__(
        self, settings: Settings, flow: FlowSettings, clock: AwakeClock, boot: Seconds = boottime
    ) -> None:
        self._clock, self._boot = clock, boot
        source, self._target = settings.sides(flow)
        self._flow = flow
        self._margin = settings.watch.clock_margin_seconds
        detection = settings.detection
        listeners = {OWN: source}
        listeners |= {x.name: x.reached(source) for x in detection.listeners if x.cluster == flow.source}
        self.probes = Probes(listeners, detection, clock)
        self.beats = HeartbeatListener(self._target, flow, detection, clock, round(self._margin * 1000))
        self._growth = Growth(self._target, flow.source, self._copies, self._grown)
        self.watch = FlowWatch(settings, Watched(flow), seconds=_LOOK_SECONDS, share=_LOOK_SHARE)
        self._ready = ReadinessLook(settings, flow)
        self._findings: tuple[ReadinessFinding, ...] = (
            ReadinessFinding("not_looked", blocks=True, text="no look at the target yet", next="wait"),
        )
        self.has_checked_target = False
        """Whether the findings about the target include what a look at the flow found."""
        self._grew: tuple[float, str] | None = None
        self._copied: float | None = None
        """Everything older was copied, by a look at both clusters; on the clock since boot."""
        self._looked: float | None = None
        """When that look began."""
        self._unprotected: tuple[str, ...] | None = None
        """What the target has not wholly, by a look at both clusters; None: there was none."""
        self._began = clock.now()
        self._rpo_seconds = settings.failover.rpo_seconds
        self._introduced = False
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._look_at_target, name=f"ready {flow.name}", daemon=True)

    def start(self) -> None:
        """Start all threads."""
        self.probes.start()
        self.beats.start()
        self._growth.start()
        self.watch.start()
        self._reader.start()

    def stop(self) -> None:
        """Stop all threads."""
        self._ended.set()
        self.probes.stop()
        self._growth.stop()
        self.watch.stop()
        self.beats.stop()

    @property
    def status(self) -> FlowStatus | None:
        """The flow's newest status."""
        return self.watch.figures.status if self.watch.figures is not None else None

    def sensed(self) -> Sensed:
        """The current inputs."""
        now, seen, beats, status = self._clock.now(), self.probes.seen(), self.beats.now(), self.status
        gone_for = now - seen.since if seen.since is not None else 0.0
        grew = self._grew
        grown_ago = max(0.0, now - grew[0]) if grew is not None else None  # it may have grown just now
        moves = [m for m in (beats.silence, grown_ago) if m is not None]
        run = None if status is None else status.run
        run_text = "" if run is None else run.with_commands(self._flow.name)
        picture = Picture(
            seen=seen,
            gone_for=gone_for,
            phi=beats.phi,
            beat_silence=beats.silence,
            beat_ahead=beats.ahead,
            moved_ago=min(moves, default=None),
            moved_what=grew[1] if grew else "",
            watched_for=self._watched_for(),
            run_held=run_text if run is not None and run.held else "",
            failing_over=run_text if run is not None and run.table == FAILOVER.name else "",
            promoted=status is not None and status.role == "promoted",
            since_promoted=() if status is None else since_promoted(status),
            fence_owed=_owed(status),
            blockers=tuple(f"{f.code}: {f.text}" for f in self._findings if f.blocks),
            unprotected=self._not_whole(status),
        )
        return Sensed(picture, self._loss(beats, seen), self._findings)

    def _watched_for(self) -> float | None:
        if self._growth.began is not None:
            return monotonic() - self._growth.began
        return 0.0 if self._copies() and self._clock.now() - self._began < _GROWTH_SECONDS else None

    def _loss(self, beats: Arrivals, seen: SourceView) -> LossKnown:
        now, wall = self._boot(), wall_ms()
        self._take_look(now)
        copied = None if self._copied is None else wall - round((now - self._copied) * 1000)
        last_seen = last_seen_ms(seen, wall, self._clock.now())
        looked = None if self._looked is None else wall - round((now - self._looked) * 1000)
        sighting = Sighting(
            wall, beats.newest_ms, None, last_seen, copied_ms=copied, looked_ms=looked,
            margin_ms=round(self._margin * 1000),
        )  # fmt: skip
        return loss_known(self.status, sighting, silent=seen.since is not None)

    def _take_look(self, now: float) -> None:
        """Note what a look at both clusters found: until when everything is copied, and what is not wholly.

        A later look replaces an earlier one: a copy may be emptied and filled again, and then has less.
        """
        if (figures := self.watch.figures) is None:
            return
        # It has not seen what is written while it goes on, as where its last requests wait for a dead link.
        status, began = figures.status, figures.looked_at
        if status.source_answers and status.target_answers:
            self._unprotected = not_protected(status, self._rpo_seconds)
            if status.copied_ms is not None and status.loss.seconds is not None:
                self._looked = now - (monotonic() - began)
                self._copied = self._looked - status.loss.seconds

    def _not_whole(self, status: FlowStatus | None) -> tuple[str, ...]:
        if status is None:
            return self._unprotected or ()
        if self._unprotected is None:
            return not_protected(status, self._rpo_seconds)
        return (*self._unprotected, *not_noted(status))

    def _copies(self) -> list[str]:
        """Passive copies, by their names on the target."""
        status = self.status
        if status is None:
            return []
        opened = set(status.promoted_topics)
        return [p.target_topic for p in status.partitions if p.topic not in opened]

    def _grown(self, what: str) -> None:
        self._grew = self._clock.now(), what

    def _look_at_target(self) -> None:
        while not self._ended.is_set():
            if not self._introduced:
                self._expect_cluster()
            status = self.status  # one that arrives during this check is not part of it
            self._findings = tuple(readiness(self._ready.look(status)))
            self.has_checked_target = status is not None
            self._ended.wait(_READY_SECONDS if self.has_checked_target else 1.0)

    def _expect_cluster(self) -> None:
        """Read the source's expected id from the flow's state; until then the first answer counts."""
        name = state_topic(self._flow.source)
        try:
            found = newest_values(Cluster.connect(self._target), [name], verified=True).get(name)
        except DrkitError as error:
            observe.event("flow_unknown", level="debug", flow=self._flow.name, reason=error.what)
            return
        said = FlowState.of(found or {}).readable(ClustersRecord).get("")
        if said is not None:
            self._introduced = True
            self.probes.expect(said.source)


def _owed(status: FlowStatus | None) -> str:
    pending = status.pending_fence if status is not None else None
    return (
        f"{pending.owed_by}; {paid_with(status.flow)}" if status is not None and pending is not None else ""
    )
