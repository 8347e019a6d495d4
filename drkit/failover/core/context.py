"""The context of the steps of a failover: the clusters, the scope, the journal, the clocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from drkit.clock import Millis, Seconds, monotonic, steady
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.errors import DrkitError, NotAuthenticated
from drkit.failover.core.read_cache import ReadCache
from drkit.failover.core.request import RunRequest
from drkit.flow_state.copied_topics import CopiedTopics, known_of
from drkit.flow_state.lease.watch import LeaseHolder, replicator_of
from drkit.flow_state.topic import StateTopic
from drkit.journal.journal import NoJournal
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster, reach
from drkit.kafka.raw import EventLoop, Impatient, RawCluster, RawError
from drkit.kafka.requests import metadata
from drkit.status.heartbeat_tail import HeartbeatTail
from drkit.status.pair.journal import JournalRuns

_LEASE_PAUSE_SECONDS: Final = 0.25
REACH_MS: Final = 3000
"""Timeout of a connection attempt to a source that answers."""
LOOK_MS: Final = 2000
"""Timeout of the check that a connected source still answers."""
REMEMBERED_SECONDS: Final = 60.0
"""A silent source is not asked again for this time: each try on one that hangs takes a second."""

_ONE_BROKER_SECONDS: Final = 20.0
"""Time for which a request is repeated while the old primary answers others: longer than a broker's
session (9 s) and the leader election after it."""
_AGAIN_SECONDS: Final = 0.5


class Scope(NamedTuple):
    """The topics and groups that a run moves: shown, confirmed, and fixed when the run begins."""

    topics: dict[str, str]
    """Name on the source → name on the target."""
    groups: tuple[str, ...]
    """Consumer groups; they keep their names."""
    whole_flow: bool
    """Everything that the flow copies and no earlier failover moved (``--all``): no topic remains."""

    def to_json(self) -> dict[str, Any]:
        """Return the scope as plain data, for the journal."""
        return {"topics": self.topics, "groups": list(self.groups), "whole_flow": self.whole_flow}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Scope:
        """Return the scope from the journal's data."""
        return cls(dict(raw["topics"]), tuple(raw["groups"]), bool(raw["whole_flow"]))


class StepProgress(NamedTuple):
    """Live progress of a step."""

    step: StepName
    what: str
    fields: Mapping[str, Any] = {}


class StopAsked(Exception):
    """A person stops the run. Not a :class:`DrkitError`, so that no step takes it for a refusal."""


