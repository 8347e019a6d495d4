"""The probe of scenario files: before the method it brings the pair up, after it, it judges the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from drkit.chaos.run import begin_stage, running_stage
from drkit.exercise.evidence import collect
from drkit.exercise.verdict import INCONCLUSIVE, PASS, RequiredFault, judge, negative_controls

STEADY: Final = "steady"


def holds(
    exercises: Sequence[Mapping[str, str]],
    needs: Sequence[str] = (),
    brokers: int = 1,
    *,
    authorizer: bool = False,
    rpo_seconds: float = 5,
) -> str:
    """Return ``steady`` before the method; after it ``pass``, ``fail`` or ``inconclusive``.

    :param exercises: ``{fault: kill primary, step: OPEN}``: faults that must be in force while a step runs
    :param needs: names of checks that must have examined something, besides those that always must
    :param brokers: of each cluster
    :param authorizer: both clusters enforce ACLs
    :param rpo_seconds: the loss that a failover accepts by itself
    :raises DrkitError: the pair is not steady in time
    """
    stage = running_stage()
    if stage is None:
        stage = begin_stage(brokers=brokers, authorizer=authorizer, rpo_seconds=rpo_seconds)
        stage.tell("pair", "two clusters are up")
        stage.prepare()
        stage.tell("steady", f"{stage.acked()} records acknowledged, all copied, all groups synced")
        return STEADY
    stage.tell("judge", "reading both clusters to their ends")
    collect(stage)
    history, wanted = stage.history(), [RequiredFault(**each) for each in exercises]
    verdict = judge(history, wanted, needs)
    if verdict.word == PASS:
        missed = [name for name, is_found in negative_controls(history).items() if not is_found]
        reasons = [f"a defect put into the history was not found: {name}" for name in missed]
        verdict = verdict._replace(word=INCONCLUSIVE if missed else PASS, reasons=reasons)
    stage.verdict = verdict
    return verdict.word
