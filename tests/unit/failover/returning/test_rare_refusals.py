"""Refusals of a return that need a rare state: an export, a map, a choice, a log start, an ACL. No broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drkit.errors import Failed, Refused
from drkit.export.check import check_files
from drkit.export.record import Hole, HoleKind
from drkit.failover.core.context import Scope
from drkit.failover.core.request import Method, RunRequest
from drkit.failover.emptying.empty import not_empty
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.failover.old_primary import fence
from drkit.failover.old_primary.emptied import refuse_risen
from drkit.failover.returning import gates
from drkit.failover.returning.compare import NeedsMethod
from drkit.failover.returning.deciding import DecideStep
from drkit.flow_state.records import FenceAclsRecord
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.model import TopicPartition
from drkit.offsets.crossing import Crossing
from drkit.offsets.translation import PartitionPosition
from drkit.topology.acls import EVERYBODY, Acl, AclOperation, Permission, topic_acl
from tests.support.errors import coded
from tests.support.export.made import exported, some_items

AT = TopicPartition("t", 0)
OWN = "User:drkit"
FENCED = topic_acl("t", "User:shop", AclOperation.WRITE, Permission.DENY)


def returning(**more: Any) -> Any:
    """The context of a return of one topic."""
    fields: dict[str, Any] = {
        "flow": SimpleNamespace(name="p->s", source="p", target="s"),
        "scope": Scope({"t": "t"}, (), whole_flow=False),
        "request": RunRequest(),
        "run_id": "r1",
        "effects": lambda _: {"hold": {}},
        "source": lambda *_: object(),
        "result": lambda _: {},
    }
    return SimpleNamespace(**fields | more)


@pytest.mark.parametrize("copied_back", [False, True])
def test_a_tail_with_records_that_drkit_copied_back_is_not_kept(tmp_path: Path, *, copied_back: bool) -> None:
    kind = HoleKind.COPIED_BACK if copied_back else HoleKind.MARKER
    records = [i for i in some_items(10, 9) if not isinstance(i, Hole)]
    items = [r._replace(offset=10 + n) for n, r in enumerate(records)]
    path = exported(tmp_path / "saved", {("t", 0): [*items, Hole(10 + len(items), 12 + len(items), kind)]})
    result = {StepName.EXPORT: {"manifest": path, "sha256": check_files(path).sha256}}
    context = returning(result=result.get)
    if not copied_back:
        gates.refuse_copied_back(context, ["t"])
        return
    gates.refuse_copied_back(context, ["another"])
    with pytest.raises(Refused, check=coded("keep_mixed")) as caught:
        gates.refuse_copied_back(context, ["t"])
    assert caught.value.evidence == "t-0"
    assert "--method t=rebuild" in caught.value.hint


@pytest.mark.parametrize(("frontier", "is_refused"), [(None, True), (29, True), (30, False), (44, False)])
def test_a_second_tail_is_not_kept_before_the_copy_has_passed_the_first(
    monkeypatch: pytest.MonkeyPatch, frontier: int | None, *, is_refused: bool
) -> None:
    position = PartitionPosition(
        frontier=frontier, crossings=(Crossing(10, 20, 10, 20), Crossing(20, 30, 25, 35))
    )
    monkeypatch.setattr(gates, "positions_of", lambda *_: {AT: position})
    monkeypatch.setattr(gates, "refuse_compacted", lambda *_: None)
    tail = PartitionDivergence("t", 0, DivergenceState.DIVERGED, 10, 14, proven=True, records=4)
    context = returning(
        state=SimpleNamespace(get=lambda *_: None), known=SimpleNamespace(pair=lambda *at: at)
    )
    ask = lambda: gates.refuse_keep(context, {AT: NeedsMethod(tail, "")}, {AT: Method.KEEP})  # noqa: E731
    if not is_refused:
        ask()
        return
    with pytest.raises(Refused, check=coded("keep_after_kept")) as caught:
        ask()
    assert caught.value.evidence == f"t-0: copied up to {frontier}, a tail was kept up to 30"


@pytest.mark.parametrize(
    "choice",
    [
        {"dispositions": {"others": "discard", "*": "replay"}},
        {"methods": {"others": "trim"}},
        {"give_up_history": ("others", "*")},
    ],
)
def test_a_choice_for_a_topic_that_does_not_return_is_refused(choice: Mapping[str, Any]) -> None:
    state = SimpleNamespace(load=lambda: None)
    context = returning(request=RunRequest(**choice), named_topics=(), until_export=False, state=state)
    for ask in (DecideStep().plan, DecideStep().run):
        with pytest.raises(Refused, check=coded("choice_of_other_topic")) as caught:
            ask(context)
        assert caught.value.evidence == "others"
        kept = {"dispositions": " --disposition '*=replay'", "give_up_history": " --give-up-history '*'"}
        left = "".join(kept.get(kind, "") for kind in choice)
        begun = "drkit reprotect --abort, then: "  # a run keeps what was said
        command = f"{begun}drkit reprotect --flow 'p->s'{left}"
        assert caught.value.hint == f"these do: t; without that choice: {command}"


def test_records_that_are_back_after_they_were_deleted_stop_the_topic() -> None:
    other = TopicPartition("t", 1)

    def run(question: object, _source: object, up_to: Mapping[TopicPartition, int]) -> dict[Any, int]:
        assert question is not_empty
        return {at: 7 for at in up_to if at == AT}

    with pytest.raises(Failed, check=coded("deleted_records_back")) as caught:
        refuse_risen(returning(run=run), {AT: 20, other: 9})
    assert caught.value.evidence == "t-0 begins at 7, not 20"
    assert "--resume deletes them again" in caught.value.hint
    refuse_risen(returning(run=run), {other: 9})


@pytest.mark.parametrize(
    ("own", "writers", "evidence"),
    [
        ((), ["User:shop"], "drkit's principal there is not known"),
        ((OWN,), [EVERYBODY], EVERYBODY),
        ((OWN,), ["User:shop"], None),
    ],
)
def test_a_guard_that_would_refuse_drkit_is_never_put_up(
    monkeypatch: pytest.MonkeyPatch, own: tuple[str, ...], writers: list[str], evidence: str | None
) -> None:
    allows = {topic_acl("t", who, AclOperation.WRITE, Permission.ALLOW) for who in [*writers, *own]}
    existing: frozenset[Acl] = frozenset({FENCED, *allows})
    monkeypatch.setattr(fence, "list_acls", lambda _: SimpleNamespace(acls=existing))
    monkeypatch.setattr(fence, "own_principals", lambda *_: frozenset(own))
    monkeypatch.setattr(fence, "is_open", lambda _: False)
    monkeypatch.setattr(fence, "missing", lambda *_: [])
    monkeypatch.setattr(Cluster, "connect", lambda _: None)
    state = SimpleNamespace(
        get=lambda kind: FenceAclsRecord(frozenset({FENCED})) if kind is FenceAclsRecord else None
    )
    context = returning(
        state=state,
        source_settings=SimpleNamespace(alias="p"),
        settings=SimpleNamespace(task_sides=lambda _: (0, 1)),
    )
    back: Any = SimpleNamespace(flow=None, state=SimpleNamespace(get=lambda _: None))
    if evidence is None:
        fence.refuse_unguarded(context, back, ["t"])
        return
    with pytest.raises(Refused, check=coded("fence_refuses_drkit")) as caught:
        fence.refuse_unguarded(context, back, ["t"])
    assert evidence in caught.value.evidence
    assert "own_principal" in caught.value.hint
