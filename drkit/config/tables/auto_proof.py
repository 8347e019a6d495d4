"""Whether the timeouts of a configuration prove that mode auto never makes two primaries. Pure.

An observer that says "gone" renews no lease. The agent's lease then ends at most ``ttl_seconds`` later. The
agent sees that within ``check_seconds``, and the fence is complete within ``fence_seconds``;
``clock_margin_seconds`` allows for clocks of different speeds and late processes. Only then may the failover
begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from drkit.config.tables.detection import DetectionSettings
from drkit.config.tables.watch import FenceAgentSettings, WatchSettings

FEWEST: Final = 3
Finding = tuple[str, str, str]
"""Where, what, hint."""
_AS_OBSERVERS: Final = 'as in observers = ["obs-a", "obs-b", "obs-c"]'
_ELSE: Final = "else any writer to their topic decides under invented names"


class Term(NamedTuple):
    """A part of the time from the last copied record until the death of a primary is proven."""

    setting: str
    seconds: float
    least: float
    """When all goes as quickly as it can."""


class Times(NamedTuple):
    """How long a live primary that is cut off may accept records before a failover begins."""

    terms: tuple[Term, ...]

    @property
    def longest(self) -> float:
        """Duration if every step takes its maximum, and no fence agent can report its fence."""
        return sum(t.seconds for t in self.terms)

    @property
    def least(self) -> float:
        """Duration if the agents fence at once and report that: no automatic failover loses less."""
        return sum(t.least for t in self.terms)

    def __str__(self) -> str:
        return " + ".join(f"{t.setting} {t.seconds:g}" for t in self.terms) + f" = {self.longest:g}"


def times_of(
    detection: DetectionSettings, watch: WatchSettings, agent: FenceAgentSettings, beat_seconds: float
) -> Times:
    """The terms of the loss that mode auto must accept for a primary that is cut off.

    :param beat_seconds: between two heartbeats: the newest shows up to when everything was copied
    """
    passed = agent.check_seconds + watch.vote_interval_seconds
    return Times((
        Term("flows.heartbeats_interval_seconds", beat_seconds, 0.0),
        Term("watch.clock_margin_seconds", watch.clock_margin_seconds, 0.0),
        Term("detection.probe_interval_seconds", detection.probe_interval_seconds, 0.0),
        Term("detection.probe_timeout_seconds", detection.probe_timeout_seconds, 0.0),
        Term("detection.confirm_seconds", detection.confirm_seconds, detection.confirm_seconds),
        Term("fence_agent.ttl_seconds", agent.ttl_seconds, max(0.0, agent.ttl_seconds - passed)),
        Term("fence_agent.check_seconds", agent.check_seconds, 0.0),
        Term("watch.clock_margin_seconds", watch.clock_margin_seconds, 0.0),
        Term("fence_agent.fence_seconds", agent.fence_seconds, 0.0),
    ))  # fmt: skip


def rpo_unmet(rpo_seconds: float, times: Times) -> Iterator[Finding]:
    """Why mode auto would never fail over a primary that is cut off."""
    if rpo_seconds < times.least:
        terms = " + ".join(f"{t.setting} {t.least:g}" for t in times.terms if t.least)
        what = (
            f"mode auto would never act on a primary that is cut off: failover.rpo_seconds = {rpo_seconds:g},"
            f" but until its fence is proven it takes records for at least {terms} = {times.least:g} s"
        )
        yield "failover.rpo_seconds", what, f"set failover.rpo_seconds to {times.longest:g} or more"


def rpo_close(rpo_seconds: float, times: Times) -> Iterator[Finding]:
    """Why mode auto may leave a primary that is cut off to a person."""
    if times.least <= rpo_seconds < times.longest:
        what = (
            f"mode auto may hold for a person: it may take {times} s until the fence of a primary that is cut"
            f" off is proven, and failover.rpo_seconds = {rpo_seconds:g} is less"
        )
        hint = f"set failover.rpo_seconds to {times.longest:g} or more, or make these times shorter"
        yield "failover.rpo_seconds", what, hint


def unsafe(watch: WatchSettings, agent: FenceAgentSettings, clusters: set[str]) -> Iterator[Finding]:
    """Everything for which mode auto is refused.

    :param clusters: aliases of all flows: the third cluster must be none of them
    """
    if watch.observer_count < FEWEST:
        what = f"mode auto needs {FEWEST} observers, watch.observers = {_shown(watch.observers)}"
        yield "watch.observers", what, f"name {FEWEST}, {_AS_OBSERVERS}, and start as many drkit watch"
    elif not watch.observer_names:
        what = f"mode auto needs the observers by name, watch.observers = {watch.observers} is a number"
        yield "watch.observers", what, f"name them, {_AS_OBSERVERS}: {_ELSE}"
    if agent.agent_count < 1 or not agent.command:
        given = f"fence_agent.agents = {_shown(agent.agents)}, fence_agent.command is " + (
            "set" if agent.command else "not set"
        )
        what = f"mode auto needs a fence agent at the primary's site: {given}"
        yield "fence_agent", what, "set both, and start drkit fence-agent there"
    elif not agent.agent_names:
        what = f"mode auto needs the fence agents by name, fence_agent.agents = {agent.agents} is a number"
        yield "fence_agent.agents", what, f'name them, as in agents = ["p-1"]: {_ELSE}'
    if watch.third is None or watch.third in clusters:
        why = "is not set" if watch.third is None else f"= {watch.third} is a cluster of a flow"
        what = f"mode auto needs a third cluster for votes and leases: watch.third {why}"
        hint = "without one an outage of the standby alone would make the fence agents stop the primary"
        yield "watch.third", what, hint
    yield from _times(watch, agent)


def by_number(watch: WatchSettings, agent: FenceAgentSettings) -> Iterator[Finding]:
    """Settings that work, but let any name take part: setting, note, why."""
    note = "only their number is set: any name in their topic counts; name them"
    if not watch.observer_names and watch.observer_count > 1:
        yield "watch.observers", note, f"{_AS_OBSERVERS}; mode auto needs that"
    if not agent.agent_names and agent.agent_count > 0:
        yield "fence_agent.agents", note, 'as in agents = ["p-1"]; mode auto needs that'


def _shown(given: int | tuple[str, ...]) -> str:
    return str(given) if isinstance(given, int) else ", ".join(given)


def fenced_within_seconds(watch: WatchSettings, agent: FenceAgentSettings) -> float:
    """Time after its last lease by which every fence agent has fenced, even if it cannot report that."""
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
            f"two lost messages would end a lease: fence_agent.ttl_seconds {agent.ttl_seconds:g} is "
            f"less than 3 × (fence_agent.check_seconds {agent.check_seconds:g} + watch.vote_interval_seconds "
            f"{watch.vote_interval_seconds:g})"
        )
        yield "fence_agent.ttl_seconds", what, f"set fence_agent.ttl_seconds to {3 * round_trip:g} or more"
