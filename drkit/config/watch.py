"""Who watches, who is told, and when a failover may begin by itself."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from drkit.config.fields import Alias, Strict, http_address
from drkit.masking import MASK

_TWO = 2


def _observers(number: int) -> int:
    if number == _TWO:
        text = "two observers cannot decide: each may be the one that is cut off; set 1, or 3 and more"
        raise PydanticCustomError("observers", text, {})
    return number


class WatchSettings(Strict):
    """Who watches, and who is told."""

    observers: Annotated[PositiveInt, AfterValidator(_observers)] = 1
    """How many ``drkit watch`` there are, on different machines; more than half of them must say that the
    primary is gone. 1: this one alone; never 2."""
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
    command: tuple[str, ...] | None = None
    """A program that is run for each change, with the JSON on its standard input."""
    repeat_seconds: PositiveFloat = 300.0
    """How often a verdict that stays is told again."""

    @model_validator(mode="after")
    def _votes_outlive_their_interval(self) -> WatchSettings:
        if self.vote_ttl_seconds < 2 * self.vote_interval_seconds:
            text = "vote_ttl_seconds = {ttl} must be at least twice vote_interval_seconds = {interval}"
            found = {"ttl": self.vote_ttl_seconds, "interval": self.vote_interval_seconds}
            raise PydanticCustomError("ttl", text, found)
        return self

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        hidden = MASK if self.webhook else None
        return [(name, hidden if name == "webhook" else v) for name, v in super().__repr_args__()]


class FenceAgentSettings(Strict):
    """``drkit fence-agent`` at the site of a primary: when its lease is lost, it stops writes there."""

    agents: int = Field(0, ge=0)
    """How many must run for mode auto: one for each machine or site that fences on its own."""
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
    state_file: str = "drkit-fence-agent.json"
    """Where an agent remembers that it holds a lease or has fenced."""
