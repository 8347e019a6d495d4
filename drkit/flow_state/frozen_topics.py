"""What a failover or a return changes for a running flow: topics that it may copy, or its producer."""

from __future__ import annotations

from collections.abc import Mapping

from drkit.errors import Failed
from drkit.flow_state.producer_ids import ProducerIds
from drkit.flow_state.records import ProducerIdsRecord, ReturnRecord, RoleRecord
from drkit.flow_state.state import FlowState


class FrozenTopics:
    """The topics of a flow that a failover holds or a return has begun, as the flow's state had them last.

    :param state: of the flow, as it is kept up to date
    """

    def __init__(self, flow: str, state: FlowState, ids: ProducerIds) -> None:
        self._flow, self._ids, self._frozen = flow, ids, _decided(state)

    def changed(self, state: FlowState) -> bool:
        """Whether other topics may be copied than at the last call.

        :raises Failed: the producer of this attempt was fenced; the next attempt has the new one
        """
        record = state.readable(ProducerIdsRecord).get("")
        current = record.current if record is not None else self._ids.current
        if current != self._ids.current:
            raise Failed(
                "producer_replaced",
                where=self._flow,
                evidence=f"producer id {self._ids.current.id} is now {current.id}",
            )
        before, self._frozen = self._frozen, _decided(state)
        return before != self._frozen


def _decided(state: FlowState) -> Mapping[str, tuple[str, str]]:
    """Topics with a role, and those whose return has begun, with the runs that did that."""
    roles = {topic: (role.role.value, role.run_id) for topic, role in state.readable(RoleRecord).items()}
    returns = state.readable(ReturnRecord).items()
    return roles | {f"return/{topic}": ("", found.run_id) for topic, found in returns}
