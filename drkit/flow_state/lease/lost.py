"""Errors of a run that cannot get its flow's lease, or has lost it."""

from __future__ import annotations

from typing import ClassVar

from drkit.clock import wall_ms
from drkit.errors import Failed, Refused
from drkit.flow_state.records import LeaseRecord
from drkit.kafka.clients import KafkaError


class LeaseLost(Failed):
    """The lease could not be renewed in time."""


class LeaseTaken(LeaseLost):
    """Another run took over (exit 3)."""

    exit_code: ClassVar[int] = 3


def held_by_another(flow: str, holder: LeaseRecord) -> Refused:
    """Another run holds the lease, and renews it."""
    age = (wall_ms() - holder.renewed_ms) / 1000
    return Refused(
        "lease_held",
        where=f"host {holder.holder.host}, process {holder.holder.pid}",
        evidence=f"run {holder.run_id}, renewed {age:.1f} s ago",
        flow=flow,
        ttl_ms=holder.ttl_ms / 1000,
    )


def not_renewed(flow: str, place: str, cause: KafkaError) -> LeaseLost:
    """The error when the target did not accept a renewal.

    :param place: the state topic and its cluster
    """
    return LeaseLost("lease_not_renewed", where=place, evidence=f"{cause.name()}: {cause.str()}", flow=flow)


def hidden(flow: str, place: str) -> LeaseLost:
    """An open transaction hides who holds the lease."""
    return LeaseLost(
        "lease_unknown", where=place, evidence="an open transaction hides the end of the topic", flow=flow
    )


def taken(flow: str, place: str, evidence: str) -> LeaseTaken:
    """A newer run has taken the lease."""
    return LeaseTaken("lease_taken", where=place, evidence=evidence, flow=flow)
