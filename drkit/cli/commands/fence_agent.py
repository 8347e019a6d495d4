"""``drkit fence-agent``: next to the primary, blocks writes when its lease expires."""

from __future__ import annotations

from typing import Any

from drkit.cli import options
from drkit.cli.help import command
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option


@command(
    "fence-agent",
    examples={
        "drkit fence-agent": "Guard the source of the only flow, until stopped",
        "drkit fence-agent --flow 'primary->standby' --name rack-b": "Guard one flow under another name",
        "drkit fence-agent --lift": "Let the primary accept writes again",
    },
)
@options.flow()
@option(
    "--name", metavar="NAME", group=OptionGroup.HOW, default_is="the host's name", help="Name of this agent."
)
@flag("--lift", "lifts", group=OptionGroup.RESUME, help="Let the primary accept writes again, after a fence.")
def fence_agent(**given: Any) -> None:
    """Run next to the primary; block writes when its lease expires.

    Observers renew the lease. Runs until stopped. After fencing, writes stay blocked until you run it with
    --lift.
    """
    work("drkit.cli.actions.fence_agent").fence_agent(**given)