@dataclass
class Context:
    """One run, as passed to its steps.

    Steps are plain functions of the calling thread; raw requests are coroutines that :meth:`run` drives.
    """

    settings: Settings
    flow: FlowSettings
    scope: Scope
    request: RunRequest
    run_id: str
    term: int
    """The generation of the role that this run creates; larger than any before."""
    journal: NoJournal
    loop: EventLoop
    target: RawCluster
    """Connected, with the identity of the flow's ``target_admin``."""
    state: StateTopic
    """The flow's state on the target, loaded; :attr:`CopiedTopics` and roles come from it."""
    tell: Callable[[StepProgress], None]
    """Live progress; never needed for the outcome."""
    decision: Mapping[str, Any] = field(default_factory=dict)
    """The decision, with its votes and evidence (from `drkit watch`, or the person's command)."""
    named_topics: tuple[str, ...] = ()
    """The topics named by the command that began the run, or none for all topics."""
    until_export: bool = False
    """Whether that command decides after the export."""
    is_opened_before: bool = False
    """Whether an earlier process of this run has begun OPEN: what the old primary took since is unknown."""
    is_stopped: Callable[[], bool] = lambda: False
    """Whether a person stops this run now; never after its point of no return."""
    clock: Seconds = monotonic
    wall: Millis = field(default_factory=steady)
    source_error: str = ""
    """The reason why the old primary did not answer at the last try, or empty if it did or was not tried."""
    source_refuses: bool = False
    """Whether the old primary refuses this machine, or its names do not resolve: no proof that it is gone."""
    kept: ReadCache = field(default_factory=ReadCache)
    journal_runs: Callable[[], JournalRuns] = JournalRuns
    """Returns the runs of the flow's journal, as of its last read."""
    _source: RawCluster | None = None
    _asked: float = float("-inf")
    """When the old primary last failed to answer."""
    _partly_since: float = float("-inf")
    """When the old primary first left a request unanswered, in about the last minute."""
    _target_admin: Cluster | None = None

    def run(self, coroutine: Callable[..., Awaitable[Any]], *args: object) -> Any:
        """Run a coroutine to its end; return its result."""
        return self.loop.run(coroutine, *args)

    def pause(self, seconds: float) -> None:
        """Wait, and keep the lock on the run. Raises StopAsked: a person stops it; Refused: taken over."""
        if self.is_stopped():
            raise StopAsked
        self.loop.run(self.loop.sleep, seconds)
        self.journal.renew()

    def replicator(self, *, certain: bool = False) -> LeaseHolder | None:
        """Return the holder of the flow's lease, by the loaded state, or None without one.

        :param certain: if the lease is old only by its machine's clock, wait some seconds for a renewal
        """
        if certain:  # reading a cluster with a frozen broker takes longer than a lease lasts
            self.state.load()
        holder = self.kept.lease.look(self.state.records, self.wall(), self.clock())
        while certain and holder is not None and holder.alive and not self.kept.lease.is_renewed:
            by_clock = replicator_of(self.state.records, self.wall())
            if by_clock is None or by_clock.alive:
                break
            self.pause(_LEASE_PAUSE_SECONDS)
            self.state.load()
            holder = self.kept.lease.look(self.state.records, self.wall(), self.clock())
        return holder

    @property
    def source_settings(self) -> ClusterSettings:
        """Settings of the old primary for administration."""
        return self.settings.cluster(self.flow.source).with_client(self.flow.source_admin)

    @property
    def target_settings(self) -> ClusterSettings:
        """Settings of the new primary for administration."""
        return self.settings.cluster(self.flow.target).with_client(self.flow.target_admin)

    @property
    def known(self) -> CopiedTopics:
        """Topics with their ids on both sides, and producer ids, by the loaded state."""
        return known_of(self.state.records)

    @property
    def beats(self) -> HeartbeatTail:
        """The reader of heartbeats on the target; those from the future do not count."""
        if self.kept.beats is None:
            ahead_ms = round(1000 * self.settings.watch.clock_margin_seconds)
            self.kept.beats = HeartbeatTail(self.target_settings, self.flow, self.wall, ahead_ms=ahead_ms)
        return self.kept.beats

    def source(self, remembered: float = REMEMBERED_SECONDS) -> RawCluster | None:
        """Return the old primary, connected, or None; it is asked again after `remembered` seconds."""
        if self._source is not None or self.clock() < self._asked + remembered:
            return self._source
        reached = reach(self.source_settings)
        self._asked, self.source_error = self.clock(), reached.silence
        self.source_refuses = reached.blind
        if not self.source_error:
            candidate = Impatient(self.loop, reached.settings, "failover")
            try:
                self.loop.run(candidate.connect, REACH_MS)
            except DrkitError as error:
                candidate.close()
                self.source_error = f"{error.what} ({error.evidence})"
                self.source_refuses = isinstance(error, NotAuthenticated)
            else:
                self._source = candidate
        return self._source

    def look_at_source(self) -> RawCluster | None:
        """Return the old primary after a check that it answers now; None when it does not."""
        if self._source is not None:
            try:
                self.loop.run(partial(metadata, timeout_ms=LOOK_MS), self._source, [])
            except RawError as error:
                self.lose_source(error)
        return self.source(0.0)

    def drop_source(self) -> None:
        """Close the connection to the old primary: it stopped answering."""
        if self._source is not None:
            self._source.close()
            self._source = None
            self._asked = float("-inf")

    def lose_source(self, error: BaseException) -> None:
        """Note a failed request to the old primary: it is not asked for a while, unless other brokers answer.

        If they do, this connects again and requests may be repeated for some seconds: one broker died, and
        others take over. Call :meth:`source` before each repetition.
        """
        self.drop_source()
        if self.clock() > self._partly_since + REMEMBERED_SECONDS:
            self._partly_since = self.clock()
        if self.clock() < self._partly_since + _ONE_BROKER_SECONDS and self.source(0.0) is not None:
            self.loop.run(self.loop.sleep, _AGAIN_SECONDS)
            return
        self.source_error, self.source_refuses = f"it stopped answering ({error})", False
        self._asked = self.clock()

    def target_admin(self) -> Cluster:
        """Return the new primary for confluent-kafka's admin client; never for calls about groups."""
        if self._target_admin is None:
            self._target_admin = Cluster.connect(self.target_settings)
        return self._target_admin

    def forget_admin(self) -> None:
        """Drop the admin client; the next one reads the current brokers."""
        self._target_admin = None

    def result(self, step: StepName) -> dict[str, Any]:
        """Return the evidence of an earlier step; empty when it has not run (as in a dry run)."""
        return self.journal.result(step) or {}

    def effects(self, step: StepName) -> dict[str, dict[str, Any]]:
        """Return effects begun in a step: name → ``{"intent": details, "result": outcome or None}``."""
        return self.journal.effects(step)

    def effect(self, step: StepName, name: str, **details: Any) -> AbstractContextManager[dict[str, Any]]:
        """Journal an effect on an outside system, before and after it.

        Use it as ``with context.effect(StepName.FENCE, "acl orders", acls=[...]) as outcome:`` and put the
        result into ``outcome``. Entering it writes to the journal, which fails when another orchestrator took
        over: then the effect must not happen, and does not. One effect may be many requests of the same kind;
        an effect begun again under the same name replaces the earlier entry.

        :param name: stable over restarts, unique in the step
        :param details: plain JSON data, enough to undo it
        :raises Refused: another orchestrator took over
        """
        return self.journal.effect(step, name, details)

    def close(self) -> None:
        """Close the connections."""
        self.drop_source()
        self.kept.close()
        self.target.close()


T = TypeVar("T")


def asked(context: Context, question: Callable[[RawCluster | None], T]) -> T:
    """Return the answer; `question` gets the old primary, or None. Raises RawError: the target is silent."""
    while True:
        source = context.source()
        try:
            return question(source)
        except RawError as error:
            if source is None:
                raise
            context.lose_source(error)


def asked_now(context: Context, question: Callable[[RawCluster], T], otherwise: T) -> T:
    """Return the current answer of the old primary; `otherwise` when it does not answer, or refuses."""
    while (source := context.look_at_source()) is not None:
        try:
            return question(source)
        except RawError as error:
            context.lose_source(error)
        except DrkitError as error:
            context.lose_source(error)
            break
    return otherwise
