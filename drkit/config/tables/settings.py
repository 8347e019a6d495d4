"""The settings model: typed, frozen, and consistent once it exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import combinations, islice
import json
from typing import Final, Literal

from pydantic import Field, PositiveFloat, ValidationInfo, field_validator

from drkit.config.tables.auto_proof import Times, rpo_close, rpo_unmet, times_of, unsafe
from drkit.config.tables.cluster import ClusterSettings
from drkit.config.tables.control import ControlSettings
from drkit.config.tables.detection import DetectionSettings
from drkit.config.tables.drills import DrillSettings, drill_conflicts
from drkit.config.tables.fence import FenceSettings
from drkit.config.tables.fields import Strict, suggestion
from drkit.config.tables.flow import FlowSettings
from drkit.config.tables.metrics import MetricsSettings
from drkit.config.tables.repoint import RepointSettings
from drkit.config.tables.watch import FenceAgentSettings, WatchSettings
from drkit.errors import ConfigError, Usage
from drkit.topology import Route, collision, copied_twice, is_drill_alias, rings

_ENOUGH: Final = 5
"""Maximum number of reported rings; a mesh has thousands."""
_BREAK: Final = "break the ring: leave one flow out, or choose disjoint topics"


class FailoverSettings(Strict):
    """Who decides, what loss is acceptable, how clients are repointed."""

    mode: Literal["approve", "auto"] = "approve"
    """approve: a person decides; auto: drkit does."""
    rpo_seconds: PositiveFloat = 30.0
    """How much loss is acceptable."""
    drain_seconds: PositiveFloat = 60.0
    """How long a failover waits for the copy to reach the fenced end of the source."""
    verify_seconds: PositiveFloat = 30.0
    """How long it waits, after repointing, for groups to be active on the new primary."""
    journal_folder: str | None = None
    """Where this machine keeps its copy of failover journals, and their reports. Absent: ``drkit/failover``
    in the user's state folder."""
    fence: FenceSettings = FenceSettings()
    """How the old primary is kept from taking writes."""
    repoint: tuple[RepointSettings, ...] = ()
    """All ways in which clients are repointed."""


