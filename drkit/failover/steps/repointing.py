"""REPOINT: sends the new primary's endpoint, with the term, to clients by every configured way."""

from __future__ import annotations

from typing import Any

from drkit.endpoint import Endpoint
from drkit.errors import Failed, Refused
from drkit.failover.checks.survey import cluster_id
from drkit.failover.core.context import Context, StepProgress
from drkit.failover.core.machine import StepName
from drkit.failover.core.step import Step, StepEffect, StepResult
from drkit.repoint import RepointOutcome, Result, adapters, endpoint_of, tell_all


class RepointStep(Step):
    """See the module."""

    name = StepName.REPOINT

    def plan(self, context: Context) -> list[StepEffect]:
        """See :class:`drkit.failover.core.step.Step`."""
        endpoint, ways = _endpoint(context), _ways(context)
        text = f"publish {endpoint.cluster} ({endpoint.bootstrap_servers}), term {endpoint.term}"
        renamed = ", ".join(f"{a} is called {b} there" for a, b in _renamed(context).items())
        return [StepEffect(text, way.adapter.name, renamed) for way in ways] or [
            StepEffect("no client endpoint configured", _no_way(context), "move clients by other means")
        ]

    def run(self, context: Context) -> StepResult:
        """See :class:`drkit.failover.core.step.Step`.

        :raises Refused: clients know a newer term
        :raises Failed: some way failed; successful ways keep the endpoint, `--resume` tries all again
        """
        endpoint, ways = _endpoint(context), _ways(context)
        if not ways:
            note = f"no client was repointed: {_no_way(context)}; move the clients by other means"
            return StepResult({"endpoint": endpoint.as_dict(), "ways": []}, (note, *_names(context)))

        def on_outcome(outcome: RepointOutcome) -> None:
            context.tell(
                StepProgress(self.name, f"{outcome.name}: {outcome.result}", {"tries": outcome.tries})
            )

        with context.effect(self.name, "tell", endpoint=endpoint.as_dict()) as told:
            outcomes = tell_all(ways, endpoint, on_outcome=on_outcome, clock=context.clock)
            told["ways"] = [_plain(o) for o in outcomes]
        _judge(outcomes)
        notes = [f"{o.name} repointed ({o.result})" for o in outcomes]
        return StepResult({"endpoint": endpoint.as_dict(), "ways": told["ways"]}, (*notes, *_names(context)))


def _ways(context: Context) -> Any:
    scope = context.scope
    late = context.result(StepName.TRANSLATE).get("positions", {})  # with groups that came after SNAPSHOT
    return adapters(
        context.settings.failover.repoint,
        None if scope.whole_flow else {*scope.groups, *late},
        scope.topics,
        say=lambda line: context.tell(StepProgress(StepName.REPOINT, line)),
    )


def _no_way(context: Context) -> str:
    is_empty = not context.settings.failover.repoint
    return "failover.repoint is empty" if is_empty else "no way of failover.repoint is for what moves"


def _endpoint(context: Context) -> Endpoint:
    """Return the endpoint with every copied topic: clients that moved earlier may read the same file."""
    flow = context.flow
    context.state.load()
    known = {t: target for t, (target, *_) in context.known.topics.items() if not flow.is_heartbeats(t)}
    return endpoint_of(
        context.settings.cluster(context.flow.target),
        term=context.term,
        cluster_id=context.run(cluster_id, context.target),
        topics={**known, **context.scope.topics},
    )


def _renamed(context: Context) -> dict[str, str]:
    """Return the moved topics that have another name on the target."""
    return {a: b for a, b in context.scope.topics.items() if a != b}


def _names(context: Context) -> tuple[str, ...]:
    return tuple(f"topic {a} is called {b} on {context.flow.target}" for a, b in _renamed(context).items())


def _plain(outcome: RepointOutcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "result": outcome.result.value,
        "tries": outcome.tries,
        "seconds": outcome.seconds,
        "error": _said(outcome),
    }


def _said(outcome: RepointOutcome) -> str:
    error = outcome.error
    return "" if error is None else f"{error.what} ({error.evidence})" if error.evidence else error.what


def _judge(outcomes: list[RepointOutcome]) -> None:
    open_ = [o for o in outcomes if not o.result.is_done]
    if not open_:
        return
    named = "; ".join(f"{o.name}: {_said(o) or o.result}" for o in open_)
    refused = [o for o in open_ if o.result is Result.REFUSED]
    if refused:
        error = refused[0].error
        raise Refused(
            "newer_term",
            where=", ".join(o.name for o in refused),
            evidence=error.evidence if error is not None else named,
            count=len(refused),
            total=len(outcomes),
        )
    raise Failed(
        "repoint_failed",
        where=", ".join(o.name for o in open_),
        evidence=named,
        count=len(open_),
        total=len(outcomes),
    )
