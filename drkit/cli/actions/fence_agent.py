"""``drkit fence-agent``: runs near the primary and stops writes there when its lease is lost."""

from __future__ import annotations

import socket

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.signals import until_signalled
from drkit.errors import ConfigError
from drkit.watch.agent import FenceAgent, lift


def fence_agent(flow: str | None, name: str | None, *, lifts: bool) -> None:
    """Run ``drkit fence-agent``."""
    settings = configuration().settings
    if lifts:
        emit({"was_fenced": lift(settings).fenced, "fenced": False})
        return
    if not settings.fence_agent.command:
        raise ConfigError("no_fence_configured", where="fence_agent.command")
    guarded = settings.one_flow(flow)
    agent = FenceAgent(settings, guarded, name or settings.fence_agent.name or socket.gethostname())
    agent.run(until_signalled())
    emit({"agent": agent.name, "fenced": agent.state.fenced})
