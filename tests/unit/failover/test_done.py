"""What DONE tells a person to do next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drkit.config import FlowSettings
from drkit.failover.core.context import Context
from drkit.failover.core.request import RunRequest
from drkit.failover.returning.after_begin import copied_by
from drkit.failover.steps.after_open import next_steps
from drkit.journal.machine import StepName

FLOW = FlowSettings(source="primary", target="standby")
BACK = FlowSettings(source="standby", target="primary")


def said(request: RunRequest, *flows: FlowSettings, **results: dict[str, Any]) -> list[str]:
    context = SimpleNamespace(
        flow=FLOW, settings=SimpleNamespace(flows=flows), request=request,
        result=lambda step: results.get(step.name, {}), scope=SimpleNamespace(topics={"orders": "orders"}),
    )  # fmt: skip
    return next_steps(cast("Context", context))


def test_after_a_switchover_the_way_back_begins_by_itself_or_is_typed() -> None:
    by_acl = {StepName.FENCE.name: {"proven": True, "how": "acl"}}
    lines = said(RunRequest(planned=True), FLOW, BACK, **by_acl)
    assert lines[0].startswith("standby is not protected")
    (line,) = lines[1:]
    assert line == (
        "drkit replicate --flow 'standby->primary' begins by itself where it runs; else: drkit reprotect"
        " --flow 'primary->standby', then: drkit replicate --flow 'standby->primary'"
    )


def test_before_the_fence_a_dry_run_does_not_promise_a_return_without_clients_cut() -> None:
    cut = RunRequest(planned=True, clients_cut="listener closed")
    told = [said(request, FLOW, BACK)[1].partition(";")[0] for request in (RunRequest(planned=True), cut)]
    begins = "drkit replicate --flow 'standby->primary' begins by itself where it runs"
    assert told == [f"{begins}, without an authorizer only with --clients-cut", begins]


def test_a_return_that_needs_a_word_about_clients_does_not_begin_by_itself() -> None:
    by_size = {StepName.FENCE.name: {"proven": True, "how": "max.message.bytes"}}
    (line,) = said(RunRequest(planned=True), FLOW, BACK, **by_size)[1:]
    assert line == (
        "the return does not begin by itself: say how clients are kept off primary: drkit reprotect"
        " --flow 'primary->standby' --clients-cut \"HOW\", then: drkit replicate --flow 'standby->primary'"
    )
    told = said(RunRequest(planned=True, clients_cut="listener closed"), FLOW, BACK, **by_size)
    assert "begins by itself where it runs" in told[1]


def test_topics_that_the_flow_back_leaves_out_are_named() -> None:
    lines = said(RunRequest(planned=True), FLOW, BACK.model_copy(update={"topics_exclude": ("orders",)}))
    assert lines[2:] == ["topics or topics_exclude of standby->primary leave out orders: nothing copies them"]


def test_after_a_switchover_without_a_flow_back_it_is_to_be_added_first() -> None:
    (_, line) = said(RunRequest(planned=True), FLOW)
    table = '[[flows]] source = "standby", target = "primary"'
    assert line.startswith(f"add the flow back to the configuration ({table}), then: drkit reprotect")


@pytest.mark.parametrize("flows", [(FLOW,), (FLOW, BACK)])
def test_after_a_loss_nothing_is_copied_back_by_hand(flows: tuple[FlowSettings, ...]) -> None:
    results: dict[str, Any] = {StepName.TRANSLATE.name: {"loss": {"exact": False}}}
    lines = said(RunRequest(accept_data_loss="it burns"), *flows, **results)
    assert lines[0].endswith("for its records that were not copied: drkit divergence")
    text = " ".join(lines)
    assert "Keep primary fenced" in text
    assert "as soon as it answers: drkit reprotect --flow 'primary->standby'" in text
    assert "drkit replicate" not in text


def test_a_return_does_not_call_protected_what_a_replicator_only_copies() -> None:
    """PROTECTED comes later, and drkit status says it; topics that were not named are still open."""
    (line,) = copied_by(FLOW, ["orders", "cart"], "vm", [])
    assert line == (
        "standby->primary on vm copies cart, orders: protected once drkit status says PROTECTED of them"
    )
    (_, left) = copied_by(FLOW, ["orders"], "vm", ["late", "also"])
    assert left == (
        "2 other topics have not returned, and nothing copies them (also, late):"
        " drkit reprotect --flow 'primary->standby'"
    )
    line, left = copied_by(FLOW, ["orders"], "", ["late"])
    assert line == "standby is not protected until it is copied: drkit replicate --flow 'standby->primary'"
    assert left.startswith("1 other topic has not returned, and nothing copies it (late): drkit reprotect")
