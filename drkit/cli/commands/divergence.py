"""``drkit divergence``: what the old primary has and the new one has not; its export, and a check of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drkit.cli.loading import work
from drkit.errors import Usage

_flow = click.option(
    "--flow",
    help="The flow, as 'primary->standby'.  [default: the only one, or the one that waits for its return]",
)
_master = click.option("--master", help="Spark master URL.  [default: this machine]")
_conf = click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
)
_properties = click.option(
    "--spark-properties",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with settings of Spark, such as its secret.",
)


@click.group("divergence", invoke_without_command=True)
@_flow
@click.option(
    "--records",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write each record there, a line of JSON each; keys and values in Base64.",
)
@click.pass_context
def diverged(context: click.Context, /, **given: Any) -> Any:
    """Say what the old primary has and the new one has not, after a failover, once it answers again.

    That is what the failover lost, and what the old primary took afterwards. The last copied records are
    compared with their copies: an old primary that came back without some of them is named as well. Nothing
    is changed.

    Exit code: 0 both sides have the same, 1 they differ, 3 cannot be said (it does not answer).
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


@diverged.command()
@_flow
@click.option("--to", required=True, metavar="DIR", help="A folder, or a URL such as s3://bucket/folder.")
@click.option(
    "--format",
    "how",
    type=click.Choice(["parquet", "jsonl"]),
    default="parquet",
    show_default=True,
    help="How records are written; as bytes, or in Base64.",
)
@click.option(
    "--topic", "topics", multiple=True, help="A topic of the old primary; may be repeated.  [default: all]"
)
@_master
@_conf
@_properties
@click.pass_context
def export(context: click.Context, /, **given: Any) -> Any:
    """Export the records that only the old primary has, with a manifest, and read the files back.

    The manifest accounts for every offset: exported, or why not. The export is a new folder below DIR, for
    its owner alone; nothing is written over. Keep the SHA-256 that is printed apart from the files.

    Exit code: 0 exported, or nothing to export; 1 failed, and nothing is left; 3 the old primary does not
    answer, or DIR is not where Spark's executors write.
    """
    parent = context.parent
    given["flow"] = given["flow"] or (parent.params["flow"] if parent is not None else None)
    return work("drkit.cli.actions.divergence").export(**given)


@diverged.command("verify")
@click.argument("manifest")
@click.option("--sha256", metavar="HASH", help="What the export printed.  [default: only the manifest's own]")
@_master
@_conf
@_properties
def verify_export(**given: Any) -> Any:
    """Read an export, and compare each file and each record with its MANIFEST; needs no cluster.

    Exit code: 0 it is what was written, 1 it cannot be read, 2 there is no manifest, 3 it was altered.
    """
    return work("drkit.cli.actions.divergence").verify_export(**given)
