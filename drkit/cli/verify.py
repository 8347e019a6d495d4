"""``drkit verify``: source = target, record by record."""

from __future__ import annotations

import click

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.session import session
from drkit.replicate.verify import Request
from drkit.replicate.verify import verify as compare
from drkit.replicate.verify_report import answer, exit_code
from drkit.visible import visible


@click.command()
@click.option("--flow", help="The flow to verify, as 'primary->standby'.  [default: all]")
@click.option("--topic", "topics", multiple=True, help="A source topic; may be repeated.  [default: all]")
@click.option("--from-checked", "only_new", is_flag=True, help="Only what came since the last verification.")
@click.option(
    "--max-differences",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many differences to show; all are counted.",
)
@click.option("--master", help="Spark master URL.  [default: this machine]")
def verify(
    flow: str | None, topics: tuple[str, ...], max_differences: int, master: str | None, *, only_new: bool
) -> int:
    """Compare source and target, record by record.

    Compares key, value, headers and timestamp of everything that is copied by now; a replicator may go on
    beside it. What is not copied yet is told, and is no difference.

    Exit code: 0 equal, 1 different, 3 cannot be decided.
    """
    request = Request(flow, topics, only_new=only_new, master=master)
    reports = compare(configuration().settings, request, lambda line: click.echo(visible(line), err=True))
    emit(answer(reports, max_differences, whole=session().as_json))
    return exit_code(reports)
