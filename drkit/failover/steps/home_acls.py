"""In OPEN of a switchover home: what only home allows is removed before, if a person has said so."""

from __future__ import annotations

from typing import Final

from drkit.counted import counted, first_of
from drkit.errors import DrkitError
from drkit.failover.checks.home_acls import REMOVE, HomeAcls, look_home_acls
from drkit.failover.core.context import Context
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import StepEffect
from drkit.flow_state.returns import begun_by_turn
from drkit.kafka.access.acls import delete_acls

_EFFECT: Final = "acls only home"


def planned_removals(context: Context) -> list[StepEffect]:
    """What :func:`remove_only_home` would do."""
    what = "delete" if context.request.acls_only_home == REMOVE else "keep"
    why = f"{context.flow.source} does not have it"
    seen, home = _found(context), context.flow.target
    return [
        *(StepEffect(f"{what} acl {o.acl}", home, why) for o in seen.only_home),
        *(StepEffect("leave as it is", home, f"not compared: {what}") for what in seen.not_compared),
    ]


def remove_only_home(context: Context) -> list[str]:
    """Remove the ACLs of clients that only home has, or say which stay; returns notes.

    What cannot be removed is named: nothing is held for it while clients can write on neither side.
    """
    seen = _found(context)
    found, unknown = seen.only_home, seen.unknown
    notes = [f"ACLs of both sides were not compared: {unknown}"] if unknown else []
    notes += [f"not compared: {'; '.join(seen.not_compared)}"] if seen.not_compared else []
    if not found:
        return notes
    home = context.flow.target
    if context.request.acls_only_home != REMOVE:
        return [*notes, f"only {home} has, and keeps: {first_of(found)}"]
    acls = [o.acl for o in found]
    with context.effect(StepName.OPEN, _EFFECT, acls=[str(a) for a in acls]) as outcome:
        try:
            refused = {str(a): e.evidence for a, e in delete_acls(context.target_settings, acls).items()}
        except DrkitError as error:
            refused = dict.fromkeys(map(str, acls), f"{error.what}: {error.evidence}")
        outcome["refused"] = refused
    removed = [a for a in acls if str(a) not in refused]
    if removed:
        notes.append(
            f"removed, since only {home} had it: {counted(len(removed), 'ACL')}: {first_of(removed)}"
        )
    if refused:
        left = first_of(f"{acl} ({why})" for acl, why in refused.items())
        notes.append(f"remove by hand what {home} allows still: {left}")
    return notes


def _found(context: Context) -> HomeAcls:
    returning = begun_by_turn(context.state.records) & set(context.scope.topics.values())
    return look_home_acls(context, returning, answers=bool(returning) and context.source() is not None)
