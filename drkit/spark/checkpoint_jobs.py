"""A checkpoint round as a Spark job: groups → checkpoints and synced offsets → reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drkit.checkpoints.round import checkpoint_task
from drkit.checkpoints.shard import Shard, ShardReport
from drkit.config import ClusterSettings, FlowSettings
from drkit.spark.jobs import SparkJobs
from drkit.spark.workshop import SharedSpark


def round_jobs(workshop: SharedSpark, flow: FlowSettings) -> SparkJobs:
    """The jobs of a flow's rounds."""
    return SparkJobs(workshop, f"drkit checkpoints {flow.name}", "checkpoint_job_died", flow.name)


def run_round(
    jobs: SparkJobs,
    shards: Sequence[Shard],
    clusters: tuple[ClusterSettings, ClusterSettings],
    flow: FlowSettings,
) -> list[ShardReport]:
    """One round, its shards side by side; blocking. Raises DrkitError if see :meth:`SparkJobs.run`."""
    answers = jobs.run([shard.to_json() for shard in shards], _round_function(*clusters, flow))
    return [ShardReport.from_json(answer) for answer in answers]


def _round_function(
    source: ClusterSettings, target: ClusterSettings, flow: FlowSettings
) -> Callable[[str], str]:
    def look(shard: str) -> str:
        return checkpoint_task(source, target, flow).run(Shard.from_json(shard)).to_json()

    return look
