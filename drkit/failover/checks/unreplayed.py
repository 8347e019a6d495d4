"""A replay that was decided and not carried out: clients do not move before it is, or is given up by name."""

from __future__ import annotations

from collections.abc import Sequence

from drkit.counted import counted, first_of
from drkit.errors import Refused
from drkit.failover.core.context import Context
from drkit.failover.core.reverse import reverse_state
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.unreplayed import Unreplayed, unreplayed


def unreplayed_on_source(context: Context) -> list[Unreplayed]:
    """Return what a return has left to append to the source of a flow, in the scope's topics.

    :raises DrkitError: the source does not tell
    """
    state = reverse_state(context)
    known = state.all(GenerationRecord)
    mine = {t for t, copy in known.items() if copy.target in context.scope.topics}
    return unreplayed(state, mine)


def not_replayed(flow: str, found: Sequence[Unreplayed]) -> Refused:
    """Return the refusal of a switchover that would leave such records behind.

    :param found: at least one
    """
    return Refused(
        "unreplayed",
        where=flow,
        evidence=first_of(f"{each.in_words}, {each.record.manifest}" for each in found),
        topics=counted(len(found), "topic"),
        command=found[0].command,
        to_give_up=found[0].to_give_up,
    )
