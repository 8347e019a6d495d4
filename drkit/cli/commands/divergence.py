"""``drkit divergence``: records that exist only on the old primary; their export, and a check of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli import options
from drkit.cli.help import group
from drkit.cli.loading import work
from drkit.cli.options import OptionGroup, option
from drkit.errors import Usage

_RETURN = "the only one, or the one that waits for its return"


@group(
    "divergence",
    invoke_without_command=True,
    examples={
        "drkit divergence": "Count the records that exist only on the old primary",
        "drkit divergence --records lost.jsonl": "Write each of them to a file",
        "drkit divergence export --to /backup": "Export them with a manifest",
        "drkit divergence verify /backup/export-1/manifest.json": "Check an export",
    },
)
@options.flow(_RETURN)
@option(
    "--records",
    type=click.Path(path_type=Path, dir_okay=False),
    group=OptionGroup.OUTPUT,
    help="Write each record to this file, one JSON line each; keys and values in Base64.",
)
@click.pass_context
def diverged(context: click.Context, /, **given: Any) -> Any:
    """List records that exist only on the old primary.

    Run it after a failover, once the old primary answers again. It lists what the failover lost, and what the
    old primary accepted afterwards. It compares the last copied records with their copies to detect an old
    primary that came back without some of them. Nothing is changed.

    Exit code: 0 both sides have the same, 1 they differ, 3 unknown (the old primary does not answer).
    """
    if context.invoked_subcommand is None:
        return work("drkit.cli.actions.divergence").diverged(**given)
    if given["records"] is not None:
        raise Usage(
            "records_option_misplaced",
            where="--records",
            command_path=context.command_path,
            invoked_subcommand=context.invoked_subcommand,
        )
    return 0


@diverged.command(
    examples={
        "drkit divergence export --to /backup": "Export to a folder",
        "drkit divergence export --to s3://bucket/dr --format jsonl": "Export to S3 as JSON lines",
        "drkit divergence export --to /backup --topic orders": "Export one topic",
    }
)
@options.flow(_RETURN)
@option(
    "--to",
    required=True,
    metavar="DIR",
    group=OptionGroup.OUTPUT,
    help="A folder, or a URL such as s3://bucket/folder.",
)
@option(
    "--format",
    "how",
    type=click.Choice(["parquet", "jsonl"]),
    default="parquet",
    group=OptionGroup.OUTPUT,
    help="Format of records: bytes in Parquet, or Base64 in JSON lines.",
)
@options.topics("A topic of the old primary.")
@options.spark()
@click.pass_context
def export(context: click.Context, /, **given: Any) -> Any:
    """Export records that exist only on the old primary.

    The manifest accounts for every offset: exported, or why not. The export is a new folder below DIR that
    only its owner can read. The files are read back for a check. Keep the printed SHA-256 apart from them.

    Exit code: 0 exported, or nothing to export; 1 failed, and nothing is left; 3 the old primary does not
    answer, or DIR is not visible to Spark's executors.
    """
    parent = context.parent
    given["flow"] = given["flow"] or (parent.params["flow"] if parent is not None else None)
    return work("drkit.cli.actions.divergence").export(**given)


@diverged.command(
    "verify",
    examples={
        "drkit divergence verify /backup/export-1/manifest.json": "Check an export",
        "drkit divergence verify s3://bucket/dr/export-1/manifest.json": "Check an export on S3",
        "drkit divergence verify /backup/export-1/manifest.json --sha256 4f2a9c": (
            "Check it against the printed SHA-256"
        ),
    },
)
@click.argument("manifest")
@option(
    "--sha256",
    metavar="HEX",
    group=OptionGroup.HOW,
    default_is="the manifest's own",
    help="SHA-256 that the export printed.",
)
@options.spark()
def verify_export(**given: Any) -> Any:
    """Compare an export with its manifest.

    Reads each file and each record. Needs no cluster.

    Exit code: 0 unchanged, 1 it cannot be read, 2 there is no manifest, 3 it was altered.
    """
    return work("drkit.cli.actions.divergence").verify_export(**given)