class Settings(Strict):
    """All of drkit.toml."""

    control: ControlSettings = ControlSettings()
    """How drkit's processes know each other's records."""
    clusters: dict[str, ClusterSettings] = Field(default_factory=dict)
    """The clusters by their aliases."""
    flows: tuple[FlowSettings, ...] = ()
    """The flows."""
    failover: FailoverSettings = FailoverSettings()
    """What happens in a failover."""
    detection: DetectionSettings = DetectionSettings()
    """When a primary counts as lost."""
    watch: WatchSettings = WatchSettings()
    """Who watches, and who is notified."""
    fence_agent: FenceAgentSettings = FenceAgentSettings()
    """Who stops writes at the primary's site."""
    drills: tuple[DrillSettings, ...] = ()
    """Rehearsals of failovers."""
    metrics: MetricsSettings = MetricsSettings()
    """Where metrics and the live page are served."""

    @field_validator("clusters", mode="before")
    @classmethod
    def _named_by_their_table(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {k: {"alias": k, **v} if isinstance(v, Mapping) else v for k, v in value.items()}

    @field_validator("clusters", mode="after")
    @classmethod
    def _with_the_control_key(
        cls, clusters: dict[str, ClusterSettings], info: ValidationInfo
    ) -> dict[str, ClusterSettings]:
        """Give each cluster the control keys of drkit's topics."""
        control = info.data.get("control")
        if control is None or control.keys is None:
            return clusters
        return {alias: cluster.with_control(control.keys) for alias, cluster in clusters.items()}

    @field_validator("flows", mode="after")
    @classmethod
    def _opposites_of_this_file(cls, flows: tuple[FlowSettings, ...]) -> tuple[FlowSettings, ...]:
        """If this file has both directions, make each flow name the other."""
        return tuple(
            f.model_copy(update={"opposite_flows": (f.target,)})
            if f.opposite_flows is None and f.has_opposite_in(flows)
            else f
            for f in flows
        )

    def cluster(self, alias: str) -> ClusterSettings:
        """Return the cluster of this alias, as ``--to`` names it. Raises Usage naming the closest one."""
        if alias in self.clusters:
            return self.clusters[alias]
        raise Usage("cluster_unknown", where="--to", hint=suggestion(alias, self.clusters), alias=alias)

    def flow(self, name: str) -> FlowSettings:
        """The flow ``source->target``, as ``--flow`` names it. Raises Usage naming the closest one."""
        wanted = name.replace(" ", "")
        for flow in self.flows:
            if flow.name == wanted:
                return flow
        known = [f.name for f in self.flows]
        raise Usage("flow_unknown", where="--flow", hint=suggestion(wanted, known), name=name)

    def flow_back(self, flow: FlowSettings) -> str | None:
        """Return the name of the flow in the other direction between the same clusters, if there is one."""
        return next((f.name for f in self.flows if f.has_opposite_in([flow])), None)

    def chosen_flows(self, names: Sequence[str]) -> list[FlowSettings]:
        """The flows of these names, or all without names.

        :raises ConfigError: no flow has that name, or no flow exists
        """
        if not names:
            self._refuse_no_flow()
        return [self.flow(n) for n in names] or list(self.flows)

    def one_flow(self, name: str | None, evidence: str = "") -> FlowSettings:
        """The flow of that name; without a name, the only flow.

        :param evidence: why the flow is not clear, if there are several
        :raises Usage: no flow has that name, or it is not clear which is meant
        :raises ConfigError: no flow exists
        """
        if name is not None:
            return self.flow(name)
        self._refuse_no_flow()
        if len(self.flows) > 1:
            hint = ", ".join(f"--flow '{f.name}'" for f in self.flows)
            raise Usage("several_flows", where="--flow", hint=hint, evidence=evidence, count=len(self.flows))
        return self.flows[0]

    def _refuse_no_flow(self) -> None:
        if not self.flows:
            evidence = f"clusters: {', '.join(self.clusters) or 'none'}"
            raise ConfigError("no_flow_configured", where="flows", evidence=evidence)

    def sides(self, flow: FlowSettings) -> tuple[ClusterSettings, ClusterSettings]:
        """Source and target of a flow, with the connections of everything but tasks that move records."""
        source, target = self.cluster(flow.source), self.cluster(flow.target)
        return source.with_client(flow.source_admin), target.with_client(flow.target_admin)

    def task_sides(self, flow: FlowSettings) -> tuple[ClusterSettings, ClusterSettings]:
        """Source and target of a flow, with the connections of tasks that read or write its records."""
        source, target = self.cluster(flow.source), self.cluster(flow.target)
        return source.with_client(flow.source_consumer), target.with_client(flow.target_producer)

    def fingerprints(self, flow: FlowSettings) -> dict[str, str]:
        """Return what must be the same on all machines of a flow: the target's alias, hashes of the rest."""
        ways = [(w.kind, w.path, w.command, w.url, w.name, w.groups, w.topics) for w in self.failover.repoint]
        parts = {
            "topics": (flow.topics, flow.topics_exclude, flow.naming, flow.separator),
            "groups": (flow.groups, flow.groups_exclude),
            "flows": sorted(f.name for f in self.flows if flow.source in f.aliases),
            "failover.fence": self.failover.fence.means,
            "failover.repoint": ways,
        }
        hashes = {part: sha256(json.dumps(value).encode()).hexdigest()[:16] for part, value in parts.items()}
        return {"target": flow.target, **hashes}

    def disagreements(self) -> list[tuple[str, str, str]]:
        """Conflicts between tables: (where, what, hint); empty without a conflict."""
        return [
            *self._reserved_aliases(),
            *self._unknown_aliases(),
            *self._twice(),
            *self._endless(),
            *self._unsafe(),
            *drill_conflicts(self.drills, self.flows),
        ]

    def refuse_auto_without_key(self) -> None:
        """Refuse mode auto while any client that may write to a topic could decide.

        :raises ConfigError: mode auto without a control key
        """
        if self._is_auto and self.control.keys is None:
            raise ConfigError("automatic_without_control_key", where="control.key_file is not set")

    def advice(self) -> list[tuple[str, str, str]]:
        """Settings that are allowed, but probably not intended: (where, what, hint)."""
        return list(rpo_close(self.failover.rpo_seconds, self._times)) if self._is_auto else []

    @property
    def _is_auto(self) -> bool:
        return self.failover.mode == "auto"

    @property
    def _times(self) -> Times:
        beat = max((f.heartbeats_interval_seconds for f in self.flows), default=1.0)
        return times_of(self.detection, self.watch, self.fence_agent, beat)

    def _unsafe(self) -> list[tuple[str, str, str]]:
        """Why mode auto is not allowed, if it is configured."""
        aliases = {alias for flow in self.flows for alias in (flow.source, flow.target)}
        if not self._is_auto:
            return []
        found = [*unsafe(self.watch, self.fence_agent, aliases), *self._two_successors()]
        return found or list(rpo_unmet(self.failover.rpo_seconds, self._times))

    def _two_successors(self) -> Iterator[tuple[str, str, str]]:
        """Flows of one source: the observers of each would promote its target."""
        for (_, a), (j, b) in combinations(enumerate(self.flows), 2):
            if topic := copied_twice(_route(a), _route(b)):
                what = f"mode auto: {a.name} and {b.name} copy '{topic}', so two targets could take over"
                hint = 'set failover.mode = "approve", or leave these topics out of one flow (topics_exclude)'
                yield f"flows[{j}]", what, hint

    def _reserved_aliases(self) -> list[tuple[str, str, str]]:
        used = [(f"clusters.{alias}", alias) for alias in self.clusters]
        used += [
            (f"flows[{i}].opposite_flows", alias)
            for i, flow in enumerate(self.flows)
            for alias in flow.opposite_flows or ()
            if alias not in self.clusters
        ]
        return [
            (at, f"the alias '{alias}' is reserved for drills", "choose an alias that begins otherwise")
            for at, alias in used
            if is_drill_alias(alias)
        ]

    def _unknown_aliases(self) -> list[tuple[str, str, str]]:
        used = [
            (f"flows[{i}].{side}", alias)
            for i, flow in enumerate(self.flows)
            for side, alias in (("source", flow.source), ("target", flow.target))
        ]
        used += [
            (f"detection.listeners[{i}].cluster", x.cluster) for i, x in enumerate(self.detection.listeners)
        ]
        used += [("watch.third", self.watch.third)] if self.watch.third is not None else []
        return [
            (at, f"there is no cluster '{alias}'", suggestion(alias, self.clusters))
            for at, alias in used
            if alias not in self.clusters
        ]

    def _twice(self) -> list[tuple[str, str, str]]:
        found = []
        for (i, a), (j, b) in combinations(enumerate(self.flows), 2):
            if a.name == b.name:
                what = f"flows[{i}] is already {a.name}"
                found.append((f"flows[{j}]", what, "join their topics into one flow"))
            elif topic := collision(_route(a), _route(b)):
                what = f"{a.name} and {b.name} would both write topic '{topic}' of {a.target}"
                found.append((f"flows[{j}].topics", what, 'choose disjoint topics, or naming = "prefix"'))
        return found

    def _endless(self) -> list[tuple[str, str, str]]:
        found = []
        for ring in islice(rings([_route(f) for f in self.flows]), _ENOUGH):
            way = " -> ".join((*ring.clusters, ring.clusters[0]))
            if ring.returns_as == ring.topic:
                what, hint = f"records of topic '{ring.topic}' would circle for ever: {way}", _BREAK
            else:
                what = (
                    f"names of topics would grow for ever: '{ring.topic}' of {ring.clusters[0]} comes back as"
                    f" '{ring.returns_as}': {way}"
                )
                hint = f'give these flows the same naming, "prefix"; or {_BREAK}'
            found.append(("flows", what, hint))
        return found


def _route(flow: FlowSettings) -> Route:
    return Route(flow.source, flow.target, flow.topic_filter, flow.naming_policy)
