"""`drkit fence-agent`: runs near the primary and stops writes there when its lease is lost.

The fence stays until a person lifts it, whatever the observers say later: there may be another primary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path
import secrets
import stat
import threading
from typing import Final, NamedTuple
import uuid

from drkit import observe
from drkit.atomic_file import replace_file
from drkit.clock import Millis, Seconds, boottime, monotonic, wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.config.tables.watch import FenceAgentSettings
from drkit.detect.agents import AgentNote, Hold, Lease
from drkit.detect.awake import AwakeClock, Ticker
from drkit.detect.note_kinds import KnownBrokers
from drkit.detect.notes import Speakers
from drkit.detect.noticeboard import Noticeboard
from drkit.detect.votes import Vote
from drkit.errors import Failed
from drkit.kafka.probe import ProbeFinding, ProbeKind, probe
from drkit.kafka.security.settings import read_security
from drkit.private_file import open_private
from drkit.repoint.contract import TryAgain
from drkit.repoint.program import run_program
from drkit.watch.identity import configured_name

_LARGEST: Final = 1 << 20
"""Bytes: a larger file holds something else."""


@dataclass(frozen=True, slots=True)
class AgentState:
    """The content of the file."""

    armed: bool = False
    """The agent held a lease: observers rely on it."""
    fenced: bool = False
    """The site's command and the proof succeeded; stays set until a person lifts the fence."""
    at_ms: int = 0
    evidence: tuple[str, ...] = ()


def read_state(path: Path) -> AgentState:
    """The content of the file; a missing file is an agent that is not armed.

    :raises Failed: it cannot be read, or is damaged
    """
    return find_state(path) or AgentState()


