"""What a refused switchover offers: never an option with which it is refused again. Pure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drkit.detect.reasons import ROW, Flag, Reason
from drkit.failover.checks.preconditions import PreconditionInput, by_the_table
from drkit.failover.core.request import RunRequest

FLAGS = [flag.value for flag in Flag]


def refused(reason: Reason, request: RunRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hints of a refusal for one reason, with its evidence."""
    row = ROW[reason]._replace(evidence=lambda _: ("seen",))
    monkeypatch.setitem(cast("Any", ROW), reason, row)
    risk = SimpleNamespace(
        records=None, held_back=None, acknowledged=None, basis="", above=1.0, in_words="", seconds=None
    )
    alias = SimpleNamespace(alias="p")
    survey: Any = SimpleNamespace(
        facts=SimpleNamespace(risk=risk, rpo_seconds=1.0),
        source=alias,
        target=alias,
        source_error="no answer",
        risk=risk,
    )
    asked = PreconditionInput(survey, SimpleNamespace(), request, "p->s")  # type: ignore[arg-type]
    return [error.hint for error in by_the_table(reason)(asked)]


@pytest.mark.parametrize("reason", [*Reason])
def test_a_switchover_offers_no_option_that_is_refused_too(
    reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the primary a switchover is refused whatever is accepted, so nothing can be accepted."""
    if reason not in ROW:
        return
    hints = refused(reason, RunRequest(planned=True), monkeypatch)
    assert not any(flag in hint for flag in FLAGS for hint in hints)


@pytest.mark.parametrize("reason", [Reason.REPLICATION_MOVES, Reason.NO_QUORUM])
def test_a_failover_offers_the_option(reason: Reason, monkeypatch: pytest.MonkeyPatch) -> None:
    [hint] = refused(reason, RunRequest(), monkeypatch)
    flag = ROW[reason].flag
    assert flag is not None
    assert f'{flag.value} "REASON"' in hint
