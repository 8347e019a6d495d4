"""The site's own hook to stop a silent primary, and the check that it worked."""

from __future__ import annotations

import json
from typing import Any, Final

from drkit.clock import Seconds, monotonic
from drkit.config import ClusterSettings
from drkit.config.tables.fence import FenceSettings
from drkit.errors import Failed
from drkit.kafka.admin import REACH_SECONDS
from drkit.kafka.clients import tls_context
from drkit.kafka.probe import ProbeFinding, ProbeKind, probe_servers
from drkit.kafka.raw import EventLoop
from drkit.kafka.security.settings import Tls
from drkit.repoint.http import HttpCaller, place_of
from drkit.repoint.program import run_program
from drkit.repoint.webhook import post

_WHERE: Final = "[failover.fence]"
_CLOSED: Final = frozenset({ProbeKind.REFUSED, ProbeKind.NO_ROUTE})
_PAUSE_SECONDS: Final = 0.2


def has_stop(settings: FenceSettings) -> bool:
    """Return whether a stop hook is configured."""
    return bool(settings.stop_command or settings.stop_webhook)


def stop_site(settings: FenceSettings, document: dict[str, Any]) -> str:
    """Call the site's hook to stop the primary; return its name. Raises DrkitError: the hook failed."""
    body = json.dumps(document, indent=2) + "\n"
    if settings.stop_command:
        variables = {"DRKIT_CLUSTER": str(document["cluster"]), "DRKIT_RUN": str(document["run_id"])}
        ended = run_program(settings.stop_command, body, variables, settings.stop_seconds)
        if ended.code:
            evidence = f"it ended with {ended.code}: {ended.output or 'it said nothing'}"
            raise Failed("old_primary_not_stopped", where=f"{_WHERE} stop_command", evidence=evidence)
        return f"command {settings.stop_command[0]}"
    return _posted(settings, body.encode())


def _posted(settings: FenceSettings, body: bytes) -> str:
    url = settings.stop_webhook or ""
    caller = HttpCaller(tls_context(Tls(ca_file=settings.stop_ca_file), _WHERE), settings.stop_seconds)
    if refusal := post(caller, url, settings.stop_secret, body):
        where = f"{_WHERE} stop_webhook {place_of(url)}"
        raise Failed("old_primary_not_stopped", where=where, evidence=refusal)
    return f"webhook {place_of(url)}"


def still_there(
    settings: ClusterSettings, loop: EventLoop, seconds: float, clock: Seconds = monotonic
) -> list[ProbeFinding]:
    """Return the servers, also suspended ones, that accept connections. Raises ConfigError: certificates."""
    deadline = clock() + seconds
    while True:
        reachable = [f for f in probe_servers(settings, REACH_SECONDS) if f.kind not in _CLOSED]
        if not reachable or clock() >= deadline:
            return reachable
        loop.run(loop.sleep, _PAUSE_SECONDS)
