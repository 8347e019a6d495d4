"""The probe of scenario files: before the method it brings the pair up, after it, it judges the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field

from drkit.chaos.actions import checked
from drkit.chaos.run import current_run, current_stage, recorded
from drkit.exercise.evidence import collect
from drkit.exercise.verdict import INCONCLUSIVE, PASS, RequiredFault, judge, negative_controls

STEADY: Final = "steady"


@recorded("probe holds")
@checked
def holds(
    exercises: Sequence[RequiredFault],
    brokers: Annotated[int, Field(ge=1, le=5)] = 1,
    *,
    authorizer: bool = False,
    rpo_seconds: Annotated[float, Field(ge=0)] = 5,
) -> str:
    """Return ``steady`` before the method; after it ``pass``, ``fail`` or ``inconclusive``.

    :param exercises: ``{fault: kill primary, step: OPEN}``: faults that must be in force while a step runs
    :param brokers: with `authorizer` and `rpo_seconds` as of :class:`ScenarioStage`
    :raises DrkitError: the pair is not steady in time
    """
    run = current_run()
    if run.stage is None:
        stage = run.begin(brokers=brokers, authorizer=authorizer, rpo_seconds=rpo_seconds)
        stage.tell("pair", "two clusters are up")
        stage.prepare()
        stage.tell("steady", f"{stage.acked()} records acknowledged, all copied, all groups synced")
        return STEADY
    stage = current_stage()
    stage.tell("judge", "reading both clusters to their ends")
    collect(stage)
    history = stage.history()
    verdict = judge(history, exercises)
    if verdict.word == PASS:
        missed = [name for name, is_found in negative_controls(history).items() if not is_found]
        reasons = [f"a defect put into the history was not found: {name}" for name in missed]
        verdict = verdict._replace(word=INCONCLUSIVE if missed else PASS, reasons=reasons)
    stage.verdict = verdict
    return verdict.word
