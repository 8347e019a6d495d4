"""A return that keeps tails was rolled back: what it has appended stays, and others may append the rest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings
from drkit.kafka.raw import connections, unanswered_as
from drkit.model import TopicPartition
from drkit.replay.log import ReplayLog
from drkit.replay.producers import fenced
from drkit.replay.progress import ReplayProgress
from drkit.replay.side import ActiveSide


def roll_back_kept(
    target: ClusterSettings, flow: FlowSettings, run_id: str, partitions: Collection[TopicPartition]
) -> list[ReplayProgress]:
    """Note of each tail that a run has not appended as a whole that it will not; repeated, nothing changes.

    :param target: the new primary
    :param run_id: of the export
    :param partitions: of the new primary, which may have such tails
    :returns: what was appended of them
    :raises DrkitError: the new primary does not answer, or refuses
    """
    log = ReplayLog(target, flow)
    log_id = log.topic_id()
    if log_id is None:
        return []
    with connections("replay", target) as (cluster,):
        side = ActiveSide(cluster)

        async def note() -> list[ReplayProgress]:
            await cluster.connected()
            mine = {at: await fenced(cluster, flow, at, run_id) for at in sorted(partitions)}
            book = await log.read(side, log_id, decided=True)
            found = [
                p for p in book.progress.values()
                if p.run_id == run_id and p.at in mine and p.ids is not None and p.is_open
            ]  # fmt: skip
            for progress in found:
                noted = replace(progress, rolled_back_ms=wall_ms())
                await side.append(log.at, log_id, log.batch([(noted.key, noted.encode())])[0])
                # Fenced once more: a process that began its epoch again did so before the note.
                await mine[progress.at].appends.begin_epoch()
            return found

        hint = "check the cluster with: drkit config check --connect; then run the command again"
        with unanswered_as("new_primary_stopped_answering", target.alias, hint):
            rolled_back: list[ReplayProgress] = cluster.loop.run(note)
    return rolled_back
