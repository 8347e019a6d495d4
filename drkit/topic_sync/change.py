"""Plans and applies the changes of target topics, and records the compared settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from drkit.clock import Millis, wall_ms
from drkit.config import FlowSettings
from drkit.counted import utc
from drkit.errors import DrkitError, NotAuthorized, Refused
from drkit.flow_state.events import TopicEvents
from drkit.flow_state.records import ConfigsRecord, DelayedSetting, GenerationRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import (
    BROKER_DEFAULT,
    TopicPlan,
    alter_topic_configs,
    broker_config,
    create_partitions,
    create_topics,
    delete_topics,
    one_by_one,
    topic_configs,
)
from drkit.topic_sync.rules import Configs, Pair, TopicSyncResult, drifted, in_short, replication_factor
from drkit.topology.topic_configs import (
    MAX_MESSAGE_BYTES,
    MIN_INSYNC_REPLICAS,
    Retention,
    Want,
    is_compacted,
    is_fence,
    max_message_bytes,
)
from drkit.topology.topic_plan import (
    DEFAULT,
    ActualTopic,
    AddPartitions,
    ChangeRow,
    CreateTopic,
    DeleteConfig,
    DeleteTopic,
    Removal,
    SetConfig,
    TopicChange,
    TopicStep,
    WantedTopic,
    inherited,
    plan,
    removals,
)

_CONFIG_STEPS: Final = frozenset({TopicStep.WIDEN, TopicStep.REST})


class Applied(NamedTuple):
    """The changes made, and the errors of target topics that cannot be copied to."""

    done: list[TopicChange]
    failed: dict[str, DrkitError]


class TopicApply:
    """Makes the changes of a plan; one that fails stops only its own topic."""

    def __init__(self, target: Cluster, events: TopicEvents) -> None:
        self._target = target
        self._events = events

    def apply(self, changes: Sequence[TopicChange], sources: Mapping[str, str]) -> Applied:
        """Make the changes in their order.

        :param sources: target topic → source topic, the name in events
        """
        applied = Applied([], {})
        for step in TopicStep:
            step_changes = [c for c in changes if c.step is step and c.topic not in applied.failed]
            refused = self._make(step_changes) if step_changes else {}
            accepted = [c for c in step_changes if c.topic not in refused]
            if step in _CONFIG_STEPS:
                # Records are copied unchanged without these settings: report a refusal, and continue.
                accepted += self._make_each([c for c in step_changes if c.topic in refused], sources)
            else:
                applied.failed.update(refused)
            for change in accepted:
                applied.done.append(change)
                self._report(change, sources[change.topic])
        return applied

    def _make_each(self, changes: Sequence[TopicChange], sources: Mapping[str, str]) -> list[TopicChange]:
        """Make changes one by one, since a broker refuses all for one bad setting; returns those accepted."""
        accepted = []
        for change in changes:
            error = self._make([change]).get(change.topic)
            if error is None:
                accepted.append(change)
            elif isinstance(change, SetConfig | DeleteConfig):
                self._events.once(
                    "config_refused", sources[change.topic], f"{change.setting}: {error.evidence}",
                    level="error", target=change.topic, setting=change.setting, evidence=error.evidence,
                    hint=error.hint or "name the setting in config_properties_exclude to leave it alone",
                )  # fmt: skip
        return accepted

    def _make(self, changes: Sequence[TopicChange]) -> dict[str, DrkitError]:
        plans = [
            TopicPlan(c.topic, c.partitions, c.replicas, {n: w.value or "" for n, w in c.configs.items()})
            for c in changes
            if isinstance(c, CreateTopic)
        ]
        totals = {c.topic: c.after for c in changes if isinstance(c, AddPartitions)}
        settings: dict[str, dict[str, str | None]] = {}
        for change in changes:
            if isinstance(change, SetConfig):
                settings.setdefault(change.topic, {})[change.setting] = change.after
            elif isinstance(change, DeleteConfig):
                settings.setdefault(change.topic, {})[change.setting] = None
        return {
            **create_topics(self._target, plans),
            **create_partitions(self._target, totals),
            **alter_topic_configs(self._target, settings),
            **delete_topics(self._target, [c.topic for c in changes if isinstance(c, DeleteTopic)]),
        }

    def _report(self, change: TopicChange, source: str) -> None:
        tell = self._events
        if isinstance(change, CreateTopic):
            tell.done("topic_created", change.topic, partitions=change.partitions, replicas=change.replicas,
                      configs={n: w.value for n, w in change.configs.items()})  # fmt: skip
        elif isinstance(change, AddPartitions):
            tell.once("target_grown", source, str(change.after),
                      from_partitions=change.before, to_partitions=change.after)  # fmt: skip
        elif isinstance(change, (SetConfig, DeleteConfig)):
            row = next(change.rows())
            tell.done("config_changed", source, target=change.topic, setting=change.setting,
                      before=row.before, after=row.after, why=change.why)  # fmt: skip
        elif isinstance(change, DeleteTopic):
            tell.written("topic_deleted", source, level="warning", target=change.topic,
                         target_id=change.topic_id, why=change.why)  # fmt: skip


Delayed = Mapping[str, DelayedSetting]
"""By setting."""
_NONE: Final[Delayed] = {}


def still_delayed(
    changes: Mapping[str, Removal], known: Delayed, now_ms: int, delay_seconds: float
) -> dict[str, DelayedSetting]:
    """Return the changes that are still delayed. A change to another value begins its own delay.

    :param changes: changes that let the copy keep less
    :param known: those of the last comparison
    """
    delayed = {}
    for name, removal in changes.items():
        previous = known.get(name)
        since_ms = previous.since_ms if previous is not None and previous.after == removal.after else now_ms
        entry = DelayedSetting(since_ms, removal.before, removal.after)
        if now_ms < entry.until_ms(delay_seconds):
            delayed[name] = entry
    return delayed


@dataclass
class ConfigDelay:
    """Delays the changes of one flow's copies that would remove records.

    Otherwise a client that may alter topics of the source, and nothing on the target, could erase the copies.
    """

    target: Cluster
    flow: FlowSettings
    state: StateTopic
    events: TopicEvents
    clock: Millis = wall_ms
    _broker: Configs | None = field(default=None, init=False)
    """Settings of a broker of the target, once one is needed."""

    def of(self, pair: Pair, configs: Configs, wants: Mapping[str, Want]) -> dict[str, DelayedSetting]:
        """Return the wanted settings of an existing copy that are delayed.

        :param configs: of the copy
        :raises DrkitError: the target does not answer
        """
        seconds = self.flow.sync_topic_configs_delay_seconds
        changes = removals(configs, wants, self._default) if seconds else {}
        return still_delayed(changes, self._delayed_before(pair), self.clock(), seconds)

    def report(self, pair: Pair, delayed: Delayed, applied: frozenset[str]) -> None:
        """Report the changes whose delay begins, and those that were reverted.

        :param applied: settings of the copy that were changed now
        """
        seconds, known = self.flow.sync_topic_configs_delay_seconds, self._delayed_before(pair)
        name, target = pair.source.name, self.target.alias
        before = {s: d.since_ms for s, d in known.items()}
        started = [d.in_words(s, seconds) for s, d in delayed.items() if before.get(s) != d.since_ms]
        if started:
            hint = f"set it back on {self.flow.source}, or to follow it now set it on {target} yourself"
            self.events.written(
                "config_delayed", name, level="warning", target=pair.target_name, settings=started, hint=hint
            )
        ended = sorted(known.keys() - delayed.keys() - applied)
        if ended:
            self.events.written(
                "config_delay_ended", name, level="info", target=pair.target_name, settings=ended
            )

    def _delayed_before(self, pair: Pair) -> Delayed:
        record = self.state.records.readable(ConfigsRecord).get(pair.source.name)
        return (record.delayed if record is not None else None) or _NONE

    def _default(self, name: str) -> str | None:
        if self._broker is None:
            try:
                self._broker = broker_config(self.target)
            except NotAuthorized:
                self._broker = {}
        return inherited(name, self._broker)


_NO_DELETES: Final[Mapping[str, DeleteTopic]] = {}


@dataclass
class TopicChanges:
    """Plans the changes of a flow's target topics and, except in a dry run, makes them."""

    target: Cluster
    flow: FlowSettings
    state: StateTopic
    events: TopicEvents
    effects: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        self._rules = self.flow.config_rules
        self._apply = TopicApply(self.target, self.events)
        self.limits: dict[UUID, int] = {}
        """Target topic id → its largest batch in bytes; of topics whose settings were compared."""

    def make(
        self, result: TopicSyncResult, pairs: Iterable[Pair], deletes: Mapping[str, DeleteTopic] = _NO_DELETES
    ) -> None:
        """Plan the changes of these topics, make them, and add them to the result.

        :param deletes: source topic → the copy to delete
        """
        pairs = list(pairs)
        configs = self._compared(result, pairs)
        delay = ConfigDelay(self.target, self.flow, self.state, self.events)
        wanted, delayed = self._all_wanted(result, pairs, configs, delay)
        usable = [p for p in pairs if p.source.name not in result.left_out]
        actual = {
            p.target_name: ActualTopic(len(p.target.leaders), configs.get(p.target_name, {}))
            for p in usable
            if p.target is not None
        }
        changes: Sequence[TopicChange] = plan(wanted, actual, deletes.values())
        if self.effects and changes:
            names = {p.target_name: p.source.name for p in usable} | {d.topic: n for n, d in deletes.items()}
            applied = self._apply.apply(changes, names)
            for target_name, problem in applied.failed.items():
                result.left_out[names[target_name]] = self.events.left_out(names[target_name], problem)
            changes = applied.done
        result.changes += changes
        by_topic: dict[str, list[TopicChange]] = {}
        for change in changes:
            by_topic.setdefault(change.topic, []).append(change)
        records: list[tuple[str, ConfigsRecord]] = []
        for pair in usable:
            of_copy = by_topic.get(pair.target_name, [])
            if of_copy:
                name = pair.source.name
                result.actions[name] = "; ".join(filter(None, [result.actions.get(name), in_short(of_copy)]))
            if pair.target_name in configs and pair.source.name not in result.left_out:
                waiting = delayed.get(pair.target_name, {})
                result.delayed += self._delayed_rows(pair, waiting)
                if self.effects:
                    changed = (c.setting for c in of_copy if isinstance(c, SetConfig | DeleteConfig))
                    delay.report(pair, waiting, frozenset(changed))
                records += self._compared_record(pair, configs[pair.target_name], of_copy, waiting)
        self.state.put_all(records)
        for name, deletion in deletes.items():
            if deletion in changes:
                self._forget_deleted(result, name, deletion)

    def _compared(self, result: TopicSyncResult, pairs: Sequence[Pair]) -> dict[str, Configs]:
        """Return the settings of the copies that were not compared recently."""
        due = {
            p.target_name: p.source.name for p in pairs if p.target and p.target.topic_id not in self.limits
        }
        configs, refused = one_by_one(topic_configs, self.target, due)
        for target_name, settings in configs.items():
            if is_fence(MAX_MESSAGE_BYTES, settings[MAX_MESSAGE_BYTES]):
                refused[target_name] = Refused(
                    "target_topic_fenced",
                    where=f"{self.target.alias}: {target_name}",
                    evidence=f"{MAX_MESSAGE_BYTES} = {settings[MAX_MESSAGE_BYTES].value}",
                )
        for target_name, error in refused.items():
            result.left_out[due[target_name]] = self.events.left_out(due[target_name], error)
        return configs

    def _all_wanted(
        self,
        result: TopicSyncResult,
        pairs: Sequence[Pair],
        configs: Mapping[str, Configs],
        delay: ConfigDelay,
    ) -> tuple[list[WantedTopic], dict[str, Delayed]]:
        """Return the wanted topics, and by target topic the delayed settings."""
        all_wanted, delayed = [], dict[str, Delayed]()
        for pair in pairs:
            name, target_name = pair.source.name, pair.target_name
            if name in result.left_out:
                continue
            try:
                wanted = self._wanted(pair, compare=target_name in configs)
            except Refused as error:
                result.left_out[name] = self.events.left_out(name, error)
                continue
            if target_name in configs:
                waiting = delayed[target_name] = delay.of(pair, configs[target_name], wanted.configs)
                applied = {n: w for n, w in wanted.configs.items() if n not in waiting}
                wanted = wanted._replace(configs=applied)
            all_wanted.append(wanted)
        return all_wanted, delayed

    def _delayed_rows(self, pair: Pair, delayed: Delayed) -> Iterator[ChangeRow]:
        for name, each in sorted(delayed.items()):
            after = DEFAULT if each.after is None else each.after
            until = utc(each.until_ms(self.flow.sync_topic_configs_delay_seconds))
            why = f"keeps fewer records, followed at {until}"
            yield ChangeRow(pair.target_name, "delay config", name, each.before, after, why)

    def _wanted(self, pair: Pair, *, compare: bool) -> WantedTopic:
        source, target = pair.source, pair.target
        if target is None:
            replicas = replication_factor(self.flow, source, len(self.target.brokers))
        else:
            replicas = target.replication_factor
            self._report_larger(source.name, len(source.leaders), len(target.leaders))
        if target is not None and not compare:
            return WantedTopic(pair.target_name, len(source.leaders), replicas, {})
        known = None if replicas == BROKER_DEFAULT else replicas
        configs = self._rules.wanted(pair.configs, known, new=target is None)
        asked = self._rules.followed(pair.configs).get(MIN_INSYNC_REPLICAS)
        applied = configs.get(MIN_INSYNC_REPLICAS)
        if asked is not None and applied is not None and applied.value != asked:
            self.events.once("min_insync_lowered", source.name, asked, level="warning", source=asked,
                              target=applied.value, replicas=replicas,
                              hint="give the target more brokers and set replication_factor")  # fmt: skip
        return WantedTopic(pair.target_name, len(source.leaders), replicas, configs)

    def _report_larger(self, name: str, on_source: int, on_target: int) -> None:
        if on_target > on_source:
            self.events.once("target_has_more_partitions", name, f"{on_target}>{on_source}", level="warning",
                              source_partitions=on_source, target_partitions=on_target)  # fmt: skip

    def _compared_record(
        self, pair: Pair, configs: Configs, changes: Sequence[TopicChange], delayed: Delayed
    ) -> Iterator[tuple[str, ConfigsRecord]]:
        """Return the record of a comparison to store; report settings that others have changed."""
        name, followed = pair.source.name, self._rules.followed(pair.configs)
        stored = self.state.records.readable(ConfigsRecord).get(name)  # a damaged one is written again
        recorded = stored.settings if stored is not None else None
        limit = max_message_bytes(configs)
        if not self._rules.leaves(MAX_MESSAGE_BYTES):
            limit = max(limit, max_message_bytes(pair.configs))
        if pair.target is not None:
            self.limits[pair.target.topic_id] = limit
        if not self.effects:
            return
        were_delayed = stored.delayed or {} if stored is not None else {}
        if drift := [s for s in drifted(changes, followed, recorded) if s not in were_delayed]:
            self.events.written("config_drift", name, level="warning", target=pair.target_name,
                                 settings=drift, repaired=True)  # fmt: skip
        settings = {n: v for n, v in followed.items() if v is not None}
        fenced = is_fence(MAX_MESSAGE_BYTES, pair.configs[MAX_MESSAGE_BYTES])
        if fenced and recorded and MAX_MESSAGE_BYTES in recorded:
            # The fence hides the source's own value, which returns when the topic is opened.
            settings[MAX_MESSAGE_BYTES] = recorded[MAX_MESSAGE_BYTES]
        compacted_alone = is_compacted(configs) and not is_compacted(pair.configs)
        record = ConfigsRecord(settings, delayed or None, Retention.of(pair.configs), compacted_alone or None)
        if stored != record:
            yield name, record

    def _forget_deleted(self, result: TopicSyncResult, name: str, deletion: DeleteTopic) -> None:
        result.actions[name] = in_short([deletion])
        if self.effects:
            result.left_out[name] = "source_deleted: the copy was deleted too"
            self.state.delete(ConfigsRecord, name)
            self.state.delete(GenerationRecord, name)
