"""Observers, receivers of alarms, and when an automatic failover may begin."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PositiveFloat, model_validator
from pydantic_core import PydanticCustomError

from drkit.config.tables.fields import Alias, Strict, full_path, http_address, listed, no_nul
from drkit.masking import MASK

_LONGEST: Final = 256
"""Maximum length of a name in a note."""
_TWO: Final = 2
_CANNOT_DECIDE: Final = (
    "two observers cannot decide: each may be the one that is cut off; set 1, or 3 and more"
)
_WHAT: Final = 'a list of names was expected, as in ["a", "b", "c"], or a number from {least}'


def _usable(name: str) -> str:
    if not 0 < len(name) <= _LONGEST or not name.isprintable():
        what = "a name of 1 to {most} characters, none of them a control character, was expected"
        raise PydanticCustomError("name", what, {"most": _LONGEST})
    return name


def _read(value: object, least: int) -> object:
    """The value, checked as a whole: an error of a union would name each of its types.

    Environment variables and `--set` give texts: `3`, or names with commas.
    """
    if isinstance(value, str):
        value = int(value) if value.strip().isdecimal() else listed(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(n, str) for n in value):
        raise PydanticCustomError("names", _WHAT, {"least": least})
    names = [_usable(n.strip()) for n in value]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise PydanticCustomError("names", "'{name}' is named twice", {"name": twice[0]})
    return names


def _observers(value: object) -> object:
    names = _read(value, 1)
    if names == _TWO or (isinstance(names, list) and len(names) == _TWO):
        raise PydanticCustomError("observers", _CANNOT_DECIDE, {})
    return names


Name = Annotated[str, AfterValidator(_usable)]
"""Under which an observer or a fence agent publishes its notes."""
_Number = Annotated[int, Field(gt=0)]
_NumberOrNone = Annotated[int, Field(ge=0)]
ObserverNames = Annotated[
    tuple[str, ...] | _Number,
    BeforeValidator(_observers, json_schema_input_type=tuple[str, ...] | str | _Number),
]
"""All observers by name, or their number."""
AgentNames = Annotated[
    tuple[str, ...] | _NumberOrNone,
    BeforeValidator(
        lambda value: _read(value, 0), json_schema_input_type=tuple[str, ...] | str | _NumberOrNone
    ),
]
"""All fence agents by name, or their number."""


def number_of(given: int | tuple[str, ...]) -> int:
    """The number of participants."""
    return given if isinstance(given, int) else len(given)


def names_of(given: int | tuple[str, ...]) -> tuple[str, ...]:
    """Their names; none where only their number is known."""
    return () if isinstance(given, int) else given


class WatchSettings(Strict):
    """Who watches, and who is notified."""

    observers: ObserverNames = 1
    """The names of all ``drkit watch``, on different machines, as in `["obs-a", "obs-b", "obs-c"]`; more than
    half of them must say that the primary is gone. Notes under other names do not count. Or only how many
    there are: then any name counts, and mode auto is refused. 1: this one alone; never 2."""
    name: Name | None = None
    """The name of the observer on this machine, where ``--observer`` gives none. Absent: the host's name."""
    vote_interval_seconds: PositiveFloat = 1.0
    """How often an observer publishes its vote."""
    vote_ttl_seconds: PositiveFloat = 5.0
    """An older vote does not count."""
    clock_margin_seconds: PositiveFloat = 2.0
    """How far the clocks of observers may differ."""
    third: Alias | None = None
    """A cluster besides the two of the flow, through which votes and leases go too. Needed in mode auto."""
    failover_delay_seconds: PositiveFloat = 25.0
    """In mode auto: how long after the last lease of a fence agent a failover begins, if the agents do not
    say before that they have fenced."""
    window_seconds: PositiveFloat = 3600.0
    """At most one automatic failover in this time, and none until the last one is acknowledged."""
    webhook: Annotated[str, AfterValidator(http_address)] | None = None
    """Where changes are posted, as JSON."""
    webhook_secret: str | None = None
    """Signs what is posted, with HMAC-SHA256."""
    webhook_ca_file: Annotated[str, AfterValidator(no_nul)] | None = None
    """The authorities that the webhook's certificate may have, in PEM; absent: the system's."""
    command: tuple[str, ...] | None = None
    """A program that is run for each change, with the JSON on its standard input."""
    repeat_seconds: PositiveFloat = 300.0
    """How often an unchanged verdict is reported again."""

    @model_validator(mode="after")
    def _votes_outlive_their_interval(self) -> WatchSettings:
        if self.vote_ttl_seconds < 2 * self.vote_interval_seconds:
            text = "vote_ttl_seconds = {ttl} must be at least twice vote_interval_seconds = {interval}"
            found = {"ttl": self.vote_ttl_seconds, "interval": self.vote_interval_seconds}
            raise PydanticCustomError("ttl", text, found)
        return self

    @property
    def observer_count(self) -> int:
        """The number of observers."""
        return number_of(self.observers)

    @property
    def observer_names(self) -> tuple[str, ...]:
        """Who they are; none where only their number is set."""
        return names_of(self.observers)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        hidden = MASK if self.webhook else None
        return [(name, hidden if name == "webhook" else v) for name, v in super().__repr_args__()]


class FenceAgentSettings(Strict):
    """``drkit fence-agent`` at the site of a primary: when its lease is lost, it stops writes there."""

    agents: AgentNames = 0
    """The names of all that must run for mode auto, as in `["p-1"]`: one for each machine or site that fences
    on its own. Or only how many: then any name counts, and mode auto is refused."""
    name: Name | None = None
    """The name of the agent on this machine, where ``--name`` gives none. Absent: the host's name."""
    ttl_seconds: PositiveFloat = 12.0
    """How long a lease lasts."""
    check_seconds: PositiveFloat = 1.0
    """How often an agent asks for its lease, and looks whether it has ended."""
    fence_seconds: PositiveFloat = 8.0
    """How long the command and the proof that it worked may take."""
    command: tuple[str, ...] | None = None
    """What fences: a program and its arguments. Must end with 0, and may be run again."""
    lift_command: tuple[str, ...] | None = None
    """What takes that back, for ``drkit fence-agent --lift``."""
    proof_command: tuple[str, ...] | None = None
    """What proves it: a program that ends with 0 when no application can write any more. Absent: every
    broker must refuse connections on every listener."""
    state_file: Annotated[str, AfterValidator(full_path)] = "~/.local/state/drkit/fence-agent.json"
    """Where an agent remembers that it holds a lease or has fenced: a full path, or one that begins with
    ``~``. ``--lift`` writes the file too, so it is the same one from every folder."""

    @property
    def agent_count(self) -> int:
        """How many agents must run."""
        return number_of(self.agents)

    @property
    def agent_names(self) -> tuple[str, ...]:
        """Who they are; none where only their number is set."""
        return names_of(self.agents)
