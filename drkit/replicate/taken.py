"""What a failover tells a running flow: topics to leave alone, or that its producer was replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drkit.errors import Failed
from drkit.replicate.producer_ids import ProducerIds
from drkit.replicate.state_topic import PRODUCER_IDS
from drkit.replicate.topic_rules import is_frozen


class Taken:
    """The topics of a flow that a failover holds, as its state had them last.

    :param values: the flow's state, as it is kept up to date
    """

    def __init__(self, flow: str, values: Mapping[str, Any], ids: ProducerIds) -> None:
        self._flow, self._ids, self._frozen = flow, ids, self._now(values)

    def changed(self, values: Mapping[str, Any]) -> bool:
        """Whether other topics are held than when this said so last.

        :raises Failed: what this attempt writes with was fenced; the next one has the new id
        """
        current = tuple(values.get(PRODUCER_IDS, {}).get("current", self._ids.current))
        if current != self._ids.current:
            raise Failed(
                "an aborted failover fenced the producer of this flow",
                where=self._flow,
                evidence=f"producer id {self._ids.current.id} is now {current[0]}",
                hint="nothing: the flow starts again with the new one",
            )
        before, self._frozen = self._frozen, self._now(values)
        return before != self._frozen

    @staticmethod
    def _now(values: Mapping[str, Any]) -> frozenset[str]:
        return frozenset(k for k, v in values.items() if is_frozen(v))
