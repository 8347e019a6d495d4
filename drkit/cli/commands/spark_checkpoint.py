"""``drkit translate spark-checkpoint``: a Structured Streaming query continues on the other cluster."""

from __future__ import annotations

from typing import Any

import click

from drkit.cli.loading import work


@click.command(name="spark-checkpoint")
@click.argument("checkpoint", metavar="DIR")
@click.option("--out", metavar="DIR2", help="The new checkpoint: a folder that is empty or not there yet.")
@click.option("--location", metavar="URL", default="", help="Where the query will find it.  [default: DIR2]")
@click.option("--flow", help="The flow, as 'primary->standby'.  [default: the only one]")
@click.option("--reverse", is_flag=True, help="From the target back to the source.")
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
@click.option(
    "--keep-source",
    "keep",
    multiple=True,
    metavar="N",
    help="Leave a Kafka source of the query as it is, by number or name: it reads another cluster.",
)
@click.option(
    "--accept-data-loss",
    "reason",
    metavar="REASON",
    default="",
    help="Continue where records are lost for good, and say why.",
)
def spark_checkpoint(**given: Any) -> None:
    """Rewrite the checkpoint folder of a Spark query, so that it continues at its next record there.

    DIR is the query's checkpointLocation; it is only read. Stop the query first, then start it with DIR2 and
    the other cluster's bootstrap servers. A batch that was planned and not committed runs again with the same
    records. An offset without an exact position there is refused, and nothing is written.

    Exit code: 0 all is exact, 3 refused.
    """
    work("drkit.cli.actions.spark_checkpoint").spark_checkpoint(**given)
