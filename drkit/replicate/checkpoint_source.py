"""A streaming source for Spark whose offset is the number of a round and whose rows are shards of groups.

As with leases, Spark runs the reader in a Python process of its own, which learns from a plan file what to
do. The driver sets the pace: a plan with a higher number is a new round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

_FORMAT: Final = "drkit-checkpoints"
SCHEMA: Final = "shard string"


def write_plan(path: Path, number: int, shards: Sequence[str]) -> None:
    """Replace the plan file; a reader sees the old or the new one, never half.

    :param number: of the round, at least 1 and higher than that of any before
    """
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([number, list(shards)]), encoding="utf-8")
    draft.replace(path)


def read_plan(path: Path) -> tuple[int, list[str]]:
    """What :func:`write_plan` wrote."""
    number, shards = json.loads(path.read_text(encoding="utf-8"))
    return number, shards


@dataclass
class ShardPartition(InputPartition):
    """One shard on its way to the task that reads it."""

    shard: str


class CheckpointSource(DataSource):
    """``spark.readStream.format(NAME).option("plan", FILE)``; its name is that of :func:`source_of`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return _FORMAT

    def schema(self) -> str:
        """One column: a shard as JSON."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's signature
        """The reader."""
        return CheckpointReader(Path(self.options["plan"]))


class CheckpointReader(DataSourceStreamReader):
    """A round whenever there is another plan."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """Before the first round; the query's folder is new at every start, so this is always asked."""
        return {"round": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802  all of Spark 4 knows this form
        """The round of the plan of now."""
        return {"round": read_plan(self._path)[0]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002  Spark's signature
        """One Spark task per shard of the plan; the next one is written when this one is done."""
        return [ShardPartition(text) for text in read_plan(self._path)[1]]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """The shard as one row."""
        assert isinstance(partition, ShardPartition)  # noqa: S101  for the type checker; we made it
        yield (partition.shard,)


def source_of(flow: str) -> type[CheckpointSource]:
    """A flow's own source, by its own name: queries that share one disturb each other at a common start."""

    class Own(CheckpointSource):
        @classmethod
        def name(cls) -> str:
            return f"{_FORMAT} {flow}"

    return Own
