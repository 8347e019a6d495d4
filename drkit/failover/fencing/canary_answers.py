"""What a canary gets from each topic of the old primary now, in words."""

from __future__ import annotations

from contextlib import suppress

from drkit.errors import DrkitError, NotAuthorized, Refused
from drkit.failover.core.context import Context
from drkit.failover.fencing.choosing import canary_rights
from drkit.failover.fencing.proof import Proof, prove, worth_of
from drkit.failover.fencing.writable import WRITABLE, code_name


def canary_answers(context: Context, topics: list[str]) -> dict[str, str]:
    """Whether each source topic takes writes: ``no``, ``yes`` with the partitions, or why it is unknown."""
    canary = context.settings.failover.fence.canary
    settings = context.source_settings
    try:
        rights = None
        with suppress(NotAuthorized):  # what the canary is worth is unknown then; what it is told is not
            rights = canary_rights(settings, context.state, canary) if topics else None
        if rights is not None:
            worth_of(settings, canary, topics, rights)
        proof = prove(settings, canary, topics) if topics else Proof({}, (), {})
    except Refused as error:
        return dict.fromkeys(topics, f"unknown: {error.what}")
    except DrkitError as error:
        return dict.fromkeys(topics, f"the canary cannot connect: {error.what}")
    out = {at.topic: "no" for at in (*proof.refused, *proof.without_leader)}
    for at, why in sorted(proof.open.items(), key=lambda each: (each[0] in proof.silent, each[0])):
        said = "unknown" if at in proof.silent else "yes"
        before = out.get(at.topic, "no")
        told = str(at.partition) if why == code_name(WRITABLE) else f"{at.partition} ({why})"
        out[at.topic] = f"{said}: partitions {told}" if before == "no" else f"{before}, {told}"
    return out
