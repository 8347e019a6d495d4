"""What a fence agent does to its primary: the site's command, and the proof that it worked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from drkit.clock import Seconds, monotonic
from drkit.config import ClusterSettings
from drkit.config.tables.watch import FenceAgentSettings
from drkit.errors import Failed
from drkit.kafka.probe import ProbeFinding, ProbeKind, probe
from drkit.kafka.security.settings import read_security
from drkit.repoint.contract import TryAgain
from drkit.repoint.program import run_program

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
    why = run(settings.command or (), settings.fence_seconds)
    said = f"command {(settings.command or ('none',))[0]}: {why or 'ended with 0'}"
    left = max(_LEAST, ends - clock())
    if settings.proof_command:
        refused = run(settings.proof_command, left)
        proof = f"proof {settings.proof_command[0]}: {refused or 'ended with 0'}"
        return FencingResult(not refused, (said, proof))
    found = closed(listeners, servers(), min(left, 2.0))
    # The command may have failed and the broker be gone all the same: the proof decides.
    return FencingResult(found.proven, (said, *found.evidence))


def closed(listeners: Iterable[ClusterSettings], servers: Iterable[str], seconds: float) -> FencingResult:
    """Whether every address refuses connections.

    A silent broker proves nothing: a frozen one accepts all queued writes when it wakes. Nor does an
    unreachable one: others may reach it.
    """
    ways = list(listeners)
    wanted = {(s, w) for w in range(len(ways)) for s in ways[w].servers}
    wanted |= {(s, 0) for s in servers if not any(s == known for known, _ in wanted)}

    def look(at: tuple[str, int]) -> ProbeFinding:
        server, way = at
        security = read_security(ways[way])
        return probe(server, security, f"clusters.{ways[way].alias}", seconds, handshake=False)

    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        found = list(pool.map(look, sorted(wanted)))
    told = tuple(f"{f.server}: {f.kind.value}" for f in found)
    return FencingResult(bool(found) and all(f.kind is ProbeKind.REFUSED for f in found), told)


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
