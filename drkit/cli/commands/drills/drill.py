"""``drkit drill``: rehearse a failover, and show what was rehearsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def drill() -> None:
    """Rehearse a failover on your clusters, and keep a report that can be judged again.

    The history is on the target of each flow. Reports are files of this machine, in the folder drills below
    the journal folder of [failover].
    """


@drill.command()
@click.argument("name", required=False)
@click.option(
    "--kind",
    type=click.Choice(["readiness", "translation", "bubble", "switchover"]),
    help="Instead of NAME: a drill without a [[drills]] table.",
)
@click.option("--flow", help="With --kind: the flow, as 'primary->standby'.  [default: the only one]")
@click.option("--html", type=_FILE, help="Write the report to this file as one HTML page.")
@click.option("--report", type=_FILE, help="Write the report to this file as JSON.")
@click.option("--dry-run", is_flag=True, help="For switchover: show what would happen, and change nothing.")
@click.option("--stay", is_flag=True, help="For switchover: leave clients on the target, on record.")
@click.option(
    "--clients-cut",
    metavar="HOW",
    help="For switchover: how clients are kept off the side that they leave, where no ACL fences it.",
)
@click.option("--yes", is_flag=True, help="For switchover: do not ask before production moves.")
def run(**given: Any) -> int:
    """Run a drill: NAME of a [[drills]] table, or one of a kind.

    readiness: would a failover be refused now, and what would it lose? translation: would every group
    continue at its next record on the target? Both read, and write nothing but the history of drills.

    bubble: a whole failover of the drill's own topics, groups and clients between the same clusters, beside
    production. It deletes what it made; a failover of production ends it.

    switchover: moves production to the target by a planned failover, holds it there for hold_minutes, and
    brings it home by a failback. It asks first, unless --yes is given. A run that is held ends the drill,
    which prints the command that continues it.

    SIGTERM or Ctrl-C before production moves ends a switchover drill. Later it ends the hold: production is
    brought home at once. A second signal interrupts that too, and the report has the command that continues.

    Exit code: 0 pass, 1 fail, 3 inconclusive, aborted or refused.
    """
    code: int = work("drkit.cli.actions.drills.drill").run(**given)
    return code


@drill.command()
@click.argument("name", required=False)
def history(**given: Any) -> None:
    """List all drills, or those of NAME, with due times that were missed."""
    work("drkit.cli.actions.drills.drill").history(**given)


@drill.command()
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")
def cleanup(**given: Any) -> int:
    """Delete what is left of drills that were killed or ended by a failover.

    Only what their entries in the history name is deleted, topics by their ids. The next bubble does the
    same before it begins. Exit code: 0 nothing is left, 1 something could not be deleted.
    """
    code: int = work("drkit.cli.actions.drills.drill").cleanup(**given)
    return code


@drill.command()
@click.argument("drill_id", metavar="[ID]", required=False)
@click.option("--html", type=_FILE, help="Write the report to this file as one HTML page.")
@click.option(
    "--check",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Check the report in this file: compute its hashes and judge its evidence again. With ID: of this "
    "drill, and against the report before it.",
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of reports.")
def report(**given: Any) -> None:
    """Show the report of a drill, write it as a page, or check it.

    Exit code of --check: 0 the report is as it was written, 1 it was altered.
    """
    work("drkit.cli.actions.drills.drill").report(**given)


@drill.command()
@click.option("--once", is_flag=True, help="Run what is due now, then exit.")
@click.option(
    "--print",
    "scheduler",
    type=click.Choice(["systemd", "kubernetes"]),
    help="Print timers or CronJobs for another scheduler, and exit.",
)
@click.option("--image", default="drkit", show_default=True, help="With --print kubernetes: the image.")
def schedule(**given: Any) -> int:
    """Run the drills of [[drills]] when they are due, until SIGTERM or Ctrl-C.

    Each due time is in one entry of the history. After a pause the last one that was missed is run, if it was
    due less than grace_minutes ago; the others are one entry with the verdict missed.

    Exit code with --once: 0 all passed or nothing was due, 1 one failed, 3 another verdict.
    """
    code: int = work("drkit.cli.actions.drills.schedule").schedule(**given)
    return code
