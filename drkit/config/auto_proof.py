"""Whether the timeouts of a configuration prove that mode auto never makes two primaries. Pure.

An observer that says "gone" renews no lease. The agent's lease then ends at most ``ttl_seconds`` later, is
seen within ``check_seconds``, and the fence stands within ``fence_seconds``; ``clock_margin_seconds`` is
for clocks that run at different speeds and for processes that are late. Only then may the failover begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drkit.config.watch import FenceAgentSettings, WatchSettings

FEWEST: Final = 3
Finding = tuple[str, str, str]
"""Where, what, hint."""


def unsafe(watch: WatchSettings, agent: FenceAgentSettings, clusters: set[str]) -> Iterator[Finding]:
    """Everything for which mode auto is refused.

    :param clusters: aliases of all flows: the third cluster must be none of them
    """
    if watch.observers < FEWEST:
        what = f"mode auto needs {FEWEST} observers, watch.observers = {watch.observers}"
        yield "watch.observers", what, f"set watch.observers = {FEWEST} and start as many drkit watch"
    if agent.agents < 1 or not agent.command:
        given = f"fence_agent.agents = {agent.agents}, fence_agent.command is " + (
            "set" if agent.command else "not set"
        )
        what = f"mode auto needs a fence agent at the primary's site: {given}"
        yield "fence_agent", what, "set both, and start drkit fence-agent there"
    if watch.third is None or watch.third in clusters:
        why = "is not set" if watch.third is None else f"= {watch.third} is a cluster of a flow"
        what = f"mode auto needs a third cluster for votes and leases: watch.third {why}"
        hint = "without one an outage of the standby alone would make the fence agents stop the primary"
        yield "watch.third", what, hint
    yield from _times(watch, agent)


def fenced_within_seconds(watch: WatchSettings, agent: FenceAgentSettings) -> float:
    """By so long after its last lease every fence agent has fenced, whether it can say so or not."""
    return agent.ttl_seconds + agent.check_seconds + watch.clock_margin_seconds + agent.fence_seconds


def _times(watch: WatchSettings, agent: FenceAgentSettings) -> Iterator[Finding]:
    longest = fenced_within_seconds(watch, agent)
    if longest >= watch.failover_delay_seconds:
        what = (
            "the timeouts do not prove that the old primary is fenced before a failover begins: "
            f"fence_agent.ttl_seconds {agent.ttl_seconds:g}"
            f" + fence_agent.check_seconds {agent.check_seconds:g}"
            f" + watch.clock_margin_seconds {watch.clock_margin_seconds:g} + fence_agent.fence_seconds "
            f"{agent.fence_seconds:g} = {longest:g} is not less than watch.failover_delay_seconds "
            f"{watch.failover_delay_seconds:g}"
        )
        yield "watch.failover_delay_seconds", what, f"set watch.failover_delay_seconds above {longest:g}"
    round_trip = agent.check_seconds + watch.vote_interval_seconds
    if agent.ttl_seconds < 3 * round_trip:
        what = (
            f"a lease would end by two lost messages: fence_agent.ttl_seconds {agent.ttl_seconds:g} is "
            f"less than 3 × (fence_agent.check_seconds {agent.check_seconds:g} + watch.vote_interval_seconds "
            f"{watch.vote_interval_seconds:g})"
        )
        yield "fence_agent.ttl_seconds", what, f"set fence_agent.ttl_seconds to {3 * round_trip:g} or more"
