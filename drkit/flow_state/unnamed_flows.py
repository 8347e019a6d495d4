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
from drkit.flow_state.records import GenerationRecord
from drkit.flow_state.state import FlowState


class UnnamedFlows:
    """Flows from this flow's target to its source that `opposite_flows` does not name.

    :param source: alias of the cluster where their states are
    """

    def __init__(self, source: str, flow: FlowSettings) -> None:
        self._source = source
        self._flow = flow
        self._copies: dict[str, dict[str, GenerationRecord]] = {}

    def see(self, name: str, state: FlowState) -> bool:
        """Add the state of such a flow; returns whether it is to be read again.

        If the configuration lists the opposite flows, this one is reported once, and then ignored.
        """
        if self._flow.naming == "prefix":
            return False  # with prefixed names nothing is copied back
        if self._flow.opposite_flows is None:
            self._copies[name] = state.readable(GenerationRecord)
            return True
        observe.event(
            "opposite_flow_passed_over", level="warning", flow=self._flow.name, state_topic=name,
            hint=f"if it runs: opposite_flows = {_listed(self._flow.opposite_flows, name)}",
        )  # fmt: skip
        return False

    def keep(self, names: Iterable[str]) -> None:
        """Forget states that no longer exist."""
        existing = set(names)
        self._copies = {name: copies for name, copies in self._copies.items() if name in existing}

    def claims(self, topics: Mapping[str, UUID]) -> dict[str, DrkitError]:
        """Topics of the source that such a flow claims to write, each with what to do about it.

        :param topics: name → id
        """
        return {
            entry.target: self._claimed(entry.target, name, topic)
            for name, copies in self._copies.items()
            for topic, entry in copies.items()
            if topics.get(entry.target) == entry.target_id
        }

    def _claimed(self, topic: str, state: str, upstream: str) -> Refused:
        return Refused(
            "a flow in the other direction that opposite_flows does not name copies into this topic",
            where=f"topic {topic}, flow {self._flow.name}: {state} on {self._source}",
            evidence=f"by that state topic it is the copy of {upstream} on {self._flow.target}",
            hint=f"if that flow is yours: opposite_flows = {_listed((), state)} leaves out what it wrote;"
            " if there is no such flow: opposite_flows = [] copies everything",
        )


def _listed(named: Iterable[str], state: str) -> str:
    return "[" + ", ".join(f'"{alias}"' for alias in (*named, source_of_state_topic(state))) + "]"
