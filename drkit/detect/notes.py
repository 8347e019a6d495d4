"""The notes of the observers' topic, and which of them count. Pure.

Any client that may write to the topic can send any bytes under any key. A record that drkit would not have
written is dropped, and the reason is kept once per key; notes of other keys, and the key's previous note,
still count. A note under a name that is not configured is dropped, too.

A name alone proves nothing: any client that may write to the topic can use it. The process that owns a name
publishes all the time, so a second process under that name is visible: the two alternate, or the numbers of
one run go back. Then the name is in doubt until one of them has been silent for some intervals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from drkit.config import Settings
from drkit.detect.agents import AgentNote
from drkit.detect.note_kinds import LOOK, Automatic, KnownBrokers, Pause
from drkit.detect.votes import Vote
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.codec.record import StateRecord

_INTERVALS: Final = 3
"""Number of silent intervals after which a process counts as ended."""
_REMEMBERED: Final = 16
"""Maximum number of remembered runs of one name: enough to recognize an earlier run."""


class Speakers(NamedTuple):
    """The trusted names, or None for every name, if the configuration has only their number."""

    observers: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    observer_quiet: float = 0.0
    """Seconds without a vote after which an observer's process counts as ended."""
    agent_quiet: float = 0.0
    """Seconds without a note after which a fence agent's process counts as ended."""

    @classmethod
    def of(cls, settings: Settings) -> Speakers:
        """The names of a configuration. Without configured agents, named observers trust no agent."""
        watch, agent = settings.watch, settings.fence_agent
        named = frozenset(watch.observer_names) or None
        agents = frozenset(agent.agent_names) if agent.agent_names or (named and not agent.agents) else None
        return cls(named, agents, _INTERVALS * watch.vote_interval_seconds, _INTERVALS * agent.check_seconds)


ANYBODY: Final = Speakers()
"""Any name counts."""


class Speaking:
    """The processes that publish under one name in one topic, from the records in the topic's order.

    :param quiet: seconds without a record after which a process counts as ended
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._run = ""
        self._number = 0
        self._value = b""
        self._at = float("-inf")
        self._earlier: deque[str] = deque(maxlen=_REMEMBERED)
        self._until = float("-inf")
        self._why = ""
        self.in_conflict = False
        """Two processes publish at the same time."""

    def take(self, run: str, number: int, value: bytes, now: float, *, live: bool) -> None:
        """Take one record.

        :param number: counts up in each run
        :param live: the record arrived after the topic was read to its end; older ones only name the last run
        """
        if live and now >= self._until:
            self.in_conflict = False
        if live and run == self._run:
            if number < self._number or (number == self._number and value != self._value):
                self._conflict(f"two processes publish under this name, both as run {run}", now)
        elif live and self._run:
            if run in self._earlier:
                self._conflict(f"two processes publish under this name, runs {self._run} and {run}", now)
            elif now - self._at < self._quiet:
                self._until = max(self._until, self._at + self._quiet)
                if not self.in_conflict:
                    self._why = f"another process published under this name {now - self._at:.1f} s before"
        if run != self._run and self._run:
            self._earlier.append(self._run)
        self._run, self._number, self._value, self._at = run, number, value, now

    def _conflict(self, reason: str, now: float) -> None:
        self._until, self._why, self.in_conflict = now + self._quiet, reason, True

    def doubt(self) -> Doubt:
        """Until when the newest record is not trusted, and why."""
        return Doubt(self._until, self._why)


class Doubt(NamedTuple):
    """The reason why a note is not trusted, and the end of that."""

    until: float = float("-inf")
    """By the clock of its arrival."""
    why: str = ""

    def at(self, now: float) -> str:
        """Return the reason why the note is not trusted now, or an empty text if it is."""
        return self.why if now < self.until else ""


NO_DOUBT: Final = Doubt()


R = TypeVar("R", bound=StateRecord)
_BY_NAME: Final[tuple[type[StateRecord], ...]] = (Vote, AgentNote)
_SINGLE: Final[Mapping[str, type[StateRecord]]] = {
    LOOK: Vote, Pause.KEY: Pause, Automatic.KEY: Automatic, KnownBrokers.KEY: KnownBrokers,
}  # fmt: skip
_MOST_BYTES: Final = 1 << 20
"""No broker takes a larger record by default."""
_MOST_REPORTED: Final = 100
"""Maximum number of keys whose bad notes are reported."""
_UNKNOWN: Final = "unknown"
_OPEN: Final = "a transaction that writes it is open"


class Note(NamedTuple, Generic[R]):
    """The newest note of a key, as it arrived."""

    body: R
    arrived: float
    """Arrival time by our clock, which does not advance during a stall."""
    wall_ms: int
    """Our wall clock on arrival."""
    live: bool
    """The note arrived after the topic was read to its end."""
    doubt: Doubt = NO_DOUBT
    """Whether several processes write under the writer's name."""


Report = Callable[[str, str], None]
"""Takes a key, and why its note is dropped."""


