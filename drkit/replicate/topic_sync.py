"""Finds what is to be copied and makes the target ready for it, round after round.

One topic that fails is left out and named; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
import time
from typing import Any, Final, Literal, TypeVar

from drkit import observe
from drkit.config import FlowSettings
from drkit.errors import DrkitError, Failed, NotAuthorized
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import (
    ConfigValue,
    Topic,
    TopicPlan,
    alter_topic_configs,
    create_partitions,
    create_topics,
    describe_topics,
    topic_configs,
    topic_names,
)
from drkit.replicate.state_topic import StateTopic, topic_key
from drkit.replicate.topic_rules import (
    MIN_INSYNC_REPLICAS,
    Action,
    CopiedTopic,
    Decision,
    Round,
    decide,
    is_compacted,
    max_message_bytes,
    needed_changes,
    passive_configs,
    replication_factor,
)

_CONFIG_ROUNDS: Final = 6
"""Settings of topics that are known already are compared again every so many rounds."""
_SETTLE_PAUSE_SECONDS: Final = 0.05
_HINTS: Final = {
    "source_recreated": 'on_source_recreated = "new_generation" appends the new topic behind the old records',
    "target_deleted": 'on_target_deleted = "new_generation" creates it again and copies from the start',
}
T = TypeVar("T")
Configs = dict[str, dict[str, ConfigValue]]


class TopicSync:
    """Keeps the target's topics fit for one flow.

    :param effects: False only looks and says what would be done
    """

    def __init__(
        self, source: Cluster, target: Cluster, flow: FlowSettings, state: StateTopic, *, effects: bool = True
    ) -> None:
        self._source = source
        self._target = target
        self._flow = flow
        self._state = state
        self._effects = effects
        self._rounds = 0
        self._configs: Configs = {}
        self._limits: dict[str, int] = {}
        self._told: set[tuple[str, str, str]] = set()

    def look(self) -> Round:
        """Compare, create, widen; returns what can be copied now.

        :raises DrkitError: a cluster does not answer
        """
        done = Round()
        names = [n for n in topic_names(self._source) if self._flow.copies(n)]
        sources, refused = _one_by_one(describe_topics, self._source, names)
        naming = self._flow.naming_policy
        target_names = {n: naming.downstream(n) for n in sources}
        targets, unseen = _one_by_one(describe_topics, self._target, target_names.values())
        refused |= {n: unseen[t] for n, t in target_names.items() if t in unseen}
        refused |= self._read_configs(sources)
        for name, error in refused.items():
            self._leave_out(done, name, error)
            sources.pop(name, None)
        ready = self._decided(done, sources, target_names, targets)
        created = [n for n, d in ready.items() if d.action is Action.CREATE]
        self._create(done, created, sources, target_names)
        if created and self._effects:
            targets |= self._settled({target_names[n] for n in created if n not in done.left_out})
        self._widen(done, sources, target_names, targets)
        self._configure(done, sources, target_names, targets)
        for name, decision in ready.items():
            if name not in done.left_out:
                self._take(done, decision, sources[name], targets.get(target_names[name]))
        self._name_the_missing(done, sources)
        self._rounds += 1
        return done

    def _read_configs(self, sources: dict[str, Topic]) -> dict[str, DrkitError]:
        again = self._rounds % _CONFIG_ROUNDS == 0
        wanted = sources if again else [n for n in sources if n not in self._configs]
        found, refused = _one_by_one(topic_configs, self._source, wanted)
        self._configs |= found
        for gone in set(self._configs) - set(sources):
            del self._configs[gone]
        if again:
            self._limits.clear()
        return refused

    def _decided(
        self, done: Round, sources: dict[str, Topic], names: dict[str, str], targets: dict[str, Topic]
    ) -> dict[str, Decision]:
        ready = {}
        for name, source in sources.items():
            known = self._state.values.get(topic_key(name))
            decision = decide(self._flow, source, targets.get(names[name]), known)
            if name not in self._configs:
                continue  # deleted while we looked; the next round knows
            if decision.kind:
                self._tell(
                    decision.kind, name, decision.identity, level="warning", old_id=decision.old_id,
                    new_id=decision.new_id, stopped=decision.action is Action.LEAVE,
                    hint=_HINTS[decision.kind],
                )  # fmt: skip
            if decision.action is Action.LEAVE:
                done.left_out[name] = f"{decision.kind}: set {_HINTS[decision.kind]}"
            else:
                ready[name] = decision
        return ready

    def _create(
        self, done: Round, created: list[str], sources: dict[str, Topic], names: dict[str, str]
    ) -> None:
        plans: dict[str, TopicPlan] = {}
        for name in created:
            source, configs = sources[name], self._configs[name]
            try:
                replicas = replication_factor(self._flow, source, len(self._target.brokers))
            except DrkitError as error:
                self._leave_out(done, name, error)
                continue
            wanted = passive_configs(configs, replicas)
            plans[names[name]] = TopicPlan(names[name], len(source.partitions), replicas, wanted)
            done.actions[name] = f"create with {len(source.partitions)} partitions, {replicas} replicas"
            asked = configs.get(MIN_INSYNC_REPLICAS)
            if MIN_INSYNC_REPLICAS in wanted and asked and asked.value != wanted[MIN_INSYNC_REPLICAS]:
                self._tell("min_insync_lowered", name, str(asked.value), level="warning",
                           source=asked.value, target=wanted[MIN_INSYNC_REPLICAS])  # fmt: skip
        if not self._effects:
            return
        failed = create_topics(self._target, plans.values())
        for name in created:
            if names[name] in failed:
                self._leave_out(done, name, failed[names[name]])
            elif names[name] in plans:
                observe.event("topic_created", topic=names[name], flow=self._flow.name)

    def _settled(self, wanted: set[str]) -> dict[str, Topic]:
        """Metadata of new topics reach every broker within moments."""
        found: dict[str, Topic] = {}
        for _ in range(50):
            found |= describe_topics(self._target, wanted - set(found))
            if set(found) == wanted:
                break
            time.sleep(_SETTLE_PAUSE_SECONDS)
        return found

    def _widen(
        self, done: Round, sources: dict[str, Topic], names: dict[str, str], targets: dict[str, Topic]
    ) -> None:
        totals = {}
        by_target = {names[n]: n for n in sources}
        for name, source in sources.items():
            target = targets.get(names[name])
            if target is None or name in done.left_out:
                continue
            ours, theirs = len(target.partitions), len(source.partitions)
            if ours < theirs:
                totals[names[name]] = theirs
                done.actions[name] = f"grow from {ours} to {theirs} partitions"
                self._tell("target_grown", name, str(theirs), from_partitions=ours, to_partitions=theirs)
            elif ours > theirs:
                self._tell("target_has_more_partitions", name, f"{ours}>{theirs}", level="warning",
                           source_partitions=theirs, target_partitions=ours)  # fmt: skip
        if self._effects:
            for target_name, error in create_partitions(self._target, totals).items():
                self._leave_out(done, by_target[target_name], error)

    def _configure(
        self, done: Round, sources: dict[str, Topic], names: dict[str, str], targets: dict[str, Topic]
    ) -> None:
        """Make existing topics take old records and large batches before data flows."""
        by_target = {names[n]: n for n in sources if n not in done.left_out and names[n] in targets}
        unknown = [t for t in by_target if t not in self._limits]
        configs, refused = _one_by_one(topic_configs, self._target, unknown)
        for target_name, error in refused.items():
            self._leave_out(done, by_target[target_name], error)
        changes = {t: needed_changes(self._configs[by_target[t]], c) for t, c in configs.items()}
        changes = {t: c for t, c in changes.items() if c}
        for target_name, change in changes.items():
            done.actions.setdefault(by_target[target_name], "set " + ", ".join(sorted(change)))
        failed = alter_topic_configs(self._target, changes) if self._effects else {}
        for target_name, error in failed.items():
            self._leave_out(done, by_target[target_name], error)
        for target_name, config in configs.items():
            theirs = max_message_bytes(self._configs[by_target[target_name]])
            self._limits[target_name] = max(max_message_bytes(config), theirs)

    def _take(self, done: Round, decision: Decision, source: Topic, target: Topic | None) -> None:
        name = source.name
        target_name = self._flow.naming_policy.downstream(name)
        if not self._effects:
            done.actions.setdefault(name, "copy")
            return
        if target is None or target_name not in self._limits:
            missing = Failed(
                "the target topic is not there yet", where=f"{self._target.alias}: {target_name}"
            )
            self._leave_out(done, name, missing)
            return
        entry = {
            "source_id": str(source.topic_id),
            "target": target_name,
            "target_id": str(target.topic_id),
            "generation": decision.generation,
        }
        if self._state.values.get(topic_key(name)) != entry:
            self._state.put(topic_key(name), entry)
        configs = self._configs[name]
        done.copied[name] = CopiedTopic(
            source, target_name, str(target.topic_id), is_compacted(configs), self._limits[target_name]
        )

    def _name_the_missing(self, done: Round, sources: dict[str, Topic]) -> None:
        prefix = topic_key("")
        for key, entry in list(self._state.values.items()):
            name = key.removeprefix(prefix)
            if not key.startswith(prefix) or name in sources or name in done.left_out:
                continue
            if self._flow.copies(name):
                done.left_out[name] = "source_deleted: no longer listed on the source"
                old_id, reason = entry["source_id"], "deleted, or no permission to see it"
                self._tell("source_deleted", name, old_id, level="warning", old_id=old_id, reason=reason)

    def _leave_out(self, done: Round, name: str, error: DrkitError) -> None:
        done.left_out[name] = f"{error.what} ({error.evidence})" if error.evidence else error.what
        self._tell("topic_left_out", name, done.left_out[name], level="error",
                   reason=error.what, evidence=error.evidence, hint=error.hint)  # fmt: skip

    def _tell(
        self,
        kind: str,
        topic: str,
        identity: str,
        *,
        level: Literal["info", "warning", "error"] = "info",
        **fields: Any,
    ) -> None:
        """Say it once per run, and write it once per finding for `drkit status`."""
        if (kind, topic, identity) in self._told:
            return
        self._told.add((kind, topic, identity))
        observe.event(kind, level=level, flow=self._flow.name, topic=topic, **fields)
        written = self._state.values.get(f"event/{kind}/{topic}/-1")
        if self._effects and (written is None or written.get("identity") != identity):
            self._state.emit(kind, topic, flow=self._flow.name, identity=identity, **fields)


def _one_by_one(
    ask: Callable[[Cluster, Iterable[str]], dict[str, T]], cluster: Cluster, names: Iterable[str]
) -> tuple[dict[str, T], dict[str, DrkitError]]:
    """Answers and refusals: all topics are asked for at once, and alone when one is forbidden."""
    names = list(names)
    try:
        return ask(cluster, names), {}
    except NotAuthorized:
        found: dict[str, T] = {}
        refused: dict[str, DrkitError] = {}
        for name in names:
            try:
                found |= ask(cluster, [name])
            except NotAuthorized as error:
                refused[name] = error
        return found, refused
