"""A streaming source for Spark whose offset is an epoch number and whose rows are leases.

Spark runs the reader in a Python process of its own, so the driver speaks to it through a plan file in the
throw-away folder of the query. The file is replaced atomically and holds no secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
import json
from pathlib import Path
import time
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from drkit.clock import wall_ms
from drkit.replicate.lease import TaskLease

_FORMAT: Final = "drkit-leases"
SCHEMA: Final = "lease string"
_LOOK_SECONDS: Final = 0.01
_PATIENCE_SECONDS: Final = 0.25
"""How long the reader waits for work within one question of Spark; `query.stop()` may wait as long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the next epoch does."""

    version: int
    hold: bool
    """No further epoch begins."""
    leases: tuple[TaskLease, ...] = ()

    def write(self, path: Path) -> None:
        """Replace the plan file; a reader sees the old or the new one, never half."""
        body = {"version": self.version, "hold": self.hold, "leases": [asdict(x) for x in self.leases]}
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(body), encoding="utf-8")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Plan:
        """What :meth:`write` wrote."""
        body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        leases = tuple(TaskLease.from_json(json.dumps(x)) for x in body["leases"])
        return cls(body["version"], body["hold"], leases)


@dataclass
class LeasePartition(InputPartition):
    """One lease on its way to the task that reads it."""

    lease: str


class LeasesSource(DataSource):
    """``spark.readStream.format(NAME).option("plan", FILE)``; its name is that of :func:`source_of`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return _FORMAT

    def schema(self) -> str:
        """One column: a lease as JSON."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's signature
        """The reader."""
        return LeasesReader(Path(self.options["plan"]))


def source_of(flow: str) -> type[LeasesSource]:
    """A flow's own source, by its own name.

    Spark's driver writes into the environment of a source's function when a query begins to read, unguarded.
    Queries that shared one corrupted it at a common start, and all their tasks with it.
    """

    class Own(LeasesSource):
        @classmethod
        def name(cls) -> str:
            return f"{_FORMAT} {flow}"

    return Own


class LeasesReader(DataSourceStreamReader):
    """Starts an epoch whenever Spark asks and the plan has work."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """Before the first epoch; the query's folder is new at every start, so this is always asked."""
        return {"epoch": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802  all of Spark 4 knows this form
        """The next epoch, or the last one again when there is nothing to do."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            plan = Plan.read(self._path)
            if plan.leases and not plan.hold:
                self._epoch += 1
                break
            # Without a pause Spark would ask a thousand times a second.
            time.sleep(_LOOK_SECONDS)
        return {"epoch": self._epoch}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002  Spark's signature
        """One Spark task per lease of the plan as it is now."""
        leases = Plan.read(self._path).leases
        now = wall_ms()
        return [LeasePartition(replace(x, epoch=end["epoch"], planned_at_ms=now).to_json()) for x in leases]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """The lease as one row."""
        assert isinstance(partition, LeasePartition)  # noqa: S101  for the type checker; we made it
        yield (partition.lease,)