class Notes:
    """The newest plausible note of every key.

    :param report: called once per key whose note is dropped or in conflict
    :param speakers: the trusted names
    """

    def __init__(self, report: Report = lambda _key, _why: None, speakers: Speakers = ANYBODY) -> None:
        self._report = report
        self._speakers = speakers
        self._speaking: dict[str, Speaking] = {}
        self._strangers: dict[str, tuple[str, float]] = {}
        self._notes: dict[str, Note[Any]] = {}
        self._reported: set[str] = set()
        self._damaged: dict[str, str] = {}
        self.undecided: frozenset[str] = frozenset()
        """Keys of records in open transactions: what they may replace is unknown."""
        self.dropped = 0
        """Records that were dropped."""

    def take(
        self, key: bytes, value: bytes | None, arrived: float = 0.0, wall_ms: int = 0, *, live: bool = False
    ) -> None:
        """Take one record.

        :param value: None deletes the key
        """
        name = key.decode(errors="replace")
        self._damaged.pop(name, None)
        if value is None:
            self._notes.pop(name, None)
            return
        try:
            body = read_note(name, value)
        except Malformed as error:
            self._drop(name, str(error))
            return
        if body is None:
            return
        if why := self._is_stranger(name, body):
            if live:
                self._pass_over(name, why, arrived)
            return
        doubt = self._doubt(name, body, value, arrived, live=live)
        self._notes[name] = Note(body, arrived, wall_ms, live, doubt)

    def _is_stranger(self, key: str, body: StateRecord) -> str:
        """Why the writer of a note is not trusted; empty when it is."""
        who = self._speakers
        if key.startswith(Vote.KEY) and who.observers is not None and _name_of(body) not in who.observers:
            return "it is not named in watch.observers"
        if isinstance(body, AgentNote) and who.agents is not None and body.agent not in who.agents:
            return "it is not named in fence_agent.agents"
        return ""

    def _pass_over(self, key: str, why: str, arrived: float) -> None:
        self._strangers.pop(key, None)
        if len(self._strangers) >= _MOST_REPORTED:
            self._strangers.pop(next(iter(self._strangers)))
        self._strangers[key] = why, arrived
        self._drop(key, why)

    def strangers(self, since: float) -> dict[str, str]:
        """Names that published since then and are not configured → why they do not count."""
        return {key: why for key, (why, at) in sorted(self._strangers.items()) if at >= since}

    def _doubt(self, key: str, body: StateRecord, value: bytes, arrived: float, *, live: bool) -> Doubt:
        who = self._speakers
        if isinstance(body, AgentNote) and who.agents is not None:
            quiet, number = who.agent_quiet, body.sequence or body.number
        elif isinstance(body, Vote) and key != LOOK and who.observers is not None:
            quiet, number = who.observer_quiet, body.sequence
        else:
            return NO_DOUBT
        speaking = self._speaking.setdefault(key, Speaking(quiet))
        before = speaking.in_conflict
        speaking.take(body.run, number, value, arrived, live=live)
        doubt = speaking.doubt()
        if speaking.in_conflict and not before:
            self._report(key, f"{doubt.why}: neither is believed")
        return doubt

    def refuse(self, key: bytes, why: str, *, live: bool = False) -> None:
        """Drop a record, or a tombstone, without a valid MAC: the key's previous note still counts.

        :param live: the topic was already read to its end: a note that this record hides was read, or never
            existed
        """
        self._drop(key.decode(errors="replace"), why, hides=not live)

    def pass_over(self, why: str, *, live: bool = False) -> None:
        """Drop a batch whose keys are unknown.

        :param live: the topic was already read to its end: a note that this batch hides was read
        """
        self.dropped += 1
        if not live:
            self._damaged.update(dict.fromkeys(_SINGLE, why))
        self._report("unknown", why)

    def _drop(self, key: str, why: str, *, hides: bool = True) -> None:
        self.dropped += 1
        if key in _SINGLE and hides:
            self._damaged[key] = why
        if key not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(key)
            self._report(key[:80], why)

    def by_key(self, prefix: str = "") -> dict[str, Note[Any]]:
        """All notes whose keys begin with a prefix."""
        return {k: n for k, n in self._notes.items() if k.startswith(prefix)}

    def all(self, kind: type[R]) -> list[Note[R]]:
        """All notes of a kind, in the order of their keys."""
        return [cast("Note[R]", note) for _, note in sorted(self.by_key(kind.KEY).items())]

    def one(self, kind: type[R]) -> Note[R] | None:
        """The note of a kind that has one key; None: there is no note."""
        return cast("Note[R] | None", self._notes.get(kind.KEY))

    def damaged(self, kind: type[StateRecord]) -> str:
        """Return the reason why the newest note of such a kind is dropped or unknown, or an empty text."""
        return self._damaged.get(kind.KEY, "") or (_OPEN if kind.KEY in self.undecided else "")

    @property
    def pause(self) -> str:
        """Who paused failovers, and why; empty: not paused. An unreadable note pauses them, too."""
        if why := self.damaged(Pause):
            return f"the note '{Pause.KEY}' cannot be read ({why}); drkit watch resume takes it away"
        note = self.one(Pause)
        return "" if note is None else str(note.body)

    @property
    def automatic(self) -> Automatic | None:
        """The last automatic failover. An unreadable note counts as one that is not acknowledged."""
        if why := self.damaged(Automatic):
            return Automatic(_UNKNOWN, _UNKNOWN, 0, (f"the note '{Automatic.KEY}' cannot be read: {why}",))
        note = self.one(Automatic)
        return None if note is None else note.body


def read_note(key: str, value: bytes) -> StateRecord | None:
    """The note under a key; None under a key that is not drkit's.

    :raises Malformed: this version of drkit did not write it
    """
    kind = _SINGLE.get(key) or next((k for k in _BY_NAME if key.startswith(k.KEY)), None)
    if kind is None:
        return None
    if len(value) > _MOST_BYTES:
        raise Malformed(f"{len(value)} bytes, more than any note has")
    body = kind.decode(value)
    if key not in _SINGLE and key != f"{kind.KEY}{_name_of(body)}":
        raise Malformed("it names another writer than its key does")
    return body


def _name_of(body: StateRecord) -> str:
    return body.observer if isinstance(body, Vote) else body.agent if isinstance(body, AgentNote) else ""
