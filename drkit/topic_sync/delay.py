"""Delay changes of settings that let a copy keep fewer records.

Otherwise a client that may alter topics of the source, and nothing on the target, could erase the copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drkit.clock import Millis, wall_ms
from drkit.config import FlowSettings
from drkit.errors import NotAuthorized
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import ConfigsRecord, DelayedSetting
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import broker_config
from drkit.topic_sync.rules import Configs, Pair
from drkit.topology.retention import Removal, inherited, removals
from drkit.topology.topic_configs import Want

Delayed = Mapping[str, DelayedSetting]
"""By setting."""
_NONE: Final[Delayed] = {}


def still_delayed(
    found: Mapping[str, Removal], known: Delayed, now_ms: int, delay_seconds: float
) -> dict[str, DelayedSetting]:
    """Return the changes that are not followed yet. A change to another value begins its own delay.

    :param found: changes that let the copy keep less
    :param known: those of the last comparison
    """
    delayed = {}
    for name, removal in found.items():
        before = known.get(name)
        since_ms = before.since_ms if before is not None and before.after == removal.after else now_ms
        entry = DelayedSetting(since_ms, removal.before, removal.after)
        if now_ms < entry.until_ms(delay_seconds):
            delayed[name] = entry
    return delayed


class ConfigDelay:
    """Holds back the changes of one flow's copies that would remove records."""

    def __init__(
        self,
        target: Cluster,
        flow: FlowSettings,
        state: StateTopic,
        events: TopicEvents,
        clock: Millis = wall_ms,
    ) -> None:
        self._target = target
        self._flow = flow
        self._state = state
        self._events = events
        self._clock = clock
        self._broker: Configs | None = None
        """Settings of a broker of the target, once one is needed."""

    def of(self, pair: Pair, configs: Configs, wants: Mapping[str, Want]) -> dict[str, DelayedSetting]:
        """Return the wanted settings of an existing copy that wait.

        :param configs: of the copy
        :raises DrkitError: the target does not answer
        """
        seconds = self._flow.sync_topic_configs_delay_seconds
        found = removals(configs, wants, self._default) if seconds else {}
        return still_delayed(found, self._known(pair), self._clock(), seconds)

    def report(self, pair: Pair, delayed: Delayed, applied: frozenset[str]) -> None:
        """Report the changes that begin to wait, and those that were taken back.

        :param applied: settings of the copy that were changed now
        """
        seconds, known = self._flow.sync_topic_configs_delay_seconds, self._known(pair)
        name, target = pair.source.name, self._target.alias
        begun = [d.in_words(s, seconds) for s, d in delayed.items() if not _continues(known.get(s), d)]
        if begun:
            hint = f"set it back on {self._flow.source}, or to follow it now set it on {target} yourself"
            self._events.written(
                "config_delayed", name, level="warning", target=pair.target_name, settings=begun, hint=hint
            )
        ended = sorted(known.keys() - delayed.keys() - applied)
        if ended:
            self._events.written(
                "config_delay_ended", name, level="info", target=pair.target_name, settings=ended
            )

    def _known(self, pair: Pair) -> Delayed:
        found = self._state.records.readable(ConfigsRecord).get(pair.source.name)
        return (found.delayed if found is not None else None) or _NONE

    def _default(self, name: str) -> str | None:
        if self._broker is None:
            try:
                self._broker = broker_config(self._target)
            except NotAuthorized:
                self._broker = {}
        return inherited(name, self._broker)


def _continues(before: DelayedSetting | None, now: DelayedSetting) -> bool:
    return before is not None and before.since_ms == now.since_ms
