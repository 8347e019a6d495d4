"""Negative controls of a bubble on the target itself: writes that must be refused, or be named."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from drkit.chaos.checks import IN_ORDER
from drkit.chaos.client_stage import ClientStage
from drkit.chaos.history import STANDBY, Read, ScenarioHistory
from drkit.chaos.verdict import judge
from drkit.clock import monotonic
from drkit.errors import Failed
from drkit.failover.fencing.own_writers import Writer, fence
from drkit.kafka.clients import KafkaError, Message, Producer
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.requests import by_leader, describe_producers, metadata, partitions_of
from drkit.model import TopicPartition
from drkit.verify.reading import RangeReader

_VALUE: Final = "put in by a control"
_SECONDS: Final = 15.0


def live_controls(stage: ClientStage) -> dict[str, bool]:
    """Try each defect after the history was checked; return by its name whether it is refused or found.

    :raises DrkitError: the target does not answer
    """
    return {
        "an append in an older epoch": are_older_epochs_refused(stage),
        "a foreign record in the copy": is_foreign_record_named(stage),
    }


def are_older_epochs_refused(stage: ClientStage) -> bool:
    """Append in the epoch before that of each fenced producer; return whether all are refused.

    False also when no producer has an older epoch: then nothing was tried.

    :raises DrkitError: the target does not answer
    """

    async def ask(raw: RawCluster) -> bool:
        topics = await metadata(raw, stage.topics)
        writers: dict[TopicPartition, tuple[Writer, ...]] = {}
        for node, partitions in by_leader(topics, partitions_of(topics)).items():
            for tp, (_, producers) in (await describe_producers(raw, node, partitions)).items():
                fenced = tuple(Writer(i, state.epoch) for i, state in producers.items() if state.epoch)
                writers |= {tp: fenced} if fenced else {}
        progress = await fence(raw, writers, monotonic() + _SECONDS, effects=False)
        return bool(progress.proven) and not progress.waiting

    return ask_once(stage.cluster(STANDBY), stage.WHERE, ask, what="append in an older epoch")


def is_foreign_record_named(stage: ClientStage) -> bool:
    """Write a record that no client of the drill wrote; return whether the check of the copy names it.

    :raises DrkitError: the target refuses the record, or does not answer
    """
    tp = TopicPartition(stage.topics[0], 0)
    offset = _write(stage, tp)
    with closing(RangeReader(stage.cluster(STANDBY))) as reader:
        reads = [
            Read(STANDBY, *tp, record.offset, (record.value or b"").decode(errors="replace"))
            for record in reader.read(tp, offset, offset + 1)
        ]
    history = ScenarioHistory((*stage.history().events, *reads))
    checks = [each for each in judge(history, []).checked if each.name == IN_ORDER]
    return any(_VALUE in offence for each in checks for offence in each.offences)


def _write(stage: ClientStage, tp: TopicPartition) -> int:
    """Write the record and return its offset."""
    answers: list[tuple[KafkaError | None, Message]] = []
    producer = Producer({**stage.application(STANDBY), "log_level": 0})
    producer.produce(
        tp.topic, _VALUE, _VALUE, partition=tp.partition, on_delivery=lambda *a: answers.append(a)
    )
    producer.flush(_SECONDS)
    error, message = answers[0] if answers else ("no answer", None)
    if error is not None or message is None:
        raise Failed("drill_control_refused", where=str(tp), evidence=str(error))
    return message.offset() or 0
