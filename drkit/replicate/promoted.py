"""A flow whose target was promoted waits until a return has made that side passive again."""

from __future__ import annotations

import threading
from typing import Final

from drkit import observe
from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.records import PromotionRecord
from drkit.flow_state.topic import StateTopic

_LOOK_SECONDS: Final = 1.0


def waits_for_return(flow: FlowSettings, *, once: bool) -> bool:
    """Whether a flow whose target was promoted waits for a return: it has a reverse flow."""
    return bool(flow.opposite_flows) and not once


def wait_for_return(
    flow: FlowSettings, target: ClusterSettings, stop: threading.Event, why: DrkitError
) -> None:
    """Return when the flow may copy again, or `stop` is set.

    :param why: the refusal to copy
    """
    observe.event("flow_promoted", flow=flow.name, waits=True, reason=why.what, evidence=why.evidence,
                  hint=f"it copies again after a switchover back: drkit failover --flow"
                  f" '{flow.target}->{flow.source}' --all --planned")  # fmt: skip
    with StateTopic(target.with_client(flow.target_admin), flow.source) as state:
        while not stop.wait(_LOOK_SECONDS):
            try:
                state.load()
                if state.get(PromotionRecord) is None:
                    return
            except DrkitError:
                continue  # the next look may find the cluster
