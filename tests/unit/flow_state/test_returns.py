"""A flow copies a topic that its opposite flow has promoted only when that promotion's return has begun."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.records import (
    CutRecord,
    GenerationRecord,
    PromotionRecord,
    ReturnRecord,
    Role,
    RoleRecord,
)
from drkit.flow_state.state import Damaged, FlowState
from drkit.pair.promotions import (
    begun_by_turn,
    to_reprotect,
    waiting_topics,
    why_not_copied,
    without_return,
)
from drkit.pair.reverse_flow import UnnamedFlows
from drkit.topic_sync.rules import refuse_promoted
from tests.support.errors import sentence

IDS: Final = UUID(int=1), UUID(int=2)
BACK: Final = FlowSettings(source="standby", target="primary")
PROMOTED: Final = RoleRecord(Role.PROMOTED, 3, "run-2", 5)
PLANNED: Final = replace(PROMOTED, planned=True)
FROZEN: Final = RoleRecord(Role.FROZEN, 3, "run-2", 5)


Records = dict[tuple[type[StateRecord], str], StateRecord | None]


def state(records: Records) -> FlowState:
    """A state; None: the key has another record."""
    return FlowState.of(
        {
            kind.key(name).encode(): b'{"not": "drkit"}' if record is None else record.encode()
            for (kind, name), record in records.items()
        }
    )


def forward(role: RoleRecord | None = PROMOTED, name: str = "orders", target: str = "orders") -> FlowState:
    """The state of the flow that was failed over."""
    copy = GenerationRecord(target, *IDS)
    return state({(GenerationRecord, name): copy, (RoleRecord, name): role})


def returned(run: str, topic: str = "orders") -> FlowState:
    return state({(ReturnRecord, topic): ReturnRecord(run, "run-3", 9)})


def test_a_promoted_topic_waits_for_the_return_that_answers_its_own_promotion() -> None:
    assert without_return(forward(), FlowState()) == {"orders": PROMOTED}
    assert without_return(forward(), returned("run-2")) == {}
    assert without_return(forward(), returned("run-1")) == {"orders": PROMOTED}, "of an earlier promotion"
    assert without_return(forward(), returned("run-2", "payments")) == {"orders": PROMOTED}


def test_without_a_promotion_nothing_waits() -> None:
    assert without_return(FlowState(), FlowState()) == {}
    assert without_return(forward(FROZEN), FlowState()) == {}
    copied = state({(GenerationRecord, "orders"): GenerationRecord("orders", *IDS)})
    assert without_return(copied, FlowState()) == {}


def test_a_topic_is_known_by_its_name_on_the_new_primary() -> None:
    found = forward(target="primary.orders")
    assert without_return(found, FlowState()) == {"primary.orders": PROMOTED}
    assert without_return(found, returned("run-2", "orders")) == {"primary.orders": PROMOTED}
    assert without_return(found, returned("run-2", "primary.orders")) == {}


def test_a_damaged_record_holds_its_own_topic() -> None:
    copies: Records = {(GenerationRecord, n): GenerationRecord(n, *IDS) for n in ("orders", "payments")}
    found = without_return(state({**copies, (RoleRecord, "orders"): None}), FlowState())
    assert list(found) == ["orders"]
    assert isinstance(found["orders"], Damaged)
    found = without_return(forward(), state({(ReturnRecord, "orders"): None}))
    assert isinstance(found["orders"], Damaged)
    no_copy = state({(GenerationRecord, "orders"): None, (RoleRecord, "orders"): PROMOTED})
    assert without_return(no_copy, FlowState()) == {"orders": PROMOTED}


NAMES: Final = st.sampled_from(["a", "b", "c"])
ROLES: Final = st.builds(
    RoleRecord, st.sampled_from(list(Role)), st.integers(0, 3), st.sampled_from(["1", "2"]), st.just(5)
)
RETURNS: Final = st.builds(ReturnRecord, st.sampled_from(["1", "2"]), st.just("3"), st.just(9))


@given(st.dictionaries(NAMES, ROLES), st.dictionaries(NAMES, RETURNS), st.sampled_from(["", "p."]))
def test_what_waits_is_what_was_promoted_by_another_run_than_its_return_answers(
    roles: dict[str, RoleRecord], returns: dict[str, ReturnRecord], prefix: str
) -> None:
    copies: Records = {(GenerationRecord, n): GenerationRecord(prefix + n, *IDS) for n in "abc"}
    opposite = state({**copies, **{(RoleRecord, n): role for n, role in roles.items()}})
    own = state({(ReturnRecord, prefix + n): begun for n, begun in returns.items()})
    answered = {(name, begun.promoted_by) for name, begun in returns.items()}
    expected = {
        prefix + n: role
        for n, role in roles.items()
        if role.role is Role.PROMOTED and (n, role.run_id) not in answered
    }
    assert without_return(opposite, own) == expected


def test_a_flow_waits_for_what_any_of_its_opposite_flows_has_promoted() -> None:
    damaged = state({(GenerationRecord, "c"): GenerationRecord("c", *IDS), (RoleRecord, "c"): None})
    found = waiting_topics(BACK, [forward(), forward(name="b", target="b"), damaged], returned("run-2", "b"))
    assert sorted(found) == ["c", "orders"]
    assert found["orders"].what == why_not_copied(BACK, "orders", PROMOTED).what
    assert isinstance(found["c"], Damaged)
    prefixed = BACK.model_copy(update={"naming": "prefix"})
    assert waiting_topics(prefixed, [forward()], FlowState()) == {}, "its copy has another name"


def test_the_reason_says_what_to_do_after_a_switchover_and_after_a_loss() -> None:
    planned = why_not_copied(BACK, "orders", PLANNED)
    assert planned.what == sentence("promoted_by_switchover", run_id="run-2")
    assert planned.hint == "drkit reprotect --flow 'primary->standby' makes primary its standby"
    assert planned.hint.startswith(to_reprotect("primary", "standby"))
    for role in (PROMOTED, replace(PROMOTED, planned=False)):
        lost = why_not_copied(BACK, "orders", role)
        assert lost.what == sentence("promoted_by_failover", run_id="run-2")
        assert "in front of new ones" in lost.evidence
        assert "would skip records" in lost.evidence
        assert lost.hint.startswith("drkit reprotect --flow 'primary->standby' saves these")
        assert "replicate" not in lost.hint


def test_what_an_unnamed_flow_has_promoted_is_claimed_even_if_it_was_made_anew() -> None:
    flow = FlowSettings(source="standby", target="primary")
    unnamed = UnnamedFlows("standby", flow)
    topics = {"orders": IDS[1]}
    assert unnamed.see("drkit-state.other.internal", forward())
    claim = unnamed.claims(topics, FlowState())["orders"]
    assert "promoted by the failover run-2" in claim.evidence
    assert "opposite_flows" in claim.hint
    anew = {"orders": UUID(int=9)}
    assert list(unnamed.claims(anew, FlowState())) == ["orders"]
    assert unnamed.claims(anew, returned("run-2")) == {}
    assert list(unnamed.claims(topics, returned("run-2"))) == ["orders"], "it may still copy into the topic"
    assert unnamed.claims({"payments": IDS[1]}, FlowState()) == {}


def test_topics_on_the_target_whose_copying_began_with_a_turn() -> None:
    copies: Records = {(GenerationRecord, n): GenerationRecord(f"p.{n}", *IDS) for n in ("a", "b", "c", "d")}
    own = state(
        {
            **copies,
            (CutRecord, "a"): CutRecord(*IDS, {0: 7}),
            (ReturnRecord, "b"): ReturnRecord("run-2", "run-3", 9),
            (CutRecord, "c"): CutRecord(UUID(int=9), IDS[1], {0: 7}),
        }
    )
    assert begun_by_turn(own) == {"p.a", "p.b"}
    assert begun_by_turn(forward()) == frozenset()


@pytest.mark.parametrize("role", [PLANNED, PROMOTED])
def test_the_old_direction_is_refused_and_never_advises_to_copy_over_what_only_the_primary_has(
    role: RoleRecord,
) -> None:
    flow = FlowSettings(source="primary", target="standby")
    promoted = PromotionRecord(3, "run-2", 5)
    found = state({(RoleRecord, "orders"): role, (PromotionRecord, ""): promoted})
    with pytest.raises(Refused) as refused:
        refuse_promoted(flow, found)
    is_planned = bool(role.planned)
    assert ("drkit replicate" in refused.value.hint) is is_planned
    assert ("drkit reprotect --flow 'primary->standby', then" in refused.value.hint) is is_planned
    assert ("drkit divergence" in refused.value.hint) is not is_planned
