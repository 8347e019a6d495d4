"""Which observer acts in mode auto: a claim that only one of them can make.

Whoever initialises the transactional id last fences the others, and reads what they have written before its
own claim commits: so two observers that decide at the same moment cannot both act.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from drkit.config import ClusterSettings, FlowSettings
from drkit.detect.noticeboard import ensure_board, put_note, read_board, topic_name
from drkit.errors import Failed
from drkit.flow_state.names import automatic_transactional_id
from drkit.kafka.admin import Cluster
from drkit.kafka.client_config import confluent_config
from drkit.watch.marks import AUTOMATIC, Automatic

_SECONDS: Final = 10.0
_FENCED: Final = frozenset({
    KafkaError._FENCED,  # noqa: SLF001  the constant's only name
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
})  # fmt: skip
_QUIET: Final = logging.getLogger("drkit.watch.claim")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def claim(target: ClusterSettings, flow: FlowSettings, mine: Automatic, window_seconds: float) -> str:
    """Claim the automatic failover; returns who or what stands against it, empty when it is ours.

    :raises DrkitError: the target does not take it
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
        logger=_QUIET,
    )
    try:
        producer.init_transactions(_SECONDS)
        if against := _against(cluster, flow, mine, window_seconds):
            return against
        producer.begin_transaction()
        producer.produce(
            topic_name(flow), json.dumps(mine.to_json()).encode(), AUTOMATIC.encode(), partition=0
        )
        producer.commit_transaction(_SECONDS)
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in _FENCED:
            return "another observer claimed it at the same moment"
        raise cluster.error(cause, "claim the automatic failover", topic_name(flow)) from error
    return ""


def _against(cluster: Cluster, flow: FlowSettings, mine: Automatic, window_seconds: float) -> str:
    raw = read_board(cluster, flow).get(AUTOMATIC)
    if raw is None:
        return ""
    last = Automatic.from_json(raw)
    if last.acknowledged_ms is None:
        return f"{last.by} has acted already, and nobody has acknowledged it"
    age = (mine.at_ms - last.at_ms) / 1000
    return f"{last.by} acted {age:.0f} s ago" if age < window_seconds else ""


def tell_outcome(target: ClusterSettings, flow: FlowSettings, mine: Automatic, outcome: str) -> None:
    """Write how it ended. Raises DrkitError."""
    put_note(Cluster.connect(target), flow, AUTOMATIC, mine._replace(outcome=outcome).to_json())


def acknowledge(target: ClusterSettings, flow: FlowSettings, by: str, at_ms: int) -> Automatic | None:
    """Somebody has looked at the last automatic failover; None when there was none.

    :raises DrkitError: the target does not take it
    """
    cluster = Cluster.connect(target)
    raw = read_board(cluster, flow).get(AUTOMATIC)
    if raw is None:
        return None
    last = Automatic.from_json(raw)
    if last.acknowledged_ms is None:
        last = last._replace(acknowledged_by=by, acknowledged_ms=at_ms)
        put_note(cluster, flow, AUTOMATIC, last.to_json())
    if not last.at_ms:
        raise Failed("the note of the last automatic failover is damaged", where=topic_name(flow))
    return last
