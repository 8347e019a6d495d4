"""What the reverse flow and returns have done on the old primary, by what is on record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from drkit.failover.core.context import Context
from drkit.failover.core.reverse import reverse_state
from drkit.failover.loss.judging import Emptied
from drkit.flow_state.copied_topics import emptied_of
from drkit.flow_state.producer_ids import on_record
from drkit.flow_state.records import CutRecord, GenerationRecord, IncompleteRecord, ReturnRecord, RoleRecord
from drkit.model import TopicPartition


def emptied_in_vain(context: Context) -> dict[TopicPartition, Emptied]:
    """Return what aborted returns had emptied on the old primary; nothing is copied there."""
    return {
        TopicPartition(topic, p): Emptied(offset, record.run_id)
        for topic, record in context.state.all(IncompleteRecord).items()
        for p, offset in record.emptied.items()
    }


def emptied_before(context: Context, ids: Mapping[str, UUID]) -> dict[TopicPartition, int]:
    """Offsets of the old primary up to which a return has emptied it, aborted or not.

    Nothing before them belongs there. Brokers that were killed soon after it may have brought it back.

    :param ids: of topics of the old primary; what was emptied of an earlier topic of these names is left out
    :raises DrkitError: the old primary does not say
    """
    state = reverse_state(context)
    copies = state.all(GenerationRecord)
    emptied = emptied_in_vain(context)
    found = {at: e.up_to for at, e in emptied.items() if at.topic in ids}
    for at, offset in emptied_of(state).items():
        copy = TopicPartition(copies[at.topic].target, at.partition)
        if ids.get(copy.topic) == copies[at.topic].target_id:
            found[copy] = max(found.get(copy, 0), offset)
    return found


class ReverseSide(NamedTuple):
    """What the old primary has on record of the reverse flow."""

    ids: frozenset[int]
    """Its producers: their records came from the new primary."""
    returned: frozenset[str]
    """Topics of the old primary that it copies back since the last promotion."""
    copies: frozenset[str]
    """Its copies on the old primary."""
    emptied: Mapping[TopicPartition, Emptied]
    """What a turn of the reverse flow has emptied there."""


def reverse_side(context: Context, roles: Mapping[str, RoleRecord]) -> ReverseSide:
    """Return what the old primary has on record of the reverse flow.

    :param roles: of the promoted topics
    :raises DrkitError: it does not say
    """
    state, known = reverse_state(context), context.known.topics
    begun = {topic: record.promoted_by for topic, record in state.all(ReturnRecord).items()}
    returned = [t for t, role in roles.items() if t in known and begun.get(known[t][0]) == role.run_id]
    copies = {name: record.target for name, record in state.all(GenerationRecord).items()}
    cuts = ((copies[n], c) for n, c in state.all(CutRecord).items() if n in copies)
    emptied = {TopicPartition(t, p): Emptied(o) for t, c in cuts for p, o in c.emptied.items()}
    return ReverseSide(frozenset(on_record(state)), frozenset(returned), frozenset(copies.values()), emptied)
