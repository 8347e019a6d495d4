"""Drills: rehearsals of a failover, and when they are due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from drkit.config.tables.client_properties import masked
from drkit.config.tables.cluster import ClientText
from drkit.config.tables.fields import TO_DO, Strict, suggestion
from drkit.config.tables.flow import FlowSettings
from drkit.cron import Cron, InvalidCron, time_zone

DrillKind = Literal["readiness", "translation", "bubble", "switchover"]
_KIND_OF: Final = {
    "cut": "bubble",
    "hold_minutes": "switchover",
    "stay": "switchover",
    "clients_cut": "switchover",
    "client": "bubble",
}
"""Settings that one kind has."""
_MEASURES_RTO: Final = frozenset({"bubble", "switchover"})
_MEASURES_RPO: Final = frozenset({"readiness", "bubble", "switchover"})
_SERVERS: Final = "bootstrap.servers"
_DUE_TIMES: Final = 400
"""How many due times are searched for the longest pause."""
_ANY_DAY: Final = datetime(2001, 1, 1, tzinfo=UTC)


def _cron(expression: str) -> str:
    try:
        return Cron(expression).expression
    except InvalidCron as error:
        what = {"why": str(error), TO_DO: 'as in "0 6 * * 1": every Monday at 06:00'}
        raise PydanticCustomError("cron", "{why}", what) from error


def _zone(name: str) -> str:
    try:
        return time_zone(name).key
    except ValueError as error:
        what = {"why": str(error), TO_DO: suggestion_of_zone(name)}
        raise PydanticCustomError("time_zone", "{why}", what) from error


def suggestion_of_zone(name: str) -> str:
    """Return a hint for a user who wrote an unknown time zone."""
    hint = suggestion(name, available_timezones())
    return hint if hint.startswith("did you mean") else 'a name of the IANA database, as "Europe/Berlin"'


class DrillObjectives(Strict):
    """What a drill must achieve to pass."""

    rto_seconds: PositiveFloat | None = None
    """Longest outage of a client, from its last good operation to the next. Absent: any."""
    rpo_seconds: PositiveFloat | None = None
    """Greatest age of lost records. Absent: ``rpo_seconds`` of ``[failover]``."""


class DrillLimits(Strict):
    """When a drill is aborted, so that production is not affected."""

    seconds: PositiveFloat = 300.0
    """Longest duration. For switchover: the longest wait for the copy, the pair and the groups, each."""
    bytes_per_second: PositiveInt = 1_000_000
    """Most that it reads or writes on each cluster."""
    production_lag: PositiveInt = 5_000
    """Most records by which what production would lose may grow while it runs."""


class DrillSettings(Strict):
    """A rehearsal of a failover, and when it is due."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
    """The name of the drill."""
    kind: DrillKind
    """readiness: whether a failover would be refused, reads only. translation: whether every group would
    continue at its next record, reads only. bubble: a failover of the drill's own topics and groups between
    the same clusters. switchover: production is moved to the target and back."""
    flow: str | None = None
    """The flow, as ``source->target``. Absent: the only flow of this file."""
    cron: Annotated[str, AfterValidator(_cron)]
    """When it is due: minute, hour, day of month, month, day of week (0 and 7 are Sunday)."""
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    """In which ``cron`` is read, as ``Europe/Berlin``."""
    grace_minutes: float = Field(60.0, ge=0)
    """How late it may start, after the scheduler was down or another drill was running. Later it is
    recorded as missed."""
    max_age_days: PositiveFloat | None = None
    """The drill is overdue when it last passed longer ago. Absent: it never is."""
    cut: Literal["planned", "lost"] = "planned"
    """For bubble: planned rehearses a switchover, lost the loss of the source."""
    hold_minutes: float = Field(0.0, ge=0)
    """For switchover: how long clients stay on the target."""
    stay: bool = False
    """For switchover: leave clients on the target."""
    clients_cut: str = ""
    """For switchover: how clients are kept off the side that they leave, where no ACL fences it."""
    objectives: DrillObjectives = DrillObjectives()
    """What it must achieve to pass."""
    limits: DrillLimits = DrillLimits()
    """When it is aborted."""
    client: ClientText = Field(default_factory=dict)
    """For bubble: Kafka's client properties of its clients on both clusters, so that the rights of an
    application are rehearsed. Absent: its clients use drkit's, and the report says so."""

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        for name, kind in _KIND_OF.items():
            default = type(self).model_fields[name].get_default(call_default_factory=True)
            if self.kind != kind and getattr(self, name) != default:
                raise _problem(f"'{name}' is for kind '{kind}', not '{self.kind}'", "leave it out")
        for name, kinds in (("rto_seconds", _MEASURES_RTO), ("rpo_seconds", _MEASURES_RPO)):
            if getattr(self.objectives, name) is not None and self.kind not in kinds:
                what = f"'objectives.{name}' is never measured by kind '{self.kind}'"
                raise _problem(what, f"leave it out, or choose a kind of {', '.join(sorted(kinds))}")
        if _SERVERS in self.client:
            raise _problem(f"'client' has {_SERVERS}, but is for both clusters", "leave it out")
        if self.stay and self.hold_minutes:
            raise _problem("'hold_minutes' has no effect with 'stay'", "leave one of them out")
        return self

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        if self.max_age_days is None:
            return self
        due = islice(Cron(self.cron).after(_ANY_DAY, ZoneInfo(self.time_zone)), _DUE_TIMES)
        longest = max(later - earlier for earlier, later in pairwise(due))
        if longest >= timedelta(days=self.max_age_days):
            days = longest / timedelta(days=1)
            what = f"due every {days:.3g} days, so always overdue after max_age_days = {self.max_age_days:g}"
            raise _problem(what, f"set max_age_days above {days:.3g}, or let it be due more often")
        return self

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [(n, masked(self.client) if n == "client" else v) for n, v in super().__repr_args__()]


def _problem(what: str, to_do: str) -> PydanticCustomError:
    return PydanticCustomError("drill", "{what}", {"what": what, TO_DO: to_do})


def drill_conflicts(
    drills: Sequence[DrillSettings], flows: Sequence[FlowSettings]
) -> Iterator[tuple[str, str, str]]:
    """Return what is wrong with drills beside each other and the flows: (where, what, hint)."""
    known = {flow.name: flow for flow in flows}
    first: dict[str, int] = {}
    for number, drill in enumerate(drills):
        at = f"drills[{number}]"
        if (earlier := first.setdefault(drill.name, number)) != number:
            yield f"{at}.name", f"drills[{earlier}] is already '{drill.name}'", "choose another name"
        yield from ((f"{at}.flow", what, hint) for what, hint in _flow_problem(drill, known))


def _flow_problem(drill: DrillSettings, flows: Mapping[str, FlowSettings]) -> Iterator[tuple[str, str]]:
    name = (drill.flow or "").replace(" ", "")
    if drill.flow is None:
        if len(flows) != 1:
            yield f"which of the {len(flows)} flows?", suggestion("", flows)
        name = next(iter(flows), "")
    elif name not in flows:
        yield f"there is no flow '{drill.flow}'", suggestion(name, flows)
    found = flows.get(name)
    if found is not None and drill.kind == "switchover" and not found.has_opposite_in([*flows.values()]):
        back = f'[[flows]] source = "{found.target}", target = "{found.source}"'
        yield f"no flow copies back from {found.target} to {found.source}", f"a switchover needs it: {back}"
