"""Flows in the other direction that the configuration does not name: they are reported, never trusted.

A state topic on the source says who copies what, but any client with write access can write anything there.
What such a flow claims to have written is neither left out nor copied: its topics wait for an operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from drkit import observe
from drkit.config import FlowSettings
from drkit.errors import DrkitError, Refused
from drkit.flow_state.names import source_of_state_topic
from drkit.flow_state.records import GenerationRecord, RoleRecord
from drkit.flow_state.returns import without_return
from drkit.flow_state.state import FlowState


class UnnamedFlows:
    """Flows from this flow's target to its source that `opposite_flows` does not name.

    :param source: alias of the cluster where their states are
    """

    def __init__(self, source: str, flow: FlowSettings) -> None:
        self._source = source
        self._flow = flow
        self._states: dict[str, FlowState] = {}

    def see(self, name: str, state: FlowState) -> bool:
        """Add the state of such a flow; returns whether it is to be read again.

        If the configuration lists the opposite flows, this one is reported once, and then ignored.
        """
        if self._flow.naming == "prefix":
            return False  # with prefixed names nothing is copied back
        if self._flow.opposite_flows is None:
            self._states[name] = state
            return True
        observe.event(
            "opposite_flow_passed_over", level="warning", flow=self._flow.name, state_topic=name,
            hint=f"if it runs: opposite_flows = {_listed(self._flow.opposite_flows, name)}",
        )  # fmt: skip
        return False

    def keep(self, names: Iterable[str]) -> None:
        """Forget states that no longer exist."""
        existing = set(names)
        self._states = {name: state for name, state in self._states.items() if name in existing}

    def claims(self, topics: Mapping[str, UUID], own: FlowState) -> dict[str, DrkitError]:
        """Topics of the source that such a flow claims to write, or to have promoted, each with what to do.

        :param topics: name → id
        :param own: the state of this flow, with the returns that have begun
        """
        found: dict[str, DrkitError] = {}
        for name, state in self._states.items():
            waiting = without_return(state, own)
            for upstream, entry in state.readable(GenerationRecord).items():
                topic, role = entry.target, waiting.get(entry.target)
                promotion = role if isinstance(role, RoleRecord) else None
                # A promotion counts for a later topic of this name, too: the old primary's is what it was.
                is_claimed = topics.get(topic) == entry.target_id
                if is_claimed or (promotion is not None and topic in topics):
                    found[topic] = self._claimed(topic, name, upstream, promotion)
        return found

    def _claimed(self, topic: str, state: str, upstream: str, promotion: RoleRecord | None) -> Refused:
        promoted = f", promoted by the failover {promotion.run_id}" if promotion is not None else ""
        return Refused(
            "opposite_flow_unnamed",
            where=f"topic {topic}, flow {self._flow.name}: {state} on {self._source}",
            evidence=f"by that state topic it is the copy of {upstream} on {self._flow.target}{promoted}",
            listed=_listed((), state),
        )


def _listed(named: Iterable[str], state: str) -> str:
    return "[" + ", ".join(f'"{alias}"' for alias in (*named, source_of_state_topic(state))) + "]"
