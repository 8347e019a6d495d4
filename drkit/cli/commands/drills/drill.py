"""``drkit drill``: rehearse a failover, and show what was rehearsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, flag, option

_FILE = click.Path(path_type=Path, dir_okay=False)
_html = option("--html", type=_FILE, group=OptionGroup.OUTPUT, help="Write the report to this file as HTML.")


@group(
    examples={
        "drkit drill run --kind readiness": "Check whether a failover would succeed; change nothing",
        "drkit drill run --kind bubble --html drill.html": "Rehearse a failover beside production",
        "drkit drill history": "List past drills",
        "drkit drill schedule": "Run the drills of the configuration when they are due",
    }
)
def drill() -> None:
    """Rehearse a failover and keep a report.

    The history is on the target of each flow. Reports are files on this machine, in the folder drills below
    the journal folder of [failover].
    """


@drill.command(
    examples={
        "drkit drill run nightly": "Run the drill of a [[drills]] table",
        "drkit drill run --kind readiness": "Check whether a failover would succeed; change nothing",
        "drkit drill run --kind bubble --html drill.html": "Rehearse a failover beside production",
        "drkit drill run --kind switchover --dry-run": "Preview a switchover of production and back",
    }
)
@click.argument("name", required=False)
@option(
    "--kind",
    type=click.Choice(["readiness", "translation", "bubble", "switchover"]),
    group=OptionGroup.SELECTION,
    help="Instead of NAME: a drill without a [[drills]] table.",
)
@option("--flow", group=OptionGroup.SELECTION, default_is="the only one", help="With --kind: the flow.")
@_html
@option("--report", type=_FILE, group=OptionGroup.OUTPUT, help="Write the report to this file as JSON.")
@options.dry_run("With switchover: show what would happen; change nothing.")
@flag("--stay", group=OptionGroup.HOW, help="With switchover: leave clients on the target; this is recorded.")
@option(
    "--clients-cut",
    metavar="HOW",
    group=OptionGroup.ACCEPT,
    help="With switchover, if no ACL can fence a cluster: how clients are kept off it. HOW is recorded.",
)
@options.yes("With switchover: do not ask before production moves.")
def run(**given: Any) -> Any:
    """Run a drill by NAME or kind.

    readiness: would a failover be refused now, and what would it lose? translation: would every group
    continue at its next record on the target? Both only read, and write the history of drills.

    bubble: a complete failover of the drill's own topics, groups and clients between the same clusters,
    beside production. It deletes what it created. A failover of production ends it.

    switchover: moves production to the target by a planned failover, keeps it there for hold_minutes, and
    fails back. It asks first, unless --yes is given. If a run is held, the drill ends and prints the command
    that continues the run.

    SIGTERM or Ctrl-C before production moves ends a switchover drill. Later it ends the hold, and the
    failback starts immediately. A second signal interrupts the failback, and the report has the command that
    continues.

    Exit code: 0 pass, 1 fail, 3 inconclusive, aborted or refused.
    """
    return work("drkit.cli.actions.drills.drill").run(**given)


@drill.command(
    examples={
        "drkit drill history": "List all drills",
        "drkit drill history nightly": "List the runs of one drill",
        "drkit drill history --json": "The same as JSON",
    }
)
@click.argument("name", required=False)
def history(**given: Any) -> None:
    """List past and missed drills, all or those of NAME."""
    work("drkit.cli.actions.drills.drill").history(**given)


@drill.command(
    examples={
        "drkit drill cleanup": "Delete what interrupted drills left",
        "drkit drill cleanup --flow 'primary->standby'": "Of one of several flows",
        "drkit explain drill-cleanup-owed": "Read about the alert",
    }
)
@options.flow()
def cleanup(**given: Any) -> Any:
    """Delete what interrupted drills left behind.

    Deletes only what the history of drills lists, topics by their ids. The next bubble drill does the same
    before it begins.

    Exit code: 0 nothing is left, 1 something could not be deleted.
    """
    return work("drkit.cli.actions.drills.drill").cleanup(**given)


@drill.command(
    examples={
        "drkit drill report ID": "Show the report of a drill",
        "drkit drill report ID --html drill.html": "Write it as a page",
        "drkit drill report --check report.json": "Check that a report was not altered",
        "drkit drill report --schema": "Print the JSON schema of reports",
    }
)
@click.argument("drill_id", metavar="[ID]", required=False)
@_html
@option(
    "--check",
    type=_FILE,
    group=OptionGroup.HOW,
    help="Check the report in this file: recompute its hashes and judge its evidence again. With ID: it must"
    " be this drill's, and follow the report before it.",
)
@flag("--schema", group=OptionGroup.OUTPUT, help="Print the JSON schema of reports.")
def report(**given: Any) -> None:
    """Show, export or check the report of a drill.

    Exit code of --check: 0 the report is unchanged, 1 it was altered.
    """
    work("drkit.cli.actions.drills.drill").report(**given)


@drill.command(
    examples={
        "drkit drill schedule": "Run drills when they are due, until stopped",
        "drkit drill schedule --once": "Run what is due now, for a timer of yours",
        "drkit drill schedule --print systemd": "Print systemd timers",
        "drkit drill schedule --print kubernetes --image registry/drkit": "Print CronJobs",
    }
)
@flag("--once", group=OptionGroup.HOW, help="Run what is due now, then exit.")
@option(
    "--print",
    "scheduler",
    type=click.Choice(["systemd", "kubernetes"]),
    group=OptionGroup.OUTPUT,
    help="Print timers or CronJobs for another scheduler, and exit.",
)
@option(
    "--image",
    metavar="IMAGE",
    default="drkit",
    group=OptionGroup.OUTPUT,
    help="With --print kubernetes: container image.",
)
def schedule(**given: Any) -> Any:
    """Run the drills of [[drills]] when they are due.

    Runs until SIGTERM or Ctrl-C. Each due time is in one entry of the history. After a pause only the last
    missed drill is run, if it was due less than grace_minutes ago. The others share one entry, missed.

    Exit code with --once: 0 all passed or nothing was due, 1 one failed, 3 another verdict.
    """
    return work("drkit.cli.actions.drills.drill").schedule(**given)
