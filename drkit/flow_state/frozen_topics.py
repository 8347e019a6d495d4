"""What a failover changes for a running flow: topics that it holds, or a producer that it replaced."""

from __future__ import annotations

from drkit.errors import Failed
from drkit.flow_state.producer_ids import ProducerIds
from drkit.flow_state.records import ProducerIdsRecord, RoleRecord
from drkit.flow_state.state import FlowState


class FrozenTopics:
    """The topics of a flow that a failover holds, as the flow's state had them last.

    :param state: of the flow, as it is kept up to date
    """

    def __init__(self, flow: str, state: FlowState, ids: ProducerIds) -> None:
        self._flow, self._ids, self._frozen = flow, ids, _frozen(state)

    def changed(self, state: FlowState) -> bool:
        """Whether other topics are held than at the last call.

        :raises Failed: the producer of this attempt was fenced; the next attempt has the new one
        """
        record = state.readable(ProducerIdsRecord).get("")
        current = record.current if record is not None else self._ids.current
        if current != self._ids.current:
            raise Failed(
                "an aborted failover fenced the producer of this flow",
                where=self._flow,
                evidence=f"producer id {self._ids.current.id} is now {current.id}",
                hint="nothing: the flow starts again with the new one",
            )
        before, self._frozen = self._frozen, _frozen(state)
        return before != self._frozen


def _frozen(state: FlowState) -> frozenset[str]:
    return frozenset(topic for topic, role in state.readable(RoleRecord).items() if role.is_frozen)
