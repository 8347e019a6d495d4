"""``drkit divergence``: what the old primary has and the new one has not, record by record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work


@click.command("divergence")
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")
@click.option(
    "--records",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write each record there, a line of JSON each; keys and values in Base64.",
)
def diverged(**given: Any) -> Any:
    """Say what the old primary has and the new one has not, after a failover, once it answers again.

    That is what the failover lost, and what the old primary took afterwards. The last copied records are
    compared with their copies: an old primary that came back without some of them is named as well. Nothing
    is changed.

    Exit code: 0 both sides have the same, 1 they differ, 3 cannot be said (it does not answer).
    """
    return work("drkit.cli.actions.divergence").diverged(**given)
