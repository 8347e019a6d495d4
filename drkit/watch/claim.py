"""Which observer acts in mode auto: a claim that only one of them can make.

The observer that initialises the transactional id last fences the others, and reads their records before its
own claim commits: two observers that decide at the same moment cannot both act.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Final

from drkit.config import ClusterSettings, FlowSettings
from drkit.detect.note_kinds import Automatic
from drkit.detect.notes import Notes
from drkit.detect.noticeboard import ensure_board, put_note, read_notes, topic_name
from drkit.flow_state.names import automatic_transactional_id
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import QUIET, KafkaError, KafkaException, Producer, confluent_config
from drkit.kafka.reading.signed_log import SignedLog
from drkit.wire import Record

_SECONDS: Final = 10.0
_FENCED: Final = frozenset({
    KafkaError._FENCED,  # noqa: SLF001  the constant's only name
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
})  # fmt: skip


def claim(target: ClusterSettings, flow: FlowSettings, mine: Automatic, window_seconds: float) -> str:
    """Claim the automatic failover; returns who or what prevents the claim, empty when it succeeded.

    :raises DrkitError: the target does not accept the claim
    """
    cluster = Cluster.connect(target)
    ensure_board(cluster, flow)
    producer = Producer(
        {
            **confluent_config(target),
            "transactional.id": automatic_transactional_id(flow.source, flow.target),
            "transaction.timeout.ms": int(_SECONDS * 1000),
            "message.timeout.ms": int(_SECONDS * 1000),
            "linger.ms": 0,
            "log_level": 0,
        },
        logger=QUIET,
    )
    try:
        producer.init_transactions(_SECONDS)
        if against := against_claim(read_notes(cluster, flow), mine, window_seconds):
            return against
        key, value = Automatic.KEY.encode(), mine.encode()
        counted: list[bytes | None] = []

        def take(record: Record, why: str) -> None:
            if not why and record.key == key:
                counted.append(record.value)

        with closing(SignedLog(target, topic_name(flow), take)) as log:
            log.read()
            producer.begin_transaction()
            headers = log.signatures.text_headers(key, value)
            producer.produce(log.name, value, key, partition=0, headers=headers)
            producer.commit_transaction(_SECONDS)
            log.read()
            if value not in counted:
                return "another note of it was written at the same moment"
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in _FENCED:
            return "another observer claimed it at the same moment"
        raise cluster.error(cause, "claim the automatic failover", topic_name(flow)) from error
    return ""


def against_claim(notes: Notes, mine: Automatic, window_seconds: float) -> str:
    """Why the notes prevent an automatic failover now; empty: they do not. Pure."""
    if why := notes.damaged(Automatic):
        return f"the note of the last automatic failover cannot be read ({why}): drkit watch acknowledge"
    last = notes.automatic
    if last is None:
        return ""
    if last.acknowledged_ms is None:
        return f"{last.by} already acted, and it is not acknowledged"
    age = (mine.at_ms - last.at_ms) / 1000
    return f"{last.by} acted {age:.0f} s ago" if age < window_seconds else ""


def tell_outcome(target: ClusterSettings, flow: FlowSettings, mine: Automatic, outcome: str) -> None:
    """Write the outcome. Raises DrkitError."""
    put_note(Cluster.connect(target), flow, Automatic.KEY, replace(mine, outcome=outcome).to_json())


def acknowledge(target: ClusterSettings, flow: FlowSettings, by: str, at_ms: int) -> Automatic | None:
    """Acknowledge the last automatic failover and return it; None when there was none.

    :raises DrkitError: the target does not accept the record
    """
    cluster = Cluster.connect(target)
    last = acknowledgement(read_notes(cluster, flow), by, at_ms)
    if last is not None:
        put_note(cluster, flow, Automatic.KEY, last.to_json())
    return last


def acknowledgement(notes: Notes, by: str, at_ms: int) -> Automatic | None:
    """The note of an acknowledgement; None when there was no automatic failover. Pure.

    An unreadable note counts as a failover at this moment: a whole window passes before the next.
    """
    last = notes.automatic
    if last is None or last.acknowledged_ms is not None:
        return last
    at = at_ms if notes.damaged(Automatic) else last.at_ms
    return replace(last, at_ms=at, acknowledged_by=by, acknowledged_ms=at_ms)
