"""``drkit fence-agent``: beside the primary, stops writes there when its lease is lost."""

from __future__ import annotations

import socket

import click

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.signals import until_signalled
from drkit.errors import ConfigError
from drkit.watch.agent import FenceAgent, lift


@click.command("fence-agent")
@click.option("--flow", help="The flow whose source is guarded.  [default: the only one]")
@click.option("--name", help="What this agent is called.  [default: fence_agent.name, else the host's name]")
@click.option("--lift", "lifts", is_flag=True, help="Let the primary take writes again, after a fence.")
def fence_agent(flow: str | None, name: str | None, *, lifts: bool) -> None:
    """Hold a lease that the observers renew; when it is lost, fence the primary here, and prove it.

    Runs until stopped. Once it has fenced it stays so until a person says --lift.
    """
    settings = configuration().settings
    if lifts:
        emit({"was_fenced": lift(settings).fenced, "fenced": False})
        return
    if not settings.fence_agent.command:
        raise ConfigError(
            "there is nothing to fence with",
            where="fence_agent.command",
            hint='set it, as in command = ["systemctl", "kill", "--signal=KILL", "kafka"]',
        )
    guarded = settings.one_flow(flow, "the source of which one is to be fenced?")
    agent = FenceAgent(settings, guarded, name or settings.fence_agent.name or socket.gethostname())
    agent.run(until_signalled())
    emit({"agent": agent.name, "fenced": agent.state.fenced})