def find_state(path: Path) -> AgentState | None:
    """The content of the file; None without a file. A symbolic link is not followed.

    :raises Failed: it cannot be read, or is damaged
    """
    try:
        raw = json.loads(_content(path))
        return AgentState(
            bool(raw["armed"]), bool(raw["fenced"]), int(raw["at_ms"]), tuple(map(str, raw["evidence"]))
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise Failed("agent_state_unreadable", where=str(path), evidence=str(error)) from error


def _content(path: Path) -> bytes:
    # Without O_NONBLOCK the open would wait for a pipe of that name.
    handle = open_private(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("a folder, pipe or device has its name")
        return file.read(_LARGEST)


def write_state(path: Path, state: AgentState) -> None:
    """Write the file atomically and durably. Its owner stays, also if an administrator lifts the fence.

    :raises Failed: the disk does not take it
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(state)).encode())
    except OSError as error:
        raise Failed("agent_state_unwritable", where=str(path), evidence=str(error)) from error


_SHOWN: Final = 300
_LEAST: Final = 0.5


class FencingResult(NamedTuple):
    """Outcome of the command and of the proof."""

    proven: bool
    evidence: tuple[str, ...]


def fence(
    settings: FenceAgentSettings,
    listeners: Iterable[ClusterSettings],
    servers: Callable[[], Iterable[str]] = tuple,
    clock: Seconds = monotonic,
) -> FencingResult:
    """Run the site's command, then prove that no more writes are possible, all within ``fence_seconds``.

    :param listeners: every listener of the primary
    :param servers: more addresses of its brokers; called after the command, so that notes of others cannot
        keep it from running
    """
    ends = clock() + settings.fence_seconds
    failure = run(settings.command or (), settings.fence_seconds)
    outcome = f"command {(settings.command or ('none',))[0]}: {failure or 'ended with 0'}"
    remaining = max(_LEAST, ends - clock())
    if settings.proof_command:
        refused = run(settings.proof_command, remaining)
        proof = f"proof {settings.proof_command[0]}: {refused or 'ended with 0'}"
        return FencingResult(not refused, (outcome, proof))
    result = closed(listeners, servers(), min(remaining, 2.0))
    # The command may have failed and the broker be gone all the same: the proof decides.
    return FencingResult(result.proven, (outcome, *result.evidence))


def closed(listeners: Iterable[ClusterSettings], servers: Iterable[str], seconds: float) -> FencingResult:
    """Return whether every address refuses connections.

    A silent broker proves nothing: a frozen one accepts all queued writes when it wakes. Nor does an
    unreachable one: others may reach it.
    """
    ways = list(listeners)
    addresses = {(s, w) for w in range(len(ways)) for s in ways[w].servers}
    addresses |= {(s, 0) for s in servers if not any(s == known for known, _ in addresses)}

    def look(address: tuple[str, int]) -> ProbeFinding:
        server, way = address
        security = read_security(ways[way])
        return probe(server, security, f"clusters.{ways[way].alias}", seconds, handshake=False)

    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        findings = list(pool.map(look, sorted(addresses)))
    evidence = tuple(f"{f.server}: {f.kind.value}" for f in findings)
    return FencingResult(bool(findings) and all(f.kind is ProbeKind.REFUSED for f in findings), evidence)


def run(command: Sequence[str], seconds: float) -> str:
    """Run a program of the site; returns why it failed, empty when it ended with 0."""
    if not command:
        return "not set"
    try:
        done = run_program(command, "", {}, seconds)
    except TryAgain:
        return f"did not end in {seconds:.1f} s"
    except Failed as error:
        return error.in_short
    return f"exit code {done.code}: {done.output[-_SHOWN:]}" if done.code else ""


_TICK_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 2.0
Fence = Callable[[], FencingResult]


class FenceAgent:
    """One agent for the source of one flow. Use it from one thread.

    :param fencing: what to do when the lease is lost; by default the site's command and its proof
    :raises ConfigError: others would not take notes under this name
    """

    def __init__(
        self,
        settings: Settings,
        flow: FlowSettings,
        name: str,
        fencing: Fence | None = None,
        boot: Seconds = boottime,
        wall: Millis = wall_ms,
    ) -> None:
        self._flow, self._settings = flow, settings.fence_agent
        names = self._settings.agent_names
        self.name = configured_name(name, names, "fence_agent.agents", "--name")
        self._observers = settings.watch.observer_count
        self._boot, self._wall = boot, wall
        self._listeners = _listeners(settings, flow)
        self._fencing = fencing or self._fence_here
        self._path = Path(settings.fence_agent.state_file).expanduser()
        self._clock = AwakeClock()
        aliases = dict.fromkeys(a for a in (flow.target, settings.watch.third) if a is not None)
        ttl = settings.fence_agent.ttl_seconds
        speakers = Speakers.of(settings)
        self._boards = [
            Noticeboard(settings.cluster(a), flow, self._clock, ttl, speakers=speakers) for a in aliases
        ]
        self._run = uuid.uuid4().hex[:12]
        self.state = read_state(self._path)
        self._lease = self._new_lease(armed_at=boot() if self.state.armed else None)
        self._number = self._sequence = 0
        self._asked = self._tried = float("-inf")
        self._evidence = self.state.evidence
        self._reported: tuple[object, ...] = ()

    def run(self, stop: threading.Event) -> None:
        """Ask, listen, and fence if the lease ends, until `stop` is set.

        :raises Failed: the state file cannot be written
        """
        with ExitStack() as threads:
            for thread in (Ticker(self._clock), *self._boards):
                threads.enter_context(thread)
            while not stop.wait(min(_TICK_SECONDS, self._settings.check_seconds / 2)):
                self.step()
            self._leave()

    def step(self) -> None:
        """Do what is due now: request, listen, fence."""
        if self.state.fenced:
            self._look_whether_lifted()
        self._hear()
        now = self._boot()
        hold = self._lease.hold(now)
        if hold is Hold.LEASED and not self.state.armed:
            self._keep(AgentState(armed=True, at_ms=self._wall()))
        if hold is Hold.LOST and not self.state.fenced and now - self._tried >= _RETRY_SECONDS:
            self._fence()
        if now - self._asked >= self._settings.check_seconds:
            self._asked = now
            self._number = self._lease.ask(now)
            self._publish(hold)
        self._say(hold)

    def _hear(self) -> None:
        """Take the observers' answers. Votes under a name that two processes use do not count."""
        notes = [note for board in self._boards for note in board.all(Vote)]
        doubted = {note.body.observer for note in notes if note.doubt.at(self._clock.now())}
        for vote in (note.body for note in notes):
            if self.name in vote.renews and vote.observer not in doubted:
                self._lease.heard(vote.observer, vote.renews[self.name])

    def _fence(self) -> None:
        observe.event("fencing", level="error", agent=self.name, flow=self._flow.name,
                      reason=f"no lease for {self._settings.ttl_seconds:g} s")  # fmt: skip
        done = self._fencing()
        self._tried = self._boot()
        self._evidence = done.evidence
        if done.proven:
            self._keep(AgentState(armed=True, fenced=True, at_ms=self._wall(), evidence=done.evidence))
        kind, level = ("fenced", "warning") if done.proven else ("fence_not_proven", "error")
        observe.event(kind, level="warning" if level == "warning" else "error", agent=self.name,
                      flow=self._flow.name, evidence=done.evidence)  # fmt: skip
        self._publish(Hold.LOST)

    def _fence_here(self) -> FencingResult:
        return fence(self._settings, self._listeners, self._known_servers)

    def _known_servers(self) -> list[str]:
        """Addresses of the brokers, as the observers know them."""
        found = []
        for board in self._boards:
            note = board.one(KnownBrokers)
            found += [address.server for address in note.body.brokers] if note is not None else []
        return found

    def _publish(self, hold: Hold) -> None:
        self._sequence += 1
        note = AgentNote(
            self.name, self._run, self._number, hold, self._wall(), fenced=self.state.fenced,
            evidence=self._evidence, sequence=self._sequence,
        )  # fmt: skip
        for board in self._boards:
            board.publish(AgentNote.key(self.name), note)

    def _leave(self) -> None:
        """Disarm after a stop by a person, unless the primary is fenced."""
        if not self.state.fenced:
            self._keep(AgentState())
            self._publish(Hold.UNARMED)

    def _look_whether_lifted(self) -> None:
        """Read the file, which ``--lift`` writes; a missing file was lost and is written again."""
        found = find_state(self._path)
        if found is None:
            observe.event("fence_agent_state_lost", level="error", agent=self.name, path=str(self._path))
            self._keep(self.state)
        elif not found.fenced:
            self._lifted()

    def _lifted(self) -> None:
        self.state, self._evidence = AgentState(), ()
        self._lease = self._new_lease(armed_at=None)
        observe.event("fence_lifted", level="warning", agent=self.name, flow=self._flow.name)

    def _keep(self, state: AgentState) -> None:
        write_state(self._path, state)
        self.state = state

    def _new_lease(self, armed_at: float | None) -> Lease:
        return Lease(self._observers, self._settings.ttl_seconds, armed_at, first=secrets.randbits(40))

    def _say(self, hold: Hold) -> None:
        answered = self._lease.answered(self._boot())
        key = (hold, self.state.fenced)
        if key != self._reported:
            self._reported = key
            observe.event("fence_agent", agent=self.name, flow=self._flow.name, lease=hold.value,
                          fenced=self.state.fenced, observers=list(answered))  # fmt: skip


def lift(settings: Settings) -> AgentState:
    """A person says that the primary may take writes again: run the site's command, forget that it is fenced.

    :raises Failed: the command failed
    """
    path = Path(settings.fence_agent.state_file).expanduser()
    before = read_state(path)
    command = settings.fence_agent.lift_command
    if command and (why := run(command, settings.fence_agent.fence_seconds)):
        raise Failed("fence_not_lifted", where=command[0], evidence=why)
    write_state(path, AgentState(at_ms=before.at_ms))
    return before


def _listeners(settings: Settings, flow: FlowSettings) -> list[ClusterSettings]:
    source = settings.cluster(flow.source)
    others = [x.reached(source) for x in settings.detection.listeners if x.cluster == flow.source]
    return [source, *others]
